//! Who is asking, and whether that user may: a chain of Authenticators makes the user of a
//! request, a chain of Authorizers decides what the user may do. Today one generated token makes
//! the admin, tokens of a file make its users, and no credentials make `system:anonymous`;
//! members of `system:masters` may do everything, all others read discovery and health.

mod access;
mod admin;
mod authenticator;
mod authorizer;
mod bootstrap_policy;
mod refused_logins;
mod static_tokens;
mod token_file;

pub use access::{Access, Revocations, WatchAccess};
pub use admin::{
    AdminAccess, AdminError, load_or_create_token, read_kubeconfig, read_token, write_kubeconfig,
};
pub use authenticator::{Authenticated, Authenticator, Authenticators, Credentials, Unauthorized};
pub use authorizer::{Attributes, Authorizer, Authorizers, Decision};
pub use bootstrap_policy::{DiscoveryPolicy, PrivilegedGroup, is_public};
pub use refused_logins::RefusedLogins;
pub use static_tokens::{Reload, StaticTokens, Token};
pub use token_file::TokenFileError;
