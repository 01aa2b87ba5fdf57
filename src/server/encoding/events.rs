//! Watch events in JSON (API-129, API-135).
//!
//! Each frame is built once for all watches of a group. It consists of an object in its shape
//! between a prefix and a suffix, in one allocation of the exact size if that is known.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use actors::watch::{Projection, WatchEventKind};
use bytes::Bytes;

use super::api_version::Version;
use super::shape::{ObjectShape, Shape};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;

const END: &[u8] = b"}\n";
const BOOKMARK: &[u8] = br#"{"type":"BOOKMARK","object":"#;
const ERROR: &[u8] = br#"{"type":"ERROR","object":"#;

/// Returns the text before the object of an event.
fn beginning(kind: WatchEventKind) -> &'static [u8] {
    match kind {
        WatchEventKind::Added => br#"{"type":"ADDED","object":"#,
        WatchEventKind::Modified => br#"{"type":"MODIFIED","object":"#,
        WatchEventKind::Deleted => br#"{"type":"DELETED","object":"#,
    }
}

/// Returns the frame that ends a stream with an error (API-131, WA-6).
pub fn error_frame(status: &Status) -> Bytes {
    Bytes::from([ERROR, &status.to_json(), END].concat())
}

/// The annotation of the bookmark that ends the initial events (WA-15).
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Whether a frame is a bookmark.
pub fn is_bookmark(frame: &[u8]) -> bool {
    frame.starts_with(BOOKMARK)
        || frame
            .get(4..)
            .is_some_and(|event| event.starts_with(super::protobuf::BOOKMARK))
}

/// Whether a frame is the bookmark that ends the initial events (WA-15).
pub fn ends_initial_events(frame: &[u8]) -> bool {
    const MARK: &[u8] = INITIAL_EVENTS_END.as_bytes();
    is_bookmark(frame) && frame.windows(MARK.len()).any(|window| window == MARK)
}

/// Events with objects of one kind in one shape.
pub(super) struct JsonEvents {
    shape: Box<dyn Shape>,
    kind: Arc<ResourceDefinition>,
}

impl JsonEvents {
    /// Creates events in this shape.
    pub fn new(shape: Box<dyn Shape>, kind: Arc<ResourceDefinition>) -> JsonEvents {
        JsonEvents { shape, kind }
    }
}

fn frame_of(
    shape: &dyn Shape,
    kind: WatchEventKind,
    object: &CachedObject,
    at: Revision,
    first: bool,
) -> Option<Bytes> {
    let beginning = beginning(kind);
    let length = beginning.len() + shape.object_length(object) + END.len();
    let mut frame = Vec::with_capacity(length);
    frame.extend_from_slice(beginning);
    if !shape.write_event(object, at, first, &mut frame) {
        return None;
    }
    frame.extend_from_slice(END);
    Some(Bytes::from(frame))
}

impl Projection for JsonEvents {
    fn identity(&self) -> &str {
        self.shape.identity()
    }

    fn first_differs(&self) -> bool {
        self.shape.first_event_differs()
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        first: bool,
    ) -> Bytes {
        let at = kind.shown_revision(object, revision);
        frame_of(&*self.shape, kind, object, at, first)
            .or_else(|| {
                // kube-apiserver sends an object that it cannot convert unchanged (API-74).
                let whole = ObjectShape::new(Version::of(self.kind.clone()));
                frame_of(&whole, kind, object, at, first)
            })
            .unwrap_or_default()
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, first: bool) -> Bytes {
        let mut frame = BOOKMARK.to_vec();
        let shape = &self.shape;
        shape.write_bookmark(revision, initial_events_end, first, &mut frame);
        frame.extend_from_slice(END);
        Bytes::from(frame)
    }

    fn error(&self, message: &str) -> Bytes {
        error_frame(&Status::internal(message))
    }

    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes {
        error_frame(&Status::expired_watch(reached, oldest))
    }
}
