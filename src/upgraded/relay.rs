//! Copies bytes between a client and a server until both have ended.
//!
//! Each direction has a buffer of its thread while bytes flow, and none while it is idle. Bytes are
//! read only after those before them have been written, so a peer that reads nothing stops the
//! other one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::buffers::{give_back, lend};
use super::turn::Turn;

/// How long the last bytes of a session may take.
pub(super) const LAST_BYTES_WITHIN: Duration = Duration::from_secs(10);

/// How long the rest may stay silent after one side has ended.
const HALF_OPEN: Duration = Duration::from_secs(30);

/// Why a relay has ended.
#[derive(Debug)]
pub enum RelayEnd {
    /// Both sides have ended in order.
    InOrder,
    /// One side has ended, and the other one was silent for too long after that.
    HalfOpen,
    /// A connection has failed.
    Failed(io::Error),
}

/// The bytes that were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// From the client to the server.
    pub up: u64,
    /// From the server to the client.
    pub down: u64,
}

/// Copies both ways between two streams. It is a future of why it has ended.
pub struct Relay<C, S> {
    client: C,
    server: S,
    up: Direction,
    down: Direction,
    /// The time of a half-open relay, with the bytes that were copied when it began.
    half_open: Option<(Pin<Box<Sleep>>, Relayed)>,
}

impl<C, S> Relay<C, S> {
    /// Begins.
    pub fn new(client: C, server: S) -> Relay<C, S> {
        Relay {
            client,
            server,
            up: Direction::default(),
            down: Direction::default(),
            half_open: None,
        }
    }

    /// The bytes copied so far.
    pub fn relayed(&self) -> Relayed {
        Relayed {
            up: self.up.copied,
            down: self.down.copied,
        }
    }

    /// Whether nothing from the server is on its way to the client.
    pub fn is_clear(&self) -> bool {
        self.down.state == State::Open && self.down.written == self.down.filled
    }

    /// The connection to the client.
    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }

    /// Whether a side that has ended leaves the other one silent for too long.
    fn poll_half_open(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let relayed = self.relayed();
        let time = || Box::pin(tokio::time::sleep(HALF_OPEN));
        let (timer, before) = self.half_open.get_or_insert_with(|| (time(), relayed));
        while timer.as_mut().poll(context).is_ready() {
            if *before == relayed {
                return Poll::Ready(());
            }
            *before = relayed;
            timer.as_mut().reset(Instant::now() + HALF_OPEN);
        }
        Poll::Pending
    }
}

impl<C, S> Future for Relay<C, S>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    type Output = RelayEnd;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RelayEnd> {
        let this = self.get_mut();
        let up = this.up.poll(context, &mut this.client, &mut this.server);
        let down = this.down.poll(context, &mut this.server, &mut this.client);
        match (up, down) {
            (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => {
                Poll::Ready(RelayEnd::Failed(error))
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(RelayEnd::InOrder),
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => this.poll_half_open(context).map(|()| RelayEnd::HalfOpen),
        }
    }
}

/// The state of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The reader has ended. The rest is on its way to the writer.
    Ending,
    /// The writer's end is shut down.
    Ended,
}

/// One direction.
#[derive(Default)]
struct Direction {
    /// Lent while it has bytes.
    buffer: Option<Box<[u8]>>,
    written: usize,
    filled: usize,
    state: State,
    is_unflushed: bool,
    copied: u64,
    /// Why the reader has failed. The bytes before that are written first.
    failure: Option<io::Error>,
}

