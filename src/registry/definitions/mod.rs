//! The built-in resources, one row each (http.md 6.1 to 6.4), a file per API group.

use crate::api::resource::{Cell, Column, Subresource};

pub mod apps;
pub mod coordination;
pub mod core;

/// What every stored resource can do, sorted.
pub(super) const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// What namespaces can do: they are deleted one by one (API-10).
pub(super) const NAMESPACE_VERBS: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];

/// The status subresource.
pub(super) const STATUS: Subresource = Subresource {
    name: "status",
    verbs: &["get", "patch", "update"],
};

/// How the contents of a namespace let it go (API-224).
pub(super) const FINALIZE: Subresource = Subresource {
    name: "finalize",
    verbs: &["update"],
};

/// The first column of every Table.
pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    priority: 0,
    description: "Name of the object, unique within its namespace.",
    cell: Cell::Name,
};

/// Time since creation.
pub(super) const AGE: Column = Column {
    name: "Age",
    kind: "string",
    format: "",
    priority: 0,
    description: "Time since the object was created.",
    cell: Cell::Age,
};

/// Columns of the kinds whose own columns are not built.
pub(super) const NAME_AND_AGE: &[Column] = &[NAME, AGE];
