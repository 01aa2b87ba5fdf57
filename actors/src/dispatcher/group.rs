//! Watchers of one thread that want the same in the same form. Pure.
//!
//! Each event is judged once for all of them, and what came of it is kept in a short log until
//! all have fetched it. The log is a convenience, not a queue: it is bounded whatever the members
//! do, and who lags behind its beginning reads the ring for himself.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::member::{Member, Standing};
use crate::engine::Revision;
use crate::ring::RingEvent;
use crate::watch::{WatchEventKind, WatchInterest, transition};

/// See the module's documentation.
pub(super) struct Group {
    pub(super) interest: WatchInterest,
    /// The numbers of its members.
    pub(super) members: Vec<u32>,
    /// How many of them have something to fetch.
    lagging: usize,
    /// How many of them are up to date.
    current: usize,
    log: VecDeque<Entry>,
    /// Everything for this group from here up to the Dispatcher's position is in the log.
    floor: u64,
    /// The Dispatcher's position when the log was last trimmed by age.
    aged: u64,
    bookmark: Option<(Revision, Bytes)>,
}

/// An event that is for the group.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) revision: Revision,
    pub(super) kind: WatchEventKind,
    pub(super) frame: Bytes,
    /// Kept where the first frame of a stream differs from this one.
    pub(super) event: Option<Arc<RingEvent>>,
}

/// Entries of a log: a burst between two polls of the members.
const LOG_ENTRIES_MAX: usize = 1_024;

impl Group {
    /// A group without members. It is complete from the Dispatcher's position on.
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

    /// Judges an event for the group; `None` when it is nothing to it.
    pub(super) fn judge(&self, event: &Arc<RingEvent>) -> Option<Entry> {
        let WatchInterest {
            scope,
            predicate,
            projection,
        } = &self.interest;
        let (current, previous) = (event.current.as_deref(), event.previous.as_deref());
        let (kind, _) = transition(scope, &**predicate, current, previous)?;
        Some(Entry {
            sequence: event.sequence,
            revision: event.revision,
            kind,
            frame: event.frame(kind, &**projection)?,
            event: projection.first_differs().then(|| Arc::clone(event)),
        })
    }

    /// Whether judging an event serves anybody: not when the one member is behind anyway and
    /// will look at the event itself, when it gets there.
    pub(super) fn is_worth_judging(&self) -> bool {
        self.members.len() > 1 || self.lagging == 0
    }

    /// Keeps an entry for the members.
    pub(super) fn log(&mut self, entry: Entry) {
        if self.log.len() >= LOG_ENTRIES_MAX
            && let Some(dropped) = self.log.pop_front()
        {
            self.floor = dropped.sequence + 1;
        }
        self.log.push_back(entry);
    }

    /// The log begins anew at this position, because what came before it is not in there or is
    /// wanted by nobody any more.
    pub(super) fn restart_log(&mut self, position: u64) {
        self.log = VecDeque::new();
        self.floor = position;
    }

    /// A member stands there from now on.
    pub(super) fn arrives(&mut self, standing: Standing) {
        match standing {
            Standing::Current => self.current += 1,
            Standing::Lagging(_) => self.lagging += 1,
            Standing::Elsewhere => {}
        }
    }

    /// A member does not stand there any more; the Dispatcher is at this position. What nobody
    /// has to fetch is dropped.
    pub(super) fn departs(&mut self, standing: Standing, position: u64) {
        match standing {
            Standing::Current => self.current = self.current.saturating_sub(1),
            Standing::Lagging(_) => {
                self.lagging = self.lagging.saturating_sub(1);
                if self.lagging == 0 {
                    self.restart_log(position);
                }
            }
            Standing::Elsewhere => {}
        }
    }

    /// So many members that were up to date have something to fetch now.
    pub(super) fn touched(&mut self, members: usize) {
        self.current = self.current.saturating_sub(members);
        self.lagging += members;
    }

    /// Whether a member may be up to date, and has to be told of an event.
    pub(super) fn has_current(&self) -> bool {
        self.current > 0
    }

    /// Whether a member has something to fetch.
    pub(super) fn has_lagging(&self) -> bool {
        self.lagging > 0
    }

    /// Drops entries that were there at the last call already: slow members must not keep them.
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

    /// The place where the log begins to be complete.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// The first entry at or after a sequence number, and whether it is the last one.
    pub(super) fn next_from(&self, sequence: u64) -> Option<(&Entry, bool)> {
        let at = self.log.partition_point(|entry| entry.sequence < sequence);
        Some((self.log.get(at)?, at + 1 == self.log.len()))
    }

    /// A member has fetched everything up to the Dispatcher's position.
    pub(super) fn catches_up(&mut self, member: &mut Member, position: u64) {
        self.departs(member.standing, position);
        member.standing = Standing::Current;
        self.arrives(member.standing);
    }

    /// The frame of a bookmark, made once for all members that get the same.
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

    /// Lets go of a bookmark made for all.
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

    const LAGGING: Standing = Standing::Lagging(Cursor {
        sequence: 0,
        after: Revision::ZERO,
    });

    fn entry(sequence: u64) -> Entry {
        Entry {
            sequence,
            revision: Revision(sequence),
            kind: WatchEventKind::Added,
            frame: Bytes::new(),
            event: None,
        }
    }

    /// A group with a log of these events that somebody has still to fetch.
    fn group(sequences: impl IntoIterator<Item = u64>) -> Group {
        let mut group = Group::new(interest(Scope::All), 1);
        group.arrives(LAGGING);
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
        group.arrives(LAGGING);
        assert_eq!(
            [1, 3, 4, 9].map(|from| next(&group, from)),
            [3, 3, 5, 9].map(Some)
        );
        assert_eq!(next(&group, 10), None);
        group.departs(LAGGING, 10);
        assert_eq!((next(&group, 1), group.floor()), (Some(3), 1));
        group.departs(LAGGING, 10);
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
    fn what_is_not_fetched_goes_at_the_second_look_at_its_age() {
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
    fn judging_is_left_to_a_member_that_is_behind_and_alone() {
        let mut group = group([]);
        group.members = vec![0];
        assert!(!group.is_worth_judging() && group.has_lagging() && !group.has_current());
        group.members = vec![0, 1];
        group.arrives(Standing::Current);
        assert!(group.is_worth_judging() && group.has_current());
        group.touched(1);
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
