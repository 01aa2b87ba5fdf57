//! Creates that have begun and not ended. The deletion of a namespace's content waits for creates
//! that were admitted before the namespace was marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};

/// Counts creates in two epochs. To wait for all earlier creates, a caller starts a new epoch and
/// waits until the old one is empty. Creates that begin later are in the new epoch and delay
/// nobody.
#[derive(Clone, Default)]
pub struct PendingCreates {
    epochs: Arc<Epochs>,
}

#[derive(Default)]
struct Epochs {
    current: AtomicUsize,
    counts: [AtomicUsize; 2],
    drained: Notify,
    settling: Mutex<()>,
}

impl Epochs {
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

/// A create that has begun. It ends when this is dropped.
pub struct PendingCreate {
    epochs: Arc<Epochs>,
    epoch: usize,
}

impl PendingCreates {
    /// Begins a create. Call this before reading the state of the namespace.
    pub fn begin(&self) -> PendingCreate {
        loop {
            let epoch = self.epochs.current.load(Ordering::SeqCst);
            let creation = PendingCreate {
                epochs: self.epochs.clone(),
                epoch,
            };
            self.epochs.count(epoch).fetch_add(1, Ordering::SeqCst);
            // If the epoch ended in between, a waiter may already have seen it empty, so count
            // again.
            if self.epochs.current.load(Ordering::SeqCst) == epoch {
                return creation;
            }
        }
    }

    /// Waits until every create that began before this call has ended.
    pub async fn settle(&self) {
        let _alone = self.epochs.settling.lock().await;
        // A cancelled call may have left creates in the next epoch.
        let next = self.epochs.current.load(Ordering::SeqCst) + 1;
        self.epochs.drain(next).await;
        self.epochs.current.store(next, Ordering::SeqCst);
        self.epochs.drain(next - 1).await;
    }
}

impl Drop for PendingCreate {
    fn drop(&mut self) {
        if self.epochs.count(self.epoch).fetch_sub(1, Ordering::SeqCst) == 1 {
            self.epochs.drained.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn settling_waits_for_what_began_before_and_not_for_what_begins_after() {
        let creations = PendingCreates::default();
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
        let creations = PendingCreates::default();
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
