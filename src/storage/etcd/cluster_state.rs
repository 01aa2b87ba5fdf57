//! The state of the cluster that etcd's answers have shown: its ID, its revision and raft term, and
//! how far it is compacted.
//!
//! A cluster at an earlier revision or term than it has shown before has lost data: it was restored
//! from a backup, or another cluster answers at the same address. Then a new epoch begins, and
//! everything remembered of the old one is void. A restored cluster may have grown past that point
//! again. Then the newest event seen shows it, because another event has its revision.

use std::time::{Duration, Instant};

use actors::engine::{Event, EventKind, Key, KeyValue, Revision};
use parking_lot::Mutex;
use tokio::sync::watch;

/// How long a member may report the previous raft term, as one does for a moment after it caught up
/// by a snapshot. A member that continues to do so belongs to a restored cluster.
const OLD_TERM_FOR: Duration = Duration::from_millis(500);

/// The header of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) cluster_id: u64,
    pub(super) revision: Revision,
    pub(super) raft_term: u64,
}

impl From<Option<&etcd_client::ResponseHeader>> for Header {
    fn from(header: Option<&etcd_client::ResponseHeader>) -> Header {
        header.map_or(Header::default(), |header| Header {
            cluster_id: header.cluster_id(),
            revision: revision(header.revision()),
            raft_term: header.raft_term(),
        })
    }
}

/// Converts a revision of etcd.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// Converts a revision for etcd. A larger one than etcd can have becomes its largest.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The state that was known when a request was sent. Its answer cannot be older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownBefore {
    epoch: u64,
    revision: Revision,
    raft_term: u64,
}

impl KnownBefore {
    /// The epoch that was current.
    pub(super) fn epoch(self) -> u64 {
        self.epoch
    }

    /// The newest revision seen.
    pub(super) fn revision(self) -> Revision {
        self.revision
    }
}

/// Why an epoch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EpochEnd {
    /// Another cluster answers.
    OtherCluster { before: u64, now: u64 },
    /// The same cluster answers at an earlier revision.
    RolledBack { before: Revision, now: Revision },
    /// Another event has the revision of the last one seen.
    Rewritten { at: Revision },
}

impl std::fmt::Display for EpochEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EpochEnd::OtherCluster { before, now } => {
                write!(f, "another cluster answers: {now:x} instead of {before:x}")
            }
            EpochEnd::RolledBack { before, now } => write!(
                f,
                "it is at revision {now} and was at {before}: it was restored from a backup"
            ),
            EpochEnd::Rewritten { at } => write!(
                f,
                "revision {at} is another one than was seen: it was restored from a backup"
            ),
        }
    }
}

/// The state of the cluster, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    inner: Mutex<ObservedState>,
    /// The current epoch, for open feeds.
    epochs: watch::Sender<u64>,
}

#[derive(Clone, Debug, Default)]
struct ObservedState {
    epoch: u64,
    cluster_id: u64,
    revision: Revision,
    raft_term: u64,
    /// The time since which every answer had an older term.
    old_term_since: Option<Instant>,
    compacted: Revision,
    last_event: Option<LastEvent>,
}

/// The newest event seen. A restored cluster that has reached its revision has another event there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastEvent {
    pub(super) key: Key,
    pub(super) revision: Revision,
    change: LastChange,
}

/// The event's effect on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastChange {
    /// It put the value of this version. The key was created at that revision.
    Put {
        create_revision: Revision,
        version: u64,
    },
    /// It deleted the value of the put at this revision.
    Delete { put_at: Revision },
}

impl LastEvent {
    /// The event, if it is specific enough to distinguish it from others.
    fn of(event: &Event) -> Option<LastEvent> {
        let change = match event.kind {
            EventKind::Put => LastChange::Put {
                create_revision: event.create_revision,
                version: event.version,
            },
            EventKind::Delete => {
                event.previous.as_ref()?;
                LastChange::Delete {
                    put_at: event.prev_revision,
                }
            }
        };
        Some(LastEvent {
            key: event.key.clone(),
            revision: event.revision,
            change,
        })
    }

