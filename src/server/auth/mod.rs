//! Who is asking: one generated token makes the admin, no credentials make `system:anonymous`.

mod authenticator;

pub use authenticator::{AdminToken, Authenticator, Unauthorized, User};
