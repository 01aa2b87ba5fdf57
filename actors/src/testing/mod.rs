//! What the tests of this crate stand on: a store in memory that can be broken on purpose,
//! objects of one line, and forms of events that are easy to compare.
#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    reason = "no part of the product: a test or a benchmark is to fail loudly"
)]

mod engine;
#[cfg(test)]
mod meeting;
mod objects;
mod stage;

pub use engine::FakeEngine;
#[cfg(test)]
pub use meeting::{Meeting, others_act};
pub use objects::{
    ColorField, ColorIs, Lines, LinesWithHeader, OneLiners, interest, key, prefix, thing,
};
pub use stage::{Called, Heard, Stage, TURNS_OF_OTHERS, hear, hear_all, hear_as};
