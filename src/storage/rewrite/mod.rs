//! `taffrail storage rewrite`: while the daemon serves, rewrites every value that an old key has
//! encrypted, so that the operator may remove the key, and every value of another version than the
//! configured one (KV-28).
//!
//! It takes the stores and the current [`Encryption`](super::encryption::Encryption), and reports a
//! stream of [`RewriteProgress`]. This folder decides which values are rewritten and when that is
//! proven. It must not know ciphers, HTTP or clients.
//!
//! The rewrite goes over all values in passes. A pass reads each back end at one revision, and ends
//! clean if every value was encrypted by the current first key and has the configured version. A
//! pass begins only after all writes that an earlier configuration has encrypted have ended. It
//! counts only if the configuration is still the same afterwards. The rewrite also searches for
//! encrypted values below no served resource, because they still need their keys. Where the daemon
//! keeps history itself, it compacts the history up to the revision of the last pass and purges it
//! from the files. Nothing is remembered between two runs. A new run continues an interrupted one.
//!
//! A rewrite of [`RewrittenValues::OtherVersions`] leaves keys and history as they are. It returns
//! the version in which the objects of each custom resource are stored from now on.
//!
//! [`rewriter`] runs the whole, [`pass`] one pass, [`unserved`] the search for values without a
//! served resource.

mod pass;
mod progress;
mod rewriter;
mod rewritten_store;
#[cfg(test)]
mod tests;
mod unserved;

pub use self::progress::{Covered, RewriteProgress};
pub use self::rewriter::Rewriter;
pub use self::rewritten_store::{RewrittenStore, RewrittenStores};
pub use super::underlying::RewrittenValues;
