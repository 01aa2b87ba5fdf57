//! Watchers of one thread with the same interest. Pure.
//!
//! Each event is evaluated once for the group. The result is kept in a short log until all members
//! have fetched it. The log is bounded whatever the members do. A member that lags behind the
//! beginning of the log reads the ring by itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::member::{Member, Progress};
use crate::engine::Revision;
use crate::ring::RingEvent;
use crate::watch::{WatchEventKind, WatchInterest, transition};

/// Watchers of one thread with the same interest.
pub(super) struct Group {
    pub(super) interest: WatchInterest,
    /// The numbers of its members.
    pub(super) members: Vec<u32>,
    /// The number of members that have something to fetch.
    lagging: usize,
    /// The number of members that are up to date.
    current: usize,
    log: VecDeque<LogEntry>,
    /// The log is complete from here to the position of the ResourceDispatcher.
    floor: u64,
    /// The position when the log was last trimmed by age.
    aged: u64,
    /// The last bookmark, shared by the members.
    bookmark: Option<(Revision, Bytes)>,
}

/// A frame for the group.
#[derive(Clone, Debug)]
pub(super) struct LogEntry {
    pub(super) sequence: u64,
    pub(super) revision: Revision,
    pub(super) kind: WatchEventKind,
    pub(super) frame: Bytes,
    /// When the watch cache got the event, if this process saw it happen.
    pub(super) since: Option<Instant>,
    /// Set if the first frame of a stream differs from later ones.
    pub(super) event: Option<Arc<RingEvent>>,
}

/// Entries of a log: a burst between two polls of the members.
const LOG_ENTRIES_MAX: usize = 1_024;

impl Group {
    /// A group without members. Its log is complete from this position on.
    pub(super) fn new(interest: WatchInterest, position: u64) -> Group {
        Group {
            interest,
            members: Vec::new(),
            lagging: 0,
            current: 0,
            log: VecDeque::new(),
            floor: position,
            aged: position,
            bookmark: None,
        }
    }

    /// Evaluates an event for the group; `None` if the group is not shown it.
    pub(super) fn evaluate(&self, event: &Arc<RingEvent>) -> Option<LogEntry> {
        let WatchInterest {
            scope,
            predicate,
            projection,
        } = &self.interest;
        let (current, previous) = (event.current.as_deref(), event.previous.as_deref());
        let (kind, _) = transition(scope, &**predicate, current, previous)?;
        Some(LogEntry {
            sequence: event.sequence,
            revision: event.revision,
            kind,
            frame: event.frame(kind, &**projection)?,
            since: event.since,
            event: projection.first_differs().then(|| Arc::clone(event)),
        })
    }

    /// Whether to evaluate events now. A single member that lags reads the ring and evaluates them
    /// itself.
    pub(super) fn is_worth_evaluating(&self) -> bool {
        self.members.len() > 1 || self.lagging == 0
    }

    /// Adds an entry to the log.
    pub(super) fn log(&mut self, entry: LogEntry) {
        if self.log.len() >= LOG_ENTRIES_MAX
            && let Some(dropped) = self.log.pop_front()
        {
            self.floor = dropped.sequence + 1;
        }
        self.log.push_back(entry);
    }

    /// Empties the log. It is complete from this position on.
    pub(super) fn restart_log(&mut self, position: u64) {
        self.log = VecDeque::new();
        self.floor = position;
    }

    /// Counts a member with this progress.
    pub(super) fn count_member(&mut self, progress: Progress) {
        match progress {
            Progress::Current => self.current += 1,
            Progress::Lagging(_) => self.lagging += 1,
            Progress::NotFollowing => {}
        }
    }

    /// No longer counts a member with this progress. The log is dropped with the last lagging
    /// member.
    pub(super) fn uncount_member(&mut self, progress: Progress, position: u64) {
        match progress {
            Progress::Current => self.current = self.current.saturating_sub(1),
            Progress::Lagging(_) => {
                self.lagging = self.lagging.saturating_sub(1);
                if self.lagging == 0 {
                    self.restart_log(position);
                }
            }
            Progress::NotFollowing => {}
        }
    }

    /// Counts this number of members as lagging that were up to date.
    pub(super) fn move_to_lagging(&mut self, members: usize) {
        self.current = self.current.saturating_sub(members);
        self.lagging += members;
    }

    /// Whether a member is up to date.
    pub(super) fn has_current(&self) -> bool {
        self.current > 0
    }

    /// Whether a member has something to fetch.
    pub(super) fn has_lagging(&self) -> bool {
        self.lagging > 0
    }

