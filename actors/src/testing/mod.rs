//! What the tests of this crate stand on: a store in memory that can be broken on purpose,
//! objects of one line, and forms of events that are easy to compare.

mod engine;
mod objects;
mod stage;

pub(crate) use engine::FakeEngine;
pub(crate) use objects::{ColorIs, Lines, LinesWithHeader, OneLiners, interest, key, prefix};
pub(crate) use stage::{Heard, Stage, hear, hear_all, hear_with};
