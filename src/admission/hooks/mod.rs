//! Hooks: what users add to admission, webhooks and policies, and which requests they are for.
//!
//! This folder owns the decision which hook is asked about a request ([`matching`]), and the
//! objects that hooks see, in the version that they ask for ([`shown`]). The configurations of
//! hooks come from a [`HookSource`], which the registry implements over its watch caches. Behaviour
//! is specified in hooks.md.

mod answers;
mod by_request;
pub mod client;
pub mod conditions;
mod expression;
pub mod failure_lines;
pub mod matching;
#[cfg(test)]
mod matching_tests;
mod measured_conditions;
pub mod policies;
pub mod reinvocation;
pub mod request;
mod scope;
mod settings;
pub mod shown;
mod source;
pub mod webhooks;

pub use source::{HookSource, Hooks};

use super::Attributes;

/// The group of the kinds that configure hooks. No hook is asked about them (HK-14).
pub const HOOKS_GROUP: &str = "admissionregistration.k8s.io";

/// Returns whether webhooks may be asked about a request. Nobody can lock a cluster up by a hook
/// that refuses its own removal (HK-14).
pub fn may_be_hooked(attributes: &Attributes<'_>) -> bool {
    attributes.definition.group != HOOKS_GROUP
}

/// Returns the namespace of a request as hooks see it: that of its object, and for a Namespace its
/// own name (HK-9).
pub fn namespace_of<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    match attributes.namespace {
        Some(namespace) => namespace,
        None if attributes.definition.is("", "namespaces") => attributes.name,
        None => "",
    }
}
