//! Service account tokens and stored objects: the subresource `token`, which signs a token, and the
//! lookup of objects that a token names.
//!
//! [`crate::auth::service_accounts`] does not know where accounts, pods, Secrets and nodes are
//! stored. This folder does.

mod bound_objects;
mod token_request;

pub use bound_objects::BoundObjects;
pub use token_request::TokenStore;
