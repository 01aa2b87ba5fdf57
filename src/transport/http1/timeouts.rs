//! The timeouts of a connection: for headers, for idling, and for a client that takes no data.
//! Computing a response has no timeout here.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::lines::Lines;
use crate::transport::connection_state::Held;
use crate::transport::thread::HttpThread;

/// The current activity of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Reading the headers of a request. The time is when the first byte arrived.
    Header(Instant),
    /// Answering a request.
    Busy,
    /// Sending a watch, whose client may stall for longer.
    Watched,
    /// Waiting for the next request since this time.
    Idle(Instant),
    /// In a session, whose client may pause for as long as kubelets permit.
    Session,
}

/// How long the client of a session may take nothing: as long as a kubelet keeps an idle session.
const SESSION_STALLED: Duration = Duration::from_secs(4 * 60 * 60);

/// The timers of a connection: a deadline for headers, one for idling, and in every phase one for a
/// client that does not read what it is sent.
#[derive(Clone)]
pub(super) struct ConnectionTimeouts {
    phase: Rc<Cell<Phase>>,
    /// The time since which a write has been waiting for the client.
    stuck: Rc<Cell<Option<Instant>>>,
    /// The response being sent, until all of it is written.
    unsent: Rc<Cell<Option<Held>>>,
    header_timeout: Duration,
    idle_timeout: Duration,
    stalled_after: Duration,
    dead_after: Duration,
}

impl ConnectionTimeouts {
    /// Starts the timers of a new connection, which has to send its first headers.
    pub(super) fn new(thread: &HttpThread) -> ConnectionTimeouts {
        let limits = thread.limits();
        ConnectionTimeouts {
            phase: Rc::new(Cell::new(Phase::Header(Instant::now()))),
            stuck: Rc::default(),
            unsent: Rc::default(),
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
            stalled_after: limits.stalled_after,
            dead_after: limits.dead_after,
        }
    }

