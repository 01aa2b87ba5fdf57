//! Objects that are served in more than one version.
//!
//! This folder owns pure functions that turn an object of one version into that of another. Objects
//! are stored in one of them.

pub mod autoscaling;
pub mod customresourcedefinitions;
pub mod events;
pub(crate) mod former;
