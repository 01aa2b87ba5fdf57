//! Whole objects, without conversion.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;

use super::{ItemForm, ListMetadata, Shape, bookmark_metadata, list_opening};
use crate::api::resource::ResourceDefinition;

/// The shape of whole objects.
pub(in crate::server::encoding) struct ObjectShape {
    kind: Arc<ResourceDefinition>,
}

impl ObjectShape {
    /// Creates the shape for objects of a kind.
    pub fn new(kind: Arc<ResourceDefinition>) -> ObjectShape {
        ObjectShape { kind }
    }
}

impl Shape for ObjectShape {
    fn identity(&self) -> &str {
        "object"
    }

    fn object_length(&self, object: &CachedObject) -> usize {
        object.wire.len()
    }

    fn write_object(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&object.wire);
        true
    }

    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8> {
        let kind = format!("{}List", self.kind.kind);
        list_opening(&kind, &self.kind.api_version(), metadata)
    }

    /// Items of a typed list have neither kind nor apiVersion (API-61).
    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(object.item_body());
    }

    fn item_length(&self, object: &CachedObject) -> Option<usize> {
        Some(1 + object.item_body().len())
    }

    fn kept_as(&self) -> Option<ItemForm> {
        Some(ItemForm::Object)
    }

    fn write_event(
        &self,
        object: &CachedObject,
        at: Revision,
        _first: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        if object.revision == at {
            return self.write_object(object, out);
        }
        let (before, after) = object.around_revision();
        let member = format!(r#""resourceVersion":"{at}","#);
        for piece in [before, member.as_bytes(), after] {
            out.extend_from_slice(piece);
        }
        true
    }

    fn write_bookmark(
        &self,
        revision: Revision,
        ends_initial: bool,
        _first: bool,
        out: &mut Vec<u8>,
    ) {
        let metadata = bookmark_metadata(revision, ends_initial);
        write_bookmark_object(&self.kind, &metadata, out);
    }
}

/// The object of a bookmark: kind, apiVersion and metadata (WA-41).
pub(super) fn write_bookmark_object(kind: &ResourceDefinition, metadata: &str, out: &mut Vec<u8>) {
    let (name, version) = (&kind.kind, kind.api_version());
    let empty = kind.placeholder_schema.empty_members();
    out.extend_from_slice(
        format!(r#"{{"kind":"{name}","apiVersion":"{version}","metadata":{metadata}{empty}}}"#)
            .as_bytes(),
    );
}
