//! Admission policies: CEL expressions of users that refuse or change writes (hooks.md sections 7
//! to 9, 12 and 13).
//!
//! This folder owns the two plugins [`ValidatingPolicies`] and [`MutatingPolicies`]. A policy is
//! compiled at its first use ([`compiled`]). An evaluation ([`super::scope`]) is synchronous. If it
//! asks about permissions ([`super::answers`]), it ends, waits for the answer, and runs again with
//! it. Only the authorizer, parameters ([`params`]) and namespaces are read; everything else is
//! pure.

#[cfg(test)]
mod any_policy_tests;
mod compiled;
mod definition;
mod facts;
mod invocations;
#[cfg(test)]
mod matching_tests;
mod metrics;
mod mutating;
mod mutation;
mod params;
mod policy;
mod refusal;
mod rights;
#[cfg(test)]
mod tests;
mod validating;
mod validation;

pub use definition::{Binding, ParamRef};
pub use mutating::MutatingPolicies;
pub use params::{ParamObjects, Parameters};
pub use policy::Policy;
pub use rights::ParameterRights;
pub use validating::ValidatingPolicies;

use std::sync::Arc;

use super::{HookSource, may_be_hooked};
use crate::admission::client::ResourceClient;
use crate::admission::{Attributes, Operation};
use crate::auth::Authorizer;

/// The most that all expressions of an evaluation may cost (HK-90).
const ALL_COST_MAX: u64 = 10_000_000;

/// The dependencies of a plugin for policies.
#[derive(Clone)]
pub struct PolicySources {
    /// The policies.
    pub policies: Arc<dyn HookSource<Policy>>,
    /// Their bindings.
    pub bindings: Arc<dyn HookSource<Binding>>,
    /// The namespaces.
    pub namespaces: Arc<dyn ResourceClient>,
    /// The objects that bindings refer to.
    pub parameters: Arc<dyn Parameters>,
    /// Decides what users may do.
    pub authorizer: Arc<dyn Authorizer>,
}

/// Returns whether policies may be asked about a request (HK-14).
fn may_have_policies(attributes: &Attributes<'_>) -> bool {
    let definition = attributes.definition;
    let is_review = match &*definition.group {
        "authentication.k8s.io" => {
            matches!(&*definition.plural, "tokenreviews" | "selfsubjectreviews")
        }
        "authorization.k8s.io" => true,
        _ => false,
    };
    may_be_hooked(attributes) && !is_review
}

/// Returns whether an operation has an object that a policy can change (HK-65).
fn has_object(operation: &Operation<'_>) -> bool {
    !matches!(operation, Operation::Delete(_))
}
