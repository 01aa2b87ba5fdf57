//! Objects that are served in more than one version.
//!
//! This folder owns pure functions that turn an object of one version into that of another. What is
//! stored is of the newest one.

pub mod autoscaling;
pub mod events;
