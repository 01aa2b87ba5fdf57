//! Tests that need the daemon in their own process: to add and remove resources through its handle,
//! and to set faults in its actors.
//!
//! Requests go over HTTP, as everybody's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[allow(dead_code, unused_imports)]
#[path = "../blackbox/load/mod.rs"]
mod load;
#[path = "../servers/mod.rs"]
mod servers;

mod process;
mod resources;
mod supervision;
mod watched_object;
