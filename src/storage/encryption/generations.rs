//! Tracks under which configuration each write was encrypted. A write that an old key has encrypted
//! may reach the store long after the reload.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The current configuration, and earlier ones whose writes have not all ended.
pub(super) struct Generations {
    current: ArcSwap<Generation>,
    older: Mutex<Vec<Weak<Generation>>>,
    ended: Arc<Notify>,
}

/// The time from one reload to the next. Each write holds it until its outcome is known.
pub(super) struct Generation {
    number: u64,
    ended: Arc<Notify>,
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.ended.notify_waiters();
    }
}

impl Default for Generations {
    fn default() -> Generations {
        let ended = Arc::new(Notify::new());
        let first = Generation {
            number: 0,
            ended: ended.clone(),
        };
        Generations {
            current: ArcSwap::from_pointee(first),
            older: Mutex::default(),
            ended,
        }
    }
}

impl Generations {
    /// Returns the current generation. Hold it from before a value is encrypted until the outcome
    /// of the write is known.
    pub(super) fn hold(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Begins a new generation. Its holders encrypt by the current configuration.
    pub(super) fn begin(&self) {
        let mut older = self.older.lock();
        let next = Generation {
            number: self.number() + 1,
            ended: self.ended.clone(),
        };
        let before = self.current.swap(Arc::new(next));
        older.retain(|generation| generation.strong_count() > 0);
        older.push(Arc::downgrade(&before));
    }

    /// The number of the current generation.
    pub(super) fn number(&self) -> u64 {
        self.current.load().number
    }

    /// Waits until all holds of earlier generations are released. Returns the number of the current
    /// one.
    pub(super) async fn settled(&self) -> u64 {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no notification is lost.
            ended.as_mut().enable();
            if let Some(number) = self.number_if_settled() {
                return number;
            }
            ended.await;
        }
    }

    fn number_if_settled(&self) -> Option<u64> {
        let mut older = self.older.lock();
        older.retain(|generation| generation.strong_count() > 0);
        older.is_empty().then(|| self.number())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_is_settled_once_nobody_holds_what_was_before() {
        let generations = Arc::new(Generations::default());
        let (first, second) = (generations.hold(), generations.hold());
        assert_eq!(generations.settled().now_or_never(), Some(0), "the present");
        generations.begin();
        let _present = generations.hold();
        assert_eq!(generations.settled().now_or_never(), None);
        drop(first);
        generations.begin();
        assert_eq!(generations.settled().now_or_never(), None);
        let waiting = tokio::spawn({
            let generations = generations.clone();
            async move { generations.settled().await }
        });
        tokio::task::yield_now().await;
        drop((second, _present));
        assert_eq!(waiting.await.unwrap(), 2);
    }
}
