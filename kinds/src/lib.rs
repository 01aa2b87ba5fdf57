//! The built-in kinds of Kubernetes, as data and pure functions.
//!
//! This crate owns a definition for each built-in resource ([`definitions`]), the types of their
//! objects ([`types`]), what the server fills in ([`defaults`]), what it refuses ([`validation`]),
//! what it warns of ([`warnings`]), what Tables show ([`columns`]), how versions follow from each
//! other ([`convert`]), and the special cases of single kinds ([`special`]). Objects enter, changed
//! objects, field errors, warnings and cells leave. This crate must not know requests, storage or
//! I/O.

pub mod columns;
pub mod convert;
pub mod defaults;
pub mod definitions;
pub mod special;
pub mod types;
pub mod validation;
pub mod warnings;

#[cfg(test)]
mod recorded;

pub use definitions::built_in;