    /// The revisions at which to read its key. Right before a deletion the deleted value must
    /// exist.
    pub(super) fn read_at(&self) -> impl Iterator<Item = Revision> {
        let before = match self.change {
            LastChange::Put { .. } => None,
            LastChange::Delete { .. } => Some(Revision(self.revision.0.saturating_sub(1))),
        };
        [Some(self.revision), before].into_iter().flatten()
    }

    /// Whether the key's value at a revision agrees with the event.
    pub(super) fn agrees(&self, at: Revision, found: Option<&KeyValue>) -> bool {
        match self.change {
            LastChange::Put {
                create_revision,
                version,
            } => found.is_some_and(|found| {
                found.revision == self.revision
                    && found.create_revision == create_revision
                    && found.version == version
            }),
            LastChange::Delete { .. } if at >= self.revision => found.is_none(),
            LastChange::Delete { put_at } => found.is_some_and(|found| found.revision == put_at),
        }
    }
}

impl ClusterState {
    /// The state that is known before a request is sent.
    pub(super) fn known(&self) -> KnownBefore {
        let state = self.inner.lock();
        KnownBefore {
            epoch: state.epoch,
            revision: state.revision,
            raft_term: state.raft_term,
        }
    }

    /// The current epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.inner.lock().epoch
    }

    /// Notifies of each epoch that begins.
    pub(super) fn epochs(&self) -> watch::Receiver<u64> {
        self.epochs.subscribe()
    }

    /// The newest revision seen.
    pub(super) fn revision(&self) -> Revision {
        self.inner.lock().revision
    }

    /// The newest revision that is known to be compacted.
    pub(super) fn compacted(&self) -> Revision {
        self.inner.lock().compacted
    }

    /// The newest event that was seen.
    pub(super) fn last_event(&self) -> Option<LastEvent> {
        self.inner.lock().last_event.clone()
    }

    /// Learns from the answer of a member that was in contact with its leader. The answer cannot be
    /// older than what was known before the request.
    pub(super) fn learn_linearizable(&self, header: Header, known: KnownBefore, now: Instant) {
        self.change(known.epoch, |state| {
            state.learn_linearizable(header, known, now)
        });
    }

    /// Learns from the response of a member that may lag.
    pub(super) fn learn(&self, header: Header, known: KnownBefore) {
        self.change(known.epoch, |state| state.learn(header));
    }

    /// Learns that another event has the revision of the last event of an epoch.
    pub(super) fn contradict(&self, event: &LastEvent, header: Header, epoch: u64) {
        self.change(epoch, |state| {
            state.begin_epoch(header);
            Some(EpochEnd::Rewritten { at: event.revision })
        });
    }

    /// Learns the revision up to which a feed of this epoch has delivered.
    pub(super) fn learn_progress(&self, revision: Revision, epoch: u64) {
        self.change(epoch, |state| {
            state.revision = state.revision.max(revision);
            None
        });
    }

    /// Learns an event that a feed of this epoch has delivered.
    pub(super) fn learn_event(&self, event: &Event, epoch: u64) {
        self.change(epoch, |state| {
            state.revision = state.revision.max(event.revision);
            let before = state.last_event.as_ref().map(|last| last.revision);
            if before < Some(event.revision)
                && let Some(last) = LastEvent::of(event)
            {
                state.last_event = Some(last);
            }
            None
        });
    }

    /// Learns that everything before this revision is compacted.
    pub(super) fn learn_compacted(&self, revision: Revision, epoch: u64) {
        self.change(epoch, |state| {
            state.compacted = state.compacted.max(revision);
            None
        });
    }

    /// Changes the state, unless the change concerns an ended epoch. Notifies everybody when the
    /// current epoch ends.
    fn change(&self, epoch: u64, change: impl FnOnce(&mut ObservedState) -> Option<EpochEnd>) {
        let mut state = self.inner.lock();
        if state.epoch != epoch {
            return;
        }
        let Some(reason) = change(&mut state) else {
            return;
        };
        let epoch = state.epoch;
        drop(state);
        tracing::error!(
            %reason,
            "etcd has lost revisions that it had shown: every cache is filled again and every watch \
             ends; clients that hold newer versions may see old ones again"
        );
        // The old word stays, because dashboards read the metric.
        metrics::counter!("taffrail_etcd_lineage_breaks_total").increment(1);
        self.epochs.send_if_modified(|told| {
            let is_newer = epoch > *told;
            *told = epoch.max(*told);
            is_newer
        });
    }
}

