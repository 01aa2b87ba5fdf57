//! Who is asking: one generated token makes the admin, tokens of a file make its users, no
//! credentials make `system:anonymous`.

mod admin;
mod authenticator;
pub mod private_file;
mod token_file;

pub use admin::{AdminAccess, AdminError, load_or_create_token, read_kubeconfig, write_kubeconfig};
pub use authenticator::{Authenticator, Token, Unauthorized, User};
pub use token_file::TokenFileError;
