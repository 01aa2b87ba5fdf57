//! One event of a ring, and the frames that have been made of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::engine::{Key, Revision};
use crate::object::CachedObject;
use crate::watch::{Projection, WatchEventKind};

/// A change of one object, shared by everyone who delivers it.
#[derive(Debug)]
pub struct RingEvent {
    /// Its place in the ring; counts on for ever, across refills too.
    pub sequence: u64,
    /// The revision it happened at.
    pub revision: Revision,
    /// The object's physical key.
    pub key: Key,
    /// The object after the event; `None` when it was deleted.
    pub current: Option<Arc<CachedObject>>,
    /// The object before it; `None` when it was created.
    pub previous: Option<Arc<CachedObject>>,
    frames: Mutex<Frames>,
    frame_bytes: Arc<AtomicUsize>,
}

/// The frames made so far. Closed once the ring wants their memory back: from then on a frame is
/// made for whoever asks and not kept, so that the ring's count of bytes stays true.
#[derive(Debug, Default)]
struct Frames {
    closed: bool,
    made: Vec<MadeFrame>,
}

#[derive(Debug)]
struct MadeFrame {
    projection: SmolStr,
    kind: WatchEventKind,
    frame: Bytes,
}

/// What an event costs beside the objects it refers to: itself, its counters, its place in the
/// ring, and what the allocator adds.
const EVENT_OVERHEAD_BYTES: usize = 144;

impl RingEvent {
    pub(super) fn new(
        sequence: u64,
        revision: Revision,
        change: Change,
        frame_bytes: Arc<AtomicUsize>,
    ) -> RingEvent {
        RingEvent {
            sequence,
            revision,
            key: change.key,
            current: change.current,
            previous: change.previous,
            frames: Mutex::default(),
            frame_bytes,
        }
    }

    /// The frame that shows this event as `kind`; made at most once for each projection and kind,
    /// whoever asks, on whatever thread (WC-11).
    ///
    /// `None` when there is nothing to show: an ADDED without a current object, a DELETED
    /// without a previous one. [`crate::watch::transition`] never asks for those.
    pub fn frame(&self, kind: WatchEventKind, projection: &dyn Projection) -> Option<Bytes> {
        // Made under the lock: another thread that wants the same waits less than it would work.
        let mut frames = self.frames.lock();
        let made = frames
            .made
            .iter()
            .find(|made| made.kind == kind && made.projection == projection.identity());
        if let Some(made) = made {
            return Some(made.frame.clone());
        }
        let frame = projection.frame(kind, self.shown(kind)?, self.revision, false);
        if !frames.closed {
            self.frame_bytes.fetch_add(frame.len(), Ordering::Relaxed);
            frames.made.reserve_exact(1);
            frames.made.push(MadeFrame {
                projection: SmolStr::new(projection.identity()),
                kind,
                frame: frame.clone(),
            });
        }
        Some(frame)
    }

    /// The frame for a stream that has sent nothing yet; never kept, as few streams need it.
    pub fn first_frame(&self, kind: WatchEventKind, projection: &dyn Projection) -> Option<Bytes> {
        Some(projection.frame(kind, self.shown(kind)?, self.revision, true))
    }

    fn shown(&self, kind: WatchEventKind) -> Option<&CachedObject> {
        match kind {
            WatchEventKind::Added | WatchEventKind::Modified => self.current.as_deref(),
            WatchEventKind::Deleted => self.previous.as_deref(),
        }
    }

    /// Lets go of the frames made and keeps none from now on.
    pub(super) fn close_frames(&self) {
        let mut frames = self.frames.lock();
        frames.closed = true;
        let made = std::mem::take(&mut frames.made);
        let bytes: usize = made.iter().map(|made| made.frame.len()).sum();
        self.frame_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes that live only because this event is remembered: the object it replaced. The
    /// current one belongs to the cache, or to the event that replaces it in turn.
    pub(super) fn cost(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |object| object.size());
        EVENT_OVERHEAD_BYTES + previous
    }
}

/// A change on its way into a ring.
#[derive(Clone, Debug)]
pub struct Change {
    /// The object's physical key.
    pub key: Key,
    /// The object after the change.
    pub current: Option<Arc<CachedObject>>,
    /// The object before it.
    pub previous: Option<Arc<CachedObject>>,
}
