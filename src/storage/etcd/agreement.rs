//! The agreement on compaction with all who share the cluster, kube-apiservers included
//! (OP-10..17). Pure.
//!
//! A key outside of every prefix counts the compactions: who manages to raise it compacts to the
//! revision of one interval before, everybody else learns that it was done.

use std::time::{Duration, Instant};

use actors::engine::Revision;

/// The key; it has no prefix (KV-5, PF-24).
pub(super) const KEY: &str = "compact_rev_key";

/// What this daemon knows of the agreement.
#[derive(Debug)]
pub(super) struct Agreement {
    interval: Duration,
    next: Option<Instant>,
    /// The version that the key is expected to have.
    version: i64,
    /// The revision of one interval ago.
    before: Revision,
}

/// What a round is to write if the key has this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bid {
    pub(super) version: i64,
    pub(super) revision: Revision,
}

impl Agreement {
    /// One that compacts at this interval; never, when it is zero (OP-10).
    pub(super) fn new(interval: Duration, now: Instant) -> Agreement {
        Agreement {
            interval,
            next: (!interval.is_zero()).then(|| now + interval),
            version: 0,
            before: Revision::ZERO,
        }
    }

    /// What to bid now, if a round is due.
    pub(super) fn bid(&mut self, now: Instant) -> Option<Bid> {
        let due = self.next.filter(|next| *next <= now)?;
        // A daemon that slept over some rounds makes one of them.
        self.next = Some((due + self.interval).max(now));
        Some(Bid {
            version: self.version,
            revision: self.before,
        })
    }

    /// The bid was the highest: what to compact to, if there is anything yet (OP-13, OP-17).
    pub(super) fn won(&mut self, now_at: Revision) -> Option<Revision> {
        self.version += 1;
        let before = std::mem::replace(&mut self.before, now_at);
        (before != Revision::ZERO).then_some(before)
    }

    /// Somebody else was first (OP-13).
    pub(super) fn lost(&mut self, version: i64, now_at: Revision) {
        self.version = version;
        self.before = now_at;
    }

    /// The cluster is another one: nothing is known of it.
    pub(super) fn forget(&mut self) {
        self.version = 0;
        self.before = Revision::ZERO;
    }
}

/// What the key says was compacted, as read from a store that was at this revision. What is no
/// number says nothing, and a key that was copied from another cluster speaks of that one.
pub(super) fn compacted(value: &[u8], at: Revision) -> Option<Revision> {
    let text = std::str::from_utf8(value).ok()?;
    let up_to = text.parse().ok().map(Revision);
    up_to.filter(|up_to| *up_to <= at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_first_round_compacts_nothing_and_each_later_one_what_the_one_before_saw_op_12_op_17() {
        let start = Instant::now();
        let mut agreement = Agreement::new(MINUTE, start);
        assert_eq!(agreement.bid(start), None, "only after a full interval");
        let bid = agreement.bid(start + MINUTE);
        assert_eq!(
            bid,
            Some(Bid {
                version: 0,
                revision: Revision::ZERO
            })
        );
        assert_eq!(agreement.won(Revision(100)), None);
        assert_eq!(agreement.bid(start + MINUTE), None);
        let bid = agreement.bid(start + 2 * MINUTE).unwrap();
        assert_eq!((bid.version, bid.revision), (1, Revision(100)));
        assert_eq!(agreement.won(Revision(200)), Some(Revision(100)));
        assert_eq!(agreement.won(Revision(300)), Some(Revision(200)));
    }

    #[test]
    fn who_loses_takes_over_within_two_intervals_op_13_op_14() {
        let start = Instant::now();
        let mut agreement = Agreement::new(MINUTE, start);
        agreement.bid(start + MINUTE);
        agreement.lost(7, Revision(100));
        let bid = agreement.bid(start + 2 * MINUTE).unwrap();
        assert_eq!((bid.version, bid.revision), (7, Revision(100)));
        assert_eq!(agreement.won(Revision(200)), Some(Revision(100)));
    }

    #[test]
    fn an_interval_of_zero_leaves_it_to_others_op_10() {
        let now = Instant::now();
        let mut agreement = Agreement::new(Duration::ZERO, now);
        assert_eq!(agreement.bid(now + 100 * MINUTE), None);
    }

    #[test]
    fn what_is_no_number_says_nothing_op_13() {
        let compacted = |value| compacted(value, Revision(42));
        assert_eq!(compacted(b"42"), Some(Revision(42)));
        assert_eq!(compacted(b"43"), None);
        assert_eq!(compacted(b"-1"), None);
        assert_eq!(compacted(b"x"), None);
    }
}
