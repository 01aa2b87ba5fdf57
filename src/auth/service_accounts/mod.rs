//! Signs service account tokens, and finds their users (API-226, API-227, API-281).
//!
//! This folder has the keys, the format of tokens, and the rules by which tokens are valid. It
//! signs the claims of a new token, and returns the user of a token whose signature it has verified
//! and whose objects [`TokenObjects`] has found. It does not know how users are authorized or where
//! objects are stored.
//!
//! The key decides the algorithm of a signature, never the token. Without an issuer no tokens are
//! signed, and only those in Secrets are accepted.

mod claims;
mod issuer;
mod jwt;
mod keys;
pub mod metrics;
mod passed;
#[cfg(test)]
mod tests;
mod tokens;

pub use claims::{Binding, Claims, LEEWAY, NewToken, Reference};
pub use issuer::{ServiceAccountConfig, check_keys};
pub use keys::KeyFileError;
pub use passed::{Part, Passed};
pub use tokens::{KeyReload, NotSigned, ServiceAccountTokens, TokenObjects};
