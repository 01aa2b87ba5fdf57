//! Marks the turns of a watched part.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A watched thread or actor.
pub(super) struct Part {
    pub(super) name: String,
    /// When the turn began, in milliseconds since the first call of [`now`], plus one. 0 between
    /// turns.
    since: AtomicU64,
    /// Wakes the task that answers the watchdog. `None` for a part with turns of its own.
    probe: Option<Notify>,
}

/// The time since the first call.
pub(super) fn now() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

impl Part {
    pub(super) fn new(name: String) -> Part {
        Part {
            name,
            since: AtomicU64::new(0),
            probe: None,
        }
    }

    pub(super) fn probed(name: String) -> Part {
        Part {
            probe: Some(Notify::new()),
            ..Part::new(name)
        }
    }

    fn begin(&self) {
        let milliseconds = u64::try_from(now().as_millis()).unwrap_or(u64::MAX - 1);
        self.since.store(milliseconds + 1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// When the turn began. `None` between turns.
    pub(super) fn turning_since(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(since))
    }

    /// Asks the thread to run its task, unless it has been asked already.
    pub(super) fn ask(&self) {
        if let (Some(probe), None) = (&self.probe, self.turning_since()) {
            self.begin();
            probe.notify_one();
        }
    }
}

/// Marks the turns of one part. One turn at a time.
#[derive(Clone)]
pub struct Pulse {
    part: Arc<Part>,
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pulse({})", self.part.name)
    }
}

impl Pulse {
    pub(super) fn new(part: Part) -> Pulse {
        Pulse {
            part: Arc::new(part),
        }
    }

    pub(super) fn downgrade(&self) -> Weak<Part> {
        Arc::downgrade(&self.part)
    }

    /// Begins a turn. It ends when the result is dropped.
    pub fn turn(&self) -> Turn<'_> {
        self.part.begin();
        let turn = Turn { part: &self.part };
        #[cfg(any(test, feature = "testing"))]
        crate::testing::failpoints::hit(&self.part.name);
        turn
    }

    /// The same future, each poll of which is a turn.
    pub fn turning<F: Future>(self, future: F) -> Turning<F> {
        Turning {
            pulse: self,
            future: Box::pin(future),
        }
    }

    /// Waits until the watchdog asks, and answers.
    pub(super) async fn asked(&self) {
        if let Some(probe) = &self.part.probe {
            probe.notified().await;
        }
        self.part.end();
    }
}

/// A turn of a part, until it is dropped.
#[must_use]
pub struct Turn<'p> {
    part: &'p Part,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.part.end();
    }
}

/// A future, each poll of which is a turn.
pub struct Turning<F> {
    pulse: Pulse,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Turning<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let turning = &mut *self;
        let _turn = turning.pulse.turn();
        turning.future.as_mut().poll(context)
    }
}
