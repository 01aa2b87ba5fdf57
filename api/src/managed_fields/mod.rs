//! Who owns which fields of an object (http.md 4.5, 4.6).
//!
//! This folder owns managedFields: their entries, what writes make of them, and server-side apply.
//! Objects and the name of a manager enter; objects with managedFields leave, or a `Status` that
//! refuses to apply. This folder must not know HTTP or storage.

mod apply;
mod cap;
mod conflicts;
mod entry;
mod faults;
mod field_manager;
mod last_applied;
mod scale;
mod times;
mod updater;

pub use apply::Application;
pub(crate) use entry::EntryTexts;
pub use entry::adopt;
pub use faults::errors;
pub use field_manager::FieldManager;
pub use times::keep_times;

#[cfg(test)]
mod updater_tests;
