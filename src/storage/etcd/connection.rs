//! A connection to etcd that sends in one piece what all tasks write in one turn of the runtime.
//!
//! A call has three frames: head, message and end. Each is written by a task that does not know the
//! others. Sent separately, each is a system call and a packet, and wakes up etcd. So they wait
//! until no writing task can continue. Then a task of the connection sends them.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use actors::tasks;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;

use crate::coalescing_writer::{Buffers, CoalescingWriter};

/// Bytes that may wait to be sent.
const WAITING_MAX: usize = 256 * 1024;
/// A larger buffer is freed after use.
const KEPT_MAX: usize = 64 * 1024;
/// The time to send the last writes after the connection was dropped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The connection. Flushed bytes are not sent yet. They will be, unless the connection breaks, as
/// with bytes that the system has accepted.
pub(super) struct Connection<R, W> {
    reader: R,
    outbox: Arc<Outbox<W>>,
}

/// The bytes to send, shared with the task that sends.
struct Outbox<W> {
    state: Mutex<OutboxState<W>>,
    /// The sending task has work.
    filled: Notify,
    /// Nobody has the connection any more.
    left: Notify,
}

struct OutboxState<W> {
    writer: CoalescingWriter<W, OneBuffer>,
    /// The waker of the task that waits for room or for the end.
    waiting: Option<Waker>,
    /// Nothing more will be written.
    is_closing: bool,
    /// Nobody has the connection any more.
    is_left: bool,
    /// How the connection ended, once it has.
    ended: Option<Result<(), ErrorKind>>,
}

/// The buffer of a connection. It is kept while it is small.
#[derive(Default)]
struct OneBuffer(Vec<u8>);

impl Buffers for OneBuffer {
    const BYTES_MAX: usize = WAITING_MAX;

    fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(KEPT_MAX);
        self.0 = buffer;
    }
}

