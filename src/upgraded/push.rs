//! Sends messages over a WebSocket to a client that only receives (API-129, CN-120).

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::buffers::{give_back, lend};
use super::relay::LAST_BYTES_WITHIN;
use super::turn::Turn;
use super::websocket::{self, CloseCode, Event, MessageKind, Reader};

/// Messages are collected up to this many bytes before they are written.
const COLLECTED_BYTES: usize = 64 << 10;

/// A content of this length is not copied but written by itself, because the copy would cost more
/// than another write.
const LONG_BYTES: usize = 16 << 10;

/// The longest message that a client may send. It is not kept.
const RECEIVED_BYTES_MAX: usize = 32 << 20;

/// A message to a client.
#[derive(Debug)]
pub struct Message {
    /// How it is to be read.
    pub kind: MessageKind,
    /// Its content.
    pub content: Bytes,
}

/// The next thing to do for a client.
#[derive(Debug)]
pub enum Next {
    /// It is sent a message.
    Message(Message),
    /// It has been sent all. The connection is closed with this code.
    End(CloseCode),
}

/// A source of messages.
pub trait Messages {
    /// Polls for the next message. It is not polled again after the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next>;
}

/// Sends the messages of a source. It is a future that ends when the client has them all or is
/// gone. Messages of the client are read and dropped, and its pings are answered.
pub struct Push<C, M> {
    client: C,
    messages: M,
    reader: Reader,
    /// The bytes of the message that the client is sending.
    received: usize,
    /// The content of the client's last ping, until it is answered.
    pinged: Option<Vec<u8>>,
    /// Bytes on their way to the client, and the content after them that was not copied.
    waiting: BytesMut,
    long: Bytes,
    is_unflushed: bool,
    /// Why the connection is to be closed, other than by the end of the messages.
    closing: Option<CloseCode>,
    /// Whether the last frame waits or is written.
    has_ended: bool,
    /// Whether the server stops.
    leaves: bool,
    /// Bounds the time for the last bytes.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The client as a poll has found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// It has taken all bytes.
    Ready,
    /// It has to be waited for.
    Waits,
    Gone,
}

