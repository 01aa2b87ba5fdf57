//! The verbs over a store in memory.

mod create;
mod delete;
mod expiry;
mod read;
mod update;
