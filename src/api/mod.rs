//! The nouns of the Kubernetes API: no I/O, no async, no state.
//!
//! What a body says becomes an [`object::Object`], a query string becomes options, selectors
//! become predicates, refusals become a [`status::Status`]. Everything here is a pure function of
//! its input and holds for hostile input: limits on depth, aliases, operations and sizes,
//! and on what of it is repeated in answers.

pub mod continuation;
pub mod decode;
pub mod duration;
pub mod field_error;
pub mod indentation;
pub mod metadata;
pub mod names;
pub mod object;
pub mod options;
pub mod patch;
pub mod percent;
pub mod protobuf;
pub mod resource;
pub mod selector;
pub mod status;
pub mod table;
pub mod truncated;
pub mod user_info;
pub mod version;
pub mod warnings;

#[cfg(test)]
pub(crate) mod samples;
