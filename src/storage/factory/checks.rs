//! Refuses storage versions that do not exist, or that nothing converts into. Pure.

use std::sync::Arc;

use super::decision::Decision;
use super::error::FactoryError;
use super::options::{GroupResource, VersionOverride, named};
use super::versions;
use crate::api::resource::{ConversionStrategy, FieldPath, ResourceDefinition};
use crate::storage::codec::TypeName;

/// Returns all errors: storage versions that do not exist, and resources that cannot be converted.
pub(super) fn faults(decision: &Decision<'_>) -> Vec<FactoryError> {
    let versions = decision.options.versions.iter();
    let unknown = versions.filter_map(|one| check_one(decision, one).err());
    let definitions = decision.definitions.iter();
    let unconverted = definitions.filter_map(|row| check_row(decision, row).err());
    unknown.chain(unconverted).collect()
}

/// Refuses a row that cannot be converted into the type that it is stored as, and a row that
/// differs from the hub in properties that caches and keys depend on.
pub(super) fn check_row(
    decision: &Decision<'_>,
    definition: &Arc<ResourceDefinition>,
) -> Result<(), FactoryError> {
    let destination = decision.destination(&GroupResource::of(definition))?;
    let stored = decision.stored_type(&destination, definition);
    // Each version of a resource has its own type.
    let served = TypeName::of(definition);
    if !decision.converts(&stored, definition) {
        return Err(FactoryError::NoConversion {
            resource: definition.qualified(),
            served,
            stored,
        });
    }
    match versions::hub(decision, &destination.chosen) {
        Some(hub) => check_same_objects(hub, definition),
        None => Ok(()),
    }
}

/// Checks that a version can share the cache and the keys of another one.
pub(super) fn check_same_objects(
    hub: &Arc<ResourceDefinition>,
    definition: &Arc<ResourceDefinition>,
) -> Result<(), FactoryError> {
    let differs = |difference| {
        Err(FactoryError::Versions {
            version: TypeName::of(definition),
            hub: TypeName::of(hub),
            difference,
        })
    };
    let converts =
        |row: &ResourceDefinition| row.rules().conversion != ConversionStrategy::Unsupported;
    let paths = |row: &ResourceDefinition| -> Vec<Vec<FieldPath>> {
        let fields = row.behaviour.selectable_fields().iter();
        fields.map(|field| field.paths.clone()).collect()
    };
    match definition {
        own if Arc::ptr_eq(own, hub) => Ok(()),
        own if own.kind != hub.kind => differs("their kinds differ"),
        own if !converts(own) || !converts(hub) => differs("nothing converts between them"),
        own if own.key_prefix != hub.key_prefix => differs("their key prefixes differ"),
        own if own.scope != hub.scope => differs("only one of them is namespaced"),
        // Versions may name the same fields differently, and have fewer.
        own if !paths(hub).starts_with(&paths(own)) => differs("their selectable fields differ"),
        _ => Ok(()),
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
