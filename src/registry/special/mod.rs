//! What no row of the table can say, a file per special case.

use super::strategy::{Hooks, Ownership};
use crate::api::resource::ResourceDefinition;

mod deployments;
mod immutable;
mod namespaces;
mod nodes;
mod pods;
mod secrets;

pub use namespaces::{CONTENT_FINALIZER, SYSTEM_NAMESPACES};

/// Changes what the row of a resource implies, for the kinds that need it.
pub(super) fn adapt(definition: &ResourceDefinition, ownership: &mut Ownership, hooks: &mut Hooks) {
    match definition.qualified().as_str() {
        "configmaps" => immutable::adapt_configmaps(hooks),
        "deployments.apps" => deployments::adapt(ownership),
        "namespaces" => namespaces::adapt(ownership, hooks),
        "nodes" => nodes::adapt(ownership),
        "pods" => pods::adapt(ownership, hooks),
        "secrets" => secrets::adapt(hooks),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
