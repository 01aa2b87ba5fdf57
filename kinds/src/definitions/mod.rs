//! The built-in resources (http.md 6.1 to 6.4).
//!
//! This folder owns one definition for each built-in resource, in a file per API group. Nothing
//! enters, the list of definitions leaves. This folder must not know stores, requests or the order
//! of writes.

use std::sync::Arc;

use api::resource::{FieldPath, ResourceDefinition, Subresource, UpdateStrategy, Verb};

pub mod apps;
pub mod coordination;
pub mod core;

/// Every built-in resource, by group in the order of discovery (API-28) and by name within a group.
/// The order of groups decides which group an ambiguous short name means.
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

/// A resource whose objects have this type, with the properties of most kinds. The type's name has
/// version and kind: `apps.v1.Deployment`.
fn typed(object_type: &'static str, group: &str, plural: &str) -> ResourceDefinition {
    let mut parts = object_type.split('.').skip(1);
    let (version, kind) = (parts.next(), parts.next());
    let (version, kind) = (version.unwrap_or_default(), kind.unwrap_or_default());
    ResourceDefinition {
        object_type: crate::types::object_type(object_type),
        ..ResourceDefinition::named(group, version, kind, plural)
    }
}

/// A subresource that reads its object and writes a part of it.
fn part(name: &str, verbs: &[Verb], update: UpdateStrategy) -> Subresource {
    Subresource {
        name: name.to_owned(),
        verbs: verbs.to_vec(),
        update,
    }
}

/// The status subresource. Its updates keep these parts as stored.
fn status(keeps: &[&str]) -> Subresource {
    let update = UpdateStrategy {
        keeps: FieldPath::list(keeps),
        ..UpdateStrategy::default()
    };
    part("status", &[Verb::Get, Verb::Patch, Verb::Update], update)
}

/// Adds a status to a resource. Only `/status` writes the status, and it keeps `spec` as stored.
fn with_status(row: ResourceDefinition) -> ResourceDefinition {
    let mut row = ResourceDefinition {
        subresources: vec![status(&["spec"])],
        ..row
    };
    row.create.drops = FieldPath::list(&["status"]);
    row.update.keeps = FieldPath::list(&["status"]);
    row
}

/// Converts a list of names.
fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
