//! The verbs over a store in memory.

mod create;
mod delete;
mod read;
mod update;
