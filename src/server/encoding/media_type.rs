//! The media types of responses. A new one is a file with its [`MediaType`] and a line in
//! [`MEDIA_TYPES`]; negotiation, 406 and responses follow from these.

use std::fmt;
use std::sync::Arc;

use actors::watch::Projection;
use bytes::Bytes;

use super::events;
use super::json::Json;
use super::protobuf::Protobuf;
use super::shape::Shape;
use super::yaml::Yaml;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;

/// `application/json`.
pub const JSON: &str = "application/json";
/// `application/yaml`.
pub const YAML: &str = "application/yaml";
/// `application/vnd.kubernetes.protobuf`.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media types of responses, in the order in which 406 lists them. The first is the default.
pub(super) static MEDIA_TYPES: &[&dyn MediaType] = &[&Json, &Yaml, &Protobuf];

/// A media type.
pub(super) trait MediaType: Sync {
    /// Returns the name, without parameters (API-57).
    fn name(&self) -> &'static str;

    /// Returns the name of the event streams, if the media type has any.
    fn stream_name(&self) -> Option<&'static str> {
        None
    }

    /// Returns the Content-Type of event streams (API-57).
    fn stream_content_type(&self) -> &'static str {
        self.name()
    }

    /// Whether the media type is protobuf, in which only documents of known types can be written.
    fn is_protobuf(&self) -> bool {
        false
    }

    /// Whether the media type is YAML.
    fn is_yaml(&self) -> bool {
        false
    }

    /// Returns the frame that ends a stream with an error (API-131, WA-6).
    fn error_frame(&self, status: &Status) -> Bytes {
        events::error_frame(status)
    }

    /// Returns the event of a frame, for a protocol whose messages have lengths of their own.
    fn event_of(&self, frame: Bytes) -> Bytes {
        frame
    }

    /// Converts a document from compact JSON (API-60).
    fn document(&self, json: Vec<u8>, pretty: bool) -> Vec<u8>;

    /// Whether a list is compact JSON, which is sent in pieces while it is written.
    fn is_compact_json(&self, _pretty: bool) -> bool {
        false
    }

    /// Returns the events of objects of a kind in this shape, if the media type has streams.
    fn events(
        &self,
        _shape: Box<dyn Shape>,
        _kind: &Arc<ResourceDefinition>,
    ) -> Option<Arc<dyn Projection>> {
        None
    }
}

/// One of [`MEDIA_TYPES`].
#[derive(Clone, Copy)]
pub struct MediaTypeRef(&'static dyn MediaType);

impl MediaTypeRef {
    /// Returns the media type with this name, which must be in lower case.
    pub fn named(name: &str) -> Option<MediaTypeRef> {
        let mut all = MEDIA_TYPES.iter();
        all.find(|known| known.name() == name)
            .map(|known| MediaTypeRef(*known))
    }

    /// Returns the name, without parameters.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the Content-Type of event streams (API-57).
    pub fn stream_content_type(self) -> &'static str {
        self.0.stream_content_type()
    }

    /// Whether the media type is protobuf, in which only documents of known types can be written.
    pub fn is_protobuf(self) -> bool {
        self.0.is_protobuf()
    }

    /// Returns the event of a frame, for a protocol whose messages have lengths of their own.
    pub fn event_of(self, frame: Bytes) -> Bytes {
        self.0.event_of(frame)
    }

    /// Whether the media type has event streams.
    pub fn has_streams(self) -> bool {
        self.0.stream_name().is_some()
    }

    pub(super) fn get(self) -> &'static dyn MediaType {
        self.0
    }

    /// Returns the names of all media types.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MEDIA_TYPES.iter().map(|known| known.name())
    }

    /// Returns the names of all event streams.
    pub fn streams() -> impl Iterator<Item = &'static str> {
        MEDIA_TYPES.iter().filter_map(|known| known.stream_name())
    }
}

impl Default for MediaTypeRef {
    fn default() -> MediaTypeRef {
        MediaTypeRef(&Json)
    }
}

impl PartialEq for MediaTypeRef {
    fn eq(&self, other: &MediaTypeRef) -> bool {
        self.name() == other.name()
    }
}

impl Eq for MediaTypeRef {}

impl fmt::Debug for MediaTypeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
