//! Who is asking: one generated token makes the admin, tokens of a file make its users, no
//! credentials make `system:anonymous`.

mod access;
mod admin;
mod authenticator;
mod refused_logins;
mod token_file;

pub use access::{Access, WatchAccess};
pub use admin::{
    AdminAccess, AdminError, load_or_create_token, read_kubeconfig, read_token, write_kubeconfig,
};
pub use authenticator::{Authenticated, Authenticator, Reload, Token, Unauthorized, User};
pub use refused_logins::RefusedLogins;
pub use token_file::TokenFileError;