impl Direction {
    /// Copies what there is. It is ready when the reader has ended and the writer is shut down.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let mut turn = Turn::default();
        loop {
            let is_dry =
                self.written == self.filled && self.poll_fill(context, reader).is_pending();
            ready!(self.poll_empty(context, writer, &mut turn))?;
            if self.written < self.filled {
                return Turn::give_way(context);
            }
            if let Some(failure) = self.failure.take() {
                self.release();
                // The writer fails, too, or takes the bytes when it can.
                let _ = Pin::new(&mut *writer).poll_flush(context);
                return Poll::Ready(Err(failure));
            }
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    self.release();
                    ready!(Pin::new(&mut *writer).poll_shutdown(context))?;
                    self.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                State::Open if is_dry => {
                    self.release();
                    if self.is_unflushed {
                        ready!(Pin::new(&mut *writer).poll_flush(context))?;
                        self.is_unflushed = false;
                    }
                    return Poll::Pending;
                }
                State::Open if turn.is_over() => return Turn::give_way(context),
                State::Open => {}
            }
        }
    }

    /// Reads until the buffer is full. It is pending when the reader has no more for now.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> Poll<()> {
        if self.state != State::Open {
            return Poll::Ready(());
        }
        (self.written, self.filled) = (0, 0);
        let buffer = self.buffer.get_or_insert_with(lend);
        while let Some(room) = buffer
            .get_mut(self.filled..)
            .filter(|room| !room.is_empty())
        {
            let mut room = ReadBuf::new(room);
            match ready!(Pin::new(&mut *reader).poll_read(context, &mut room)) {
                Ok(()) if room.filled().is_empty() => {
                    self.state = State::Ending;
                    break;
                }
                Ok(()) => self.filled += room.filled().len(),
                Err(failure) => {
                    self.failure = Some(failure);
                    break;
                }
            }
        }
        Poll::Ready(())
    }

    /// Writes what the buffer has, up to the end of the turn.
    fn poll_empty(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut (impl AsyncWrite + Unpin),
        turn: &mut Turn,
    ) -> Poll<io::Result<()>> {
        while let Some(bytes) = self
            .buffer
            .as_ref()
            .and_then(|buffer| buffer.get(self.written..self.filled))
            && !bytes.is_empty()
            && !turn.is_over()
        {
            let written = ready!(Pin::new(&mut *writer).poll_write(context, bytes))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
            self.copied += written as u64;
            turn.add_write(written);
            self.is_unflushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn release(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            give_back(buffer);
        }
        (self.written, self.filled) = (0, 0);
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::super::FramesApart;
    use super::super::turn::{TURN_BYTES, TURN_WRITES};
    use super::*;

    fn relay(
        room: usize,
    ) -> (
        DuplexStream,
        Relay<DuplexStream, DuplexStream>,
        DuplexStream,
    ) {
        let (client, near) = tokio::io::duplex(room);
        let (far, server) = tokio::io::duplex(room);
        (client, Relay::new(near, far), server)
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_and_ends_are_passed_on() {
        let (mut client, relay, server) = relay(64);
        let long = vec![7; 3 * TURN_BYTES];
        let relaying = tokio::spawn(relay);
        let (mut from_client, mut to_client) = tokio::io::split(server);
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            from_client.read_to_end(&mut all).await.unwrap();
            all
        });
        client.write_all(&long).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap(), long);
        to_client.write_all(b"late").await.unwrap();
        to_client.shutdown().await.unwrap();
        let mut late = String::new();
        client.read_to_string(&mut late).await.unwrap();
        assert_eq!(late, "late");
        assert!(matches!(relaying.await.unwrap(), RelayEnd::InOrder));
    }

    #[tokio::test]
    async fn an_idle_relay_has_no_buffer_and_a_slow_reader_stops_the_writer() {
        let (mut client, mut relay, mut server) = relay(16);
        client.write_all(b"abc").await.unwrap();
        assert!((&mut relay).now_or_never().is_none());
        let mut three = [0; 3];
        server.read_exact(&mut three).await.unwrap();
        assert!(relay.up.buffer.is_none() && relay.down.buffer.is_none());
        let mut taken = 0;
        while client.write_all(&[1; 16]).now_or_never().is_some() {
            taken += 16;
            assert!((&mut relay).now_or_never().is_none());
        }
        assert!(
            taken < 100,
            "{taken} bytes are held for a server that reads nothing"
        );
        assert_eq!(relay.relayed(), Relayed { up: 19, down: 0 });
    }

    /// A server may send frames without content. They would be as many writes as a buffer has
    /// pairs of bytes.
    #[tokio::test]
    async fn a_turn_has_a_bound_of_frames_cn_35() {
        let (mut client, near) = tokio::io::duplex(1 << 20);
        let (far, mut server) = tokio::io::duplex(1 << 20);
        let mut relay = Relay::new(FramesApart::new(near, true), far);
        let frames = b"\x82\x00".repeat(2 * TURN_WRITES + 1);
        server.write_all(&frames).await.unwrap();
        server.shutdown().await.unwrap();
        let turn = 2 * TURN_WRITES as u64;
        for down in [turn, 2 * turn, 2 * turn + 2] {
            assert!((&mut relay).now_or_never().is_none());
            assert_eq!(relay.relayed().down, down);
            // A task of tokio may do only so much without a pause.
            tokio::task::yield_now().await;
        }
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, frames);
    }

    /// A stream that has some bytes and then fails.
    struct Failing(&'static [u8]);

    impl AsyncRead for Failing {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let bytes = std::mem::take(&mut self.0);
            buffer.put_slice(bytes);
            Poll::Ready(match bytes {
                [] => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(()),
            })
        }
    }

    impl AsyncWrite for Failing {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn the_bytes_before_a_failure_arrive() {
        let (mut client, near) = tokio::io::duplex(64);
        let end = Relay::new(near, Failing(b"last words")).await;
        assert!(matches!(end, RelayEnd::Failed(_)), "{end:?}");
        let mut got = String::new();
        client.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "last words");
    }

    #[tokio::test]
    async fn a_half_open_relay_ends_when_the_rest_is_silent() {
        tokio::time::pause();
        let (mut client, relay, mut server) = relay(64);
        let relaying = tokio::spawn(relay);
        client.shutdown().await.unwrap();
        for _ in 0..3 {
            tokio::time::sleep(HALF_OPEN / 2).await;
            assert!(!relaying.is_finished());
            server.write_all(b"x").await.unwrap();
        }
        tokio::time::sleep(3 * HALF_OPEN).await;
        assert!(matches!(relaying.await.unwrap(), RelayEnd::HalfOpen));
    }
}
