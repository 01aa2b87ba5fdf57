//! Rows of Tables (API-68, API-69, API-74). Only the cells need the object as a tree.

use actors::engine::Revision;
use actors::object::CachedObject;
use jiff::Timestamp;
use serde_json::Value;

use super::metadata::{metadata_of, shown_metadata, write_partial_metadata};
use super::{ListMetadata, MetaVersion, Shape, bookmark_metadata};
use crate::api::object::Object;
use crate::api::resource::OfField;
use crate::api::status::Status;
use crate::api::{deep, table};
use crate::clock;
use crate::server::encoding::api_version::Version;
use crate::storage::codec;

/// The object in each row of a Table (API-69).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum IncludeObject {
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// No object.
    None,
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for an unknown value.
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

/// The shape of Tables for objects of a kind.
pub(in crate::server::encoding) struct TableShape {
    /// The version of the objects in the rows.
    version: Version,
    meta_version: MetaVersion,
    include: IncludeObject,
    identity: String,
}

impl TableShape {
    /// Creates Tables of objects in a version. `include` selects the object in each row.
    pub fn new(version: Version, meta_version: MetaVersion, include: IncludeObject) -> TableShape {
        TableShape {
            identity: format!(
                "table;{};{};{}",
                meta_version.api_version(),
                include.name(),
                version.identity()
            ),
            version,
            meta_version,
            include,
        }
    }

    /// Writes a Table up to its rows. `metadata` holds the members of its metadata.
    fn write_opening(&self, metadata: &str, with_columns: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"kind":"Table","apiVersion":""#);
        out.extend_from_slice(self.meta_version.api_version().as_bytes());
        out.extend_from_slice(br#"","metadata":{"#);
        out.extend_from_slice(metadata.as_bytes());
        out.extend_from_slice(br#"},"columnDefinitions":"#);
        if with_columns {
            let describe = |field: OfField| descriptions::of_column(field.0);
            write_json(
                &table::column_definitions(self.version.kind(), describe),
                out,
            );
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(br#","rows":["#);
    }

    /// Writes the row of an object. If the object cannot be read, returns false and writes nothing.
    fn write_row(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        let begun = out.len();
        let cells = deep::retry_with_room(|| {
            let tree = codec::object_of(object)?;
            self.write_cells(&tree, clock::now(), out);
            Ok::<(), actors::object::DecodeError>(())
        });
        if cells.is_err() {
            return false;
        }
        match self.include {
            IncludeObject::Metadata => {
                let rules = self.version.kind().rules();
                let unshown = rules.annotation_hidden_in_partial.as_deref();
                let metadata = shown_metadata(metadata_of(object), unshown);
                write_partial_metadata(&metadata, self.meta_version, out);
            }
            IncludeObject::Object => {
                if !self.version.write(object, out) {
                    out.truncate(begun);
                    return false;
                }
            }
            IncludeObject::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
        true
    }

    /// Writes the row of a bookmark, whose object has only a version. The bookmark that ends the
    /// initial events always shows its annotation, even with `includeObject=None` (API-74).
    fn write_bookmark_row(&self, revision: Revision, ends_initial: bool, out: &mut Vec<u8>) {
        let mut empty = Object::default();
        let kind = self.version.kind();
        empty.set_type(&kind.kind, &kind.api_version());
        empty.set_meta("resourceVersion", &revision.to_string());
        self.write_cells(&empty, clock::now(), out);
        match self.include {
            IncludeObject::Object => self.version.write_bookmark(revision, ends_initial, out),
            IncludeObject::None if !ends_initial => out.extend_from_slice(b"null"),
            _ => {
                let metadata = bookmark_metadata(revision, ends_initial);
                write_partial_metadata(metadata.as_bytes(), self.meta_version, out);
            }
        }
        out.push(b'}');
    }

    fn write_cells(&self, object: &Object, now: Timestamp, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"cells":"#);
        write_json(
            &Value::Array(table::cells(self.version.kind(), object, now)),
            out,
        );
        if let Some(conditions) = table::row_conditions(self.version.kind(), object) {
            out.extend_from_slice(br#","conditions":"#);
            write_json(&conditions, out);
        }
        out.extend_from_slice(br#","object":"#);
    }
}

impl Shape for TableShape {
    fn identity(&self) -> &str {
        &self.identity
    }

    /// Only the first Table of a stream has column definitions (API-74).
    fn first_event_differs(&self) -> bool {
        true
    }

    fn write_object(&self, object: &CachedObject, out: &mut Vec<u8>) -> bool {
        let metadata = match object.revision.0 {
            0 => String::new(),
            revision => format!(r#""resourceVersion":"{revision}""#),
        };
        self.write_opening(&metadata, true, out);
        let is_written = self.write_row(object, out);
        out.extend_from_slice(b"]}");
        is_written
    }

    fn list_opening(&self, metadata: &ListMetadata) -> Vec<u8> {
        let mut opening = Vec::new();
        self.write_opening(&metadata.0, true, &mut opening);
        opening
    }

    fn write_item(&self, object: &CachedObject, out: &mut Vec<u8>) {
        self.write_row(object, out);
    }

    fn write_event(
        &self,
        object: &CachedObject,
        at: Revision,
        first: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let moved;
        let object = if object.revision == at {
            object
        } else {
            moved = object.at(at);
            &moved
        };
        let metadata = format!(r#""resourceVersion":"{at}""#);
        self.write_opening(&metadata, first, out);
        let is_written = self.write_row(object, out);
        out.extend_from_slice(b"]}");
        is_written
    }

    fn write_bookmark(
        &self,
        revision: Revision,
        ends_initial: bool,
        first: bool,
        out: &mut Vec<u8>,
    ) {
        let metadata = format!(r#""resourceVersion":"{revision}""#);
        self.write_opening(&metadata, first, out);
        self.write_bookmark_row(revision, ends_initial, out);
        out.extend_from_slice(b"]}");
    }
}

fn write_json(value: &Value, out: &mut Vec<u8>) {
    // Serializing values into memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}
