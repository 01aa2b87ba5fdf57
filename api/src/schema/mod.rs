//! The schema engine: what objects of a kind consist of.
//!
//! This folder owns the model of types, the notation that facts about types are written in, and
//! the schemas of types in OpenAPI documents. Facts enter as text; types and OpenAPI schemas leave.
//! This folder must not know which kinds exist: those of Kubernetes are a table of the registry.

mod model;
mod notation;
mod openapi;

pub use model::{
    Field, KindName, ListType, ObjectType, Patch, PatchStrategy, Scalar, Schema, Shape, Struct,
    StructId, Type,
};
pub use notation::NotationError;
pub use openapi::{Names, OpenApiVersion};
