//! Objects in other shapes: metadata alone and rows of Tables (http.md 2.4).
//!
//! Metadata is a slice of the wire form, found without parsing; only the cells of a row need the
//! object as a tree.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use jiff::Timestamp;
use serde_json::Value;

use super::negotiation::MetaVersion;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::table;
use crate::clock;
use crate::storage::codec;

/// What each row of a Table carries of its object (API-69).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum IncludeObject {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for any other text.
    pub fn parse(text: &str) -> Result<IncludeObject, Box<Status>> {
        match text {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(Box::new(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must \
                 be 'Metadata', 'Object', 'None', or empty",
                Value::from(other)
            )))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            IncludeObject::Metadata => "Metadata",
            IncludeObject::Object => "Object",
            IncludeObject::None => "None",
        }
    }
}

/// How to make Tables of a resource's objects.
#[derive(Clone)]
pub struct TableForm {
    /// The resource.
    pub definition: Arc<ResourceDefinition>,
    /// The version of the Table.
    pub version: MetaVersion,
    /// What rows carry.
    pub include: IncludeObject,
}

impl TableForm {
    /// Text that is equal for equal forms.
    pub fn identity(&self) -> String {
        format!(
            "table;{};{};{}",
            self.version.api_version(),
            self.include.name(),
            self.definition.qualified()
        )
    }

    /// A Table up to its rows, whose metadata has these members.
    pub fn write_opening(&self, metadata: &str, with_columns: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"kind":"Table","apiVersion":""#);
        out.extend_from_slice(self.version.api_version().as_bytes());
        out.extend_from_slice(br#"","metadata":{"#);
        out.extend_from_slice(metadata.as_bytes());
        out.extend_from_slice(br#"},"columnDefinitions":"#);
        if with_columns {
            write_json(&table::column_definitions(&self.definition), out);
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(br#","rows":["#);
    }

    /// An object's row; nothing is written when the object can't be read.
    pub fn write_row(&self, object: &CachedObject, now: Timestamp, out: &mut Vec<u8>) -> bool {
        let Ok(tree) = codec::object_of(object) else {
            return false;
        };
        self.write_cells(&tree, now, out);
        match self.include {
            IncludeObject::Metadata => {
                write_partial_metadata(metadata_of(object), self.version, out);
            }
            IncludeObject::Object => out.extend_from_slice(&object.wire),
            IncludeObject::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
        true
    }

    /// The row of a bookmark: of an object that is empty but for its version; the one that ends
    /// the initial events always shows its annotation (API-74).
    pub fn write_bookmark_row(&self, revision: Revision, ends_initial: bool, out: &mut Vec<u8>) {
        let mut empty = Object::default();
        empty.set_type(&self.definition.kind, &self.definition.api_version());
        empty.set_meta("resourceVersion", &revision.to_string());
        self.write_cells(&empty, clock::now(), out);
        let metadata = bookmark_metadata(revision, ends_initial);
        match self.include {
            _ if ends_initial => write_partial_metadata(metadata.as_bytes(), self.version, out),
            IncludeObject::Metadata => {
                write_partial_metadata(metadata.as_bytes(), self.version, out);
            }
            IncludeObject::Object => write_bookmark_object(&self.definition, &metadata, out),
            IncludeObject::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }

    fn write_cells(&self, object: &Object, now: Timestamp, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"cells":"#);
        write_json(
            &Value::Array(table::cells(&self.definition, object, now)),
            out,
        );
        out.extend_from_slice(br#","object":"#);
    }
}

/// A `PartialObjectMetadata` with this metadata document (API-71).
pub fn write_partial_metadata(metadata: &[u8], version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(metadata);
    out.push(b'}');
}

/// The metadata document of a bookmark (API-135, WA-15).
pub fn bookmark_metadata(revision: Revision, ends_initial: bool) -> String {
    if ends_initial {
        format!(
            r#"{{"resourceVersion":"{revision}","annotations":{{"k8s.io/initial-events-end":"true"}}}}"#
        )
    } else {
        format!(r#"{{"resourceVersion":"{revision}"}}"#)
    }
}

/// The object of a bookmark: kind, apiVersion and metadata (WA-41).
pub fn write_bookmark_object(definition: &ResourceDefinition, metadata: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        format!(
            r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata}{}}}"#,
            definition.kind,
            definition.api_version(),
            definition.empty_members,
        )
        .as_bytes(),
    );
}

/// The metadata document of an object: a slice of its wire form.
pub fn metadata_of(object: &CachedObject) -> &[u8] {
    metadata_within(object.item_body())
}

/// The metadata document at the beginning of a list item's members.
pub fn metadata_within(item_body: &[u8]) -> &[u8] {
    const NAME: &[u8] = br#""metadata":"#;
    item_body
        .strip_prefix(NAME)
        .and_then(|rest| rest.get(..document_length(rest)?))
        .unwrap_or(b"{}")
}

/// The length of the JSON object that the bytes begin with.
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

fn write_json(value: &Value, out: &mut Vec<u8>) {
    // Values always can be written, and memory always takes them.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests;