    /// Drops the entries that were in the log at the last call, so that slow members do not keep
    /// them.
    pub(super) fn age(&mut self, position: u64) {
        let aged = std::mem::replace(&mut self.aged, position);
        if self.lagging == 0 || self.floor >= aged {
            return;
        }
        let old = self.log.partition_point(|entry| entry.sequence < aged);
        self.log.drain(..old);
        self.floor = aged;
        if self.log.is_empty() {
            self.log = VecDeque::new();
        }
    }

    /// The sequence number from which on the log is complete.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// The first entry at or after a sequence number, and whether it is the last one.
    pub(super) fn next_from(&self, sequence: u64) -> Option<(&LogEntry, bool)> {
        let at = self.log.partition_point(|entry| entry.sequence < sequence);
        Some((self.log.get(at)?, at + 1 == self.log.len()))
    }

    /// A member has fetched everything up to this position.
    pub(super) fn mark_current(&mut self, member: &mut Member, position: u64) {
        self.uncount_member(member.progress, position);
        member.progress = Progress::Current;
        self.count_member(member.progress);
    }

    /// The frame of a bookmark. It is rendered once for all members.
    pub(super) fn bookmark(&mut self, revision: Revision, first: bool) -> Bytes {
        let projection = &self.interest.projection;
        if first && projection.first_differs() {
            return projection.bookmark(revision, false, true);
        }
        match &self.bookmark {
            Some((made, frame)) if *made == revision => frame.clone(),
            _ => {
                let frame = projection.bookmark(revision, false, first);
                self.bookmark = Some((revision, frame.clone()));
                frame
            }
        }
    }

    /// Drops the shared bookmark.
    pub(super) fn forget_bookmark(&mut self) {
        self.bookmark = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::member::Cursor;
    use super::*;
    use crate::testing::interest;
    use crate::watch::Scope;

    const LAGGING: Progress = Progress::Lagging(Cursor {
        sequence: 0,
        after: Revision::ZERO,
    });

    fn entry(sequence: u64) -> LogEntry {
        LogEntry {
            sequence,
            revision: Revision(sequence),
            kind: WatchEventKind::Added,
            frame: Bytes::new(),
            since: None,
            event: None,
        }
    }

    /// A group whose log has these events, and one member that has not fetched them.
    fn group(sequences: impl IntoIterator<Item = u64>) -> Group {
        let mut group = Group::new(interest(Scope::All), 1);
        group.count_member(LAGGING);
        for sequence in sequences {
            group.log(entry(sequence));
        }
        group
    }

    fn next(group: &Group, sequence: u64) -> Option<u64> {
        group.next_from(sequence).map(|(entry, _)| entry.sequence)
    }

    #[test]
    fn the_log_gives_the_next_event_for_the_group_and_goes_with_the_last_who_needs_it() {
        let mut group = group([3, 5, 9]);
        group.count_member(LAGGING);
        assert_eq!(
            [1, 3, 4, 9].map(|from| next(&group, from)),
            [3, 3, 5, 9].map(Some)
        );
        assert_eq!(next(&group, 10), None);
        group.uncount_member(LAGGING, 10);
        assert_eq!((next(&group, 1), group.floor()), (Some(3), 1));
        group.uncount_member(LAGGING, 10);
        assert_eq!((next(&group, 1), group.floor()), (None, 10));
    }

    #[test]
    fn a_log_is_complete_from_its_floor_on_however_long_it_gets() {
        let last = LOG_ENTRIES_MAX as u64 + 10;
        let group = group(1..=last);
        assert_eq!(group.floor(), 11);
        assert_eq!(next(&group, group.floor()), Some(11));
        assert_eq!(next(&group, last), Some(last));
    }

    #[test]
    fn what_is_not_fetched_is_dropped_at_the_second_trim_by_age() {
        let mut group = group([3, 5]);
        group.age(6);
        assert_eq!((next(&group, 1), group.floor()), (Some(3), 1));
        group.log(entry(8));
        group.age(9);
        assert_eq!((next(&group, 1), group.floor()), (Some(8), 6));
        group.age(9);
        assert_eq!((next(&group, 1), group.floor()), (None, 9));
    }

    #[test]
    fn events_are_not_evaluated_for_a_single_member_that_lags() {
        let mut group = group([]);
        group.members = vec![0];
        assert!(!group.is_worth_evaluating() && group.has_lagging() && !group.has_current());
        group.members = vec![0, 1];
        group.count_member(Progress::Current);
        assert!(group.is_worth_evaluating() && group.has_current());
        group.move_to_lagging(1);
        assert!(!group.has_current());
    }

    #[test]
    fn a_bookmark_is_made_once_for_all_who_get_the_same() {
        let mut group = group([]);
        let made = group.bookmark(Revision(7), true);
        assert_eq!(group.bookmark(Revision(7), false).as_ptr(), made.as_ptr());
        assert_eq!(group.bookmark(Revision(8), false), "BOOKMARK @8");
    }
}
