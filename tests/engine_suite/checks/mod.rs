//! The checks, by theme.

pub mod commits;
pub mod compaction;
pub mod feeds;
pub mod history;
pub mod leases;
pub mod life;
pub mod positions;
pub mod reads;
