//! Tests of the verbs over a store in memory.
//!
//! This folder owns one file of tests for each verb. It must not know HTTP.

mod admission;
mod create;
mod delete;
mod expiry;
mod read;
mod update;
