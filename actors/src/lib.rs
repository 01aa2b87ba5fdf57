//! Taffrail's actors, and the port they need.
#![warn(missing_docs)]

pub mod cacher;
pub mod compactor;
pub mod dispatcher;
pub mod engine;
pub mod object;
pub mod ring;
pub mod snapshot;
pub mod supervisor;
pub mod watch;
pub mod writer;
