//! Who owns which fields of an object (http.md 4.5, 4.6).
//!
//! This folder owns how sets of managers change with a write. Objects and sets enter; merged
//! objects, new sets and conflicts leave. This folder must not know HTTP or storage.

mod updater;

pub use updater::{
    Applied, Conflict, Managers, NoSuchVersion, UpdateError, Updater, VersionedSet, Versions,
};

#[cfg(test)]
mod updater_tests;
