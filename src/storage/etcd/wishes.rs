//! Who waits for feeds to tell how far they are (ST-71): one wish per prefix, the newest revision
//! anybody wants.

use std::collections::HashMap;
use std::time::Duration;

use actors::engine::{Prefix, Revision};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// A wish is kept for as long as readers wait for it (WC-30: three seconds).
const KEPT_FOR: Duration = Duration::from_secs(3);
/// Prefixes remembered: one per resource that is cached.
const PREFIXES_MAX: usize = 4096;

/// A revision that somebody wants to hear of, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    up_to: Revision,
    until: Instant,
}

impl Wish {
    /// The revision that is still waited for beyond what was delivered.
    pub(super) fn beyond(&self, delivered: Revision, now: Instant) -> Option<Revision> {
        (self.up_to > delivered && now < self.until).then_some(self.up_to)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    by_prefix: Mutex<HashMap<Prefix, watch::Sender<Wish>>>,
}

impl Wishes {
    /// Notes a wish; feeds of the prefix hear of it.
    pub(super) fn want(&self, prefix: &Prefix, up_to: Revision) {
        let by_prefix = self.by_prefix.lock();
        // Without a feed there is nobody to fulfil it.
        if let Some(wish) = by_prefix.get(prefix) {
            let now = Instant::now();
            wish.send_if_modified(|wish| {
                let is_newer = wish
                    .beyond(Revision::ZERO, now)
                    .is_none_or(|old| old < up_to);
                if is_newer {
                    wish.up_to = up_to;
                }
                wish.until = now + KEPT_FOR;
                is_newer
            });
        }
    }

    /// Where a feed of the prefix hears of wishes; `None` when too many prefixes have feeds.
    pub(super) fn listen(&self, prefix: &Prefix) -> Option<watch::Receiver<Wish>> {
        let mut by_prefix = self.by_prefix.lock();
        if by_prefix.len() >= PREFIXES_MAX && !by_prefix.contains_key(prefix) {
            by_prefix.retain(|_, wish| wish.receiver_count() > 0);
            if by_prefix.len() >= PREFIXES_MAX {
                return None;
            }
        }
        let none = || Wish {
            up_to: Revision::ZERO,
            until: Instant::now(),
        };
        let wish = by_prefix
            .entry(prefix.clone())
            .or_insert_with(|| watch::Sender::new(none()));
        Some(wish.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_wish_counts_and_ends_by_itself_st_71() {
        let (wishes, prefix) = (Wishes::default(), Prefix::new("/r/"));
        wishes.want(&prefix, Revision(5));
        let mut heard = wishes.listen(&prefix).unwrap();
        let beyond = |heard: &mut watch::Receiver<Wish>, delivered| {
            let wish = *heard.borrow_and_update();
            wish.beyond(Revision(delivered), Instant::now())
        };
        // Nobody was there to hear the first one.
        assert_eq!(beyond(&mut heard, 0), None);
        wishes.want(&prefix, Revision(9));
        wishes.want(&prefix, Revision(7));
        assert!(heard.has_changed().unwrap());
        assert_eq!(beyond(&mut heard, 0), Some(Revision(9)));
        assert_eq!(beyond(&mut heard, 9), None);
        tokio::time::sleep(KEPT_FOR).await;
        assert_eq!(beyond(&mut heard, 0), None);
        wishes.want(&prefix, Revision(7));
        assert!(heard.has_changed().unwrap());
        assert_eq!(beyond(&mut heard, 0), Some(Revision(7)));
    }
}
