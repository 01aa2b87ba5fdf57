//! Taffrail's actors, and the port they need.
#![warn(missing_docs)]

pub mod dispatcher;
pub mod engine;
pub mod object;
pub mod watch;
