//! Requests for progress to feeds (ST-71): one for each prefix, for the newest revision that any
//! reader waits for.

use std::collections::HashMap;
use std::time::Duration;

use actors::engine::{Prefix, Revision};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a request is kept: as long as readers wait (WC-30: three seconds).
const KEPT_FOR: Duration = Duration::from_secs(3);
/// The most prefixes with feeds: one for each cached resource.
const PREFIXES_MAX: usize = 4096;

/// A revision that readers wait for, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressRequest {
    up_to: Revision,
    until: Instant,
}

impl ProgressRequest {
    /// The revision that readers still wait for, beyond what was delivered.
    pub(super) fn beyond(&self, delivered: Revision, now: Instant) -> Option<Revision> {
        (self.up_to > delivered && now < self.until).then_some(self.up_to)
    }
}

/// The requests for progress of all prefixes.
#[derive(Debug, Default)]
pub(super) struct ProgressRequests {
    by_prefix: Mutex<HashMap<Prefix, watch::Sender<ProgressRequest>>>,
}

impl ProgressRequests {
    /// Adds a request and notifies the feeds of the prefix.
    pub(super) fn request(&self, prefix: &Prefix, up_to: Revision) {
        let by_prefix = self.by_prefix.lock();
        // Without a feed nobody could answer it.
        if let Some(request) = by_prefix.get(prefix) {
            let now = Instant::now();
            request.send_if_modified(|request| {
                let is_newer = request
                    .beyond(Revision::ZERO, now)
                    .is_none_or(|old| old < up_to);
                if is_newer {
                    request.up_to = up_to;
                }
                request.until = now + KEPT_FOR;
                is_newer
            });
        }
    }

    /// The requests for the feeds of a prefix. `None` when too many prefixes have feeds.
    pub(super) fn subscribe(&self, prefix: &Prefix) -> Option<watch::Receiver<ProgressRequest>> {
        let mut by_prefix = self.by_prefix.lock();
        if by_prefix.len() >= PREFIXES_MAX && !by_prefix.contains_key(prefix) {
            by_prefix.retain(|_, request| request.receiver_count() > 0);
            if by_prefix.len() >= PREFIXES_MAX {
                return None;
            }
        }
        let none = || ProgressRequest {
            up_to: Revision::ZERO,
            until: Instant::now(),
        };
        let request = by_prefix
            .entry(prefix.clone())
            .or_insert_with(|| watch::Sender::new(none()));
        Some(request.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_request_counts_and_ends_by_itself_st_71() {
        let (requests, prefix) = (ProgressRequests::default(), Prefix::new("/r/"));
        requests.request(&prefix, Revision(5));
        let mut heard = requests.subscribe(&prefix).unwrap();
        let beyond = |heard: &mut watch::Receiver<ProgressRequest>, delivered| {
            let request = *heard.borrow_and_update();
            request.beyond(Revision(delivered), Instant::now())
        };
        // There was no feed yet for the first one.
        assert_eq!(beyond(&mut heard, 0), None);
        requests.request(&prefix, Revision(9));
        requests.request(&prefix, Revision(7));
        assert!(heard.has_changed().unwrap());
        assert_eq!(beyond(&mut heard, 0), Some(Revision(9)));
        assert_eq!(beyond(&mut heard, 9), None);
        tokio::time::sleep(KEPT_FOR).await;
        assert_eq!(beyond(&mut heard, 0), None);
        requests.request(&prefix, Revision(7));
        assert!(heard.has_changed().unwrap());
        assert_eq!(beyond(&mut heard, 0), Some(Revision(7)));
    }
}
