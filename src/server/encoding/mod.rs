//! Turns objects, lists and events into the bytes that a client reads. No other folder does this.
//!
//! This folder takes cached objects and an [`Encoding`], and returns bytes. It must not know HTTP,
//! users or storage, and does no I/O.
//!
//! The cache holds the JSON of each object in one version, the hub of its stored resource. A
//! [`Shape`] selects the part to show: the whole object, its metadata, or a row of a Table
//! ([`shape`]). A [`Version`] selects the API version ([`api_version`]). A
//! [`MediaType`](media_type::MediaType) selects the bytes: JSON, YAML or protobuf ([`media_type`]).
//! A new shape or media type is one file and one line where it is listed. A version is a definition
//! of the registry. Documents that are not objects (a Status, discovery) are compact JSON, and pass
//! through the same media types.
//!
//! The common case, an unconverted object in compact JSON, only copies slices.

mod api_version;
mod events;
mod json;
mod list;
mod media_type;
mod protobuf;
mod shape;
mod yaml;

use std::sync::Arc;

use actors::object::CachedObject;
use actors::watch::Projection;
use bytes::Bytes;

pub use events::{ends_initial_events, is_bookmark};
pub use list::{CompressedRuns, ListBody, list};
pub use media_type::{JSON, MediaTypeRef, PROTOBUF, YAML};
pub use shape::{IncludeObject, MetaVersion};

use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use api_version::Version;
use shape::{MetadataShape, ObjectShape, Shape, TableShape};

/// The conversion of an object or list (API-66).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// `as=Table`.
    Table(MetaVersion),
    /// `as=PartialObjectMetadata`.
    Metadata(MetaVersion),
    /// `as=PartialObjectMetadataList`.
    MetadataList(MetaVersion),
    /// `as=APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2` (API-31).
    AggregatedDiscovery,
}

/// The format of a response, as negotiated with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Encoding {
    /// The media type.
    pub media_type: MediaTypeRef,
    /// Two-space indentation without a newline at the end (API-60).
    pub pretty: bool,
    /// The conversion, if any.
    pub conversion: Option<Conversion>,
    /// The object in each row of a Table (API-69).
    pub include: IncludeObject,
}

impl Encoding {
    /// Encodes a document that is given as compact JSON (API-57, API-60).
    pub fn document(&self, json: Vec<u8>) -> Vec<u8> {
        self.media_type.get().document(json, self.pretty)
    }

    /// Whether a list needs a first pass over its items before it is sent.
    pub fn is_counted(&self) -> bool {
        !self.media_type.get().is_compact_json(self.pretty)
    }

    /// Returns the frame that ends a stream with an error (API-131, WA-6).
    pub fn error_frame(&self, status: &Status) -> Bytes {
        self.media_type.get().error_frame(status)
    }

    /// Returns this encoding, or JSON for a document whose type has no protobuf schema.
    pub fn for_document(&self, json: &[u8]) -> Encoding {
        let is_written = !self.media_type.is_protobuf() || {
            let mut out = Vec::new();
            crate::api::protobuf::write_document(&crate::kinds::types::TYPES, json, &mut out)
        };
        match is_written {
            true => *self,
            false => Encoding::default(),
        }
    }

    /// Encodes one object of this kind (API-68, API-71).
    ///
    /// # Errors
    /// 406 for a conversion that only lists have. 500 for an object that cannot be shown.
    pub fn object(
        &self,
        kind: &Arc<ResourceDefinition>,
        object: &CachedObject,
    ) -> Result<Vec<u8>, Box<Status>> {
        let shape = self.shape(kind, Content::Object)?;
        // One more byte for the newline at the end.
        let mut json = Vec::with_capacity(shape.object_length(object) + 1);
        if !shape.write_object(object, &mut json) {
            let text = "a stored object can't be converted to the requested form";
            return Err(Box::new(Status::internal(text)));
        }
        Ok(self.document(json))
    }

    /// Returns the encoder of events with objects of this kind (API-74, API-75, API-129).
    ///
    /// # Errors
    /// 406 for a conversion that only lists have, and for a media type without streams.
    pub fn events(
        &self,
        kind: &Arc<ResourceDefinition>,
    ) -> Result<Arc<dyn Projection>, Box<Status>> {
        let shape = self.shape(kind, Content::Event)?;
        let events = self.media_type.get().events(shape, kind);
        events.ok_or_else(|| {
            let streams: Vec<&str> = MediaTypeRef::streams().collect();
            Box::new(Status::not_acceptable(&streams))
        })
    }

    fn shape(
        &self,
        kind: &Arc<ResourceDefinition>,
        content: Content,
    ) -> Result<Box<dyn Shape>, Box<Status>> {
        let refused = |asked: &str, found: &str| {
            let text = format!("you requested {asked}, but {found}");
            Err(Box::new(Status::not_acceptable_because(text)))
        };
        let (name, package) = (&kind.kind, kind.internal_package());
        match (self.conversion, content) {
            (None, _) if self.media_type.is_protobuf() && !protobuf::is_writable(kind) => {
                Err(Box::new(Status::not_acceptable(&[JSON, YAML])))
            }
            (None | Some(Conversion::AggregatedDiscovery), _) => {
                Ok(Box::new(ObjectShape::new(Version::of(kind.clone()))))
            }
            (Some(Conversion::Table(version)), _) => {
                let table = TableShape::new(Version::of(kind.clone()), version, self.include);
                Ok(Box::new(table))
            }
            (Some(Conversion::Metadata(_)), Content::List) => refused(
                "PartialObjectMetadata",
                &format!("the requested object is a list (*{package}.{name}List)"),
            ),
            (Some(Conversion::MetadataList(_)), Content::Object) => refused(
                "PartialObjectMetadataList",
                &format!("the requested object is not a list (*{package}.{name})"),
            ),
            (Some(Conversion::MetadataList(_)), Content::Event) => {
                refused("PartialObjectMetadataList", "events carry single objects")
            }
            (Some(Conversion::Metadata(version) | Conversion::MetadataList(version)), _) => {
                Ok(Box::new(MetadataShape::new(version, kind)))
            }
        }
    }
}

/// The content to encode.
#[derive(Clone, Copy)]
enum Content {
    Object,
    List,
    Event,
}

#[cfg(test)]
pub(in crate::server) mod tests;
