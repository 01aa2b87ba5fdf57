//! Role-based access control (API-288): roles, bindings, and what they allow.
//!
//! [`RbacIndex`] has all roles and bindings, by those who get them. It knows no cache: its owner
//! adds and removes what it reads.

#[cfg(test)]
mod cost_tests;
mod escalation;
mod filter;
mod index;
mod objects;
mod rule;
#[cfg(test)]
mod tests;

pub use escalation::{Lacking, covers, missing_rules, quoted};
pub use index::{Grant, RbacIndex, Verdict, absent_roles, decide};
pub use objects::{Binding, RoleKind, Subject, SubjectKey, read_rules};
pub use rule::PolicyRule;
