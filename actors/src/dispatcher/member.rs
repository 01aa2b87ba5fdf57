//! What a Dispatcher knows of one watcher. Pure.

use std::time::Instant;

use super::caller::{Caller, Wakes};
use crate::engine::Revision;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Member {
    /// Its group, and its place among the group's members.
    pub(super) group: u32,
    pub(super) seat: u32,
    pub(super) standing: Standing,
    /// Events up to here are not for it: from before its start, or sent from history (WA-10).
    pub(super) after: Revision,
    /// Bookmarks up to here tell it nothing (WA-44).
    pub(super) start: Revision,
    /// Whether it has been sent a frame.
    pub(super) has_sent: bool,
    pub(super) wants_bookmarks: bool,
    pub(super) is_bookmark_due: bool,
    pub(super) ending: Ending,
    pub(super) deadline: Instant,
    /// When it is looked at next: for a bookmark or for its deadline.
    pub(super) due: Instant,
    wakes: Option<Wakes>,
    is_parked: bool,
}

/// Where a watcher stands in the stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has everything that its Dispatcher has seen; it has no position of its own.
    Current,
    /// It has something to fetch from the ring.
    Lagging(Cursor),
    /// It is served from somewhere else, the initial state or the store's history.
    Elsewhere,
}

/// The place of a watcher that has something to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The next event to look at.
    pub(super) sequence: u64,
    /// The watcher has everything up to here: where history goes on should the ring have
    /// dropped that event.
    pub(super) after: Revision,
}

/// Whether and how a watcher ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It goes on.
    No,
    /// Once it has everything, and a last bookmark if it is due one.
    OnceCurrent,
    /// At the next poll.
    Now,
}

/// What a new watcher wants.
pub(super) struct Wishes {
    pub(super) group: u32,
    pub(super) seat: u32,
    pub(super) start: Revision,
    pub(super) wants_bookmarks: bool,
    pub(super) deadline: Instant,
}

impl Member {
    pub(super) fn new(wishes: Wishes) -> Member {
        Member {
            group: wishes.group,
            seat: wishes.seat,
            standing: Standing::Elsewhere,
            after: Revision::ZERO,
            start: wishes.start,
            has_sent: false,
            wants_bookmarks: wishes.wants_bookmarks,
            is_bookmark_due: false,
            ending: Ending::No,
            deadline: wishes.deadline,
            due: wishes.deadline,
            wakes: None,
            is_parked: false,
        }
    }

    /// Keeps whom to wake, as the watcher finds nothing to do.
    pub(super) fn park(&mut self, caller: &Caller<'_>) {
        if !self.wakes.as_ref().is_some_and(|wakes| wakes.is_of(caller)) {
            self.wakes = Some(Wakes::of(caller));
        }
        self.is_parked = true;
    }

    /// Wakes its stream if it waits.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.is_parked)
            && let Some(wakes) = &self.wakes
        {
            wakes.wake();
        }
    }

    /// It ends at the next poll.
    pub(super) fn end_now(&mut self) {
        self.ending = Ending::Now;
        self.wake();
    }

    /// An event for its group: if it was up to date, it has something to fetch now. Answers
    /// whether that is so.
    pub(super) fn touch(&mut self, sequence: u64, revision: Revision) -> bool {
        if self.standing != Standing::Current || revision <= self.after {
            return false;
        }
        self.standing = Standing::Lagging(Cursor {
            sequence,
            // It was up to date: whatever happened before this revision it has.
            after: Revision(revision.0.saturating_sub(1)),
        });
        true
    }
}
