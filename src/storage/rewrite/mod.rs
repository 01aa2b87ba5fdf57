//! `taffrail storage rewrite`: rewrites, while the daemon serves, every value that an old key has
//! encrypted, so that the operator may remove the key, and every value of a version that is not
//! the one that is stored (KV-28).
//!
//! Stores and the current [`Encryption`](super::encryption::Encryption) enter; a stream of
//! [`RewriteProgress`] leaves. This folder decides which values are rewritten and when that is
//! proven. It must not know ciphers, HTTP or who asked.
//!
//! The rewrite goes over all values in passes. A pass reads each back end at one revision, and
//! ends clean when every value was encrypted by today's first key and is of the version that is
//! stored. A pass begins only when no
//! write is under way that an earlier configuration has encrypted. It counts only if the
//! configuration is still the same afterwards. Encrypted values below no served resource are
//! looked for too, because they still need their keys. Where the daemon keeps history itself, the
//! history is compacted up to the revision of the last pass and purged from the files. Nothing is
//! remembered between two runs. A run continues after an interrupted one.
//!
//! [`rewriter`] runs the whole, [`pass`] one pass, [`unserved`] the search for values that no
//! served resource has.

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
