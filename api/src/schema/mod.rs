//! The schema engine: what objects of a kind consist of.
//!
//! This folder owns the model of types, the notation that facts about types are written in, and
//! the canonical form of objects, and the schemas of types in OpenAPI documents. Facts enter as
//! text; types, canonical objects and OpenAPI schemas leave.
//! This folder must not know which kinds exist: those of Kubernetes are a table of the registry.

mod canonical;
mod empties;
mod messages;
mod model;
mod notation;
mod openapi;
mod reachable_fields;

pub use canonical::Empty;
pub(crate) use canonical::is_zero;
pub(crate) use messages::{
    DELIMITED, Message, MessagePart, is_list_message, push_number, wire_type,
};
pub use model::{
    Field, KindName, ListType, ObjectType, Patch, PatchStrategy, Scalar, Schema, SchemaOr, Shape,
    Struct, StructId, Type,
};
use std::sync::LazyLock;

pub use notation::NotationError;
pub use openapi::{Description, Names, OpenApiVersion, Part};

/// The types of `meta.v1`, of which all objects have parts.
pub const META: &str = include_str!("meta.v1.txt");

/// The type of objects of which nothing but the metadata is known.
const UNTYPED: &str = "package unknown\n\ntype Object kind open\n  1 metadata meta.v1.ObjectMeta\n";

static UNTYPED_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::read(&[META, UNTYPED]).unwrap_or_else(|error| {
        // A test reads it.
        tracing::error!(%error, "the types of metadata can't be read");
        Schema::default()
    })
});

/// The type of objects of which nothing but the metadata is known.
pub fn untyped() -> ObjectType {
    ObjectType {
        schema: &UNTYPED_SCHEMA,
        name: "unknown.Object",
    }
}

/// The type of the options of deletions, which all versions of all groups share.
pub fn delete_options() -> ObjectType {
    ObjectType {
        schema: &UNTYPED_SCHEMA,
        name: "meta.v1.DeleteOptions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_all_objects_can_be_read() {
        let (schema, id) = untyped().found().unwrap();
        let of = schema.get(id).unwrap();
        assert!(of.is_open && of.field("metadata").is_some());
    }
}
