//! Authentication and authorization of requests.
//!
//! This folder owns the credentials, the users that they stand for, and the rules on what users may
//! do. The headers of a request enter, and a user with an access leaves. The attributes of a
//! request enter, and a decision leaves. It must not know what handlers do or how a refusal is
//! sent.
//!
//! A chain of Authenticators finds the user of a request. A chain of Authorizers decides what the
//! user may do. One generated token belongs to the admin, the tokens of a file belong to the users
//! listed there, a client certificate belongs to the user that it names, and a request without
//! credentials belongs to `system:anonymous`. Members of
//! `system:masters` may do everything. All others may read discovery and health,
//! and ask what they may do.

mod access;
mod admin;
mod authenticator;
mod authorizer;
mod bootstrap_policy;
mod client_certificates;
mod refused_logins;
mod static_tokens;
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
    Attributes, Authorizer, Authorizers, Decision, NonResourceRule, ResourceRule, Rules,
};
pub use bootstrap_policy::{
    BasicUserPolicy, DiscoveryPolicy, IssuerDiscoveryPolicy, PrivilegedGroup, bootstrap, is_public,
};
pub use client_certificates::{ClientCertificates, PeerCertificates};
pub use refused_logins::RefusedLogins;
pub use static_tokens::{Reload, StaticTokens, Token};
pub use token_file::{TokenFileError, check_token_file};
