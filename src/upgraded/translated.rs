//! Carries bytes between a client and a server that speak different protocols.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::buffers::{BUFFER_BYTES, give_back, lend};
use super::relay::{LAST_BYTES_WITHIN, Relayed};
use super::turn::Turn;

/// A peer is not read while so many bytes wait for the other one.
const WAITING_BYTES: usize = 64 << 10;

/// A peer is not read while so many bytes wait for itself, which are the answers to its pings.
const ANSWER_BYTES: usize = 256 << 10;

/// The most bytes that are translated at a time. With the heads of their frames they are no more
/// than TLS takes in one write, so no small record with the rest follows.
const READ_BYTES: usize = BUFFER_BYTES - 1024;

/// How often a translation is asked whether it has something to say.
const TICK: Duration = Duration::from_secs(5);

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Further bytes are to be read.
    Open,
    /// Nothing more is read. The connections are closed when the client has the bytes for it.
    Ended,
}

/// Turns the bytes of each side into bytes for the other one.
pub trait Translation {
    /// Takes bytes of the client, which it may change in place.
    fn of_client(&mut self, bytes: &mut [u8]) -> Progress;

    /// Takes bytes of the server.
    fn of_server(&mut self, bytes: &[u8]) -> Progress;

    /// The server has closed its connection.
    fn server_gone(&mut self) -> Progress;

    /// The daemon stops.
    fn stop(&mut self);

    /// Some seconds have passed with a connected server.
    fn tick(&mut self) -> Progress {
        Progress::Open
    }

    /// The bytes for the client.
    fn to_client(&mut self) -> &mut BytesMut;

    /// The bytes for the server.
    fn to_server(&mut self) -> &mut BytesMut;
}

/// How a translated connection has ended.
#[derive(Debug)]
pub enum TranslatedEnd {
    /// The translation has ended it.
    InOrder,
    /// The client has closed its connection, or it has failed.
    ClientGone,
    /// The client did not take the last bytes in time.
    Stalled,
}

/// Carries the bytes of two connections. It is a future of how they have ended.
pub struct Translated<C, S, T> {
    client: C,
    /// `None` until it is connected.
    server: Option<S>,
    translation: T,
    relayed: Relayed,
    /// Whether bytes were written to the client, and to the server, that are not flushed.
    unflushed: [bool; 2],
    /// Wakes the translation, and after its end bounds the time for the last bytes.
    timer: Pin<Box<Sleep>>,
    has_ended: bool,
}

/// The outcome of a step of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is waiting for a peer, or has nothing to do.
    Waits,
    /// It has moved bytes.
    Moved(usize),
    /// The peer is gone.
    Gone,
}

