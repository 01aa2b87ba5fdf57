//! The forms in which watches send their events (API-74, API-75, API-129, API-135).
//!
//! A frame is made once for all watchers of a group: the wire form between a prefix and a suffix,
//! in one allocation of exact size.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use actors::watch::{Projection, WatchEventKind};
use bytes::Bytes;

use super::conversion::{self, TableForm};
use super::negotiation::MetaVersion;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::clock;

const END: &[u8] = b"}\n";

/// What stands before the object of an event.
fn beginning(kind: WatchEventKind) -> &'static [u8] {
    match kind {
        WatchEventKind::Added => br#"{"type":"ADDED","object":"#,
        WatchEventKind::Modified => br#"{"type":"MODIFIED","object":"#,
        WatchEventKind::Deleted => br#"{"type":"DELETED","object":"#,
    }
}

const BOOKMARK: &[u8] = br#"{"type":"BOOKMARK","object":"#;

/// A frame of these pieces, allocated once.
fn frame_of(pieces: &[&[u8]]) -> Bytes {
    Bytes::from(pieces.concat())
}

/// The frame that ends a stream with a refusal (API-131, WA-6).
pub fn error_frame(status: &Status) -> Bytes {
    frame_of(&[br#"{"type":"ERROR","object":"#, &status.to_json(), END])
}

/// The plain frame of an event.
fn json_frame(kind: WatchEventKind, object: &CachedObject, revision: Revision) -> Bytes {
    if kind != WatchEventKind::Deleted || object.revision == revision {
        return frame_of(&[beginning(kind), &object.wire, END]);
    }
    let (before, after) = object.around_revision();
    let member = format!(r#""resourceVersion":"{revision}","#);
    frame_of(&[beginning(kind), before, member.as_bytes(), after, END])
}

/// Objects as they are.
pub struct JsonProjection {
    definition: Arc<ResourceDefinition>,
}

impl JsonProjection {
    /// Events of a resource as JSON.
    pub fn new(definition: impl Into<Arc<ResourceDefinition>>) -> JsonProjection {
        JsonProjection {
            definition: definition.into(),
        }
    }
}

impl Projection for JsonProjection {
    fn identity(&self) -> &str {
        "json"
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        _first: bool,
    ) -> Bytes {
        json_frame(kind, object, revision)
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, _first: bool) -> Bytes {
        let metadata = conversion::bookmark_metadata(revision, initial_events_end);
        let mut frame = BOOKMARK.to_vec();
        conversion::write_bookmark_object(&self.definition, &metadata, &mut frame);
        frame.extend_from_slice(END);
        Bytes::from(frame)
    }

    fn error(&self, message: &str) -> Bytes {
        error_frame(&Status::internal(message))
    }
}

/// The metadata of objects alone (API-75).
pub struct MetadataProjection {
    version: MetaVersion,
}

impl MetadataProjection {
    /// Events as `PartialObjectMetadata` of this version.
    pub fn new(version: MetaVersion) -> MetadataProjection {
        MetadataProjection { version }
    }

    fn with_metadata(&self, beginning: &[u8], metadata: &[u8]) -> Bytes {
        let mut frame = Vec::with_capacity(beginning.len() + metadata.len() + 96);
        frame.extend_from_slice(beginning);
        conversion::write_partial_metadata(metadata, self.version, &mut frame);
        frame.extend_from_slice(END);
        Bytes::from(frame)
    }
}

impl Projection for MetadataProjection {
    fn identity(&self) -> &str {
        match self.version {
            MetaVersion::V1 => "metadata;v1",
            MetaVersion::V1Beta1 => "metadata;v1beta1",
        }
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        _first: bool,
    ) -> Bytes {
        if object.revision == revision {
            return self.with_metadata(beginning(kind), conversion::metadata_of(object));
        }
        let moved = object.wire_at(revision);
        let body = moved.get(object.body as usize..).unwrap_or_default();
        self.with_metadata(beginning(kind), conversion::metadata_within(body))
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, _first: bool) -> Bytes {
        let metadata = conversion::bookmark_metadata(revision, initial_events_end);
        self.with_metadata(BOOKMARK, metadata.as_bytes())
    }

    fn error(&self, message: &str) -> Bytes {
        error_frame(&Status::internal(message))
    }
}

/// One-row Tables, with the columns in the first one of a stream only (API-74).
pub struct TableProjection {
    form: TableForm,
    identity: String,
}

impl TableProjection {
    /// Events as Tables of this form.
    pub fn new(form: TableForm) -> TableProjection {
        TableProjection {
            identity: form.identity(),
            form,
        }
    }

    fn table(
        &self,
        beginning: &[u8],
        revision: Revision,
        first: bool,
        write_row: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Option<Bytes> {
        let mut frame = beginning.to_vec();
        let metadata = format!(r#""resourceVersion":"{revision}""#);
        self.form.write_opening(&metadata, first, &mut frame);
        if !write_row(&mut frame) {
            return None;
        }
        frame.extend_from_slice(b"]}");
        frame.extend_from_slice(END);
        Some(Bytes::from(frame))
    }
}

impl Projection for TableProjection {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn first_differs(&self) -> bool {
        true
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        first: bool,
    ) -> Bytes {
        let moved;
        let object = if object.revision == revision || kind != WatchEventKind::Deleted {
            object
        } else {
            moved = object.at(revision);
            &moved
        };
        let now = clock::now();
        self.table(beginning(kind), object.revision, first, |frame| {
            self.form.write_row(object, now, frame)
        })
        // What can't be converted goes out as it is (API-74).
        .unwrap_or_else(|| json_frame(kind, object, revision))
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, first: bool) -> Bytes {
        self.table(BOOKMARK, revision, first, |frame| {
            self.form
                .write_bookmark_row(revision, initial_events_end, frame);
            true
        })
        .unwrap_or_default()
    }

    fn error(&self, message: &str) -> Bytes {
        error_frame(&Status::internal(message))
    }
}

#[cfg(test)]
mod tests;
