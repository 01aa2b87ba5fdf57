//! The first use of a cache that is filled only then.

use std::sync::atomic::{AtomicBool, Ordering};

/// Starts the actors of a cache when somebody uses it for the first time.
pub(crate) struct FirstUse {
    has_begun: AtomicBool,
    /// Whether the first fill has ended, or took too long.
    is_over: AtomicBool,
    /// Requests the start. It must not wait.
    start: Box<dyn Fn() + Send + Sync>,
}

impl FirstUse {
    /// The first use of a cache whose actors this function starts.
    pub(crate) fn new(start: impl Fn() + Send + Sync + 'static) -> FirstUse {
        FirstUse {
            has_begun: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            start: Box::new(start),
        }
    }

    /// Whether somebody has used the cache.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Starts the actors, if this is the first use.
    pub(super) fn begin(&self) {
        if !self.has_begun() && !self.has_begun.swap(true, Ordering::AcqRel) {
            (self.start)();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
