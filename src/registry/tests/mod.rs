//! The fixtures of the registry's tests.
//!
//! This folder owns a registry over a store in memory, and a storage with hooks. It must not know
//! HTTP.

pub(crate) mod fixture;
pub(crate) mod hooked;
mod strategies;