impl<C, M> Push<C, M>
where
    C: AsyncRead + AsyncWrite + Unpin,
    M: Messages,
{
    /// Begins to send messages to a client.
    pub fn new(client: C, messages: M) -> Push<C, M> {
        Push {
            client,
            messages,
            reader: Reader::default(),
            received: 0,
            pinged: None,
            waiting: BytesMut::new(),
            long: Bytes::new(),
            is_unflushed: false,
            closing: None,
            has_ended: false,
            leaves: false,
            timer: None,
        }
    }

    /// Announces that the server stops. The source has to end soon, and the client has ten seconds
    /// for the rest.
    pub fn leave(&mut self) {
        self.leaves = true;
        self.limit();
    }

    /// Starts the time for the last bytes.
    fn limit(&mut self) {
        let within = || Box::pin(tokio::time::sleep_until(Instant::now() + LAST_BYTES_WITHIN));
        self.timer.get_or_insert_with(within);
    }

    /// Reads what the client sends, up to a turn.
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Client {
        let mut turn = Turn::default();
        while self.closing.is_none() && !self.has_ended {
            if turn.is_over() {
                context.waker().wake_by_ref();
                return Client::Waits;
            }
            let mut room = ReadBuf::new(buffer);
            match Pin::new(&mut self.client).poll_read(context, &mut room) {
                Poll::Pending => return Client::Waits,
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {
                    let mut bytes = room.filled_mut();
                    turn.add(bytes.len());
                    self.received(&mut bytes);
                }
                Poll::Ready(_) => return Client::Gone,
            }
        }
        Client::Ready
    }

    /// Takes bytes of the client.
    fn received(&mut self, bytes: &mut &mut [u8]) {
        while self.closing.is_none() {
            match self.reader.next(bytes) {
                Ok(None) => return,
                Ok(Some(Event::Ping(content))) => self.pinged = Some(content),
                Ok(Some(Event::Close)) => self.closing = Some(CloseCode::Normal),
                Ok(Some(Event::Data {
                    is_first, bytes, ..
                })) => {
                    let before = if is_first { 0 } else { self.received };
                    self.received = before + bytes.len();
                    if self.received > RECEIVED_BYTES_MAX {
                        self.closing = Some(CloseCode::TooLong);
                    }
                }
                Err(fault) => {
                    tracing::debug!(%fault, "closing a WebSocket of a client");
                    self.closing = Some(CloseCode::ProtocolError);
                }
            }
        }
    }

    /// Collects what is to be written. Returns whether anything is.
    fn collect(&mut self, context: &mut Context<'_>) -> bool {
        if self.has_ended {
            return false;
        }
        if let Some(content) = self.pinged.take() {
            websocket::pong(&mut self.waiting, &content);
        }
        if let Some(code) = self.closing {
            self.end(code);
        }
        while !self.has_ended && self.long.is_empty() && self.waiting.len() < COLLECTED_BYTES {
            match self.messages.poll_next(context) {
                Poll::Pending => break,
                Poll::Ready(Next::Message(message)) => self.add(message),
                Poll::Ready(Next::End(code)) => self.end(match self.leaves {
                    true => CloseCode::GoingAway,
                    false => code,
                }),
            }
        }
        !self.waiting.is_empty()
    }

    fn add(&mut self, message: Message) {
        let Message { kind, content } = message;
        websocket::message_head(&mut self.waiting, kind, content.len());
        match content.len() < LONG_BYTES {
            true => self.waiting.extend_from_slice(&content),
            false => self.long = content,
        }
    }

    /// Adds the last frame.
    fn end(&mut self, code: CloseCode) {
        websocket::close(&mut self.waiting, code);
        self.has_ended = true;
        self.limit();
    }

    /// Writes what was collected, up to the end of the turn.
    fn poll_write(&mut self, context: &mut Context<'_>, turn: &mut Turn) -> Client {
        loop {
            let bytes = match self.waiting.is_empty() {
                true => &self.long[..],
                false => &self.waiting[..],
            };
            if bytes.is_empty() {
                break;
            }
            if turn.is_over() {
                context.waker().wake_by_ref();
                return Client::Waits;
            }
            match Pin::new(&mut self.client).poll_write(context, bytes) {
                Poll::Pending => return Client::Waits,
                Poll::Ready(Ok(count)) if count > 0 => {
                    turn.add_write(count);
                    self.is_unflushed = true;
                    match self.waiting.is_empty() {
                        true => self.long.advance(count),
                        false => self.waiting.advance(count),
                    }
                }
                Poll::Ready(_) => return Client::Gone,
            }
        }
        self.long = Bytes::new();
        Client::Ready
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Client {
        if !self.is_unflushed {
            return Client::Ready;
        }
        match Pin::new(&mut self.client).poll_flush(context) {
            Poll::Pending => Client::Waits,
            Poll::Ready(Ok(())) => {
                self.is_unflushed = false;
                Client::Ready
            }
            Poll::Ready(Err(_)) => Client::Gone,
        }
    }

    /// Moves bytes both ways until the client or the source has to be waited for.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut buffer = lend();
        let read = self.poll_read(context, &mut buffer);
        give_back(buffer);
        if read == Client::Gone {
            return Poll::Ready(());
        }
        let mut turn = Turn::default();
        loop {
            match self.poll_write(context, &mut turn) {
                Client::Ready => {}
                Client::Waits => return Poll::Pending,
                Client::Gone => return Poll::Ready(()),
            }
            if turn.is_over() {
                return Turn::give_way(context);
            }
            if self.collect(context) {
                continue;
            }
            return match self.poll_flush(context) {
                Client::Ready if !self.has_ended => Poll::Pending,
                Client::Waits => Poll::Pending,
                Client::Ready | Client::Gone => Poll::Ready(()),
            };
        }
    }
}

