//! One event of a ring, and the frames that were rendered of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::engine::Revision;
use crate::object::CachedObject;
use crate::watch::{Projection, WatchEventKind};

/// A change of one object. All who deliver it share it.
#[derive(Debug)]
pub struct RingEvent {
    /// Its sequence number. Numbers continue across refills.
    pub sequence: u64,
    /// The revision it happened at.
    pub revision: Revision,
    /// The object after the event; `None` when it was deleted.
    pub current: Option<Arc<CachedObject>>,
    /// The object before it; `None` when it was created.
    pub previous: Option<Arc<CachedObject>>,
    /// When it was put into the ring; `None` if that was long after it happened.
    pub since: Option<Instant>,
    frames: Mutex<Frames>,
    frame_bytes: Arc<AtomicUsize>,
}

/// The frames rendered so far. They are closed when the ring takes their memory back. From then on
/// a frame is rendered for each caller and not kept, so that the ring's count of bytes stays exact.
#[derive(Debug, Default)]
struct Frames {
    is_closed: bool,
    rendered: Vec<RenderedFrame>,
}

#[derive(Debug)]
struct RenderedFrame {
    projection: SmolStr,
    kind: WatchEventKind,
    frame: Bytes,
}

/// The memory of an event in addition to its objects: itself, its counters, its entry in the ring,
/// and the allocator's overhead.
const EVENT_OVERHEAD_BYTES: usize = 128;

impl RingEvent {
    pub(super) fn new(
        sequence: u64,
        revision: Revision,
        change: ObjectChange,
        since: Option<Instant>,
        frame_bytes: Arc<AtomicUsize>,
    ) -> RingEvent {
        RingEvent {
            sequence,
            revision,
            current: change.current,
            previous: change.previous,
            since,
            frames: Mutex::default(),
            frame_bytes,
        }
    }

    /// The bytes of the object's physical key.
    pub fn key(&self) -> &[u8] {
        let object = self.current.as_ref().or(self.previous.as_ref());
        object.map_or(&[], |object| object.key())
    }

    /// The frame that shows this event as `kind`. It is rendered at most once for each projection
    /// and kind, for all threads (WC-11).
    ///
    /// `None` if there is nothing to show: an ADDED without a current object, a DELETED without a
    /// previous one. [`crate::watch::transition`] never asks for those.
    pub fn frame(&self, kind: WatchEventKind, projection: &dyn Projection) -> Option<Bytes> {
        // Rendered under the lock. Another thread that wants the same frame waits for it, which is
        // faster than to render it again.
        let mut frames = self.frames.lock();
        let rendered = frames
            .rendered
            .iter()
            .find(|frame| frame.kind == kind && frame.projection == projection.identity());
        if let Some(rendered) = rendered {
            return Some(rendered.frame.clone());
        }
        let frame = projection.frame(kind, self.shown(kind)?, self.revision, false);
        if !frames.is_closed {
            self.frame_bytes.fetch_add(frame.len(), Ordering::Relaxed);
            frames.rendered.reserve_exact(1);
            frames.rendered.push(RenderedFrame {
                projection: SmolStr::new(projection.identity()),
                kind,
                frame: frame.clone(),
            });
        }
        Some(frame)
    }

    /// The frame for a stream that has sent nothing yet. It is not kept, because few streams need
    /// it.
    pub fn first_frame(&self, kind: WatchEventKind, projection: &dyn Projection) -> Option<Bytes> {
        Some(projection.frame(kind, self.shown(kind)?, self.revision, true))
    }

    fn shown(&self, kind: WatchEventKind) -> Option<&CachedObject> {
        match kind {
            WatchEventKind::Added | WatchEventKind::Modified => self.current.as_deref(),
            WatchEventKind::Deleted => self.previous.as_deref(),
        }
    }

    /// Drops the rendered frames and keeps none from now on.
    pub(super) fn close_frames(&self) {
        let mut frames = self.frames.lock();
        frames.is_closed = true;
        let rendered = std::mem::take(&mut frames.rendered);
        let bytes: usize = rendered.iter().map(|rendered| rendered.frame.len()).sum();
        self.frame_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes that are in memory only because of this event: the object it replaced. The current
    /// object is counted by the cache, or by the event that replaces it.
    pub(super) fn cost(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |object| object.size());
        EVENT_OVERHEAD_BYTES + previous
    }
}

/// A change to be put into a ring. One of the objects at least is there.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// The object after the change.
    pub current: Option<Arc<CachedObject>>,
    /// The object before it.
    pub previous: Option<Arc<CachedObject>>,
}
