//! Test doubles for this crate and the daemon.
//!
//! It owns an engine that fails on demand ([`FaultyEngine`]), faults of actors ([`failpoints`]), a
//! Cacher without an actor ([`FakeCacher`]), and objects and frames of one line that are easy to
//! compare. It is not part of the product, and the product must not name it.
#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    reason = "no part of the product: a test or a benchmark is to fail loudly"
)]

pub mod failpoints;
mod fake_cacher;
mod faulty_engine;
#[cfg(test)]
mod interleaving;
mod objects;

pub use fake_cacher::{
    FakeCacher, Received, WakeFlag, YIELDS_MAX, receive, receive_all, receive_as,
};
pub use faulty_engine::FaultyEngine;
#[cfg(test)]
pub use interleaving::{Interleaving, interleave};
pub use objects::{
    ColorField, ColorIs, Lines, LinesWithHeader, OneLiners, interest, key, object, prefix, thing,
};
