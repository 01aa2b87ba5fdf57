//! Taffrail's actors, and the port they need.
#![warn(missing_docs)]

pub mod backoff;
pub mod cacher;
pub mod compactor;
pub mod dispatcher;
pub mod engine;
pub mod exit;
pub mod mailbox;
pub mod object;
mod reflector;
pub mod ring;
pub mod slot;
pub mod snapshot;
pub mod supervisor;
#[cfg(test)]
mod testing;
pub mod watch;
pub mod writer;
