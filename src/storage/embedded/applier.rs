//! The thread that applies the changes of the journal to the database.
//!
//! Owns the order in which durable changes reach redb. It takes groups of the journal from the
//! [`ApplyQueue`] of a store, and gives redb many of them in one transaction, without a sync, or
//! with one if a checkpoint was requested. So neither delays writers. Readers wait until redb has
//! everything that was durable when they came ([`Store::read`]). The applier must not decide
//! anything: it applies every group.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use actors::threads;
use actors::watchdog::{Pulse, Watchdog};

use super::apply_queue::ApplyQueue;
use super::error::Failure;
use super::metrics;
use super::store::Store;

/// The name of the thread.
const NAME: &str = "storage-apply";

/// The thread of one opening of the database. Dropping it ends the thread.
#[derive(Debug)]
pub struct Applier {
    queue: Arc<ApplyQueue>,
    thread: Option<JoinHandle<()>>,
}

impl Applier {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(store: Arc<Store>, watchdog: &Watchdog) -> io::Result<Applier> {
        let queue = Arc::clone(store.unapplied());
        let pulse = watchdog.pulse(NAME);
        let thread = threads::spawn(NAME, move || run(&store, &pulse))?;
        Ok(Applier {
            queue,
            thread: Some(thread),
        })
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // Panics of the database are caught. If one was not, nothing can be done here.
            let _ = thread.join();
        }
    }
}

fn run(store: &Store, pulse: &Pulse) {
    let queue = store.unapplied();
    while let Some(work) = queue.next() {
        let started = Instant::now();
        // redb can panic on damaged pages.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _turn = pulse.turn();
            store.apply(&work)
        }));
        let result = result.unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
        match result {
            Ok(()) => {
                if work.checkpoint.is_some() {
                    metrics::checkpointed(started.elapsed());
                }
                queue.applied_up_to(work.up_to, work.checkpoint.is_some());
            }
            // The writer opens the database again, and replays the journal.
            Err(failure) => return queue.fail(failure),
        }
    }
}
