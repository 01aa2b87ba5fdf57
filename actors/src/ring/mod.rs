//! The ring buffer of one resource's recent events, and the memory budget of all rings.
//!
//! It owns the events, which are addressed by sequence number and bounded by bytes, and the frames
//! that were rendered of them. A Cacher adds changes; Dispatchers get references to events. It must
//! know nothing of watchers: a watcher holds a sequence number and no reference into the ring, so
//! old events can be dropped freely. It has no lock: the watch cache has one.

mod budget;
mod event;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub use budget::{Evict, RingBudget, RingLimits, RingShare};
pub use event::{ObjectChange, RingEvent};

use crate::engine::Revision;

/// The recent events of one resource.
#[derive(Debug)]
pub struct Ring {
    events: VecDeque<Arc<RingEvent>>,
    /// The sequence number of the next event. That of the oldest event follows from it.
    next: u64,
    /// Every event after this revision is in the ring.
    floor: Revision,
    /// Everything up to this revision is in the ring, by events or by progress.
    newest: Revision,
    /// Bytes of the events, frames not counted.
    bytes: usize,
    frame_bytes: Arc<AtomicUsize>,
    /// Events before this sequence number keep no frames.
    frames_from: u64,
    /// Whether events were evicted since the last reset.
    has_evicted: bool,
}

/// Sequence numbers left free below the first event, for earlier events ([`Ring::prepend`]).
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
    /// Drops all events. Watches after `floor` can be served from now on (WC-5). Sequence numbers
    /// continue beyond those left free, so that no old cursor finds a new event. Returns the
    /// dropped events.
    pub fn reset(&mut self, floor: Revision) -> Vec<Arc<RingEvent>> {
        let dropped = self.events.drain(..).collect();
        // The dropped events go on counting their frames in the old counter.
        self.frame_bytes = Arc::default();
        self.bytes = 0;
        self.floor = floor;
        self.newest = floor;
        self.next += ROOM_BELOW;
        self.frames_from = self.next;
        self.has_evicted = false;
        dropped
    }

    /// Drops all events. No watch can be served until the next [`Ring::reset`].
    pub fn close(&mut self) -> Vec<Arc<RingEvent>> {
        let newest = self.newest;
        let dropped = self.reset(Revision::MAX);
        self.newest = newest;
        dropped
    }

    /// Drops all events, and an event of this revision that the ring can't hold. Watches that are
    /// not past it can't be served from the ring. The event takes a sequence number, so that their
    /// cursors are found to be evicted.
    pub fn push_gap(&mut self, revision: Revision) -> Vec<Arc<RingEvent>> {
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
    pub fn push(&mut self, revision: Revision, change: ObjectChange) -> u64 {
        let sequence = self.next;
        let (since, frames) = (Some(Instant::now()), Arc::clone(&self.frame_bytes));
        let event = RingEvent::new(sequence, revision, change, since, frames);
        self.bytes += event.cost();
        self.events.push_back(Arc::new(event));
        self.next += 1;
        self.newest = self.newest.max(revision);
        sequence
    }

    /// Puts all events after `floor` before the ring's events, in order. Returns whether it did:
    /// not if the ring has evicted events, or would have to.
    pub fn prepend(
        &mut self,
        floor: Revision,
        changes: Vec<(Revision, ObjectChange)>,
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
            let frames = Arc::clone(&self.frame_bytes);
            let event = RingEvent::new(sequence, revision, change, None, frames);
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

    /// Records that no other event happened up to this revision (WC-4).
    pub fn progress(&mut self, revision: Revision) {
        self.newest = self.newest.max(revision);
    }

    /// Drops the events of the oldest revision, all together, because a watch can't resume in the
    /// middle of a revision. Returns them, to be freed outside the lock.
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

    /// Drops the frames of the oldest events until all frames take at most `bytes_max`.
    pub fn trim_frames(&mut self, bytes_max: usize) {
        while self.frame_bytes.load(Ordering::Relaxed) > bytes_max && self.frames_from < self.next {
            if let Some(event) = self.get(self.frames_from) {
                event.close_frames();
            }
            self.frames_from += 1;
        }
    }

    /// Bytes that are in memory only because of this ring.
    pub fn bytes(&self) -> usize {
        self.bytes + self.frame_bytes.load(Ordering::Relaxed)
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The sequence number of the oldest event, or of the next one if there is none.
    pub fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    /// The sequence number of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether older events can be put before the floor.
    pub fn can_prepend(&self) -> bool {
        !self.has_evicted
    }

    /// Watches after this revision, or after a later one, can be served from the ring.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Everything up to this revision is in the ring.
    pub fn newest(&self) -> Revision {
        self.newest
    }

    /// The event of a sequence number, unless it was dropped or is in the future.
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

    /// The sequence number at which a watch after this revision continues; `None` if events after
    /// it were dropped.
    pub fn after(&self, revision: Revision) -> Option<u64> {
        if revision < self.floor {
            return None;
        }
        let skipped = self
            .events
            .partition_point(|event| event.revision <= revision);
        Some(self.first() + skipped as u64)
    }
}
