//! Decides when this daemon compacts the cluster, and up to which revision (OP-10..17). Pure.
//!
//! All daemons of the cluster, including kube-apiservers, agree by one key. Its version counts the
//! compactions. The daemon that raises it compacts to the revision of one interval ago. The others
//! learn that this was done.

use std::time::{Duration, Instant};

use actors::engine::Revision;

/// The key. It is below no prefix (KV-5, PF-24).
pub(super) const COMPACT_REV_KEY: &str = "compact_rev_key";

/// This daemon's knowledge of the key, and when its next round is due.
#[derive(Debug)]
pub(super) struct CompactRounds {
    interval: Duration,
    next: Option<Instant>,
    /// The epoch of the cluster in which this was learnt.
    epoch: u64,
    /// The version that the key is expected to have.
    version: i64,
    /// The revision of one interval ago.
    before: Revision,
}

/// A write of the key, if the key has this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) version: i64,
    pub(super) revision: Revision,
}

impl CompactRounds {
    /// Rounds at this interval. No rounds when it is zero (OP-10).
    pub(super) fn new(interval: Duration, now: Instant) -> CompactRounds {
        CompactRounds {
            interval,
            next: (!interval.is_zero()).then(|| now + interval),
            epoch: 0,
            version: 0,
            before: Revision::ZERO,
        }
    }

    /// The next write, if a round is due.
    pub(super) fn attempt(&mut self, now: Instant, epoch: u64) -> Option<Attempt> {
        self.enter(epoch);
        let due = self.next.filter(|next| *next <= now)?;
        // A daemon that missed several rounds makes up for one.
        self.next = Some((due + self.interval).max(now));
        Some(Attempt {
            version: self.version,
            revision: self.before,
        })
    }

    /// The write succeeded. Returns the revision to compact to, if there is one yet (OP-13, OP-17).
    pub(super) fn won(&mut self, now_at: Revision, epoch: u64) -> Option<Revision> {
        self.enter(epoch);
        self.version += 1;
        let before = std::mem::replace(&mut self.before, now_at);
        (before != Revision::ZERO).then_some(before)
    }

    /// Another daemon was first (OP-13).
    pub(super) fn lost(&mut self, version: i64, now_at: Revision, epoch: u64) {
        self.enter(epoch);
        self.version = version;
        self.before = now_at;
    }

    /// Forgets the key when the cluster is in another epoch.
    fn enter(&mut self, epoch: u64) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.version = 0;
            self.before = Revision::ZERO;
        }
    }
}

/// The compacted revision in the key's value, as read at this revision of the store. `None` for a
/// value that is not a number or was copied from another cluster.
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
        let mut rounds = CompactRounds::new(MINUTE, start);
        assert_eq!(rounds.attempt(start, 0), None, "only after a full interval");
        let attempt = rounds.attempt(start + MINUTE, 0);
        assert_eq!(
            attempt,
            Some(Attempt {
                version: 0,
                revision: Revision::ZERO
            })
        );
        assert_eq!(rounds.won(Revision(100), 0), None);
        assert_eq!(rounds.attempt(start + MINUTE, 0), None);
        let attempt = rounds.attempt(start + 2 * MINUTE, 0).unwrap();
        assert_eq!((attempt.version, attempt.revision), (1, Revision(100)));
        assert_eq!(rounds.won(Revision(200), 0), Some(Revision(100)));
        assert_eq!(rounds.won(Revision(300), 0), Some(Revision(200)));
    }

    #[test]
    fn who_loses_takes_over_within_two_intervals_op_13_op_14() {
        let start = Instant::now();
        let mut rounds = CompactRounds::new(MINUTE, start);
        rounds.attempt(start + MINUTE, 0);
        rounds.lost(7, Revision(100), 0);
        let attempt = rounds.attempt(start + 2 * MINUTE, 0).unwrap();
        assert_eq!((attempt.version, attempt.revision), (7, Revision(100)));
        assert_eq!(rounds.won(Revision(200), 0), Some(Revision(100)));
    }

    #[test]
    fn what_was_known_of_a_cluster_counts_in_its_epoch_only() {
        let start = Instant::now();
        let mut rounds = CompactRounds::new(MINUTE, start);
        rounds.attempt(start + MINUTE, 0);
        assert_eq!(rounds.won(Revision(100), 0), None);
        rounds.attempt(start + 2 * MINUTE, 0);
        assert_eq!(
            rounds.won(Revision(20), 1),
            None,
            "it was restored meanwhile"
        );
        assert_eq!(rounds.won(Revision(30), 1), Some(Revision(20)));
        let attempt = rounds.attempt(start + 3 * MINUTE, 2).unwrap();
        assert_eq!((attempt.version, attempt.revision), (0, Revision::ZERO));
    }

    #[test]
    fn an_interval_of_zero_leaves_it_to_others_op_10() {
        let now = Instant::now();
        let mut rounds = CompactRounds::new(Duration::ZERO, now);
        assert_eq!(rounds.attempt(now + 100 * MINUTE, 0), None);
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
