//! Warns of configuration without effect.

use std::ptr;

use super::decision::Decision;
use super::options::{ALL_OF_GROUP, GroupResource, ResourceOverride};

/// All warnings, one line each.
pub(super) fn of(decision: &Decision<'_>) -> Vec<String> {
    let sizes = decision.options.watch_cache_sizes.iter();
    let sized = sizes
        .filter(|(_, size)| **size > 0)
        .map(|(resource, size)| {
            format!(
                "watch-cache-sizes: {resource}#{size}: caches have no fixed size, only 0 counts"
            )
        });
    let names = decision.options.watch_cache_sizes.keys();
    let rows = || decision.definitions.iter();
    let unsized_names = names
        .filter(|name| !rows().any(|row| row.qualified() == **name))
        .map(|name| {
            let group = name.split_once('.').map_or("", |(_, group)| group);
            let why = match decision.may_be_custom(group) {
                true => {
                    "no such resource is built in; it holds for a custom resource, if a definition \
                     brings one"
                }
                false => "no such resource is served",
            };
            format!("watch-cache-sizes: {name}: {why}")
        });
    sized
        .chain(overrides(decision))
        .chain(unsized_names)
        .collect()
}

/// Returns warnings of overrides whose servers store nothing.
fn overrides(decision: &Decision<'_>) -> Vec<String> {
    let deciding = decision.deciding();
    let all = decision.options.overrides.iter().enumerate();
    all.filter(|(_, one)| one.servers.is_some())
        .filter(|(_, one)| !deciding.iter().any(|other| ptr::eq(*other, *one)))
        .map(|(number, one)| {
            let later = decision.options.overrides.get(number + 1..);
            let (resource, why) = (
                &one.resource,
                idle(decision, one, later.unwrap_or_default()),
            );
            format!("etcd-servers-overrides: {resource}: {why}")
        })
        .collect()
}

/// Returns the reason why an override has no effect.
fn idle(decision: &Decision<'_>, one: &ResourceOverride, later: &[ResourceOverride]) -> String {
    let resource = &one.resource;
    let is_all = resource.resource == ALL_OF_GROUP;
    let is_known = match is_all {
        true => decision.has_group(&resource.group),
        false => decision.row(resource).is_some(),
    };
    if !is_known {
        let why = match decision.may_be_custom(&resource.group) {
            true => "no such resource is built in; --etcd-servers keep all custom resources",
            false => "no such resource is served",
        };
        return why.to_owned();
    }
    if later.iter().any(|other| other.resource == *resource) {
        return "it is given more than once; the last one counts".to_owned();
    }
    let chosen = decision.chosen(resource);
    match is_all {
        true => "every resource of the group has an override of its own".to_owned(),
        false => format!("it is stored with {}; name that one", named(&chosen)),
    }
}

/// A resource as the flag names it.
fn named(resource: &GroupResource) -> String {
    format!("{}/{}", resource.group, resource.resource)
}
