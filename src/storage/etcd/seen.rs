//! What has been seen of the cluster: which one it is, how far it has come, what is compacted.
//! Pure but for its lock.
//!
//! A cluster that is behind what it has shown before has lost it: it was restored from a backup,
//! or another one answers at the same address. Then a new lineage begins, and nothing that was
//! remembered of the old one counts any more. One that has grown past that point again is told
//! by a witness: the newest event that was seen, which happened differently there.

use std::time::{Duration, Instant};

use actors::engine::{Event, EventKind, Key, KeyValue, Revision};
use parking_lot::Mutex;

/// A member that caught up by a snapshot tells of the term before for a moment; one that goes on
/// doing so belongs to a restored cluster.
const OLD_TERM_FOR: Duration = Duration::from_millis(500);

/// What a response's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) cluster: u64,
    pub(super) revision: Revision,
    pub(super) term: u64,
}

impl From<Option<&etcd_client::ResponseHeader>> for Header {
    fn from(header: Option<&etcd_client::ResponseHeader>) -> Header {
        header.map_or(Header::default(), |header| Header {
            cluster: header.cluster_id(),
            revision: revision(header.revision()),
            term: header.raft_term(),
        })
    }
}

/// A revision as etcd counts them.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// The same the other way round; what etcd can't count to is its last one.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// What was known when a request was sent: its answer can't be older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    lineage: u64,
    revision: Revision,
    term: u64,
}

impl Floor {
    /// The lineage that was current.
    pub(super) fn lineage(self) -> u64 {
        self.lineage
    }

    /// The newest revision seen.
    pub(super) fn revision(self) -> Revision {
        self.revision
    }
}

/// Why a new lineage began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// Another cluster answers.
    OtherCluster { before: u64, now: u64 },
    /// It is the same one, further back.
    SetBack { before: Revision, now: Revision },
    /// What happened at a revision is not what was seen to happen.
    Rewritten { at: Revision },
}

impl std::fmt::Display for Break {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Break::OtherCluster { before, now } => {
                write!(f, "another cluster answers: {now:x} instead of {before:x}")
            }
            Break::SetBack { before, now } => write!(
                f,
                "it is at revision {now} and was at {before}: it was restored from a backup"
            ),
            Break::Rewritten { at } => write!(
                f,
                "revision {at} is another one than was seen: it was restored from a backup"
            ),
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Seen {
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    lineage: u64,
    cluster: u64,
    revision: Revision,
    term: u64,
    /// Since when every answer has been of an older term.
    old_term_since: Option<Instant>,
    compacted: Revision,
    witness: Option<Witness>,
}

/// The newest event that was seen: a restored cluster that is as far again has another one there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    pub(super) key: Key,
    pub(super) revision: Revision,
    was: Was,
}

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    /// The key's value of this number since it was created at that revision.
    Put { created: Revision, version: u64 },
    /// The end of a value written at this revision.
    Deleted { value_of: Revision },
}

impl Witness {
    /// Of an event that says enough to be told from others.
    fn of(event: &Event) -> Option<Witness> {
        let was = match event.kind {
            EventKind::Put => Was::Put {
                created: event.create_revision,
                version: event.version,
            },
            EventKind::Delete => {
                event.previous.as_ref()?;
                Was::Deleted {
                    value_of: event.prev_revision,
                }
            }
        };
        Some(Witness {
            key: event.key.clone(),
            revision: event.revision,
            was,
        })
    }

    /// Where else to look: right before a deletion there must have been what it ended.
    pub(super) fn before(&self) -> Option<Revision> {
        match self.was {
            Was::Put { .. } => None,
            Was::Deleted { .. } => Some(Revision(self.revision.0.saturating_sub(1))),
        }
    }

    /// Whether the key has at a revision what the witness says.
    pub(super) fn agrees(&self, at: Revision, found: Option<&KeyValue>) -> bool {
        match self.was {
            Was::Put { created, version } => found.is_some_and(|found| {
                found.revision == self.revision
                    && found.create_revision == created
                    && found.version == version
            }),
            Was::Deleted { .. } if at >= self.revision => found.is_none(),
            Was::Deleted { value_of } => found.is_some_and(|found| found.revision == value_of),
        }
    }
}

impl Seen {
    /// What is known before a request is sent.
    pub(super) fn floor(&self) -> Floor {
        let state = self.state.lock();
        Floor {
            lineage: state.lineage,
            revision: state.revision,
            term: state.term,
        }
    }

    /// The lineage that is current.
    pub(super) fn lineage(&self) -> u64 {
        self.state.lock().lineage
    }

