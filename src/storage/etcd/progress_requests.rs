//! Requests for progress to feeds (ST-71): one for each prefix, for the newest revision that any
//! reader waits for.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use actors::engine::{Prefix, Revision};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a request is kept: as long as readers wait (WC-30: three seconds).
const KEPT_FOR: Duration = Duration::from_secs(3);
/// The most prefixes with feeds: one for each cached resource.
const PREFIXES_MAX: usize = 4096;

/// A revision that readers wait for, and until when.
#[derive(Clone, Copy, Debug)]
struct ProgressRequest {
    up_to: Revision,
    until: Instant,
}

impl ProgressRequest {
    fn beyond(&self, delivered: Revision, now: Instant) -> Option<Revision> {
        (self.up_to > delivered && now < self.until).then_some(self.up_to)
    }

    /// Adds a request. Returns whether it is for a newer revision than those before.
    fn raise(&mut self, up_to: Revision, now: Instant) -> bool {
        let old = self.beyond(Revision::ZERO, now);
        let is_newer = old.is_none_or(|old| old < up_to);
        if is_newer {
            self.up_to = up_to;
        }
        self.until = now + KEPT_FOR;
        is_newer
    }
}

/// The progress that readers request of one feed.
#[derive(Debug)]
pub(super) struct RequestedProgress {
    request: Mutex<ProgressRequest>,
    /// Wakes the task that asks etcd.
    wake: Arc<Notify>,
}

impl RequestedProgress {
    /// The revision that readers still wait for, beyond what was delivered.
    pub(super) fn beyond(&self, delivered: Revision, now: Instant) -> Option<Revision> {
        self.request.lock().beyond(delivered, now)
    }
}

/// The requests for progress of all prefixes.
#[derive(Debug, Default)]
pub(super) struct ProgressRequests {
    by_prefix: Mutex<HashMap<Prefix, PrefixRequests>>,
}

#[derive(Debug)]
struct PrefixRequests {
    request: ProgressRequest,
    feeds: Vec<Weak<RequestedProgress>>,
}

impl ProgressRequests {
    /// Adds a request and notifies the feeds of the prefix.
    pub(super) fn request(&self, prefix: &Prefix, up_to: Revision) {
        let mut by_prefix = self.by_prefix.lock();
        // Without a feed nobody could answer it.
        let Some(requests) = by_prefix.get_mut(prefix) else {
            return;
        };
        let now = Instant::now();
        requests.request.raise(up_to, now);
        for feed in requests.feeds.iter().filter_map(Weak::upgrade) {
            if feed.request.lock().raise(up_to, now) {
                feed.wake.notify_one();
            }
        }
    }

    /// The requests for a new feed of a prefix, whose task is woken by `wake`. A feed gets
    /// no requests when too many prefixes have feeds.
    pub(super) fn subscribe(&self, prefix: &Prefix, wake: &Arc<Notify>) -> Arc<RequestedProgress> {
        let none = ProgressRequest {
            up_to: Revision::ZERO,
            until: Instant::now(),
        };
        let feed = |request| {
            Arc::new(RequestedProgress {
                request: Mutex::new(request),
                wake: Arc::clone(wake),
            })
        };
        let mut by_prefix = self.by_prefix.lock();
        if by_prefix.len() >= PREFIXES_MAX && !by_prefix.contains_key(prefix) {
            by_prefix.retain(|_, requests| requests.has_feeds());
            if by_prefix.len() >= PREFIXES_MAX {
                return feed(none);
            }
        }
        let requests = by_prefix.entry(prefix.clone());
        let requests = requests.or_insert_with(|| PrefixRequests {
            request: none,
            feeds: Vec::with_capacity(1),
        });
        let feed = feed(requests.request);
        requests.feeds.retain(|feed| feed.strong_count() > 0);
        requests.feeds.push(Arc::downgrade(&feed));
        feed
    }
}

impl PrefixRequests {
    fn has_feeds(&self) -> bool {
        self.feeds.iter().any(|feed| feed.strong_count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_request_counts_and_ends_by_itself_st_71() {
        let (requests, prefix) = (ProgressRequests::default(), Prefix::new("/r/"));
        let wake = Arc::<Notify>::default();
        requests.request(&prefix, Revision(5));
        let feed = requests.subscribe(&prefix, &wake);
        let beyond = |delivered| feed.beyond(Revision(delivered), Instant::now());
        // There was no feed yet for the first one.
        assert_eq!(beyond(0), None);
        requests.request(&prefix, Revision(9));
        requests.request(&prefix, Revision(7));
        wake.notified().await;
        assert_eq!(beyond(0), Some(Revision(9)));
        assert_eq!(beyond(9), None);
        tokio::time::sleep(KEPT_FOR).await;
        assert_eq!(beyond(0), None);
        requests.request(&prefix, Revision(7));
        wake.notified().await;
        assert_eq!(beyond(0), Some(Revision(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_feed_that_replaces_another_one_goes_on_with_its_request() {
        let (requests, prefix) = (ProgressRequests::default(), Prefix::new("/r/"));
        let wake = Arc::<Notify>::default();
        drop(requests.subscribe(&prefix, &wake));
        requests.request(&prefix, Revision(5));
        let feed = requests.subscribe(&prefix, &wake);
        let wanted = feed.beyond(Revision::ZERO, Instant::now());
        assert_eq!(wanted, Some(Revision(5)));
    }
}
