//! The data types of the Kubernetes API.
//!
//! This folder owns objects, options, selectors, patches, resource definitions and refusals. Bodies
//! enter and become an [`object::Object`], query strings become options, selectors become
//! predicates, and refusals leave as a [`status::Status`]. Everything here is a pure function of
//! its input and safe for hostile input: depth, aliases, operations, sizes and repeated text are
//! limited. This folder must not know I/O, async code or state, except that [`abandoned`] knows
//! whether somebody still waits for the work of a thread.

pub mod abandoned;
pub mod annotations;
pub mod cel;
pub mod continuation;
pub mod cost;
pub mod decode;
pub mod deep;
pub mod document_paths;
pub mod duration;
pub mod error_list;
pub mod field;
pub mod field_error;
pub mod field_set;
pub mod go_json;
pub mod group_version_kind;
pub mod indentation;
pub mod keyed;
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
mod raw_texts;
pub mod request_info;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod structural;
pub mod table;
pub mod truncated;
pub mod typed;
pub mod user_info;
pub mod version;
pub mod warnings;

#[cfg(test)]
mod samples;
