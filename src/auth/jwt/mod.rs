//! Tokens of other issuers: OpenID Connect and other JWTs (AC-14 to AC-23).
//!
//! This folder reads the configuration of issuers, asks issuers for their keys over
//! [`crate::egress`], verifies tokens, and makes users of their claims. It does not know objects.

mod config;
mod expressions;
mod issuer;
mod issuers;
mod key_source;
mod keys;
mod metrics;
#[cfg(test)]
mod tests;
mod validation;

pub use config::{
    AnonymousCondition, AnonymousConfig, AuthenticationConfiguration, Claim, ClaimRule,
    ExtraMapping, IssuerConfig, JwtConfig, Mappings, PrefixedClaim, UserRule,
};
pub use issuers::{AuthenticationConfigError, ConfigFile, JwtIssuers, check_authentication_config};
