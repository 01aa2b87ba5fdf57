//! Only the metadata of objects (API-71, API-75), as a slice of the object that is found without
//! parsing.

use std::borrow::Cow;

use actors::engine::Revision;
use actors::object::{CachedObject, revision_member};
use memchr::memmem;

use super::{ItemForm, ListMetadata, MetaVersion, Shape, bookmark_metadata, list_opening};
use crate::api::resource::ResourceDefinition;

/// `PartialObjectMetadata`.
pub(in crate::server::encoding) struct MetadataShape {
    version: MetaVersion,
    /// The annotation that only whole objects show.
    unshown: Option<String>,
}

impl MetadataShape {
    /// Creates the shape for the metadata of a kind in this version.
    pub fn new(version: MetaVersion, kind: &ResourceDefinition) -> MetadataShape {
        MetadataShape {
            version,
            unshown: kind.rules().annotation_hidden_in_partial.clone(),
        }
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
        let metadata = shown_metadata(metadata_of(object), self.unshown.as_deref());
        write_partial_metadata(&metadata, self.version, out);
        true
    }

    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8> {
        let version = self.version.api_version();
        list_opening("PartialObjectMetadataList", version, metadata)
    }

    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>) {
        self.write_object(object, out);
    }

    /// As in lists of metadata from kube-apiserver (API-61).
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
        let metadata = shown_metadata(metadata_within(&moved), self.unshown.as_deref());
        write_partial_metadata(&metadata, self.version, out);
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

/// Returns the metadata document of an object, as a slice of its cached JSON.
pub(in crate::server::encoding) fn metadata_of(object: &CachedObject) -> &[u8] {
    metadata_within(object.item_body())
}

/// Returns the metadata document at the start of the members of an item.
fn metadata_within(item_body: &[u8]) -> &[u8] {
    const NAME: &[u8] = br#""metadata":"#;
    item_body
        .strip_prefix(NAME)
        .and_then(|rest| rest.get(..document_length(rest)?))
        .unwrap_or(b"{}")
}

/// Returns a metadata document without this annotation.
pub(super) fn shown_metadata<'m>(metadata: &'m [u8], unshown: Option<&str>) -> Cow<'m, [u8]> {
    let without = unshown.and_then(|name| without_annotation(metadata, name));
    without.map_or(Cow::Borrowed(metadata), Cow::Owned)
}

/// Removes an annotation from a metadata document, or returns `None` if it is absent. Quotes within
/// strings are escaped, so the search pattern matches only a member.
fn without_annotation(metadata: &[u8], name: &str) -> Option<Vec<u8>> {
    const ALL: &[u8] = br#""annotations":"#;
    let all = memmem::find(metadata, ALL)?;
    let begin = all + ALL.len();
    let end = begin + document_length(metadata.get(begin..)?)?;
    let key = format!("\"{name}\":\"");
    let own = begin + memmem::find(metadata.get(begin..end)?, key.as_bytes())?;
    let value = own + key.len();
    let own_end = value + text_length(metadata.get(value..end)?)?;
    // Without its only annotation the object has no `annotations` either.
    let is_only = metadata.get(own_end) == Some(&b'}') && own == begin + 1;
    let (mut first, mut last) = match is_only {
        true => (all, end),
        false => (own, own_end),
    };
    match metadata.get(last) {
        Some(b',') => last += 1,
        _ if metadata.get(first.checked_sub(1)?) == Some(&b',') => first -= 1,
        _ => {}
    }
    Some([metadata.get(..first)?, metadata.get(last..)?].concat())
}

/// Returns the length of the rest of a string, with its closing quote.
fn text_length(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = bytes.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map(|at| at + 1)
}

/// Returns the length of the JSON object at the start of the bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// API-71: the internal DaemonSet of kube-apiserver has its template generation in a field, and
    /// so no annotation.
    #[test]
    fn an_annotation_hidden_in_partial_objects_is_left_out() {
        let without = |text: &str| {
            let shown = shown_metadata(text.as_bytes(), Some("n"));
            String::from_utf8(shown.into_owned()).unwrap()
        };
        for (whole, shown) in [
            (r#"{"name":"a"}"#, r#"{"name":"a"}"#),
            (r#"{"name":"a","annotations":{"n":"1"}}"#, r#"{"name":"a"}"#),
            (
                r#"{"name":"a","annotations":{"n":"1"},"uid":"u"}"#,
                r#"{"name":"a","uid":"u"}"#,
            ),
            (
                r#"{"annotations":{"a":"\"n\":\"1\"","n":"\\\"","x":"}"},"uid":"u"}"#,
                r#"{"annotations":{"a":"\"n\":\"1\"","x":"}"},"uid":"u"}"#,
            ),
            (
                r#"{"labels":{"n":"1"},"annotations":{"a":"b","n":"1"}}"#,
                r#"{"labels":{"n":"1"},"annotations":{"a":"b"}}"#,
            ),
            (
                r#"{"labels":{"n":"1"},"annotations":{"a":"b"}}"#,
                r#"{"labels":{"n":"1"},"annotations":{"a":"b"}}"#,
            ),
        ] {
            assert_eq!(without(whole), shown);
            let all = shown_metadata(whole.as_bytes(), None);
            assert_eq!(all.as_ref(), whole.as_bytes());
        }
    }
}
