//! The schema engine: the types of objects.
//!
//! Contains the model of types, the notation in which they are written, the canonical form of
//! objects, and the OpenAPI schemas of types. Input is text in the notation; results are types,
//! canonical objects and OpenAPI schemas. Nothing here knows single kinds: those of Kubernetes are
//! tables of the crate `kinds`.

mod canonical;
mod empties;
mod message;
mod messages;
mod model;
mod notation;
mod openapi;
mod reachable_fields;

pub use canonical::Empty;
pub(crate) use canonical::is_zero;
pub(crate) use message::{Message, MessagePart};
pub(crate) use messages::{DELIMITED, is_list_message, push_number, wire_type};
pub use model::{
    Field, KindName, ListType, ObjectType, Patch, PatchStrategy, Scalar, Schema, SchemaName,
    SchemaOr, Shape, SharedSchema, Struct, StructId, Type,
};
use std::sync::LazyLock;

pub use notation::NotationError;
pub use openapi::{Description, Names, OpenApiVersion, Part};

/// The types of `meta.v1`, which all objects use.
pub const META: &str = include_str!("meta.v1.txt");

/// The type of objects of which only the metadata is known.
const UNTYPED: &str = "package unknown\n\ntype Object kind open\n  1 metadata meta.v1.ObjectMeta\n";

static UNTYPED_SCHEMA: LazyLock<SharedSchema> = LazyLock::new(|| {
    SharedSchema::new(|| {
        Schema::read(&[META, UNTYPED]).unwrap_or_else(|error| {
            // A test parses these constants.
            tracing::error!(%error, "cannot parse the types of metadata");
            Schema::default()
        })
    })
});

static UNTYPED_OBJECT: LazyLock<ObjectType> =
    LazyLock::new(|| UNTYPED_SCHEMA.object_type("unknown.Object"));

static OBJECT_META: LazyLock<ObjectType> =
    LazyLock::new(|| UNTYPED_SCHEMA.object_type("meta.v1.ObjectMeta"));

static DELETE_OPTIONS: LazyLock<ObjectType> =
    LazyLock::new(|| UNTYPED_SCHEMA.object_type("meta.v1.DeleteOptions"));

/// Returns the type of objects of which only the metadata is known.
pub fn untyped() -> ObjectType {
    UNTYPED_OBJECT.clone()
}

/// Returns the schema of [`untyped`], which has the types of metadata.
pub(crate) fn untyped_schema() -> &'static Schema {
    &UNTYPED_SCHEMA
}

/// Returns the type of the metadata of objects.
pub fn object_meta() -> ObjectType {
    OBJECT_META.clone()
}

/// Returns the type of DeleteOptions, which all versions of all groups share.
pub fn delete_options() -> ObjectType {
    DELETE_OPTIONS.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_types_are_parsed() {
        let untyped = untyped();
        let (schema, id) = untyped.found().unwrap();
        let of = schema.get(id).unwrap();
        assert!(of.is_open && of.field("metadata").is_some());
    }
}
