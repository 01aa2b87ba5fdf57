//! The shapes of objects: the part of an object that is shown, as JSON (http.md 2.4). Each shape
//! has its own file.
//!
//! This folder owns the conversions to metadata and Tables. It takes cached objects and returns
//! JSON documents. It must not know media types, compression or HTTP.

mod metadata;
mod object;
mod table;

use actors::engine::Revision;
use actors::object::CachedObject;
use serde_json::Value;
use smol_str::SmolStr;

pub(super) use metadata::MetadataShape;
#[cfg(test)]
pub(super) use metadata::metadata_of;
pub(super) use object::ObjectShape;
pub use table::IncludeObject;
pub(super) use table::TableShape;

use crate::server::encoding::events::INITIAL_EVENTS_END;
use crate::storage::ObjectList;

/// The requested version of `meta.k8s.io`. Documents differ in `apiVersion` only (API-66).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    #[default]
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// Returns the `apiVersion` of converted documents.
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The part of an object that is shown, as JSON. Each call appends one whole document to `out`.
pub(super) trait Shape: Send + Sync + 'static {
    /// Returns a text that is equal for equal shapes of one kind.
    fn identity(&self) -> &str;

    /// Whether the first event of a stream differs from later ones.
    fn first_event_differs(&self) -> bool {
        false
    }

    /// Returns the approximate length of an object in this shape, or 0 if it is unknown.
    fn object_length(&self, _object: &CachedObject) -> usize {
        0
    }

    /// Writes a single object. Returns false if it cannot be shown; `out` may then hold a part of
    /// it.
    fn write_object(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool;

    /// Returns the text of a list before its items.
    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8>;

    /// Writes an item of a list. Writes nothing for an object that cannot be shown.
    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>);

    /// Returns the length of an item, if it is known without writing the item.
    fn item_length(&self, _object: &CachedObject) -> Option<usize> {
        None
    }

    /// Whether an empty list has `null` as its `items` instead of an empty array.
    fn is_null_when_empty(&self) -> bool {
        false
    }

    /// Returns the form of items, if their text depends only on the object and so can be cached.
    /// Rows of Tables show the age of the object, so they have no such form.
    fn kept_as(&self) -> Option<ItemForm> {
        None
    }

    /// Writes the object of an event at this version. Returns false if it cannot be shown; `out`
    /// may then hold a part of it.
    fn write_event(
        &self,
        object: &CachedObject,
        at: Revision,
        first: bool,
        out: &mut Vec<u8>,
    ) -> bool;

    /// Writes the object of a bookmark (WA-41).
    fn write_bookmark(
        &self,
        revision: Revision,
        ends_initial: bool,
        first: bool,
        out: &mut Vec<u8>,
    );
}

/// The forms of items that depend only on the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ItemForm {
    /// The whole object, without its type.
    Object,
    /// The whole object with its kind and this apiVersion.
    Typed(SmolStr),
    /// The object's metadata.
    Metadata(MetaVersion),
}

/// The members of the metadata of a list, without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListMetadata(String);

impl ListMetadata {
    /// Returns the metadata as a document.
    pub fn document(&self) -> String {
        format!("{{{}}}", self.0)
    }

    /// Returns the metadata with a token, even if no page follows.
    pub fn with_continue(&self) -> ListMetadata {
        match self.0.contains(r#""continue":"#) {
            true => self.clone(),
            false => ListMetadata(format!(r#""continue":"",{}"#, self.0)),
        }
    }

    /// Returns the metadata of a page (LI-40, PF-6).
    pub fn of(list: &ObjectList) -> ListMetadata {
        let mut members = match list.revision {
            // Computed objects are not stored, so their list has no version.
            Revision::ZERO => String::new(),
            revision => format!(r#""resourceVersion":"{revision}""#),
        };
        if let Some(token) = &list.continue_token {
            members.push_str(&format!(r#","continue":{}"#, Value::from(token.as_str())));
        }
        if let Some(count) = list.remaining_item_count {
            members.push_str(&format!(r#","remainingItemCount":{count}"#));
        }
        ListMetadata(members)
    }
}

fn list_opening(kind: &str, api_version: &str, metadata: &ListMetadata) -> Vec<u8> {
    let metadata = &metadata.0;
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{{metadata}}},"items":["#)
        .into_bytes()
}

/// Returns the metadata document of a bookmark (API-135, WA-15).
fn bookmark_metadata(revision: Revision, ends_initial: bool) -> String {
    if ends_initial {
        format!(
            r#"{{"resourceVersion":"{revision}","annotations":{{"{INITIAL_EVENTS_END}":"true"}}}}"#
        )
    } else {
        format!(r#"{{"resourceVersion":"{revision}"}}"#)
    }
}
