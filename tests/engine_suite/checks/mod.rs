//! The checks of the engine suite.
//!
//! This folder owns the checks, by theme. A [`super::subjects::Subject`] enters, an assertion fails
//! or not. A check must not know which engine it runs on.

pub mod commits;
pub mod compaction;
pub mod feeds;
pub mod history;
pub mod leases;
pub mod lifecycle;
pub mod positions;
pub mod reads;