impl<W> OutboxState<W> {
    /// # Errors
    /// The errors of the socket, and [`ErrorKind::BrokenPipe`] once it is closed.
    fn check(&self) -> io::Result<()> {
        match self.ended {
            None => Ok(()),
            Some(Ok(())) => Err(ErrorKind::BrokenPipe.into()),
            Some(Err(kind)) => Err(kind.into()),
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}

impl<W> Outbox<W> {
    fn poll_take(&self, parts: &[IoSlice<'_>], context: &Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.state.lock();
        state.check()?;
        if !state.writer.has_room() {
            state.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        let taken = state.writer.take(parts);
        drop(state);
        self.filled.notify_one();
        Poll::Ready(Ok(taken))
    }

    fn poll_close(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state.lock();
        if let Some(ended) = state.ended {
            return Poll::Ready(ended.map_err(io::Error::from));
        }
        state.is_closing = true;
        state.waiting = Some(context.waker().clone());
        drop(state);
        self.filled.notify_one();
        Poll::Pending
    }

    /// Waits until some time after the connection was dropped.
    async fn given_up(&self) {
        while !self.state.lock().is_left {
            self.left.notified().await;
        }
        tokio::time::sleep(LAST_WORDS).await;
    }
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// Sends bytes in groups until no more will come or the socket breaks.
    async fn run(self: Arc<Outbox<W>>) {
        let ended = loop {
            self.filled.notified().await;
            after_others().await;
            let sent = tokio::select! {
                sent = poll_fn(|context| self.poll_send(context)) => sent,
                () = self.given_up() => Err(ErrorKind::TimedOut.into()),
            };
            match sent {
                Ok(is_last) if !is_last => {}
                ended => break ended,
            }
        };
        let mut state = self.state.lock();
        state.ended = Some(ended.map(|_| ()).map_err(|error| error.kind()));
        state.wake_writer();
    }

    /// Sends the waiting bytes. Returns whether they were the last and the socket is shut down.
    fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut state = self.state.lock();
        ready!(state.writer.poll_out(context))?;
        if state.is_closing {
            ready!(Pin::new(state.writer.get_mut()).poll_shutdown(context))?;
            return Poll::Ready(Ok(true));
        }
        state.wake_writer();
        Poll::Ready(Ok(false))
    }
}

/// Waits until every task that can continue has done so.
async fn after_others() {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        // Runs after all tasks that can continue, and after those that they wake.
        tokio::task::yield_now().await;
        return;
    }
    // With several workers each would first look for work elsewhere, which may take long. So this
    // runs after the tasks that wait already, on whichever worker is first.
    let mut is_second = false;
    poll_fn(|context| match std::mem::replace(&mut is_second, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl<R, W> Drop for Connection<R, W> {
    fn drop(&mut self) {
        let mut state = self.outbox.state.lock();
        state.is_left = true;
        state.is_closing = true;
        drop(state);
        self.outbox.left.notify_one();
        self.outbox.filled.notify_one();
    }
}

impl<R, W> Connection<R, W>
where
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// A connection over the two halves of a socket. Must be called on the runtime that drives the
    /// connection.
    pub(super) fn new(reader: R, writer: W) -> Connection<R, W> {
        let state = OutboxState {
            writer: CoalescingWriter::new(writer, OneBuffer::default()),
            waiting: None,
            is_closing: false,
            is_left: false,
            ended: None,
        };
        let outbox = Arc::new(Outbox {
            state: Mutex::new(state),
            filled: Notify::new(),
            left: Notify::new(),
        });
        // The task ends with the connection.
        tasks::spawn(Arc::clone(&outbox).run());
        Connection { reader, outbox }
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> AsyncRead for Connection<R, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

impl<R: Unpin, W: Unpin> AsyncWrite for Connection<R, W> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.outbox.poll_take(&[IoSlice::new(bytes)], context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.outbox.poll_take(parts, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.outbox.state.lock().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outbox.poll_close(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// The bytes passed to the socket, write by write.
    #[derive(Clone, Default)]
    struct Writes {
        taken: Arc<Mutex<Vec<Vec<u8>>>>,
        fails: bool,
    }

    impl AsyncWrite for Writes {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.fails {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            self.taken.lock().push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.taken.lock().push(b"closed".to_vec());
            Poll::Ready(Ok(()))
        }
    }

    fn connection(writes: &Writes) -> Connection<tokio::io::Empty, Writes> {
        Connection::new(tokio::io::empty(), writes.clone())
    }

    #[tokio::test]
    async fn what_tasks_write_in_one_turn_leaves_in_one_write() {
        let writes = Writes::default();
        let connection = Arc::new(tokio::sync::Mutex::new(connection(&writes)));
        let tasks = Arc::clone(&connection);
        let one_after_another = async move {
            for frame in ["head ", "message ", "end"] {
                let connection = Arc::clone(&tasks);
                // The sender has its turn between two of them.
                let task = tokio::spawn(async move {
                    let mut connection = connection.lock().await;
                    connection.write_all(frame.as_bytes()).await.unwrap();
                    connection.flush().await.unwrap();
                });
                task.await.unwrap();
            }
        };
        tokio::spawn(one_after_another).await.unwrap();
        while writes.taken.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(*writes.taken.lock(), [b"head message end".to_vec()]);
        // The next turn is a write of its own.
        connection.lock().await.write_all(b"more").await.unwrap();
        while writes.taken.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(writes.taken.lock()[1], b"more");
    }

    #[tokio::test]
    async fn what_waits_is_sent_before_the_end() {
        let writes = Writes::default();
        let mut connection = connection(&writes);
        connection.write_all(b"goodbye").await.unwrap();
        connection.shutdown().await.unwrap();
        assert_eq!(*writes.taken.lock(), [&b"goodbye"[..], b"closed"]);
        let after = connection.write_all(b"x").await.unwrap_err();
        assert_eq!(after.kind(), ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn the_last_words_of_who_leaves_are_sent() {
        let writes = Writes::default();
        let mut connection = connection(&writes);
        connection.write_all(b"alert").await.unwrap();
        drop(connection);
        while writes.taken.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(*writes.taken.lock(), [&b"alert"[..], b"closed"]);
    }

    #[tokio::test]
    async fn last_words_that_nobody_reads_are_given_up() {
        let (near, far) = duplex(16);
        let (reader, writer) = tokio::io::split(near);
        let mut connection = Connection::new(reader, writer);
        connection.write_all(&[1; 1024]).await.unwrap();
        let outbox = Arc::clone(&connection.outbox);
        tokio::task::yield_now().await;
        drop(connection);
        let ended = loop {
            if let Some(ended) = outbox.state.lock().ended {
                break ended;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(ended, Err(ErrorKind::TimedOut));
        drop(far);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn with_several_workers_everything_arrives_in_order_too() {
        let (near, mut far) = duplex(1 << 20);
        let (reader, writer) = tokio::io::split(near);
        let mut connection = Connection::new(reader, writer);
        let sending = tokio::spawn(async move {
            for number in 0..1000_u16 {
                connection.write_all(&number.to_be_bytes()).await.unwrap();
                if number % 10 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        sending.await.unwrap();
        let all: Vec<u8> = (0..1000_u16).flat_map(u16::to_be_bytes).collect();
        assert!(read == all, "{} bytes", read.len());
    }

    #[tokio::test]
    async fn a_broken_socket_is_told_to_who_writes_next() {
        let fails = true;
        let mut connection = connection(&Writes {
            fails,
            ..Writes::default()
        });
        connection.write_all(b"lost").await.unwrap();
        let told = loop {
            if let Err(error) = connection.flush().await {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(told.kind(), ErrorKind::ConnectionReset);
        let told = connection.write_all(b"x").await.unwrap_err();
        assert_eq!(told.kind(), ErrorKind::ConnectionReset);
        let told = connection.shutdown().await.unwrap_err();
        assert_eq!(told.kind(), ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn who_has_more_than_may_wait_waits_for_the_other_side() {
        let (near, mut far): (DuplexStream, DuplexStream) = duplex(1024);
        let (reader, writer) = tokio::io::split(near);
        let mut connection = Connection::new(reader, writer);
        // One byte more than may be sent and wait.
        let much: Vec<u8> = (0..3 * WAITING_MAX).map(|at| at as u8).collect();
        let whole = {
            let much = much.clone();
            tokio::spawn(async move {
                for piece in much.chunks(16 * 1024) {
                    connection.write_all(piece).await.unwrap();
                }
                connection.shutdown().await.unwrap();
            })
        };
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!whole.is_finished(), "nobody has read anything");
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert!(read == much, "every byte, in its order");
        whole.await.unwrap();
    }
}