impl ObservedState {
    fn learn_linearizable(
        &mut self,
        header: Header,
        known: KnownBefore,
        now: Instant,
    ) -> Option<EpochEnd> {
        if let Some(end) = self.other_cluster(header) {
            return Some(end);
        }
        if header.revision < known.revision || self.stays_in_old_term(header, known, now) {
            let end = EpochEnd::RolledBack {
                before: self.revision.max(known.revision),
                now: header.revision,
            };
            self.begin_epoch(header);
            return Some(end);
        }
        self.revision = self.revision.max(header.revision);
        self.raft_term = self.raft_term.max(header.raft_term);
        None
    }

    fn learn(&mut self, header: Header) -> Option<EpochEnd> {
        let end = self.other_cluster(header);
        if end.is_none() {
            self.revision = self.revision.max(header.revision);
        }
        end
    }

    fn other_cluster(&mut self, header: Header) -> Option<EpochEnd> {
        if header.cluster_id == 0 || self.cluster_id == header.cluster_id {
            return None;
        }
        let before = std::mem::replace(&mut self.cluster_id, header.cluster_id);
        if before == 0 {
            return None;
        }
        self.begin_epoch(header);
        Some(EpochEnd::OtherCluster {
            before,
            now: header.cluster_id,
        })
    }

    fn begin_epoch(&mut self, header: Header) {
        self.epoch += 1;
        self.revision = header.revision;
        self.raft_term = header.raft_term;
        self.compacted = Revision::ZERO;
        self.old_term_since = None;
        self.last_event = None;
    }

