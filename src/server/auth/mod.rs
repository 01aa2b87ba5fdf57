//! Who is asking: one generated token makes the admin, no credentials make `system:anonymous`.

mod admin;
mod authenticator;
pub mod private_file;

pub use admin::{AdminAccess, AdminError, load_or_create_token, read_kubeconfig, write_kubeconfig};
pub use authenticator::{AdminToken, Authenticator, Unauthorized, User};
