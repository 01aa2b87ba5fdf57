//! What tests of this crate and of the daemon stand on: an engine that fails on demand, objects of
//! one line, and forms of events that are easy to compare.
#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    reason = "no part of the product: a test or a benchmark is to fail loudly"
)]

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
    ColorField, ColorIs, Lines, LinesWithHeader, OneLiners, interest, key, prefix, thing,
};
