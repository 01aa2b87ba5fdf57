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

mod access;
mod admin;
mod authenticator;
pub mod authorization;
mod authorizer;
mod client_certificates;
mod fixed;
pub mod impersonation;
pub mod node;
pub mod rbac;
mod refused_logins;
pub mod service_accounts;
mod static_tokens;
mod token;
mod token_file;

pub use access::{Access, Revocations, WatchAccess};
pub use admin::{
    AdminAccess, AdminError, Credential, Kubeconfig, kubeconfig, load_or_create_token,
    read_kubeconfig, read_token, replace_token, write_kubeconfig,
};
pub use authenticator::{
    Authenticated, Authenticator, Authenticators, Credentials, LiveCheck, Notes, Unauthorized,
};
pub use authorizer::{
    Attributes, Authorization, Authorizer, Authorizers, Decision, Member, NonResourceRule,
    ResourceRule, Rules, aggregate,
};
pub use client_certificates::ClientCertificates;
pub use fixed::{AlwaysAllow, AlwaysDeny};
pub use refused_logins::RefusedLogins;
pub use static_tokens::{Reload, StaticTokens};
pub use token::Token;
pub use token_file::{TokenFileError, check_token_file};
