//! The time that a connection takes: for headers, for idling; none for answers.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::server::listener::thread::HttpThread;

/// What a connection is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Reading the header of a request, its first byte having come at the time given.
    Header(Instant),
    /// Answering.
    Busy,
    /// Waiting for the next request since then.
    Idle(Instant),
}

/// Keeps the time of a connection: a deadline for headers, another for idling, none for answers.
#[derive(Clone)]
pub(super) struct Pace {
    phase: Rc<Cell<Phase>>,
    header_timeout: Duration,
    idle_timeout: Duration,
}

impl Pace {
    /// A new connection owes its first header.
    pub(super) fn new(thread: &HttpThread) -> Pace {
        Pace {
            phase: Rc::new(Cell::new(Phase::Header(Instant::now()))),
            header_timeout: thread.limits().header_timeout,
            idle_timeout: thread.limits().idle_timeout,
        }
    }

    /// The connection does something else now.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// A byte came in.
    fn hear(&self) {
        if matches!(self.phase.get(), Phase::Idle(_)) {
            self.enter(Phase::Header(Instant::now()));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase.get() {
            Phase::Header(since) => Some(since + self.header_timeout),
            Phase::Idle(since) => Some(since + self.idle_timeout),
            Phase::Busy => None,
        }
    }

    /// When to look at the time again; while busy only now and then, so that a request does not
    /// set and clear a timer.
    pub(super) fn next_look(&self) -> Instant {
        self.deadline()
            .unwrap_or_else(|| Instant::now() + self.idle_timeout)
    }

    /// Whether the time for what it does is over.
    pub(super) fn is_over(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// The connection's socket, telling when bytes come. Clones share it.
pub(super) struct PacedIo<T> {
    io: Rc<RefCell<T>>,
    pace: Pace,
}

impl<T> PacedIo<T> {
    /// A socket whose bytes are heard by a pace.
    pub(super) fn new(io: T, pace: Pace) -> PacedIo<T> {
        PacedIo {
            io: Rc::new(RefCell::new(io)),
            pace,
        }
    }
}

impl<T> Clone for PacedIo<T> {
    fn clone(&self) -> PacedIo<T> {
        PacedIo {
            io: Rc::clone(&self.io),
            pace: self.pace.clone(),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PacedIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.pace.hear();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PacedIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_shutdown(context)
    }
}
