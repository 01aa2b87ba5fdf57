//! The recent events of one resource, addressed by sequence number and bounded by bytes.
//!
//! A plain struct: the Cacher's shared part puts a lock around it, the Cacher appends, Dispatchers
//! copy out references to events. A watcher holds a number and never a place in here, so that
//! dropping the oldest events asks nobody.

mod budget;
mod event;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use budget::{Evict, RingBudget, RingLimits};
pub use event::{Change, RingEvent};

use crate::engine::Revision;

/// See the module's documentation.
#[derive(Debug)]
pub struct Ring {
    events: VecDeque<Arc<RingEvent>>,
    /// The sequence number that the next event gets; that of the oldest one follows from it.
    next: u64,
    /// Every event after this revision is in here.
    floor: Revision,
    /// Everything up to this revision has been taken in, events and progress.
    newest: Revision,
    /// Bytes of the events, frames not counted.
    bytes: usize,
    frame_bytes: Arc<AtomicUsize>,
    /// Events before this sequence number keep no frames any more.
    frames_from: u64,
    /// Whether events have been dropped for room since the last reset.
    has_evicted: bool,
}

/// Sequence numbers left free below a beginning, for events of before it ([`Ring::prepend`]).
const ROOM_BELOW: u64 = 1 << 32;

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            events: VecDeque::new(),
            next: ROOM_BELOW,
            floor: Revision::ZERO,
            newest: Revision::ZERO,
            bytes: 0,
            frame_bytes: Arc::default(),
            frames_from: ROOM_BELOW,
            has_evicted: false,
        }
    }
}

impl Ring {
    /// Forgets all events; a watch from `floor` on can be served from now on (WC-5). Sequence
    /// numbers count on, over those left free, so that no cursor of before means something else
    /// now.
    pub fn reset(&mut self, floor: Revision) -> Vec<Arc<RingEvent>> {
        let dropped = self.events.drain(..).collect();
        // The frames of the dropped events go on being counted, but by nobody who asks.
        self.frame_bytes = Arc::default();
        self.bytes = 0;
        self.floor = floor;
        self.newest = floor;
        self.next += ROOM_BELOW;
        self.frames_from = self.next;
        self.has_evicted = false;
        dropped
    }

    /// Forgets all events and serves no watch until the next [`Ring::reset`].
    pub fn close(&mut self) -> Vec<Arc<RingEvent>> {
        let newest = self.newest;
        let dropped = self.reset(Revision::MAX);
        self.newest = newest;
        dropped
    }

    /// Forgets all events, and one more of this revision that can't be held: who has not got past
    /// it is not served from here any more. It takes a sequence number, so that cursors tell.
    pub fn cut(&mut self, revision: Revision) -> Vec<Arc<RingEvent>> {
        let dropped = self.events.drain(..).collect();
        self.frame_bytes = Arc::default();
        self.bytes = 0;
        self.next += 1;
        self.frames_from = self.next;
        self.floor = revision;
        self.newest = self.newest.max(revision);
        self.has_evicted = true;
        dropped
    }

    /// Appends an event and returns its sequence number.
    pub fn push(&mut self, revision: Revision, change: Change) -> u64 {
        let sequence = self.next;
        let event = RingEvent::new(sequence, revision, change, Arc::clone(&self.frame_bytes));
        self.bytes += event.cost();
        self.events.push_back(Arc::new(event));
        self.next += 1;
        self.newest = self.newest.max(revision);
        sequence
    }

    /// Takes in what happened before the floor: all events after `floor`, in order. Answers whether
    /// it did; not when it has dropped events for room already, or would have to.
    pub fn prepend(
        &mut self,
        floor: Revision,
        changes: Vec<(Revision, Change)>,
        bytes_max: usize,
    ) -> bool {
        let count = changes.len() as u64;
        let mut sequence = self.first();
        if self.has_evicted || floor >= self.floor || count >= ROOM_BELOW {
            return false;
        }
        let mut events = Vec::with_capacity(changes.len());
        let mut bytes = 0;
        for (revision, change) in changes.into_iter().rev() {
            sequence -= 1;
            let event = RingEvent::new(sequence, revision, change, Arc::clone(&self.frame_bytes));
            bytes += event.cost();
            events.push(Arc::new(event));
        }
        if self.bytes() + bytes > bytes_max {
            return false;
        }
        for event in events {
            self.events.push_front(event);
        }
        self.bytes += bytes;
        self.floor = floor;
        self.frames_from = self.first();
        true
    }

    /// Notes that nothing else happened up to this revision (WC-4: not an event).
    pub fn progress(&mut self, revision: Revision) {
        self.newest = self.newest.max(revision);
    }

    /// Drops the oldest revision's events; returns what was dropped, to be freed outside of locks.
    /// A revision goes as a whole: there is no resuming in the middle of one.
    pub fn evict(&mut self) -> Vec<Arc<RingEvent>> {
        let Some(revision) = self.events.front().map(|event| event.revision) else {
            return Vec::new();
        };
        let mut dropped = Vec::new();
        while let Some(event) = self.events.pop_front_if(|event| event.revision == revision) {
            self.bytes -= event.cost();
            event.close_frames();
            dropped.push(event);
        }
        self.floor = revision;
        self.has_evicted = true;
        self.frames_from = self.frames_from.max(self.first());
        dropped
    }

    /// Takes frames away from the oldest events that have any, until all take `bytes_max`.
    pub fn trim_frames(&mut self, bytes_max: usize) {
        while self.frame_bytes.load(Ordering::Relaxed) > bytes_max && self.frames_from < self.next {
            if let Some(event) = self.get(self.frames_from) {
                event.close_frames();
            }
            self.frames_from += 1;
        }
    }

    /// Bytes that live because of this ring.
    pub fn bytes(&self) -> usize {
        self.bytes + self.frame_bytes.load(Ordering::Relaxed)
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The sequence number of the oldest event, or of the next one when there is none.
    pub fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    /// The sequence number that the next event will get.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether older events may be taken in below the floor.
    pub fn can_prepend(&self) -> bool {
        !self.has_evicted
    }

    /// A watch from this revision on, or from a later one, can be served from here.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Everything up to here has been taken in.
    pub fn newest(&self) -> Revision {
        self.newest
    }

    /// The event of a sequence number, unless it is gone or yet to come.
    pub fn get(&self, sequence: u64) -> Option<&Arc<RingEvent>> {
        let at = sequence.checked_sub(self.first())?;
        self.events.get(usize::try_from(at).ok()?)
    }

    /// The events from a sequence number on, oldest first.
    pub fn from(&self, sequence: u64) -> impl Iterator<Item = &Arc<RingEvent>> {
        let skip = sequence.saturating_sub(self.first());
        self.events
            .iter()
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
    }

    /// Where a watch after this revision goes on; `None` when the events after it are gone.
    pub fn after(&self, revision: Revision) -> Option<u64> {
        if revision < self.floor {
            return None;
        }
        let passed = self
            .events
            .partition_point(|event| event.revision <= revision);
        Some(self.first() + passed as u64)
    }
}
