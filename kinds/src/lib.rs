//! The built-in kinds of Kubernetes, as data and pure functions.
//!
//! This crate has a definition for each built-in resource ([`definitions`]), the types of their
//! objects ([`types`]), their defaulting ([`defaults`]), validation ([`validation`]) and warnings
//! ([`warnings`]), the columns of their Tables ([`columns`]), the conversion between their versions
//! ([`convert`]), and the code of their strategies ([`strategies`]). It knows neither requests nor
//! storage, and does no I/O.

pub mod columns;
pub mod convert;
pub mod defaults;
pub mod definitions;
pub mod resource_names;
pub mod strategies;
pub mod types;
pub mod validation;
pub mod warnings;

#[cfg(test)]
mod recorded;

pub use definitions::built_in;
