//! The data types of the Kubernetes API.
//!
//! Contains objects, options, selectors, patches, resource definitions, Status errors, and the
//! schema engine. Request bodies are decoded into an [`object::Object`], query strings into
//! options, and selectors into predicates. Each reader has an error type of its own, from which
//! [`status::Status`] at the top converts. Everything here is a pure function of its input and safe
//! for hostile input: depth, aliases, operations, sizes and repeated text are limited. This crate
//! does no I/O, has no async code and keeps no state, except that [`abandoned`] records whether a
//! client still waits for the work of a thread.
//!
//! The modules form layers, which `tests/tidy` lists in order: a module names only those below it.

pub mod abandoned;
pub mod annotations;
pub mod cel;
pub mod completeness;
pub mod continuation;
pub mod cost;
pub mod custom;
pub mod decode;
pub mod deep;
pub mod error_list;
pub mod field;
pub mod field_error;
pub mod field_set;
pub mod field_validation;
pub mod go_json;
pub mod group_version_kind;
pub mod indentation;
pub mod keyed;
pub mod large;
pub mod managed_fields;
pub mod metadata;
pub mod names;
pub mod object;
pub mod options;
pub mod patch;
pub mod pem;
pub mod percent;
pub mod protobuf;
pub mod quantity;
pub mod request_info;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod structural;
pub mod table;
pub mod text;
pub mod typed;
pub mod user_info;
pub mod version;
pub mod warnings;

#[cfg(test)]
mod samples;
