//! One watcher of a ResourceDispatcher: its progress, its bookmarks and its end. Pure.

use super::caller::{Caller, StreamWaker};
use super::schedule::Tick;
use crate::engine::Revision;

/// One watcher of a ResourceDispatcher.
#[derive(Debug)]
pub(super) struct Member {
    /// The number of its group.
    pub(super) group: u32,
    pub(super) index_in_group: u32,
    pub(super) progress: Progress,
    /// Events up to here are not sent to it: they precede its start, came from history, or are
    /// covered by a bookmark (WA-10).
    pub(super) after: Revision,
    /// Bookmarks up to here are not sent to it (WA-44).
    pub(super) start: Revision,
    /// Whether it was sent a frame.
    pub(super) has_sent: bool,
    pub(super) wants_bookmarks: bool,
    pub(super) is_bookmark_due: bool,
    pub(super) ending: Ending,
    pub(super) deadline: Tick,
    /// When its next bookmark is due, or its deadline.
    pub(super) due: Tick,
    waker: Option<StreamWaker>,
    is_parked: bool,
}

/// How far a watcher has got in the stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has everything up to the position of its ResourceDispatcher.
    Current,
    /// It has something to fetch from the ring.
    Lagging(Cursor),
    /// It does not follow the ring: it gets initial events or history.
    NotFollowing,
}

/// The position of a watcher that has something to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The next event to read.
    pub(super) sequence: u64,
    /// The watcher has everything up to here. If the ring drops the next event, the watcher reads
    /// history after this revision.
    pub(super) after: Revision,
}

/// Whether and how a watcher ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It does not end.
    No,
    /// Once it is up to date, and was sent a bookmark if one is due.
    OnceCurrent,
    /// At the next poll.
    Now,
    /// At the next poll, with an ERROR event: the store was reset and begins at this revision.
    Expired(Revision),
}

impl Ending {
    /// Whether the next poll ends the watcher.
    pub(super) fn is_due(self) -> bool {
        matches!(self, Ending::Now | Ending::Expired(_))
    }
}

/// The initial state of a member.
pub(super) struct NewMember {
    pub(super) group: u32,
    pub(super) index_in_group: u32,
    pub(super) start: Revision,
    pub(super) wants_bookmarks: bool,
    pub(super) deadline: Tick,
}

impl Member {
    pub(super) fn new(new: NewMember) -> Member {
        Member {
            group: new.group,
            index_in_group: new.index_in_group,
            progress: Progress::NotFollowing,
            after: Revision::ZERO,
            start: new.start,
            has_sent: false,
            wants_bookmarks: new.wants_bookmarks,
            is_bookmark_due: false,
            ending: Ending::No,
            deadline: new.deadline,
            due: new.deadline,
            waker: None,
            is_parked: false,
        }
    }

    /// Remembers the stream to wake.
    pub(super) fn park(&mut self, caller: &Caller<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.is_of(caller)) {
            self.waker = Some(StreamWaker::of(caller));
        }
        self.is_parked = true;
    }

    /// StreamWaker its stream if it is parked.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.is_parked)
            && let Some(waker) = &self.waker
        {
            waker.wake();
        }
    }

    /// Ends its stream at the next poll.
    pub(super) fn end_now(&mut self) {
        // The reason that it already has to end at the next poll stays.
        if !self.ending.is_due() {
            self.ending = Ending::Now;
        }
        self.wake();
    }

    /// Ends its stream with an ERROR event at the next poll.
    pub(super) fn expire(&mut self, oldest: Revision) {
        self.ending = Ending::Expired(oldest);
        self.wake();
    }

    /// Marks the member as lagging if it was up to date and the event is for it. Returns whether it
    /// did.
    pub(super) fn mark_lagging(&mut self, sequence: u64, revision: Revision) -> bool {
        if self.progress != Progress::Current || revision <= self.after {
            return false;
        }
        self.progress = Progress::Lagging(Cursor {
            sequence,
            // It was up to date, so it has everything before this revision.
            after: Revision(revision.0.saturating_sub(1)),
        });
        true
    }
}
