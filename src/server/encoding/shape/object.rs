//! Whole objects, as slices of the cached text.

use actors::engine::Revision;
use actors::object::CachedObject;

use super::{ItemForm, ListMetadata, Shape, list_opening};
use crate::server::encoding::api_version::Version;

/// The shape of whole objects.
pub(in crate::server::encoding) struct ObjectShape {
    version: Version,
}

impl ObjectShape {
    /// Creates the shape for objects in this version.
    pub fn new(version: Version) -> ObjectShape {
        ObjectShape { version }
    }

    /// Whether lists have the form that kube-apiserver prints without a type of Go: items have
    /// their types, and the metadata always has a token.
    fn is_unstructured(&self) -> bool {
        self.version.kind().rules().is_unstructured
    }
}

impl Shape for ObjectShape {
    fn identity(&self) -> &str {
        self.version.identity()
    }

    fn object_length(&self, object: &CachedObject) -> usize {
        self.version.length(object)
    }

    fn write_object(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        self.version.write(object, out)
    }

    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8> {
        let kind = self.version.kind();
        if self.is_unstructured() {
            let metadata = metadata.with_continue();
            return list_opening(&kind.list_kind(), &kind.api_version(), &metadata);
        }
        list_opening(&kind.list_kind(), &kind.api_version(), metadata)
    }

    /// Items of a typed list have neither kind nor apiVersion (API-61).
    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>) {
        if self.is_unstructured() {
            // One that can't be shown writes nothing.
            self.version.write(object, out);
            return;
        }
        let begun = out.len();
        out.push(b'{');
        if !self.version.write_members(object, out) {
            out.truncate(begun);
        }
    }

    fn item_length(&self, object: &CachedObject) -> Option<usize> {
        if self.is_unstructured() {
            return (!self.version.converts()).then(|| self.version.length(object));
        }
        (!self.version.converts()).then(|| 1 + object.item_body().len())
    }

    fn kept_as(&self) -> Option<ItemForm> {
        if self.version.converts() {
            return None;
        }
        Some(match self.is_unstructured() {
            true => ItemForm::Typed(self.version.kind().api_version().into()),
            false => ItemForm::Object,
        })
    }

    fn write_event(
        &self,
        object: &CachedObject,
        at: Revision,
        _first: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        self.version.write_at(object, at, out)
    }

    fn write_bookmark(
        &self,
        revision: Revision,
        ends_initial: bool,
        _first: bool,
        out: &mut Vec<u8>,
    ) {
        self.version.write_bookmark(revision, ends_initial, out);
    }
}
