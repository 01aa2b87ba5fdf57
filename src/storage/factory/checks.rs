//! Refuses storage versions that do not exist, or that nothing converts into. Pure.

use super::decision::Decision;
use super::error::FactoryError;
use super::options::{GroupResource, VersionOverride, named};
use super::versions;
use crate::api::resource::ResourceDefinition;
use crate::storage::codec::TypeName;

/// All storage versions that do not exist, and all resources that cannot be converted.
pub(super) fn faults(decision: &Decision<'_>) -> Vec<FactoryError> {
    let versions = decision.options.versions.iter();
    let unknown = versions.filter_map(|one| check_one(decision, one).err());
    let definitions = decision.definitions.iter();
    let unconverted = definitions.filter_map(|row| check_conversion(decision, row).err());
    unknown.chain(unconverted).collect()
}

/// Refuses to store a resource as a type that nothing converts it into.
pub(super) fn check_conversion(
    decision: &Decision<'_>,
    definition: &ResourceDefinition,
) -> Result<(), FactoryError> {
    let resource = GroupResource::new(&definition.group, &definition.plural);
    let destination = decision.destination(&resource)?;
    let stored = decision.stored_type(&destination, definition);
    // Each version of a resource has its own type.
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
        .any(|resource| versions::is_known(decision, resource, &one.stored_as))
    {
        return Ok(());
    }
    let mut there_are: Vec<String> = meant
        .iter()
        .flat_map(|resource| versions::versions_of(decision, resource))
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
