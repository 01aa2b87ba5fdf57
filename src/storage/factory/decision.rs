//! The table of resources and the options, and what they say about a resource. Pure.

use std::sync::Arc;

use super::options::{GroupResource, StorageOptions};
use crate::api::resource::ResourceDefinition;
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
    pub(super) definitions: &'d [Arc<ResourceDefinition>],
}

impl Decision<'_> {
    /// The first row of a resource: its preferred version.
    pub(super) fn row(&self, resource: &GroupResource) -> Option<&ResourceDefinition> {
        self.rows(resource).next()
    }

    /// The rows of a resource, one for each version.
    pub(super) fn rows(
        &self,
        resource: &GroupResource,
    ) -> impl Iterator<Item = &ResourceDefinition> {
        let rows = self.definitions.iter().map(|row| &**row);
        rows.filter(|row| row.is(&resource.group, &resource.resource))
    }

    /// The types that a resource, and those that share its key prefix, may be stored as.
    pub(super) fn known_types(&self, resource: &GroupResource) -> Vec<TypeName> {
        let cohabitants = self.cohabitants(resource);
        let rows = cohabitants.iter().flat_map(|one| self.rows(one));
        rows.map(TypeName::of).collect()
    }

    /// Those of these types that can be read as what a row serves.
    pub(super) fn read_types(
        &self,
        chosen: &GroupResource,
        definition: &ResourceDefinition,
    ) -> Vec<TypeName> {
        let served = TypeName::of(definition);
        let mut known = self.known_types(chosen);
        known.retain(|stored| self.converts(stored, &served));
        known
    }

    /// Whether a value of one type can be read as one of the other.
    pub(super) fn converts(&self, stored: &TypeName, served: &TypeName) -> bool {
        stored == served || (self.options.differ_in_name_alone)(stored, served)
    }

    pub(super) fn has_group(&self, group: &str) -> bool {
        self.definitions.iter().any(|row| row.group == group)
    }

    /// The resource in all groups that share its key prefix, including itself.
    pub(super) fn cohabitants(&self, resource: &GroupResource) -> Vec<GroupResource> {
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

    /// The one of these groups that decides (SF-41).
    pub(super) fn chosen(&self, resource: &GroupResource) -> GroupResource {
        let mut cohabitants = self.cohabitants(resource).into_iter();
        let served = cohabitants.find(|one| self.has_group(&one.group));
        served.unwrap_or_else(|| resource.clone())
    }
}
