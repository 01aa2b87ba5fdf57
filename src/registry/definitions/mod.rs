//! The built-in resources, one row each (http.md 6.1 to 6.4), a file per API group.

use std::sync::Arc;

use crate::api::resource::{FieldPath, ResourceDefinition, Subresource, UpdateStrategy, Verb};

pub mod apps;
pub mod coordination;
pub mod core;

/// Every built-in resource, by group in the order of discovery (API-28), and by name within a
/// group. The order of groups decides which one an ambiguous short name means.
pub fn built_in() -> Vec<Arc<ResourceDefinition>> {
    let rows = [
        core::configmaps(),
        core::events(),
        core::namespaces(),
        core::nodes(),
        core::pods(),
        core::secrets(),
        core::serviceaccounts(),
        core::services(),
        apps::deployments(),
        coordination::leases(),
    ];
    rows.into_iter().map(Arc::new).collect()
}

/// A subresource that is read and written as a part of its object.
fn part(name: &str, verbs: &[Verb], update: UpdateStrategy) -> Subresource {
    Subresource {
        name: name.to_owned(),
        verbs: verbs.to_vec(),
        update,
    }
}

/// The status subresource, whose updates keep these parts as stored.
fn status(keeps: &[&str]) -> Subresource {
    let update = UpdateStrategy {
        keeps: FieldPath::list(keeps),
        ..UpdateStrategy::default()
    };
    part("status", &[Verb::Get, Verb::Patch, Verb::Update], update)
}

/// A resource whose status is written at `/status` alone, which leaves `spec` as stored.
fn with_status(row: ResourceDefinition) -> ResourceDefinition {
    let mut row = ResourceDefinition {
        subresources: vec![status(&["spec"])],
        ..row
    };
    row.create.drops = FieldPath::list(&["status"]);
    row.update.keeps = FieldPath::list(&["status"]);
    row
}

/// Names, written side by side.
fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
