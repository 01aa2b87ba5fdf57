//! Authentication and authorization of requests.
//!
//! This folder maps the headers and the certificate of a request to a user with an access, and the
//! attributes of a request to a decision. It does not know what handlers do or how a refusal is
//! sent.
//!
//! A chain of Authenticators finds the user of a request. A chain of Authorizers decides what the
//! user may do. The generated token belongs to the admin, the tokens of a file belong to the users
//! listed there, a client certificate belongs to the user that it names, and a request without
//! credentials belongs to `system:anonymous`. Members of `system:masters` may do everything. Roles
//! and bindings say what all others may do.

pub mod abac;
mod access;
mod admin;
mod authenticator;
mod authenticators;
pub mod authorization;
pub mod authorization_config;
mod authorizer;
mod bootstrap_tokens;
mod client_certificates;
mod compact_token;
mod digests;
mod fixed;
mod followed_file;
mod front_proxy;
pub mod impersonation;
pub mod jwt;
mod kept;
pub mod kubeconfigs;
pub mod node;
mod prehashed;
pub mod rbac;
mod refusal_lines;
pub mod service_accounts;
mod static_tokens;
mod token;
mod token_file;
mod token_lookups;
pub mod webhook;
pub mod websocket_token;

pub use access::{Access, Revocations, WatchAccess};
pub use admin::{
    AdminAccess, AdminError, Credential, Kubeconfig, kubeconfig, load_or_create_token,
    read_kubeconfig, read_token, replace_token, write_kubeconfig,
};
pub use authenticator::{
    Authenticated, Authenticator, Credentials, LiveCheck, Notes, Unauthorized,
};
pub use authenticators::{Anonymous, Authenticators};
pub use authorizer::{
    Attributes, Authorization, Authorizer, Authorizers, Decision, Member, NonResourceRule,
    ResourceRule, Rules, aggregate,
};
pub use bootstrap_tokens::{BootstrapSecrets, BootstrapTokens};
pub use client_certificates::ClientCertificates;
pub use fixed::{AlwaysAllow, AlwaysDeny};
pub use front_proxy::{FrontProxy, ProxyHeaders};
pub use prehashed::ByHash;
pub use refusal_lines::{Omitted, RefusalLines, RefusedLogins};
pub use static_tokens::{Reload, StaticTokens};
pub use token::Token;
pub use token_file::{TokenFileError, check_token_file};
pub use token_lookups::{Found, TokenLookup};
