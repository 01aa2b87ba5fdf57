//! Roles and bindings in the registry (API-288, API-289, API-291).
//!
//! [`RbacAuthorizer`] decides by the roles and bindings in the watch caches. [`Escalation`] refuses
//! roles and bindings that give more than their author has. How rules are evaluated is in
//! [`crate::auth::rbac`].

mod authorizer;
mod escalation;
mod kept_grants;

pub use authorizer::{RBAC_CACHES, RbacAuthorizer};
pub use escalation::Escalation;
