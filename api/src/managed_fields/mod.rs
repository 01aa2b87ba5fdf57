//! Field ownership (http.md 4.5, 4.6).
//!
//! Contains the entries of managedFields, their updates by writes, and server-side apply. Input is
//! an object and the name of a manager; the result is an object with managedFields, or the error
//! of a failed apply. Nothing here knows HTTP or storage.

mod apply;
mod cap;
mod conflicts;
mod entry;
mod error;
mod faults;
mod field_manager;
mod last_applied;
mod scale;
mod times;
mod updater;

pub use apply::Application;
pub use conflicts::Conflicts;
pub use entry::{EntryError, adopt};
pub use error::ApplyError;
pub use faults::errors;
pub use field_manager::{Awaited, FieldManager};
pub use times::keep_times;

#[cfg(test)]
mod updater_tests;
