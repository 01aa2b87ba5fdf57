//! The checks of the engine suite, by theme.
//!
//! A check takes a [`super::subjects::Subject`]. It does not know which engine it runs on.

pub mod commits;
pub mod compaction;
pub mod feeds;
pub mod history;
pub mod leases;
pub mod lifecycle;
pub mod positions;
pub mod reads;