impl<C, S, T> Translated<C, S, T>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
    T: Translation,
{
    /// Begins with the client. The translation may have bytes to send already; those for the server
    /// wait until it is connected.
    pub fn new(client: C, translation: T) -> Translated<C, S, T> {
        Translated {
            client,
            server: None,
            translation,
            relayed: Relayed::default(),
            unflushed: [false; 2],
            timer: Box::pin(tokio::time::sleep(TICK)),
            has_ended: false,
        }
    }

    /// Connects the server.
    pub fn connect(&mut self, server: S) {
        self.server = Some(server);
    }

    /// The translation.
    pub fn translation(&mut self) -> &mut T {
        &mut self.translation
    }

    /// The bytes read so far.
    pub fn relayed(&self) -> Relayed {
        self.relayed
    }

    /// Ends the connection, because the daemon stops. The client still gets its last bytes.
    pub fn stop(&mut self) {
        if !self.has_ended {
            self.translation.stop();
            self.end();
        }
    }

    /// Reads nothing more. The client still gets the bytes that wait for it.
    pub fn end(&mut self) {
        self.has_ended = true;
        self.timer
            .as_mut()
            .reset(Instant::now() + LAST_BYTES_WITHIN);
    }

    fn note(&mut self, progress: Progress) {
        if progress == Progress::Ended && !self.has_ended {
            self.end();
        }
    }

    /// Reads from the client, unless too much waits.
    fn poll_client(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Step {
        let is_full = self.translation.to_server().len() >= WAITING_BYTES
            || self.translation.to_client().len() >= ANSWER_BYTES;
        if self.has_ended || is_full {
            return Step::Waits;
        }
        let step = poll_read(&mut self.client, context, buffer);
        if let Step::Moved(read) = step {
            self.relayed.up += read as u64;
            let bytes = buffer.get_mut(..read).unwrap_or_default();
            let progress = self.translation.of_client(bytes);
            self.note(progress);
        }
        step
    }

    /// Reads from the server, unless too much waits.
    fn poll_server(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Step {
        let is_full = self.translation.to_client().len() >= WAITING_BYTES
            || self.translation.to_server().len() >= ANSWER_BYTES;
        let server = self.server.as_mut().filter(|_| !self.has_ended && !is_full);
        let Some(server) = server else {
            return Step::Waits;
        };
        let step = poll_read(server, context, buffer);
        let progress = match step {
            Step::Waits => return step,
            Step::Gone => self.translation.server_gone(),
            Step::Moved(read) => {
                self.relayed.down += read as u64;
                let bytes = buffer.get(..read).unwrap_or_default();
                self.translation.of_server(bytes)
            }
        };
        self.note(progress);
        // The client may be due its last bytes.
        Step::Moved(1)
    }

    /// Moves bytes until all peers have to be waited for. Returns the end, if it has come.
    fn poll_bytes(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<TranslatedEnd> {
        let mut turn = Turn::default();
        loop {
            let Translated {
                client,
                server,
                translation,
                unflushed,
                ..
            } = self;
            let [of_client, of_server] = unflushed;
            let bytes = translation.to_client();
            let to_client = poll_write(client, context, bytes, of_client, &mut turn);
            if to_client == Step::Gone {
                return Poll::Ready(TranslatedEnd::ClientGone);
            }
            if self.has_ended && translation.to_client().is_empty() && !*of_client {
                return Poll::Ready(TranslatedEnd::InOrder);
            }
            let to_server = match server {
                Some(server) if !self.has_ended => {
                    let bytes = translation.to_server();
                    poll_write(server, context, bytes, of_server, &mut turn)
                }
                _ => Step::Waits,
            };
            if to_server == Step::Gone {
                let progress = self.translation.server_gone();
                self.note(progress);
                continue;
            }
            let of_server = self.poll_server(context, buffer);
            let of_client = self.poll_client(context, buffer);
            if of_client == Step::Gone {
                return Poll::Ready(TranslatedEnd::ClientGone);
            }
            let steps = [to_client, to_server, of_server, of_client];
            if !steps.iter().any(|step| matches!(step, Step::Moved(_))) && !turn.is_over() {
                return Poll::Pending;
            }
            for step in [of_server, of_client] {
                if let Step::Moved(bytes) = step {
                    turn.add(bytes);
                }
            }
            if turn.is_over() {
                return Turn::give_way(context);
            }
        }
    }
}

impl<C, S, T> Future for Translated<C, S, T>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
    T: Translation + Unpin,
{
    type Output = TranslatedEnd;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TranslatedEnd> {
        let this = self.get_mut();
        while this.timer.as_mut().poll(context).is_ready() {
            if this.has_ended {
                return Poll::Ready(TranslatedEnd::Stalled);
            }
            this.timer.as_mut().reset(Instant::now() + TICK);
            // A server that is still being asked can answer nothing yet.
            if this.server.is_some() {
                let progress = this.translation.tick();
                this.note(progress);
            }
        }
        let mut buffer = lend();
        let polled = this.poll_bytes(context, &mut buffer);
        give_back(buffer);
        // An idle connection holds no memory for bytes.
        release(this.translation.to_client());
        release(this.translation.to_server());
        polled
    }
}

fn release(waiting: &mut BytesMut) {
    if waiting.is_empty() {
        *waiting = BytesMut::new();
    }
}

/// Reads until the buffer is full, or the peer has sent no more. TLS returns one record at a time,
/// and a write for each would cost several times as much as one for all.
fn poll_read(
    reader: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Step {
    let mut room = ReadBuf::new(buffer.get_mut(..READ_BYTES).unwrap_or_default());
    let mut read = 0;
    while room.remaining() > 0 {
        match Pin::new(&mut *reader).poll_read(context, &mut room) {
            Poll::Ready(Ok(())) if room.filled().len() > read => read = room.filled().len(),
            Poll::Pending if read == 0 => return Step::Waits,
            Poll::Ready(_) if read == 0 => return Step::Gone,
            // An end comes again with the next read.
            _ => break,
        }
    }
    Step::Moved(read)
}

/// Writes all that the peer takes in this turn, and flushes it.
fn poll_write(
    writer: &mut (impl AsyncWrite + Unpin),
    context: &mut Context<'_>,
    bytes: &mut BytesMut,
    is_unflushed: &mut bool,
    turn: &mut Turn,
) -> Step {
    let mut moved = 0;
    while !bytes.is_empty() && !turn.is_over() {
        match Pin::new(&mut *writer).poll_write(context, bytes) {
            Poll::Pending => break,
            Poll::Ready(Ok(written)) if written > 0 => {
                bytes.advance(written);
                turn.add_write(written);
                moved += written;
                *is_unflushed = true;
            }
            Poll::Ready(_) => return Step::Gone,
        }
    }
    if *is_unflushed && bytes.is_empty() {
        match Pin::new(writer).poll_flush(context) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => *is_unflushed = false,
            Poll::Ready(Err(_)) => return Step::Gone,
        }
    }
    match moved {
        0 => Step::Waits,
        moved => Step::Moved(moved),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::super::FramesApart;
    use super::super::turn::TURN_WRITES;
    use super::*;

    /// Sends bytes in upper case to the server, and in lower case to the client. Each `?` of a
    /// client is answered by `!`, and `.` ends the connection.
    #[derive(Default)]
    struct Cases {
        to_client: BytesMut,
        to_server: BytesMut,
        ticks: usize,
    }

    impl Translation for Cases {
        fn of_client(&mut self, bytes: &mut [u8]) -> Progress {
            for byte in bytes {
                match byte {
                    b'?' => self.to_client.extend_from_slice(b"!"),
                    b'.' => return Progress::Ended,
                    byte => self
                        .to_server
                        .extend_from_slice(&[byte.to_ascii_uppercase()]),
                }
            }
            Progress::Open
        }

        fn of_server(&mut self, bytes: &[u8]) -> Progress {
            self.to_client
                .extend(bytes.iter().map(u8::to_ascii_lowercase));
            Progress::Open
        }

        fn server_gone(&mut self) -> Progress {
            self.to_client.extend_from_slice(b"<gone>");
            Progress::Ended
        }

        fn stop(&mut self) {
            self.to_client.extend_from_slice(b"<stopped>");
        }

        fn tick(&mut self) -> Progress {
            self.ticks += 1;
            self.to_server.extend_from_slice(b"*");
            Progress::Open
        }

        fn to_client(&mut self) -> &mut BytesMut {
            &mut self.to_client
        }

        fn to_server(&mut self) -> &mut BytesMut {
            &mut self.to_server
        }
    }

    type Tested = Translated<DuplexStream, DuplexStream, Cases>;

    fn connected(room: usize) -> (DuplexStream, Tested, DuplexStream) {
        let (client, near) = tokio::io::duplex(room);
        let (far, server) = tokio::io::duplex(room);
        let mut translated = Translated::new(near, Cases::default());
        translated.connect(far);
        (client, translated, server)
    }

    async fn exactly(stream: &mut DuplexStream, length: usize) -> String {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    async fn rest(mut stream: DuplexStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn bytes_pass_translated_and_the_last_ones_are_sent_before_the_end() {
        let (mut client, translated, mut server) = connected(8);
        let running = tokio::spawn(translated);
        client.write_all(b"a?b").await.unwrap();
        assert_eq!(exactly(&mut server, 2).await, "AB");
        assert_eq!(exactly(&mut client, 1).await, "!");
        let (long, reader) = ("X".repeat(200_000), tokio::spawn(rest(client)));
        server.write_all(long.as_bytes()).await.unwrap();
        drop(server);
        assert!(matches!(running.await.unwrap(), TranslatedEnd::InOrder));
        let expected = format!("{}<gone>", long.to_lowercase());
        assert!(reader.await.unwrap() == expected);
    }

    #[tokio::test]
    async fn a_turn_has_a_bound_of_frames_cn_56() {
        let (mut client, near) = tokio::io::duplex(1 << 20);
        let (far, mut server) = tokio::io::duplex(1 << 20);
        let near = FramesApart::new(near, true);
        let mut translated = Translated::new(near, Cases::default());
        translated.connect(far);
        let frames = b"\x82\x00".repeat(2 * TURN_WRITES + 1);
        server.write_all(&frames).await.unwrap();
        // The first turn also reads them.
        let mut got = Vec::new();
        for frames in [TURN_WRITES, TURN_WRITES, 1] {
            assert!((&mut translated).now_or_never().is_none());
            let mut part = vec![0; 1 << 20];
            let read = client.read(&mut part).await.unwrap();
            assert_eq!(read, 2 * frames);
            got.extend_from_slice(&part[..read]);
            // A task of tokio may do only so much without a pause.
            tokio::task::yield_now().await;
        }
        assert_eq!(got, frames);
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_stops_the_other_one() {
        let (mut client, mut translated, mut server) = connected(64);
        for (from, reads) in [(&mut client, "server"), (&mut server, "client")] {
            let mut taken = 0;
            while from.write_all(&[b'x'; 64]).now_or_never().is_some() {
                taken += 64;
                assert!((&mut translated).now_or_never().is_none());
                // A task of tokio may do only so much without a pause.
                tokio::task::yield_now().await;
                assert!(
                    taken < 2 * WAITING_BYTES,
                    "{taken} bytes wait for the {reads}"
                );
            }
            assert!(taken >= WAITING_BYTES, "{taken} bytes wait for the {reads}");
        }
    }

    #[tokio::test]
    async fn answers_to_a_client_that_reads_nothing_are_bounded() {
        let (mut client, mut translated, _server) = connected(64);
        let mut taken = 0;
        while client.write_all(&[b'?'; 64]).now_or_never().is_some() {
            taken += 64;
            assert!((&mut translated).now_or_never().is_none());
            assert!(taken < 2 * ANSWER_BYTES);
            tokio::task::yield_now().await;
        }
        assert!(taken >= ANSWER_BYTES);
    }

    #[tokio::test]
    async fn each_end_is_noticed() {
        let (client, translated, _server) = connected(64);
        drop(client);
        assert!(matches!(translated.await, TranslatedEnd::ClientGone));
        let (mut client, translated, _server) = connected(64);
        client.write_all(b"a.b").await.unwrap();
        assert!(matches!(translated.await, TranslatedEnd::InOrder));
        let (client, mut translated, _server) = connected(64);
        translated.stop();
        assert!(matches!(translated.await, TranslatedEnd::InOrder));
        assert_eq!(rest(client).await, "<stopped>");
    }

    #[tokio::test(start_paused = true)]
    async fn time_passes_for_the_translation_and_bounds_its_end() {
        let (mut client, mut translated, mut server) = connected(4);
        let waited = tokio::time::timeout(2 * TICK + TICK / 2, &mut translated);
        assert!(waited.await.is_err());
        assert_eq!(exactly(&mut server, 2).await, "**");
        client.write_all(b"????").await.unwrap();
        assert!((&mut translated).now_or_never().is_none());
        translated.stop();
        // The client does not read.
        assert!(matches!(translated.await, TranslatedEnd::Stalled));
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_passes_for_the_translation_before_the_server_is_connected() {
        let (mut client, near) = tokio::io::duplex(64);
        let (far, mut server) = tokio::io::duplex(64);
        let mut translated: Tested = Translated::new(near, Cases::default());
        let waited = tokio::time::timeout(100 * TICK + TICK / 2, &mut translated);
        assert!(waited.await.is_err());
        assert_eq!(translated.translation.ticks, 0);
        // The client is served meanwhile.
        client.write_all(b"?").await.unwrap();
        assert!((&mut translated).now_or_never().is_none());
        assert_eq!(exactly(&mut client, 1).await, "!");
        translated.connect(far);
        let waited = tokio::time::timeout(TICK, &mut translated);
        assert!(waited.await.is_err());
        assert_eq!(translated.translation.ticks, 1);
        assert_eq!(exactly(&mut server, 1).await, "*");
    }

    #[tokio::test]
    async fn an_idle_connection_holds_no_bytes() {
        let (mut client, mut translated, mut server) = connected(1 << 20);
        client.write_all(&[b'a'; 100_000]).await.unwrap();
        assert!((&mut translated).now_or_never().is_none());
        assert_eq!(exactly(&mut server, 100_000).await.len(), 100_000);
        assert!((&mut translated).now_or_never().is_none());
        assert_eq!(translated.translation.to_client().capacity(), 0);
        assert_eq!(translated.translation.to_server().capacity(), 0);
    }
}
