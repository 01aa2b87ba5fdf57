//! A daemon under load for a minute. It runs in a separate process, so that it delays no other
//! test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
mod soak;
