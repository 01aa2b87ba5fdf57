//! Creations under way, so that emptying a namespace can wait for those that were admitted while
//! it still lived.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};

/// Counts creations in two epochs. Starting a new epoch and waiting for the old one to drain
/// waits for everything that began before, and for nothing that begins after.
#[derive(Clone, Default)]
pub struct Creations {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    epoch: AtomicUsize,
    counts: [AtomicUsize; 2],
    drained: Notify,
    settling: Mutex<()>,
}

impl Shared {
    fn count(&self, epoch: usize) -> &AtomicUsize {
        let [even, odd] = &self.counts;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    async fn drain(&self, epoch: usize) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.count(epoch).load(Ordering::SeqCst) == 0 {
                return;
            }
            drained.await;
        }
    }
}

/// A creation under way; it ends when this is dropped.
pub struct Creation {
    shared: Arc<Shared>,
    epoch: usize,
}

impl Creations {
    /// Begins a creation. Whatever it asks of the namespace's state must be asked after this.
    pub fn begin(&self) -> Creation {
        loop {
            let epoch = self.shared.epoch.load(Ordering::SeqCst);
            let creation = Creation {
                shared: self.shared.clone(),
                epoch,
            };
            self.shared.count(epoch).fetch_add(1, Ordering::SeqCst);
            // Counted in an epoch that ended in between, it might not be waited for.
            if self.shared.epoch.load(Ordering::SeqCst) == epoch {
                return creation;
            }
        }
    }

    /// Waits until every creation that has begun before is over.
    pub async fn settle(&self) {
        let _alone = self.shared.settling.lock().await;
        // What an abandoned call left behind is in the epoch that the next one takes.
        let next = self.shared.epoch.load(Ordering::SeqCst) + 1;
        self.shared.drain(next).await;
        self.shared.epoch.store(next, Ordering::SeqCst);
        self.shared.drain(next - 1).await;
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        if self.shared.count(self.epoch).fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.drained.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn settling_waits_for_what_began_before_and_not_for_what_begins_after() {
        let creations = Creations::default();
        assert_eq!(creations.settle().now_or_never(), Some(()));
        let before = creations.begin();
        let mut settling = Box::pin(creations.settle());
        assert_eq!(settling.as_mut().now_or_never(), None);
        let after = creations.begin();
        assert_eq!(settling.as_mut().now_or_never(), None);
        drop(before);
        assert_eq!(settling.now_or_never(), Some(()));
        drop(after);
        assert_eq!(creations.settle().now_or_never(), Some(()));
    }

    #[test]
    fn an_abandoned_settling_leaves_the_next_one_working() {
        let creations = Creations::default();
        let first = creations.begin();
        assert_eq!(creations.settle().now_or_never(), None);
        let second = creations.begin();
        let mut settling = Box::pin(creations.settle());
        assert_eq!(settling.as_mut().now_or_never(), None);
        drop(second);
        assert_eq!(settling.as_mut().now_or_never(), None);
        drop(first);
        assert_eq!(settling.now_or_never(), Some(()));
    }
}