    /// The newest revision seen.
    pub(super) fn revision(&self) -> Revision {
        self.state.lock().revision
    }

    /// The newest revision known to be compacted.
    pub(super) fn compacted(&self) -> Revision {
        self.state.lock().compacted
    }

    /// The answer of a member that was in touch with its leader: it can't be older than what was
    /// known when it was asked.
    pub(super) fn linearizable(&self, header: Header, floor: Floor, now: Instant) -> Option<Break> {
        let mut state = self.state.lock();
        if floor.lineage != state.lineage {
            return None;
        }
        if let Some(found) = state.other_cluster(header) {
            return Some(found);
        }
        if header.revision < floor.revision || state.stays_in_old_term(header, floor, now) {
            let found = Break::SetBack {
                before: state.revision.max(floor.revision),
                now: header.revision,
            };
            state.begin(header);
            return Some(found);
        }
        state.learn(header);
        None
    }

    /// The newest event that was seen.
    pub(super) fn witness(&self) -> Option<Witness> {
        self.state.lock().witness.clone()
    }

    /// The witness of this lineage is wrong: what it tells of happened differently.
    pub(super) fn refuted(&self, witness: &Witness, header: Header, lineage: u64) -> Option<Break> {
        let mut state = self.state.lock();
        if state.lineage != lineage {
            return None;
        }
        state.begin(header);
        Some(Break::Rewritten {
            at: witness.revision,
        })
    }

    /// An answer that may come from a member that lags behind.
    pub(super) fn any(&self, header: Header, floor: Floor) -> Option<Break> {
        let mut state = self.state.lock();
        if floor.lineage != state.lineage {
            return None;
        }
        let found = state.other_cluster(header);
        if found.is_none() {
            state.revision = state.revision.max(header.revision);
        }
        found
    }

    /// A revision that a feed of this lineage has delivered.
    pub(super) fn delivered(&self, revision: Revision, lineage: u64) {
        let mut state = self.state.lock();
        if state.lineage == lineage {
            state.revision = state.revision.max(revision);
        }
    }

    /// The same of an event, which may be the witness from now on.
    pub(super) fn happened(&self, event: &Event, lineage: u64) {
        let mut state = self.state.lock();
        if state.lineage != lineage {
            return;
        }
        state.revision = state.revision.max(event.revision);
        let before = state.witness.as_ref().map(|witness| witness.revision);
        if before < Some(event.revision)
            && let Some(witness) = Witness::of(event)
        {
            state.witness = Some(witness);
        }
    }

    /// Everything before this revision is compacted.
    pub(super) fn learn_compacted(&self, revision: Revision, lineage: u64) {
        let mut state = self.state.lock();
        if state.lineage == lineage {
            state.compacted = state.compacted.max(revision);
        }
    }
}

impl State {
    fn other_cluster(&mut self, header: Header) -> Option<Break> {
        if header.cluster == 0 || self.cluster == header.cluster {
            return None;
        }
        let before = std::mem::replace(&mut self.cluster, header.cluster);
        if before == 0 {
            return None;
        }
        self.begin(header);
        Some(Break::OtherCluster {
            before,
            now: header.cluster,
        })
    }

    fn begin(&mut self, header: Header) {
        self.lineage += 1;
        self.revision = header.revision;
        self.term = header.term;
        self.compacted = Revision::ZERO;
        self.old_term_since = None;
        self.witness = None;
    }

    /// Whether answers have been of an older term for too long to be a member's slip.
    fn stays_in_old_term(&mut self, header: Header, floor: Floor, now: Instant) -> bool {
        if header.term >= floor.term {
            self.old_term_since = None;
            return false;
        }
        let since = *self.old_term_since.get_or_insert(now);
        now.duration_since(since) >= OLD_TERM_FOR
    }

