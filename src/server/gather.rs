//! A writer that gathers: frames of many streams leave in one write.
//!
//! h2 asks for a flush after every frame. Passed on, each would become a TLS record and a system
//! call of its own, and fan-out would cost six times as much. So a flush from h2 only says yes;
//! the bytes wait until the connection's poll is over and [`Gather::poll_out`] is called, or until
//! [`GATHER_BYTES`] have come together. What waits lives in a buffer lent by the thread: an idle
//! connection holds none.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::http2::InboundFrames;

/// Most bytes gathered before they are written; four TLS records. More gains nothing (measured).
pub const GATHER_BYTES: usize = 64 * 1024;

/// Where fewer bytes may be read than this, not one more is.
const SMALL_READ_BYTES: usize = 4096;

/// Buffers a thread keeps for later. One serves all connections that are written at once; more
/// are needed only while sockets are full.
const SPARE_BUFFERS_MAX: usize = 4;

/// What a full socket may leave behind in a lent buffer; less is copied, so that the buffer goes
/// back to the thread.
const LEFTOVER_KEPT_BYTES: usize = GATHER_BYTES / 4;

/// The buffers of one thread.
#[derive(Clone, Debug, Default)]
pub struct BufferPool {
    spare: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl BufferPool {
    fn lend(&self) -> Vec<u8> {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(GATHER_BYTES))
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if buffer.capacity() == GATHER_BYTES && spare.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// The gathering writer. Clones share the socket: one is given to h2, one stays with the task
/// that decides when bytes leave.
pub struct Gather<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

impl<T> Clone for Gather<T> {
    fn clone(&self) -> Gather<T> {
        Gather {
            shared: Rc::clone(&self.shared),
        }
    }
}

struct Shared<T> {
    io: T,
    pool: BufferPool,
    buffer: Vec<u8>,
    written: usize,
    unflushed: bool,
    bytes_read: u64,
    /// Bytes that may be read until more are allowed.
    readable: usize,
    bytes_written: u64,
    inbound: InboundFrames,
}

impl<T> Gather<T> {
    /// Gathers what is written to `io`.
    pub fn new(io: T, pool: BufferPool) -> Gather<T> {
        Gather {
            shared: Rc::new(RefCell::new(Shared {
                io,
                pool,
                buffer: Vec::new(),
                written: 0,
                unflushed: false,
                bytes_read: 0,
                readable: 0,
                bytes_written: 0,
                inbound: InboundFrames::new(),
            })),
        }
    }

    /// Whether everything gathered has left for the operating system. While it has not, the
    /// client is slower than we are, and pulling more from its streams would only pile it up.
    pub fn is_clear(&self) -> bool {
        let shared = self.shared.borrow();
        shared.buffer.is_empty() && !shared.unflushed
    }

    /// Allows so many bytes to be read, or somewhat more if they are many. h2 takes in all that it
    /// can read, and keeps the requests in it before anybody looks at the first: so it gets little
    /// at a time.
    pub fn allow_read(&self, bytes: usize) {
        self.shared.borrow_mut().readable = bytes;
    }

    /// Bytes that have left for the operating system so far.
    pub fn bytes_out(&self) -> u64 {
        let shared = self.shared.borrow();
        let waiting = shared.buffer.len() - shared.written;
        shared.bytes_written - waiting as u64
    }

    /// Whether the client floods the connection with frames that carry nothing.
    pub fn is_flooded(&self) -> bool {
        self.shared.borrow().inbound.is_flood()
    }

    /// Bytes that came in so far: a peer that sends is alive.
    pub fn bytes_read(&self) -> u64 {
        self.shared.borrow().bytes_read
    }
}

impl<T: AsyncWrite + Unpin> Gather<T> {
    /// Lets out what was gathered.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn poll_out(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.borrow_mut().poll_out(context)
    }
}

impl<T: AsyncWrite + Unpin> Shared<T> {
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.buffer.get(self.written..).filter(|r| !r.is_empty()) {
            match Pin::new(&mut self.io).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.shrink_leftover();
                    return Poll::Pending;
                }
            }
        }
        if self.written > 0 {
            self.pool.give_back(std::mem::take(&mut self.buffer));
            self.written = 0;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn shrink_leftover(&mut self) {
        let leftover = self.buffer.get(self.written..).unwrap_or_default();
        if leftover.len() <= LEFTOVER_KEPT_BYTES && self.buffer.capacity() == GATHER_BYTES {
            let leftover = leftover.to_vec();
            self.pool
                .give_back(std::mem::replace(&mut self.buffer, leftover));
            self.written = 0;
        }
    }

    /// Room for more, after an attempt to make some when there is none.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.len() >= GATHER_BYTES
            && let Poll::Ready(Err(error)) = self.poll_out(context)
        {
            return Poll::Ready(Err(error));
        }
        match GATHER_BYTES.saturating_sub(self.buffer.len()) {
            0 => Poll::Pending,
            room => Poll::Ready(Ok(room)),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.buffer.capacity() == 0 {
            self.buffer = self.pool.lend();
        }
        self.unflushed = true;
        self.bytes_written += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gather<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut shared = self.shared.borrow_mut();
        if shared.readable == 0 {
            // The rest has its turn after what was read already.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = if shared.readable < buffer.remaining().min(SMALL_READ_BYTES) {
            let mut small = [0; SMALL_READ_BYTES];
            let mut part = ReadBuf::new(small.get_mut(..shared.readable).unwrap_or_default());
            let polled = Pin::new(&mut shared.io).poll_read(context, &mut part);
            buffer.put_slice(part.filled());
            polled
        } else {
            Pin::new(&mut shared.io).poll_read(context, buffer)
        };
        let read = buffer.filled().get(before..).unwrap_or_default();
        shared.bytes_read += read.len() as u64;
        shared.readable = shared.readable.saturating_sub(read.len());
        let written = shared.bytes_written;
        shared.inbound.read(read, written);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gather<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.shared.borrow_mut();
        let room = ready!(shared.poll_room(context))?;
        let taken = bytes.get(..room).unwrap_or(bytes);
        shared.append(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.shared.borrow_mut();
        let mut room = ready!(shared.poll_room(context))?;
        let mut count = 0;
        for slice in slices {
            let taken = slice.get(..room).unwrap_or(slice);
            shared.append(taken);
            count += taken.len();
            room -= taken.len();
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Says yes and keeps the bytes: see the head of this file.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared.borrow_mut();
        ready!(shared.poll_out(context))?;
        Pin::new(&mut shared.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn nothing_leaves_before_it_is_let_out() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let gather = Gather::new(ours, BufferPool::default());
        let mut writer = gather.clone();
        writer.write_all(b"first ").await.unwrap();
        writer.flush().await.unwrap();
        writer.write_all(b"second").await.unwrap();
        writer.flush().await.unwrap();
        let mut got = [0; 12];
        assert!(theirs.read(&mut got).now_or_never().is_none());
        assert!(!gather.is_clear());

        poll_fn(|context| gather.poll_out(context)).await.unwrap();
        assert!(gather.is_clear());
        theirs.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"first second");
    }

    #[tokio::test]
    async fn a_full_buffer_leaves_by_itself() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let mut writer = Gather::new(ours, BufferPool::default());
        let sent = vec![7; GATHER_BYTES + 1];
        writer.write_all(&sent).await.unwrap();
        let mut got = vec![0; GATHER_BYTES];
        theirs.read_exact(&mut got).await.unwrap();
        assert!(theirs.read(&mut got).now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_full_socket_pushes_back_and_loses_nothing() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let gather = Gather::new(ours, BufferPool::default());
        let mut writer = gather.clone();
        let sent: Vec<u8> = (0..3 * GATHER_BYTES).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let reading = async {
            let mut got = vec![0; expected.len()];
            theirs.read_exact(&mut got).await.unwrap();
            got
        };
        let writing = async {
            writer.write_all(&sent).await.unwrap();
            poll_fn(|context| gather.poll_out(context)).await.unwrap();
        };
        let (got, ()) = tokio::join!(reading, writing);
        assert!(got == expected);
        assert!(gather.is_clear());
    }

    #[tokio::test]
    async fn an_idle_connection_holds_no_buffer() {
        let pool = BufferPool::default();
        let (ours, mut theirs) = tokio::io::duplex(100);
        let gather = Gather::new(ours, pool.clone());
        let mut writer = gather.clone();
        writer.write_all(&[1; 150]).await.unwrap();
        // The pipe takes 100; the other 50 move out of the lent buffer.
        assert!(
            poll_fn(|context| gather.poll_out(context))
                .now_or_never()
                .is_none()
        );
        assert_eq!(pool.spare.borrow().len(), 1);
        assert_eq!(gather.shared.borrow().buffer.len(), 50);
        let mut got = [0; 150];
        let (read, out) = tokio::join!(
            theirs.read_exact(&mut got),
            poll_fn(|context| gather.poll_out(context))
        );
        read.unwrap();
        out.unwrap();
        assert_eq!(gather.shared.borrow().buffer.capacity(), 0);
        assert_eq!(pool.spare.borrow().len(), 1);
    }
}