    /// Whether answers have had an older term for too long.
    fn stays_in_old_term(&mut self, header: Header, known: KnownBefore, now: Instant) -> bool {
        if header.raft_term >= known.raft_term {
            self.old_term_since = None;
            return false;
        }
        let since = *self.old_term_since.get_or_insert(now);
        now.duration_since(since) >= OLD_TERM_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors::engine::Prepared;

    fn header(revision: u64) -> Header {
        Header {
            cluster_id: 7,
            revision: Revision(revision),
            raft_term: 2,
        }
    }

    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn answers_that_overtake_each_other_end_no_epoch() {
        let state = ClusterState::default();
        let (early, late) = (state.known(), state.known());
        state.learn_linearizable(header(11), late, now());
        state.learn_linearizable(header(10), early, now());
        assert_eq!((state.epoch(), state.revision()), (0, Revision(11)));
    }

    #[test]
    fn a_cluster_behind_what_was_known_when_it_was_asked_was_rolled_back() {
        let state = ClusterState::default();
        let mut epochs = state.epochs();
        state.learn_linearizable(header(11), state.known(), now());
        state.learn_compacted(Revision(5), 0);
        let under_way = state.known();
        assert!(!epochs.has_changed().unwrap());
        let mut before = state.inner.lock().clone();
        assert_eq!(
            before.learn_linearizable(header(9), under_way, now()),
            Some(EpochEnd::RolledBack {
                before: Revision(11),
                now: Revision(9)
            })
        );
        state.learn_linearizable(header(9), state.known(), now());
        assert_eq!((state.epoch(), state.revision()), (1, Revision(9)));
        assert_eq!(*epochs.borrow_and_update(), 1);
        assert_eq!(state.compacted(), Revision::ZERO);
        // A response to an earlier request says nothing about the new epoch.
        state.learn_linearizable(header(12), under_way, now());
        state.learn_progress(Revision(30), 0);
        assert_eq!((state.epoch(), state.revision()), (1, Revision(9)));
    }

    #[test]
    fn a_smaller_term_tells_of_a_restored_cluster_that_has_grown_again() {
        let state = ClusterState::default();
        let old = Header {
            raft_term: 5,
            ..header(11)
        };
        let begin = now();
        state.learn_linearizable(old, state.known(), begin);
        state.learn_linearizable(header(40), state.known(), begin);
        assert_eq!(state.epoch(), 0);
        state.learn_linearizable(header(41), state.known(), begin + OLD_TERM_FOR);
        assert_eq!(state.epoch(), 1);
    }

    #[test]
    fn a_member_that_tells_of_an_old_term_for_a_moment_ends_no_epoch() {
        let state = ClusterState::default();
        let begin = now();
        let newer = Header {
            raft_term: 5,
            ..header(11)
        };
        state.learn_linearizable(newer, state.known(), begin);
        state.learn_linearizable(header(12), state.known(), begin);
        let later = begin + OLD_TERM_FOR;
        let caught_up = Header {
            revision: Revision(13),
            ..newer
        };
        state.learn_linearizable(caught_up, state.known(), later);
        state.learn_linearizable(header(14), state.known(), later);
        assert_eq!(state.epoch(), 0);
    }

    #[test]
    fn the_newest_event_of_an_epoch_tells_its_history_from_another() {
        let state = ClusterState::default();
        let event = |revision| Event {
            revision: Revision(revision),
            key: Key::new(format!("/registry/{revision}")),
            kind: EventKind::Put,
            value: Default::default(),
            create_revision: Revision(revision),
            prev_revision: Revision::ZERO,
            version: 1,
            lease: Default::default(),
            time: std::time::SystemTime::UNIX_EPOCH,
            origin: Default::default(),
            previous: None,
            prepared: Prepared::default(),
        };
        for revision in [3, 9, 7] {
            state.learn_event(&event(revision), 0);
        }
        let last = state.last_event().unwrap();
        assert_eq!(last.revision, Revision(9));
        state.contradict(&last, header(12), 1);
        assert_eq!(state.epoch(), 0, "of another epoch");
        state.contradict(&last, header(12), 0);
        assert_eq!((state.epoch(), state.revision()), (1, Revision(12)));
        state.learn_event(&event(10), 0);
        assert_eq!(state.last_event(), None);
        state.learn_event(&event(13), 1);
        let last = state.last_event().unwrap();
        let numbers = |version| KeyValue {
            version,
            ..event(13).key_value()
        };
        assert!(last.agrees(Revision(13), Some(&numbers(1))));
        // The same key, written at the same revision, and not the same value.
        assert!(!last.agrees(Revision(13), Some(&numbers(2))));
        assert!(!last.agrees(Revision(13), None));
        // A deletion is one only if what it ended was there.
        let mut deleted = event(14);
        deleted.kind = EventKind::Delete;
        deleted.prev_revision = Revision(13);
        state.learn_event(&deleted, 1);
        assert_eq!(state.last_event().unwrap().revision, Revision(13));
        deleted.previous = Some(Default::default());
        state.learn_event(&deleted, 1);
        let last = state.last_event().unwrap();
        assert!(last.read_at().eq([Revision(14), Revision(13)]));
        assert!(last.agrees(Revision(14), None));
        assert!(last.agrees(Revision(13), Some(&numbers(1))));
        assert!(!last.agrees(Revision(13), None));
        assert!(!last.agrees(Revision(14), Some(&numbers(1))));
    }

    #[test]
    fn a_member_that_lags_is_no_backup() {
        let state = ClusterState::default();
        state.learn_linearizable(header(11), state.known(), now());
        state.learn(header(3), state.known());
        assert_eq!((state.epoch(), state.revision()), (0, Revision(11)));
    }

    #[test]
    fn another_cluster_is_told_by_its_id() {
        let state = ClusterState::default();
        state.learn(header(11), state.known());
        let other = Header {
            cluster_id: 8,
            ..header(50)
        };
        state.learn(other, state.known());
        assert_eq!((state.epoch(), state.revision()), (1, Revision(50)));
    }
}