    fn learn(&mut self, header: Header) {
        self.revision = self.revision.max(header.revision);
        self.term = self.term.max(header.term);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(revision: u64) -> Header {
        Header {
            cluster: 7,
            revision: Revision(revision),
            term: 2,
        }
    }

    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn answers_that_overtake_each_other_break_nothing() {
        let seen = Seen::default();
        let (early, late) = (seen.floor(), seen.floor());
        assert_eq!(seen.linearizable(header(11), late, now()), None);
        assert_eq!(seen.linearizable(header(10), early, now()), None);
        assert_eq!(seen.revision(), Revision(11));
    }

    #[test]
    fn who_is_behind_what_was_known_when_asked_was_set_back() {
        let seen = Seen::default();
        assert_eq!(seen.linearizable(header(11), seen.floor(), now()), None);
        seen.learn_compacted(Revision(5), 0);
        let under_way = seen.floor();
        let found = seen.linearizable(header(9), seen.floor(), now());
        assert_eq!(
            found,
            Some(Break::SetBack {
                before: Revision(11),
                now: Revision(9)
            })
        );
        assert_eq!((seen.lineage(), seen.revision()), (1, Revision(9)));
        assert_eq!(seen.compacted(), Revision::ZERO);
        // What was sent before says nothing of the new lineage.
        assert_eq!(seen.linearizable(header(12), under_way, now()), None);
        seen.delivered(Revision(30), 0);
        assert_eq!(seen.revision(), Revision(9));
    }

    #[test]
    fn a_smaller_term_tells_of_a_restored_cluster_that_has_grown_again() {
        let seen = Seen::default();
        let old = Header {
            term: 5,
            ..header(11)
        };
        let begin = now();
        assert_eq!(seen.linearizable(old, seen.floor(), begin), None);
        assert_eq!(seen.linearizable(header(40), seen.floor(), begin), None);
        let later = begin + OLD_TERM_FOR;
        assert!(seen.linearizable(header(41), seen.floor(), later).is_some());
    }

    #[test]
    fn a_member_that_tells_of_an_old_term_for_a_moment_breaks_nothing() {
        let seen = Seen::default();
        let begin = now();
        let newer = Header {
            term: 5,
            ..header(11)
        };
        seen.linearizable(newer, seen.floor(), begin);
        assert_eq!(seen.linearizable(header(12), seen.floor(), begin), None);
        let later = begin + OLD_TERM_FOR;
        let caught_up = Header {
            revision: Revision(13),
            ..newer
        };
        assert_eq!(seen.linearizable(caught_up, seen.floor(), later), None);
        assert_eq!(seen.linearizable(header(14), seen.floor(), later), None);
        assert_eq!(seen.lineage(), 0);
    }

    #[test]
    fn the_newest_event_is_the_witness_of_its_lineage() {
        let seen = Seen::default();
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
        };
        for revision in [3, 9, 7] {
            seen.happened(&event(revision), 0);
        }
        let witness = seen.witness().unwrap();
        assert_eq!(witness.revision, Revision(9));
        assert!(seen.refuted(&witness, header(12), 1).is_none());
        assert!(seen.refuted(&witness, header(12), 0).is_some());
        assert_eq!((seen.lineage(), seen.revision()), (1, Revision(12)));
        seen.happened(&event(10), 0);
        assert_eq!(seen.witness(), None);
        seen.happened(&event(13), 1);
        let witness = seen.witness().unwrap();
        let numbers = |version| KeyValue {
            version,
            ..event(13).key_value()
        };
        assert!(witness.agrees(Revision(13), Some(&numbers(1))));
        // The same key, written at the same revision, and not the same value.
        assert!(!witness.agrees(Revision(13), Some(&numbers(2))));
        assert!(!witness.agrees(Revision(13), None));
        // A deletion is one only if what it ended was there.
        let mut deleted = event(14);
        deleted.kind = EventKind::Delete;
        deleted.prev_revision = Revision(13);
        seen.happened(&deleted, 1);
        assert_eq!(seen.witness().unwrap().revision, Revision(13));
        deleted.previous = Some(Default::default());
        seen.happened(&deleted, 1);
        let witness = seen.witness().unwrap();
        assert_eq!(witness.before(), Some(Revision(13)));
        assert!(witness.agrees(Revision(14), None));
        assert!(witness.agrees(Revision(13), Some(&numbers(1))));
        assert!(!witness.agrees(Revision(13), None));
        assert!(!witness.agrees(Revision(14), Some(&numbers(1))));
    }

    #[test]
    fn a_member_that_lags_is_no_backup() {
        let seen = Seen::default();
        assert_eq!(seen.linearizable(header(11), seen.floor(), now()), None);
        assert_eq!(seen.any(header(3), seen.floor()), None);
        assert_eq!(seen.revision(), Revision(11));
    }

    #[test]
    fn another_cluster_is_told_by_its_name() {
        let seen = Seen::default();
        assert_eq!(seen.any(header(11), seen.floor()), None);
        let other = Header {
            cluster: 8,
            ..header(50)
        };
        assert!(seen.any(other, seen.floor()).is_some());
        assert_eq!((seen.lineage(), seen.revision()), (1, Revision(50)));
    }
}
