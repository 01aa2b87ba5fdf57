//! What tests of this crate and of the daemon stand on: an engine that fails on demand, objects of
//! one line, and forms of events that are easy to compare.
#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    reason = "no part of the product: a test or a benchmark is to fail loudly"
)]

mod faulty_engine;
#[cfg(test)]
mod meeting;
mod objects;
mod stage;

pub use faulty_engine::FaultyEngine;
#[cfg(test)]
pub use meeting::{Meeting, others_act};
pub use objects::{
    ColorField, ColorIs, Lines, LinesWithHeader, OneLiners, interest, key, prefix, thing,
};
pub use stage::{Called, Heard, Stage, TURNS_OF_OTHERS, hear, hear_all, hear_as};
