//! Structured authorization: the authorizers of the file of `--authorization-config` (AC-33 to
//! AC-36).
//!
//! The file lists authorizers in the order in which they are asked. It is followed while the daemon
//! runs: webhooks come, go and change without a gap, and a file that is wrong changes nothing.

mod chain;
mod document;
mod reload;

pub use chain::{BuiltIn, ChainError};
pub use document::{AUTHORIZER_TYPES, AuthorizerType, Entry, WebhookEntry, parse};
pub use reload::{ConfigurationError, ConfiguredAuthorizers, Loaded};
