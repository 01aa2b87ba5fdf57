//! The table of resources and the options, and the decisions that follow from both. Pure.

use std::sync::Arc;

use super::options::{GroupResource, StorageOptions};
use crate::api::resource::{Conversion, ConversionStrategy, ResourceDefinition};
use crate::storage::codec::TypeName;

/// Groups that share the key prefix of a resource, in order of preference. The first served one
/// decides key prefix and storage version (SF-41).
const COHABITING: &[(&str, &[&str])] = &[
    ("networkpolicies", &["networking.k8s.io", "extensions"]),
    ("deployments", &["apps", "extensions"]),
    ("daemonsets", &["apps", "extensions"]),
    ("replicasets", &["apps", "extensions"]),
    ("events", &["", "events.k8s.io"]),
    ("replicationcontrollers", &["", "extensions"]),
    ("podsecuritypolicies", &["policy", "extensions"]),
    ("ingresses", &["networking.k8s.io", "extensions"]),
];

/// The table of resources and the options, for decisions about both.
pub(super) struct Decision<'d> {
    pub(super) options: &'d StorageOptions,
    /// The resources that the daemon starts with. They determine the back ends.
    pub(super) table: &'d [Arc<ResourceDefinition>],
    /// The resources to decide about.
    pub(super) definitions: &'d [Arc<ResourceDefinition>],
}

impl<'d> Decision<'d> {
    /// The first row of a resource: its preferred version.
    pub(super) fn row(&self, resource: &GroupResource) -> Option<&'d Arc<ResourceDefinition>> {
        self.rows(resource).next()
    }

    /// The rows of a resource, one for each version.
    pub(super) fn rows(
        &self,
        resource: &GroupResource,
    ) -> impl Iterator<Item = &'d Arc<ResourceDefinition>> {
        let rows = self.definitions.iter();
        rows.filter(|row| row.is(&resource.group, &resource.resource))
    }

    /// The rows of a stored resource: all versions of the chosen resource, then those of the
    /// resources that share its key prefix.
    pub(super) fn versions(&self, chosen: &GroupResource) -> Vec<&'d Arc<ResourceDefinition>> {
        let mut cohabitants = cohabitants(chosen);
        cohabitants.sort_by_key(|one| one != chosen);
        let rows = cohabitants.iter().flat_map(|one| self.rows(one));
        rows.collect()
    }

    /// The types of a stored resource that can be read as what a row serves.
    pub(super) fn read_types(
        &self,
        chosen: &GroupResource,
        served: &ResourceDefinition,
    ) -> Vec<(TypeName, Conversion)> {
        let versions = self.versions(chosen).into_iter();
        versions
            .flat_map(|row| types_of(row))
            .filter(|(stored, _)| self.converts(stored, served))
            .collect()
    }

    /// Whether a value of a stored type can be read as what a row serves.
    pub(super) fn converts(&self, stored: &TypeName, served: &ResourceDefinition) -> bool {
        let is_convertible =
            |row: &ResourceDefinition| row.rules().conversion != ConversionStrategy::Unsupported;
        let mut known = self.definitions.iter().flat_map(|row| types_of(row));
        let mut conversion = || known.find(|(name, _)| name == stored);
        TypeName::of(served) == *stored
            || is_convertible(served) && conversion().is_some_and(|(_, of)| of.is_supported())
    }

    pub(super) fn has_group(&self, group: &str) -> bool {
        self.definitions.iter().any(|row| row.group == group)
    }

    /// Returns whether a definition may bring resources of a group. Their groups have a dot, and
    /// those that are built in hide them (CRD-15, CRD-104).
    pub(super) fn may_be_custom(&self, group: &str) -> bool {
        group.contains('.') && !self.has_group(group)
    }

    /// Returns the resource among those that share its keys that decides for all (SF-41).
    pub(super) fn chosen(&self, resource: &GroupResource) -> GroupResource {
        let mut cohabitants = cohabitants(resource).into_iter();
        let served = cohabitants.find(|one| self.has_group(&one.group));
        served.unwrap_or_else(|| resource.clone())
    }
}

/// The resource in all groups that share its key prefix, including itself.
pub(super) fn cohabitants(resource: &GroupResource) -> Vec<GroupResource> {
    let shared = COHABITING.iter().find(|(name, groups)| {
        *name == resource.resource && groups.contains(&resource.group.as_str())
    });
    match shared {
        Some((name, groups)) => groups
            .iter()
            .map(|group| GroupResource::new(group, name))
            .collect(),
        None => vec![resource.clone()],
    }
}

/// The types that objects of a row may be stored as: its own, and those that are not served.
fn types_of(row: &ResourceDefinition) -> impl Iterator<Item = (TypeName, Conversion)> + '_ {
    let unserved = row.rules().unserved.iter().map(|unserved| {
        let name = TypeName {
            kind: row.kind.clone(),
            api_version: format!("{}/{}", row.group, unserved.version),
        };
        (name, Conversion::of_unserved(row, unserved))
    });
    [(TypeName::of(row), Conversion::of(row))]
        .into_iter()
        .chain(unserved)
}
