//! Decides the storage version of a resource (SF-43): the one configured for the resource, else for
//! its group, else the one that Kubernetes stores, else the preferred one.

use std::sync::Arc;

use super::decision::Decision;
use super::options::{GroupResource, GroupVersion};
use crate::api::resource::ResourceDefinition;

/// Resources that Kubernetes 1.36 does not store in the first version served.
const STORED_IN: &[(&str, &str, &str)] = &[
    ("coordination.k8s.io", "leasecandidates", "v1beta1"),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "v1beta1",
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        "v1beta1",
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        "v1beta1",
    ),
    ("certificates.k8s.io", "clustertrustbundles", "v1beta1"),
    ("certificates.k8s.io", "podcertificaterequests", "v1beta1"),
    (
        "storagemigration.k8s.io",
        "storageversionmigrations",
        "v1beta1",
    ),
    ("resource.k8s.io", "devicetaintrules", "v1alpha3"),
    ("resource.k8s.io", "resourcepoolstatusrequests", "v1alpha3"),
    ("scheduling.k8s.io", "workloads", "v1alpha2"),
    ("scheduling.k8s.io", "podgroups", "v1alpha2"),
];

/// The storage version of a resource and of all that share its key prefix. `chosen` is the one
/// among them that decides alone (SF-41, SF-42).
pub(super) fn of(decision: &Decision<'_>, chosen: &GroupResource) -> Option<GroupVersion> {
    configured(decision, chosen)
        .or_else(|| usual(decision, chosen))
        .or_else(|| versions_of(decision, chosen).into_iter().next())
}

/// Returns the hub of a stored resource: the storage version if it is served and has the common
/// form, else the first version that has it, else the first one.
pub(super) fn hub<'d>(
    decision: &Decision<'d>,
    chosen: &GroupResource,
) -> Option<&'d Arc<ResourceDefinition>> {
    let stored = of(decision, chosen);
    let is_stored = |row: &&Arc<ResourceDefinition>| Some(GroupVersion::of(row)) == stored;
    let versions = decision.versions(chosen);
    let mut rows = versions.iter().copied();
    let is_hub = |row: &&&Arc<ResourceDefinition>| !row.has_own_form();
    let stored = rows.find(is_stored).filter(|row| !row.has_own_form());
    let first = || versions.iter().find(is_hub).or(versions.first()).copied();
    stored.or_else(first)
}

fn configured(decision: &Decision<'_>, resource: &GroupResource) -> Option<GroupVersion> {
    let of = |name: Option<&str>| {
        let overrides = decision.options.versions.iter();
        overrides
            .rev()
            .filter(move |one| one.group == resource.group && one.resource.as_deref() == name)
            .map(|one| &one.stored_as)
            // An option for a group does not apply to resources without this version.
            .find(|version| is_known(decision, resource, version))
    };
    of(Some(&resource.resource)).or_else(|| of(None)).cloned()
}

fn usual(decision: &Decision<'_>, resource: &GroupResource) -> Option<GroupVersion> {
    let (_, _, version) = STORED_IN
        .iter()
        .find(|(group, name, _)| *group == resource.group && *name == resource.resource)?;
    let usual = GroupVersion {
        group: resource.group.clone(),
        version: (*version).to_owned(),
    };
    is_known(decision, resource, &usual).then_some(usual)
}

/// Whether a resource, or one that shares its key prefix, has this version.
pub(super) fn is_known(
    decision: &Decision<'_>,
    resource: &GroupResource,
    version: &GroupVersion,
) -> bool {
    versions_of(decision, resource).contains(version)
}

/// All versions that a resource can be stored in.
pub(super) fn versions_of(decision: &Decision<'_>, resource: &GroupResource) -> Vec<GroupVersion> {
    let versions = decision.versions(resource).into_iter();
    let unserved = |row: &ResourceDefinition| {
        let names = row.rules().unserved.iter().map(|unserved| GroupVersion {
            group: row.group.clone(),
            version: unserved.version.clone(),
        });
        names.collect::<Vec<_>>()
    };
    let versions = versions.map(|row| (GroupVersion::of(row), unserved(row)));
    let (served, unserved): (Vec<_>, Vec<_>) = versions.unzip();
    served
        .into_iter()
        .chain(unserved.into_iter().flatten())
        .collect()
}
