//! `application/vnd.kubernetes.protobuf` (API-58).
//!
//! Shapes write JSON, which is converted to protobuf by the schema of its kind. Custom resources
//! have no such schema, so protobuf is refused for them earlier.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use actors::watch::{Projection, WatchEventKind};
use bytes::Bytes;

use super::api_version::Version;
use super::media_type::{MediaType, PROTOBUF};
use super::shape::{ObjectShape, Shape};
use crate::api::protobuf::{push_bytes, push_opening, write_document};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::types::TYPES;

/// The media type of streams.
const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The bytes of the length before an event.
const LENGTH_BYTES: usize = 4;

/// The protobuf encoding of Kubernetes.
pub(super) struct Protobuf;

impl MediaType for Protobuf {
    fn name(&self) -> &'static str {
        PROTOBUF
    }

    fn stream_name(&self) -> Option<&'static str> {
        Some(STREAM)
    }

    fn stream_content_type(&self) -> &'static str {
        STREAM
    }

    fn is_protobuf(&self) -> bool {
        true
    }

    fn error_frame(&self, status: &Status) -> Bytes {
        frame("ERROR", &status.to_json())
    }

    fn event_of(&self, frame: Bytes) -> Bytes {
        frame.slice(LENGTH_BYTES.min(frame.len())..)
    }

    /// Encodes a document. One of an unknown type stays JSON; callers check [`is_writable`] first.
    fn document(&self, json: Vec<u8>, _pretty: bool) -> Vec<u8> {
        let mut out = Vec::new();
        match write_document(&TYPES, &json, &mut out) {
            true => out,
            false => json,
        }
    }

    fn events(
        &self,
        shape: Box<dyn Shape>,
        kind: &Arc<ResourceDefinition>,
    ) -> Option<Arc<dyn Projection>> {
        Some(Arc::new(ProtobufEvents {
            identity: format!("protobuf;{}", shape.identity()),
            shape,
            kind: kind.clone(),
        }))
    }
}

/// Whether objects of a kind have a protobuf schema (API-59).
pub(super) fn is_writable(kind: &ResourceDefinition) -> bool {
    TYPES.kind(&kind.api_version(), &kind.kind).is_some()
}

/// Encodes an event as a frame: its length in four bytes, its type, and its object in an envelope.
fn frame(kind: &str, json: &[u8]) -> Bytes {
    let mut object = Vec::new();
    if !write_document(&TYPES, json, &mut object) {
        tracing::error!(kind, "converting the object of an event to protobuf failed");
    }
    let mut raw = Vec::with_capacity(object.len() + 8);
    push_bytes(&mut raw, 1, &object);
    let mut frame = Vec::with_capacity(raw.len() + 32);
    frame.resize(LENGTH_BYTES, 0);
    push_bytes(&mut frame, 1, kind.as_bytes());
    push_opening(&mut frame, 2, raw.len());
    frame.extend_from_slice(&raw);
    let length = u32::try_from(frame.len() - LENGTH_BYTES).unwrap_or(u32::MAX);
    if let Some(place) = frame.first_chunk_mut::<LENGTH_BYTES>() {
        *place = length.to_be_bytes();
    }
    Bytes::from(frame)
}

/// The type of a bookmark, which follows the length of its frame.
pub(super) const BOOKMARK: &[u8] = b"\x0a\x08BOOKMARK";

fn name(kind: WatchEventKind) -> &'static str {
    match kind {
        WatchEventKind::Added => "ADDED",
        WatchEventKind::Modified => "MODIFIED",
        WatchEventKind::Deleted => "DELETED",
    }
}

/// Events with objects of one kind in one shape.
struct ProtobufEvents {
    shape: Box<dyn Shape>,
    kind: Arc<ResourceDefinition>,
    identity: String,
}

impl Projection for ProtobufEvents {
    fn identity(&self) -> &str {
        &self.identity
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
        let mut json = Vec::with_capacity(self.shape.object_length(object) + 64);
        if !self.shape.write_event(object, at, first, &mut json) {
            // kube-apiserver sends an object that it cannot convert unchanged (API-74).
            json.clear();
            let whole = ObjectShape::new(Version::of(self.kind.clone()));
            whole.write_event(object, at, first, &mut json);
        }
        frame(name(kind), &json)
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, first: bool) -> Bytes {
        let mut json = Vec::new();
        let shape = &self.shape;
        shape.write_bookmark(revision, initial_events_end, first, &mut json);
        frame("BOOKMARK", &json)
    }

    fn error(&self, message: &str) -> Bytes {
        frame("ERROR", &Status::internal(message).to_json())
    }

    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes {
        frame("ERROR", &Status::expired_watch(reached, oldest).to_json())
    }
}
