//! Tokens of service accounts: making them, and knowing their users (API-226, API-227, API-281).
//!
//! This folder owns the keys, the form of tokens, and the rules by which they are good. A request
//! for a token enters and a signed token leaves; a token enters and its user leaves, once the
//! objects that it names were found in the registry. It must not know how users are authorized.
//!
//! The key decides the algorithm of a signature, never the token. Without an issuer no tokens are
//! made, and only those in Secrets are known.

mod claims;
mod discovery;
mod issuer;
mod jwt;
mod keys;
mod objects;
mod request;
#[cfg(test)]
mod tests;
mod tokens;

pub use discovery::IssuerDiscovery;
pub use issuer::{ServiceAccountConfig, check_keys};
pub use keys::KeyFileError;
pub use objects::Objects;
pub use request::TokenStore;
pub use tokens::{KeyReload, ServiceAccountTokens};
