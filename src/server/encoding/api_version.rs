//! The version that objects are shown in.
//!
//! The cache holds each object in one version, the hub of its stored resource. Versions of a stored
//! resource differ in `apiVersion` only
//! ([`ConversionStrategy`](crate::api::resource::ConversionStrategy)). The text of an object begins
//! with `kind` and `apiVersion`. So an object in any version is the beginning of that version and a
//! slice of the cached text.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::{CachedObject, revision_member};

use crate::api::resource::ResourceDefinition;

/// A version of a kind.
pub(super) struct Version {
    kind: Arc<ResourceDefinition>,
    /// The text of an object up to its `metadata`: `{"kind":"Lease","apiVersion":"…",`.
    head: String,
    /// The members of an object of which nothing but its metadata was given, each with a comma
    /// before it. Bookmarks are such objects (WA-41).
    empty_members: String,
}

impl Version {
    /// The version of a definition.
    pub fn of(kind: Arc<ResourceDefinition>) -> Version {
        let (name, api_version) = (&kind.kind, kind.api_version());
        Version {
            head: format!(r#"{{"kind":"{name}","apiVersion":"{api_version}","#),
            empty_members: empty_members(&kind),
            kind,
        }
    }

    /// A text that is equal for equal versions.
    pub fn identity(&self) -> &str {
        &self.head
    }

    /// The definition of the version.
    pub fn kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    /// The length of an object.
    pub fn length(&self, object: &CachedObject) -> usize {
        self.head.len() + object.item_body().len()
    }

    /// Writes an object.
    pub fn write(&self, object: &CachedObject, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(object.item_body());
    }

    /// Writes an object with the `resourceVersion` of this revision.
    pub fn write_at(&self, object: &CachedObject, at: Revision, out: &mut Vec<u8>) {
        if object.revision == at {
            return self.write(object, out);
        }
        let (before, after) = object.around_revision();
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(before);
        out.extend_from_slice(&revision_member(at));
        out.extend_from_slice(after);
    }

    /// Writes an object that has nothing but this metadata document (WA-41).
    pub fn write_empty(&self, metadata: &str, out: &mut Vec<u8>) {
        let empty = &self.empty_members;
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(format!(r#""metadata":{metadata}{empty}}}"#).as_bytes());
    }
}

fn empty_members(kind: &ResourceDefinition) -> String {
    let mut members = serde_json::Map::new();
    if let Some((schema, id)) = kind.object_type.found() {
        schema.canonicalize(id, &mut members);
    }
    members.remove("metadata");
    let mut text = serde_json::Value::Object(members).to_string();
    // Without the braces.
    text.pop();
    text.replace_range(..1, if text.len() > 1 { "," } else { "" });
    text
}