    /// Changes the phase of the connection.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// Whether a watch is being sent.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.phase.get(), Phase::Watched)
    }

    /// Begins to send a response.
    pub(super) fn send(&self, answer: Held) {
        self.unsent.set(Some(answer));
    }

    /// Records that a byte arrived.
    fn hear(&self) {
        if matches!(self.phase.get(), Phase::Idle(_)) {
            self.enter(Phase::Header(Instant::now()));
        }
    }

    /// Records that the client reads nothing. hyper then polls the body for no more data, so
    /// nothing else notices.
    fn stand_still(&self) {
        if self.stuck.get().is_none() {
            self.stuck.set(Some(Instant::now()));
        }
    }

    fn is_stuck(&self) -> bool {
        self.stuck.get().is_some()
    }

    /// Records that the client took data.
    fn go_on(&self) {
        self.stuck.set(None);
        // The end of a body may still be on its way.
        if matches!(self.phase.get(), Phase::Idle(_)) {
            self.enter(Phase::Idle(Instant::now()));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let (of_phase, patience) = match self.phase.get() {
            Phase::Header(since) => (Some(since + self.header_timeout), self.stalled_after),
            Phase::Idle(since) => (Some(since + self.idle_timeout), self.stalled_after),
            Phase::Busy => (None, self.stalled_after),
            Phase::Watched => (None, self.dead_after),
            Phase::Session => (None, SESSION_STALLED),
        };
        let of_stuck = self.stuck.get().map(|since| since + patience);
        of_phase.into_iter().chain(of_stuck).min()
    }

    /// When to check the time again. A busy connection checks rarely, which saves setting and
    /// clearing a timer for each request.
    pub(super) fn next_look(&self) -> Instant {
        self.deadline()
            .unwrap_or_else(|| Instant::now() + self.idle_timeout)
    }

    /// Whether the time for the current phase is over.
    pub(super) fn is_over(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// The socket of the connection. It reports arriving bytes and requires lines to end with CRLF.
/// Clones share it.
pub(super) struct TimedIo<T> {
    io: Rc<RefCell<T>>,
    lines: Rc<RefCell<Lines>>,
    timeouts: ConnectionTimeouts,
}

impl<T> TimedIo<T> {
    /// Wraps a socket whose bytes are reported to `timeouts`.
    pub(super) fn new(io: T, timeouts: ConnectionTimeouts) -> TimedIo<T> {
        TimedIo {
            io: Rc::new(RefCell::new(io)),
            lines: Rc::default(),
            timeouts,
        }
    }
}

impl<T> TimedIo<T> {
    /// Lets all further bytes pass as they are, because they are not HTTP.
    pub(super) fn leave_http(&self) {
        self.lines.borrow_mut().leave_http();
    }
}

impl<T> Clone for TimedIo<T> {
    fn clone(&self) -> TimedIo<T> {
        TimedIo {
            io: Rc::clone(&self.io),
            lines: Rc::clone(&self.lines),
            timeouts: self.timeouts.clone(),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_read(context, buffer);
        if let Some(read) = buffer.filled_mut().get_mut(before..)
            && !read.is_empty()
        {
            self.lines.borrow_mut().read(read)?;
            self.timeouts.hear();
        }
        polled
    }
}

impl<T> TimedIo<T> {
    /// Records the outcome of a write. The TLS layer below accepts slightly more bytes than the
    /// client does, and none once it is full.
    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        match polled {
            Poll::Pending => self.timeouts.stand_still(),
            Poll::Ready(_) => self.timeouts.go_on(),
        }
    }

    /// Records the outcome of a flush. A flush with nothing to write does not count as progress.
    fn flushed(&self, polled: &Poll<io::Result<()>>) {
        match polled {
            Poll::Pending => return self.timeouts.stand_still(),
            Poll::Ready(_) if self.timeouts.is_stuck() => self.timeouts.go_on(),
            Poll::Ready(_) => {}
        }
        self.timeouts.unsent.take();
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_write(context, bytes);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_write_vectored(context, slices);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_flush(context);
        self.flushed(&polled);
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_shutdown(context);
        self.flushed(&polled);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::transport::limits::Limits;
    use crate::transport::thread::Load;

    const STALLED: Duration = Duration::from_secs(60);
    const DEAD: Duration = Duration::from_secs(600);

    fn timeouts() -> ConnectionTimeouts {
        let limits = Limits {
            stalled_after: STALLED,
            dead_after: DEAD,
            ..Limits::default()
        };
        let thread = HttpThread::new(Arc::new(limits), Arc::new(Load::default()), Arc::default());
        ConnectionTimeouts::new(&thread)
    }

    #[tokio::test]
    async fn a_client_has_its_time_from_the_last_byte_it_took() {
        tokio::time::pause();
        let timeouts = timeouts();
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut io = TimedIo::new(ours, timeouts.clone());
        timeouts.enter(Phase::Busy);
        tokio::time::advance(DEAD).await;
        assert!(!timeouts.is_over(), "computing a response has no timeout");
        io.write_all(&[0; 16]).await.unwrap();
        for _ in 0..5 {
            let more = tokio::time::timeout(Duration::ZERO, io.write_all(&[0; 16])).await;
            assert!(more.is_err(), "there is no room");
            tokio::time::advance(STALLED / 2).await;
            assert!(!timeouts.is_over());
            theirs.read_exact(&mut [0; 16]).await.unwrap();
            io.write_all(&[0; 16]).await.unwrap();
            tokio::time::advance(STALLED / 2).await;
        }
        let more = tokio::time::timeout(Duration::ZERO, io.write_all(&[0; 16])).await;
        assert!(more.is_err(), "there is no room");
        tokio::time::advance(STALLED).await;
        assert!(timeouts.is_over());
        timeouts.enter(Phase::Watched);
        assert!(!timeouts.is_over(), "a watch has longer");
        tokio::time::advance(DEAD).await;
        assert!(timeouts.is_over());
    }

    #[tokio::test]
    async fn what_is_left_of_a_body_is_no_idling_and_an_idle_connection_ends() {
        tokio::time::pause();
        let timeouts = timeouts();
        let (ours, _theirs) = tokio::io::duplex(1024);
        let mut io = TimedIo::new(ours, timeouts.clone());
        timeouts.enter(Phase::Idle(Instant::now()));
        let idle = Limits::default().idle_timeout;
        tokio::time::advance(idle / 2).await;
        io.write_all(&[0; 16]).await.unwrap();
        tokio::time::advance(idle / 2).await;
        io.flush().await.unwrap();
        assert!(!timeouts.is_over());
        tokio::time::advance(idle / 2).await;
        io.flush().await.unwrap();
        assert!(timeouts.is_over());
    }
}
