//! Watchers of one thread that want the same in the same form. Pure.
//!
//! Each event is judged once for all of them, and what came of it is kept in a short log until
//! all have fetched it. The log is a convenience, not a queue: it is bounded whatever the members
//! do, and who lags behind its beginning reads the ring for himself.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::member::Standing;
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

    /// The first entry at or after a sequence number.
    pub(super) fn next_from(&self, sequence: u64) -> Option<&Entry> {
        let at = self.log.partition_point(|entry| entry.sequence < sequence);
        self.log.get(at)
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
