//! Only the metadata of objects (API-71, API-75): a slice of the object, found without parsing.

use actors::engine::Revision;
use actors::object::{CachedObject, revision_member};

use super::{ItemForm, ListMetadata, MetaVersion, Shape, bookmark_metadata, list_opening};

/// `PartialObjectMetadata`.
pub(in crate::server::encoding) struct MetadataShape {
    version: MetaVersion,
}

impl MetadataShape {
    /// Creates the shape for metadata in this version.
    pub fn new(version: MetaVersion) -> MetadataShape {
        MetadataShape { version }
    }
}

impl Shape for MetadataShape {
    fn identity(&self) -> &str {
        match self.version {
            MetaVersion::V1 => "metadata;v1",
            MetaVersion::V1Beta1 => "metadata;v1beta1",
        }
    }

    fn object_length(&self, object: &CachedObject) -> usize {
        metadata_of(object).len() + 96
    }

    fn write_object(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        write_partial_metadata(metadata_of(object), self.version, out);
        true
    }

    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8> {
        let version = self.version.api_version();
        list_opening("PartialObjectMetadataList", version, metadata)
    }

    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>) {
        self.write_object(object, out);
    }

    /// Lists of metadata from kube-apiserver do this.
    fn is_null_when_empty(&self) -> bool {
        true
    }

    fn kept_as(&self) -> Option<ItemForm> {
        Some(ItemForm::Metadata(self.version))
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
        let moved = [before, &revision_member(at), after].concat();
        write_partial_metadata(metadata_within(&moved), self.version, out);
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
        write_partial_metadata(metadata.as_bytes(), self.version, out);
    }
}

/// Writes a `PartialObjectMetadata` with this metadata document (API-71).
pub(super) fn write_partial_metadata(metadata: &[u8], version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(metadata);
    out.push(b'}');
}

/// The metadata document of an object, as a slice of its stored JSON.
pub(in crate::server::encoding) fn metadata_of(object: &CachedObject) -> &[u8] {
    metadata_within(object.item_body())
}

/// The metadata document at the start of the members of a list item.
fn metadata_within(item_body: &[u8]) -> &[u8] {
    const NAME: &[u8] = br#""metadata":"#;
    item_body
        .strip_prefix(NAME)
        .and_then(|rest| rest.get(..document_length(rest)?))
        .unwrap_or(b"{}")
}

/// The length of the JSON object at the start of the bytes.
fn document_length(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}
