//! What no row of the table can say, a file per special case: pure functions that rows name.

pub(super) mod immutable;
pub(super) mod namespaces;
pub(super) mod pods;
pub(super) mod secrets;

pub use namespaces::{CONTENT_FINALIZER, SYSTEM_NAMESPACES};

#[cfg(test)]
mod tests;