impl<C, M> Future for Push<C, M>
where
    C: AsyncRead + AsyncWrite + Unpin,
    M: Messages + Unpin,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let polled = this.poll_bytes(context);
        if this.waiting.is_empty() {
            // An idle connection holds no memory for bytes.
            this.waiting = BytesMut::new();
        }
        match &mut this.timer {
            Some(timer) if polled.is_pending() => timer.as_mut().poll(context),
            _ => polled,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::super::FramesApart;
    use super::super::turn::TURN_WRITES;
    use super::*;

    /// Messages that are there already, and an end after them.
    struct Listed {
        left: VecDeque<Bytes>,
        end: Option<CloseCode>,
    }

    impl Messages for Listed {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Next> {
            match (self.left.pop_front(), self.end) {
                (Some(content), _) => Poll::Ready(Next::Message(Message {
                    kind: MessageKind::Text,
                    content,
                })),
                (None, Some(code)) => Poll::Ready(Next::End(code)),
                (None, None) => Poll::Pending,
            }
        }
    }

    fn push(
        room: usize,
        messages: &[Bytes],
        end: Option<CloseCode>,
    ) -> (DuplexStream, Push<DuplexStream, Listed>) {
        let (client, near) = tokio::io::duplex(room);
        let left = messages.iter().cloned().collect();
        (client, Push::new(near, Listed { left, end }))
    }

    /// The frame of a client, with a mask that changes nothing.
    fn of_client(first: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = vec![first, 0x80 | 127];
        frame.extend((content.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(content);
        frame
    }

    fn short(first: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = vec![first, 0x80 | content.len() as u8, 0, 0, 0, 0];
        frame.extend(content);
        frame
    }

    async fn rest(mut client: DuplexStream) -> Vec<u8> {
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        all
    }

    #[tokio::test]
    async fn each_message_is_one_frame_however_long_and_the_last_frame_closes() {
        let contents = [0, 5, 125, 126, LONG_BYTES - 1, LONG_BYTES, 300_000, 1];
        let contents = contents.map(|length| Bytes::from(vec![b'x'; length]));
        for room in [7, 1 << 20] {
            let (client, push) = push(room, &contents, Some(CloseCode::Normal));
            let (got, ()) = tokio::join!(rest(client), push);
            let mut expected = BytesMut::new();
            for content in &contents {
                websocket::message_head(&mut expected, MessageKind::Text, content.len());
                expected.extend_from_slice(content);
            }
            websocket::close(&mut expected, CloseCode::Normal);
            assert!(got == expected, "{} bytes", got.len());
        }
    }

    #[tokio::test]
    async fn a_turn_has_a_bound_of_messages_cn_120() {
        let contents = vec![Bytes::new(); 2 * TURN_WRITES];
        let (near, far) = tokio::io::duplex(1 << 20);
        let (left, end) = (contents.into(), Some(CloseCode::Normal));
        let mut push = Push::new(FramesApart::new(near, true), Listed { left, end });
        let mut client = far;
        for _ in 0..2 {
            assert!((&mut push).now_or_never().is_none());
            let mut got = vec![0; 1 << 20];
            let read = client.read(&mut got).await.unwrap();
            assert_eq!(got[..read], b"\x81\x00".repeat(TURN_WRITES));
            // A task of tokio may do only so much without a pause.
            tokio::task::yield_now().await;
        }
        (&mut push).now_or_never().unwrap();
        drop(push);
        assert_eq!(rest(client).await, [0x88, 2, 0x03, 0xe8]);
    }

    #[tokio::test]
    async fn a_client_is_answered_by_its_last_ping_and_by_why_it_is_closed() {
        let unmasked = vec![0x81, 0];
        let endless = of_client(0x82, &vec![1; RECEIVED_BYTES_MAX + 1]);
        let normal = short(0x88, &[0x03, 0xe8]);
        for (sent, expected) in [
            (
                [short(0x81, b"hello"), short(0x89, b"1"), normal].concat(),
                &[0x8a, 1, b'1', 0x88, 2, 0x03, 0xe8][..],
            ),
            (unmasked, &[0x88, 2, 0x03, 0xea]),
            (endless, &[0x88, 2, 0x03, 0xf1]),
        ] {
            let (client, push) = push(1 << 16, &[], None);
            let (reader, mut writer) = tokio::io::split(client);
            let running = tokio::spawn(push);
            // Bytes after the frame that closes are not read.
            let _ = writer.write_all(&sent).await;
            running.await.unwrap();
            assert_eq!(rest(reader.unsplit(writer)).await, expected);
        }
        // A client that goes without a word is gone.
        let (client, push) = push(64, &[], None);
        drop(client);
        push.now_or_never().unwrap();
    }

    #[tokio::test]
    async fn an_idle_client_takes_no_buffer_and_one_that_reads_nothing_gets_no_more() {
        let (mut client, mut idle) = push(64, &[Bytes::from_static(b"a")], None);
        assert!((&mut idle).now_or_never().is_none());
        let mut frame = [0; 3];
        client.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame, [0x81, 1, b'a']);
        assert_eq!((idle.waiting.capacity(), idle.long.len()), (0, 0));

        let many = vec![Bytes::from(vec![b'x'; 1000]); 1000];
        let (mut client, mut stuck) = push(64, &many, None);
        // Pings of such a client take no memory either.
        for _ in 0..1000 {
            assert!((&mut stuck).now_or_never().is_none());
            client.write_all(&short(0x89, b"ping")).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(stuck.waiting.capacity() < 2 * COLLECTED_BYTES);
        assert!(stuck.messages.left.len() > 900);
    }

    #[tokio::test]
    async fn the_end_of_the_server_has_its_code_and_its_time() {
        tokio::time::pause();
        let (client, mut push_to) = push(64, &[], Some(CloseCode::Normal));
        push_to.leave();
        push_to.await;
        assert_eq!(rest(client).await, [0x88, 2, 0x03, 0xe9]);

        let long = Bytes::from(vec![b'x'; 1000]);
        let (client, mut stuck) = push(64, &[long], None);
        stuck.leave();
        let start = Instant::now();
        stuck.await;
        assert_eq!(start.elapsed().as_secs(), LAST_BYTES_WITHIN.as_secs());
        drop(client);
    }
}
