//! What of an object is shown, as JSON: a file for each shape (http.md 2.4).

mod metadata;
mod object;
mod table;

use actors::engine::Revision;
use actors::object::CachedObject;
use serde_json::Value;

pub(super) use metadata::MetadataShape;
#[cfg(test)]
pub(super) use metadata::metadata_of;
pub(super) use object::ObjectShape;
pub use table::IncludeObject;
pub(super) use table::TableShape;

use crate::storage::ObjectList;

/// Version of `meta.k8s.io` that a conversion is asked in; both look the same (API-66).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    #[default]
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion` of converted documents.
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What of an object is shown, as JSON. What is appended to `out` is one whole document.
pub(super) trait Shape: Send + Sync + 'static {
    /// Text that is equal for equal shapes of one kind.
    fn identity(&self) -> &str;

    /// Whether the first event of a stream differs from later ones.
    fn first_event_differs(&self) -> bool {
        false
    }

    /// About how long an object is in this shape; 0 where that is not known before.
    fn object_length(&self, _object: &CachedObject) -> usize {
        0
    }

    /// A single object; false when it can't be shown, whatever was written.
    fn write_object(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool;

    /// A list up to its items.
    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8>;

    /// An item of a list; nothing for an object that can't be shown.
    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>);

    /// How long an item is, where that is known without writing it.
    fn item_length(&self, _object: &CachedObject) -> Option<usize> {
        None
    }

    /// Whether a list without items says `null` where others have an empty list.
    fn is_null_when_empty(&self) -> bool {
        false
    }

    /// The form of items whose text depends on the object alone, and may be kept. (Rows of Tables
    /// show how old it is.)
    fn kept_as(&self) -> Option<ItemForm> {
        None
    }

    /// The object of an event, at this version; false when it can't be shown, whatever was
    /// written.
    fn write_event(
        &self,
        object: &CachedObject,
        at: Revision,
        first: bool,
        out: &mut Vec<u8>,
    ) -> bool;

    /// The object of a bookmark (WA-41).
    fn write_bookmark(
        &self,
        revision: Revision,
        ends_initial: bool,
        first: bool,
        out: &mut Vec<u8>,
    );
}

/// The forms of items that depend on the object alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ItemForm {
    /// The object as it is.
    Object,
    /// Its metadata.
    Metadata(MetaVersion),
}

/// The members of a list's metadata, without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListMetadata(String);

impl ListMetadata {
    /// Those of a page (LI-40, PF-6).
    pub fn of(list: &ObjectList) -> ListMetadata {
        let mut members = format!(r#""resourceVersion":"{}""#, list.revision);
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

/// The metadata document of a bookmark (API-135, WA-15).
fn bookmark_metadata(revision: Revision, ends_initial: bool) -> String {
    if ends_initial {
        format!(
            r#"{{"resourceVersion":"{revision}","annotations":{{"k8s.io/initial-events-end":"true"}}}}"#
        )
    } else {
        format!(r#"{{"resourceVersion":"{revision}"}}"#)
    }
}
