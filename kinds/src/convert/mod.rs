//! Conversion of built-in kinds that have more than one version.
//!
//! Pure functions convert an object from one version to another. Objects are stored in one of them.

pub mod autoscaling;
pub mod customresourcedefinitions;
pub mod events;
pub(crate) mod former;
