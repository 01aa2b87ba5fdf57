//! Which version a resource is stored in: what is configured for the resource, then for its group,
//! then what Kubernetes stores in another version than the preferred one, then that one (SF-43).

use super::FactoryError;
use super::destination::Decision;
use super::options::{GroupResource, GroupVersion, VersionOverride, named};
use crate::api::resource::ResourceDefinition;
use crate::storage::codec::TypeName;

/// What Kubernetes 1.36 stores in another version than the first one served.
const STORED_IN: &[(&str, &str, &str)] = &[
    ("coordination.k8s.io", "leasecandidates", "v1beta1"),
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

/// The version that a resource is stored in, whoever of those that share its place asks; `chosen`
/// is the one among them that decides, and decides alone (SF-41, SF-42).
pub(super) fn of(decision: &Decision<'_>, chosen: &GroupResource) -> Option<GroupVersion> {
    configured(decision, chosen)
        .or_else(|| usual(decision, chosen))
        .or_else(|| versions_of(decision, chosen).into_iter().next())
}

fn configured(decision: &Decision<'_>, resource: &GroupResource) -> Option<GroupVersion> {
    let of = |name: Option<&str>| {
        let overrides = decision.options.versions.iter();
        overrides
            .rev()
            .filter(move |one| one.group == resource.group && one.resource.as_deref() == name)
            .map(|one| &one.stored_as)
            // One for a group says nothing about a resource that has not this version.
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

/// Whether a resource, or one that shares its place, is there in this version.
fn is_known(decision: &Decision<'_>, resource: &GroupResource, version: &GroupVersion) -> bool {
    versions_of(decision, resource).contains(version)
}

/// All versions that a resource can be stored in.
pub(super) fn versions_of(decision: &Decision<'_>, resource: &GroupResource) -> Vec<GroupVersion> {
    let mut cohabitants = decision.cohabitants(resource);
    // Its own first.
    cohabitants.sort_by_key(|one| one != resource);
    let rows = cohabitants.iter().flat_map(|one| decision.rows(one));
    let versions = rows.map(|row| GroupVersion {
        group: row.group.clone(),
        version: row.version.clone(),
    });
    versions.collect()
}

/// What names nothing that there is, and what would be stored under the name of something else.
pub(super) fn faults(decision: &Decision<'_>) -> Vec<FactoryError> {
    let versions = decision.options.versions.iter();
    let unknown = versions.filter_map(|one| check_one(decision, one).err());
    let definitions = decision.definitions.iter();
    let unconverted = definitions.filter_map(|row| check_conversion(decision, row).err());
    unknown.chain(unconverted).collect()
}

/// Refuses to store what a row serves under the name of something else.
pub(super) fn check_conversion(
    decision: &Decision<'_>,
    definition: &ResourceDefinition,
) -> Result<(), FactoryError> {
    let resource = GroupResource::new(&definition.group, &definition.plural);
    let destination = decision.destination(&resource)?;
    let stored = decision.stored_type(&destination, definition);
    // Of several versions each row has its own name.
    let served = TypeName::of(definition);
    match decision.converts(&stored, &served) {
        true => Ok(()),
        false => Err(FactoryError::NoConversion {
            resource: definition.qualified(),
            served,
            stored,
        }),
    }
}

fn check_one(decision: &Decision<'_>, one: &VersionOverride) -> Result<(), FactoryError> {
    let refuse = |problem: String| {
        Err(FactoryError::Version {
            entry: one.to_string(),
            problem,
        })
    };
    let mut groups: Vec<&str> = decision
        .definitions
        .iter()
        .map(|row| row.group.as_str())
        .collect();
    groups.dedup();
    if !groups.contains(&one.group.as_str()) {
        let there_are: Vec<&str> = groups.into_iter().map(named).collect();
        let group = named(&one.group);
        return refuse(format!(
            "no group {group} is served; there are {}",
            there_are.join(", ")
        ));
    }
    let rows = decision.definitions.iter();
    let mut resources: Vec<&str> = rows
        .filter(|row| row.group == one.group)
        .map(|row| row.plural.as_str())
        .collect();
    resources.dedup();
    let meant: Vec<GroupResource> = resources
        .iter()
        .filter(|name| one.resource.as_ref().is_none_or(|wanted| wanted == *name))
        .map(|name| GroupResource::new(&one.group, name))
        .collect();
    if meant.is_empty() {
        let (group, there_are) = (named(&one.group), resources.join(", "));
        return refuse(format!(
            "group {group} has no such resource; there are {there_are}"
        ));
    }
    if meant
        .iter()
        .any(|resource| is_known(decision, resource, &one.stored_as))
    {
        return Ok(());
    }
    let mut there_are: Vec<String> = meant
        .iter()
        .flat_map(|resource| versions_of(decision, resource))
        .map(|version| version.to_string())
        .collect();
    there_are.sort();
    there_are.dedup();
    refuse(format!(
        "nothing of it can be stored as {}; there are {}",
        one.stored_as,
        there_are.join(", ")
    ))
}
