//! The socket of an HTTP/2 connection. One write sends the frames of many streams.
//!
//! h2 requests a flush after every frame. A real flush each time would cost one TLS record and one
//! system call per frame, and make fan-out six times as expensive. A flush by h2 therefore only
//! reports success. The bytes wait until the poll of the connection is over and
//! [`Http2Socket::poll_out`] is called, or until [`COALESCED_BYTES`] are waiting. They wait in a
//! buffer lent by the thread, so an idle connection holds none.
//!
//! [`COALESCED_BYTES`]: crate::transport::buffer_pool::COALESCED_BYTES

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::inbound::InboundFrames;
use crate::coalescing_writer::CoalescingWriter;
use crate::transport::buffer_pool::BufferPool;

/// When fewer bytes than this may be read, the limit is exact.
const SMALL_READ_BYTES: usize = 4096;

/// The socket. Clones share it: h2 owns one, and the task that decides when to write owns another.
pub struct Http2Socket<T> {
    io: Rc<RefCell<Io<T>>>,
}

impl<T> Clone for Http2Socket<T> {
    fn clone(&self) -> Http2Socket<T> {
        Http2Socket {
            io: Rc::clone(&self.io),
        }
    }
}

struct Io<T> {
    writer: CoalescingWriter<T, BufferPool>,
    bytes_read: u64,
    /// The number of bytes that may be read until more are allowed.
    readable: usize,
    /// Bytes that were read beyond the allowed number.
    ahead: Bytes,
    inbound: InboundFrames,
}

impl<T> Io<T> {
    /// Keeps bytes that were read too early.
    fn put_back(&mut self, read: &[u8]) {
        let mut ahead = BytesMut::with_capacity(read.len() + self.ahead.len());
        ahead.extend_from_slice(read);
        ahead.extend_from_slice(&self.ahead);
        self.ahead = ahead.freeze();
    }
}

impl<T> Http2Socket<T> {
    /// Creates a socket that coalesces the writes to `io`.
    pub fn new(io: T, pool: BufferPool) -> Http2Socket<T> {
        Http2Socket {
            io: Rc::new(RefCell::new(Io {
                writer: CoalescingWriter::new(io, pool),
                bytes_read: 0,
                readable: 0,
                ahead: Bytes::new(),
                inbound: InboundFrames::new(),
            })),
        }
    }

    /// Whether the operating system has taken all written bytes. If it has not, the client is
    /// slower than the server, and pulling more from its streams would only buffer it here.
    pub fn is_clear(&self) -> bool {
        self.io.borrow().writer.is_clear()
    }

    /// Allows `bytes` bytes, or slightly more if the number is large, and this many requests to be
    /// read. h2 reads all it can, and stores the requests before the first one is handled, so it
    /// gets little at a time.
    pub fn allow_read(&self, bytes: usize, requests: usize) {
        let mut io = self.io.borrow_mut();
        io.readable = bytes;
        io.inbound.allow_requests(requests);
    }

    /// Whether waiting bytes have to be written before there is room for more.
    pub fn is_full(&self) -> bool {
        !self.io.borrow().writer.has_room()
    }

    /// Bytes that the operating system has taken so far.
    pub fn bytes_out(&self) -> u64 {
        self.io.borrow().writer.bytes_out()
    }

    /// Whether the client floods the connection with frames without data.
    pub fn is_flooded(&self) -> bool {
        self.io.borrow().inbound.is_flood()
    }

    /// Returns the number of bytes received so far. A peer that sends is alive.
    pub fn bytes_read(&self) -> u64 {
        self.io.borrow().bytes_read
    }
}

