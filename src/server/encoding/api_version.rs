//! The API version in which objects are shown.
//!
//! The cache holds each object in one version, the hub of its stored resource. Most versions differ
//! from it in `apiVersion` only, which is at the start of an object's text. An object in such a
//! version is therefore a head of its own and a slice of the cached text. A version with its own
//! schema needs a conversion each time that an object is shown.

use std::sync::{Arc, OnceLock};

use actors::engine::Revision;
use actors::object::{CachedObject, revision_member};
use serde_json::{Value, json};

use super::events::INITIAL_EVENTS_END;
use crate::api::deep;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::storage::codec::encode_object;

/// A version of a kind.
pub(super) struct Version {
    kind: Arc<ResourceDefinition>,
    identity: String,
    /// The text before `metadata`: `{"kind":"Lease","apiVersion":"…",`.
    head: String,
    /// An object with only the fields that are written even when empty, for bookmarks.
    empty: OnceLock<Object>,
}

impl Version {
    /// Creates the version of a definition.
    pub fn of(kind: Arc<ResourceDefinition>) -> Version {
        let (name, api_version) = (&kind.kind, kind.api_version());
        let head = format!(r#"{{"kind":"{name}","apiVersion":"{api_version}","#);
        let identity = match kind.edition {
            0 => head.clone(),
            edition => format!("{head}{edition}"),
        };
        Version {
            head,
            identity,
            empty: OnceLock::new(),
            kind,
        }
    }

    /// Returns a text that is equal for equal versions.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the definition of the version.
    pub fn kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    /// Whether objects need a conversion before they are shown.
    pub fn converts(&self) -> bool {
        self.kind.has_own_form()
    }

    /// Returns the length of an object in bytes, or its length before conversion.
    pub fn length(&self, object: &CachedObject) -> usize {
        self.head.len() + object.item_body().len()
    }

    /// Writes an object. If conversion fails, returns false and writes nothing.
    pub fn write(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        let begun = out.len();
        out.extend_from_slice(self.head.as_bytes());
        let is_written = self.write_members(object, out);
        if !is_written {
            out.truncate(begun);
        }
        is_written
    }

    /// Writes the members of an object after its type, and the closing brace. If conversion fails,
    /// returns false and writes nothing.
    pub fn write_members(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        let body = object.item_body();
        // A version with its own schema may be the only served version, and then the cached text is
        // already in it.
        if !self.converts() || object.has_types(self.head.as_bytes()) {
            out.extend_from_slice(body);
            return true;
        }
        let text = [b"{", body].concat();
        let encoded = deep::retry_with_room(|| {
            let mut converted = Object::read(&text)?;
            self.kind.convert_from_hub(&mut converted);
            self.kind.canonicalize(&mut converted);
            converted.0.remove("kind");
            converted.0.remove("apiVersion");
            Ok::<_, serde_json::Error>(encode_object(&converted))
        });
        let Ok(encoded) = encoded else {
            return false;
        };
        // The opening brace has been written before the type.
        out.extend_from_slice(encoded.get(1..).unwrap_or_default());
        true
    }

    /// Writes an object with the `resourceVersion` of this revision. Returns false if conversion
    /// fails.
    pub fn write_at(&self, object: &CachedObject, at: Revision, out: &mut Vec<u8>) -> bool {
        if object.revision == at {
            return self.write(object, out);
        }
        if self.converts() {
            return self.write(&object.at(at), out);
        }
        let (before, after) = object.around_revision();
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(before);
        out.extend_from_slice(&revision_member(at));
        out.extend_from_slice(after);
        true
    }

    /// Writes the object of a bookmark: an empty object with only a resourceVersion (WA-41).
    pub fn write_bookmark(&self, revision: Revision, ends_initial: bool, out: &mut Vec<u8>) {
        let mut object = self.empty.get_or_init(|| empty_object(&self.kind)).clone();
        object.set_meta("resourceVersion", &revision.to_string());
        if ends_initial {
            let annotations = object.metadata_mut().entry("annotations");
            if let Value::Object(annotations) = annotations.or_insert_with(|| json!({})) {
                annotations.insert(INITIAL_EVENTS_END.to_owned(), "true".into());
            }
        }
        out.extend_from_slice(self.head.as_bytes());
        let encoded = encode_object(&object);
        // The opening brace has been written before the type.
        out.extend_from_slice(encoded.get(1..).unwrap_or_default());
    }
}

fn empty_object(kind: &ResourceDefinition) -> Object {
    let mut empty = Object::default();
    kind.canonicalize(&mut empty);
    kind.behaviour.complete_empty(&mut empty);
    empty
}
