//! Watches on one thread, over a ring that changes only when the test says so.

mod bookmarks;
mod lagging;
mod schedules;
mod streams;
mod unreadable;

use std::sync::Arc;

use super::*;
use crate::engine::Revision;
use crate::testing::{FakeCacher, interest};
use crate::watch::{Scope, WatchInterest};

const RING_BYTES: usize = 1 << 20;

fn run<F: Future>(test: F) -> F::Output {
    actix_rt::System::new().block_on(test)
}

fn dispatcher() -> LocalDispatcher {
    LocalDispatcher::start(DispatcherConfig::default(), 0)
}

impl LocalDispatcher {
    /// Does what the handler of a hint does.
    fn take_hints(&self) {
        self.thread_dispatcher.read_due_rings();
    }

    fn watch_all(&self, fake: &FakeCacher, after: u64) -> Watcher {
        let from = StartPoint::After(Revision(after));
        self.watch(fake.start(from, interest(Scope::All)))
    }

    fn watch_where(&self, fake: &FakeCacher, after: u64, interest: WatchInterest) -> Watcher {
        self.watch(fake.start(StartPoint::After(Revision(after)), interest))
    }
}

fn selecting(scope: Scope, color: &'static str) -> WatchInterest {
    WatchInterest {
        predicate: Arc::new(crate::testing::ColorIs(color)),
        ..interest(scope)
    }
}