impl<T: AsyncWrite + Unpin> Http2Socket<T> {
    /// Writes out the waiting bytes.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn poll_out(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.borrow_mut().writer.poll_out(context)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Http2Socket<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut io = self.io.borrow_mut();
        if io.readable == 0 {
            // The bytes already read come first; the rest is read afterwards.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = if !io.ahead.is_empty() {
            let part = io.ahead.len().min(buffer.remaining()).min(io.readable);
            buffer.put_slice(&io.ahead.split_to(part));
            Poll::Ready(Ok(()))
        } else if io.readable < buffer.remaining().min(SMALL_READ_BYTES) {
            let mut small = [0; SMALL_READ_BYTES];
            let mut part = ReadBuf::new(small.get_mut(..io.readable).unwrap_or_default());
            let polled = Pin::new(io.writer.get_mut()).poll_read(context, &mut part);
            buffer.put_slice(part.filled());
            polled
        } else {
            Pin::new(io.writer.get_mut()).poll_read(context, buffer)
        };
        let read = buffer.filled().get(before..).unwrap_or_default();
        let written = io.writer.bytes_taken();
        let passed = io.inbound.read(read, written);
        io.bytes_read += passed as u64;
        io.readable = match io.inbound.may_read() {
            true => io.readable.saturating_sub(passed),
            false => 0,
        };
        if passed < read.len() {
            io.put_back(read.get(passed..).unwrap_or_default());
            buffer.set_filled(before + passed);
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Http2Socket<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let writer = &mut self.io.borrow_mut().writer;
        if !writer.has_room()
            && let Poll::Ready(Err(error)) = writer.poll_out(context)
        {
            return Poll::Ready(Err(error));
        }
        match writer.has_room() {
            true => Poll::Ready(Ok(writer.take(parts))),
            false => Poll::Pending,
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Reports success and keeps the bytes, as the module documentation explains.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let writer = &mut self.io.borrow_mut().writer;
        ready!(writer.poll_out(context))?;
        Pin::new(writer.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::buffer_pool::COALESCED_BYTES;
    use futures_util::FutureExt;
    use futures_util::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn nothing_leaves_before_it_is_let_out() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let socket = Http2Socket::new(ours, BufferPool::default());
        let mut writer = socket.clone();
        writer.write_all(b"first ").await.unwrap();
        writer.flush().await.unwrap();
        writer.write_all(b"second").await.unwrap();
        writer.flush().await.unwrap();
        let mut got = [0; 12];
        assert!(theirs.read(&mut got).now_or_never().is_none());
        assert!(!socket.is_clear());

        poll_fn(|context| socket.poll_out(context)).await.unwrap();
        assert!(socket.is_clear());
        theirs.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"first second");
    }

    #[tokio::test]
    async fn a_full_buffer_leaves_by_itself() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let mut writer = Http2Socket::new(ours, BufferPool::default());
        let sent = vec![7; COALESCED_BYTES + 1];
        writer.write_all(&sent).await.unwrap();
        let mut got = vec![0; COALESCED_BYTES];
        theirs.read_exact(&mut got).await.unwrap();
        assert!(theirs.read(&mut got).now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_full_socket_pushes_back_and_loses_nothing() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let socket = Http2Socket::new(ours, BufferPool::default());
        let mut writer = socket.clone();
        let sent: Vec<u8> = (0..3 * COALESCED_BYTES).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let reading = async {
            let mut got = vec![0; expected.len()];
            theirs.read_exact(&mut got).await.unwrap();
            got
        };
        let writing = async {
            writer.write_all(&sent).await.unwrap();
            poll_fn(|context| socket.poll_out(context)).await.unwrap();
        };
        let (got, ()) = tokio::join!(reading, writing);
        assert!(got == expected);
        assert!(socket.is_clear());
    }

    #[tokio::test]
    async fn requests_are_read_as_many_as_allowed_and_none_is_lost() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let mut socket = Http2Socket::new(ours, BufferPool::default());
        let mut request = [0; 19];
        (request[2], request[3]) = (10, 1);
        let sent = [&[0; 24][..], &request.repeat(50)].concat();
        theirs.write_all(&sent).await.unwrap();
        let (mut got, mut part) = (Vec::new(), [0; 300]);
        for step in 1..=6 {
            socket.allow_read(1 << 10, 8);
            while let Some(read) = socket.read(&mut part).now_or_never() {
                got.extend_from_slice(&part[..read.unwrap()]);
            }
            assert_eq!(got.len(), 24 + step * 8 * request.len());
        }
        socket.allow_read(1 << 10, 8);
        let read = socket.read(&mut part).await.unwrap();
        got.extend_from_slice(&part[..read]);
        assert!(got == sent);
        assert!(socket.io.borrow().ahead.is_empty());
    }

    #[tokio::test]
    async fn an_idle_connection_holds_no_buffer() {
        let pool = BufferPool::default();
        let (ours, mut theirs) = tokio::io::duplex(100);
        let socket = Http2Socket::new(ours, pool.clone());
        let mut writer = socket.clone();
        writer.write_all(&[1; 150]).await.unwrap();
        // The pipe takes 100 bytes. The other 50 move out of the lent buffer.
        assert!(
            poll_fn(|context| socket.poll_out(context))
                .now_or_never()
                .is_none()
        );
        assert_eq!(pool.spare(), 1);
        assert_eq!(socket.io.borrow().writer.waiting(), 50);
        let mut got = [0; 150];
        let (read, out) = tokio::join!(
            theirs.read_exact(&mut got),
            poll_fn(|context| socket.poll_out(context))
        );
        read.unwrap();
        out.unwrap();
        assert!(socket.is_clear());
        assert_eq!(pool.spare(), 1);
        writer.write_all(&[1]).await.unwrap();
        assert_eq!(pool.spare(), 0, "it is lent one again");
    }
}
