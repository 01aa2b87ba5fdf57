//! What must hold of the resources that are served together. Pure.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::catalog::{GROUPS, compare_versions, rank};
use crate::api::names::dns_label;
use crate::api::resource::ResourceDefinition;

/// The resource that can't be served, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{resource} can't be served: {fault}")]
pub struct DefinitionError {
    /// The resource and its version.
    pub resource: String,
    /// The reason.
    pub fault: DefinitionFault,
}

/// The reason why a resource can't be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionFault {
    /// Its group has no version with a name.
    #[error("{0:?} is no name of a version")]
    NoVersion(String),
    /// The same version of the same resource is there.
    #[error("this version is served already")]
    Twice,
    /// A version that it calls stored and not served is served, or is named twice.
    #[error("its version {0} is both served and not, or named twice")]
    UnservedTwice(String),
    /// Discovery has no place for its group.
    #[error("no place in discovery is known for the group {0:?}")]
    Unannounced(String),
    /// Clients should prefer it to what stands in front of it.
    #[error("it belongs in front of {0}")]
    Misplaced(String),
    /// Another resource of its group has one of its names (CRD-62).
    #[error("{other} is called {name} already")]
    Name {
        /// The plural, singular, short name, kind, or kind of lists.
        name: String,
        /// The other resource.
        other: String,
    },
    /// Two of its subresources have one name.
    #[error("two of its subresources are called {0}")]
    Subresource(String),
    /// Its keys lie below those of another resource, or around them (KV-1).
    #[error("{0} is stored below the same keys")]
    Keys(String),
}

use DefinitionFault as Fault;

/// Checks a whole table, which is in the order of discovery (API-28, API-30).
///
/// # Errors
/// The first [`DefinitionError`].
pub fn check_table(table: &[&ResourceDefinition]) -> Result<(), DefinitionError> {
    let mut before: Vec<&ResourceDefinition> = Vec::new();
    for &own in table {
        let refuse = |fault| Err(refusal(own, fault));
        if !GROUPS.contains(&&*own.group) {
            return refuse(Fault::Unannounced(own.group.clone()));
        }
        check_added(&before, own)?;
        if let Some(last) = before.last()
            && place(last, own) == Ordering::Greater
        {
            return refuse(Fault::Misplaced(format!("{last:?}")));
        }
        before.push(own);
    }
    Ok(())
}

/// Checks a definition that is served in addition to others.
///
/// # Errors
/// [`DefinitionError`]
pub fn check_added(
    served: &[&ResourceDefinition],
    own: &ResourceDefinition,
) -> Result<(), DefinitionError> {
    let faults = own_fault(own).into_iter();
    let mut faults = faults.chain(served.iter().filter_map(|other| fault_beside(other, own)));
    faults
        .next()
        .map_or(Ok(()), |fault| Err(refusal(own, fault)))
}

fn refusal(own: &ResourceDefinition, fault: Fault) -> DefinitionError {
    DefinitionError {
        resource: format!("{own:?}"),
        fault,
    }
}

/// The order of discovery: by group, then by name, then the preferred version first.
fn place(one: &ResourceDefinition, other: &ResourceDefinition) -> Ordering {
    let name = |row: &ResourceDefinition| (rank(&row.group).0, row.plural.clone());
    let versions = || compare_versions(&one.version, &other.version);
    name(one).cmp(&name(other)).then_with(versions)
}

fn own_fault(own: &ResourceDefinition) -> Option<Fault> {
    if !dns_label(&own.version).is_empty() {
        return Some(Fault::NoVersion(own.version.clone()));
    }
    let mut versions = HashSet::from([&*own.version]);
    let mut unserved = own.unserved.iter().map(|(version, _)| *version);
    if let Some(version) = unserved.find(|version| !versions.insert(*version)) {
        return Some(Fault::UnservedTwice(version.to_owned()));
    }
    let mut parts = HashSet::new();
    let mut names = own.subresources.iter().map(|part| &*part.name);
    let twice = names.find(|name| !parts.insert(*name))?;
    Some(Fault::Subresource(twice.to_owned()))
}

fn fault_beside(other: &ResourceDefinition, own: &ResourceDefinition) -> Option<Fault> {
    if other.is(&own.group, &own.plural) {
        let lacks = |row: &ResourceDefinition, version: &str| {
            row.unserved
                .iter()
                .all(|(unserved, _)| *unserved != version)
        };
        return match own {
            own if own.version == other.version => Some(Fault::Twice),
            own if !lacks(other, &own.version) => Some(Fault::UnservedTwice(own.version.clone())),
            own if !lacks(own, &other.version) => Some(Fault::UnservedTwice(other.version.clone())),
            _ => None,
        };
    }
    if own.group == other.group
        && let Some(name) = common_name(own, other)
    {
        let other = format!("{other:?}");
        return Some(Fault::Name { name, other });
    }
    let below = |one: &str, other: &str| {
        let rest = one.strip_prefix(other);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let (one, two) = (&own.key_prefix, &other.key_prefix);
    let overlap = below(one, two) || below(two, one);
    overlap.then(|| Fault::Keys(format!("{other:?}")))
}

/// A name that both have: one by which paths and users call them, or one of a kind.
fn common_name(one: &ResourceDefinition, other: &ResourceDefinition) -> Option<String> {
    let names = |row: &ResourceDefinition| -> HashSet<String> {
        let names = [row.plural.clone(), row.singular.clone()].into_iter();
        names.chain(row.short_names.iter().cloned()).collect()
    };
    let kinds =
        |row: &ResourceDefinition| HashSet::from([row.kind.clone(), format!("{}List", row.kind)]);
    let names = names(one).intersection(&names(other)).min().cloned();
    names.or_else(|| kinds(one).intersection(&kinds(other)).min().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resource::{ConversionStrategy, ResourceScope, UnservedVersion};
    use crate::kinds::definitions::{built_in, not_stored};

    const OLD: &[UnservedVersion] = &[("v1beta1", ConversionStrategy::TypeOnly)];

    fn gadgets(version: &str) -> ResourceDefinition {
        ResourceDefinition {
            short_names: vec!["gd".to_owned()],
            ..ResourceDefinition::named("apps", version, "Gadget", "gadgets")
        }
    }

    fn levers() -> ResourceDefinition {
        ResourceDefinition::named("apps", "v1", "Lever", "levers")
    }

    #[track_caller]
    fn assert_fault(table: &[ResourceDefinition], expected: &Fault) {
        let rows: Vec<&ResourceDefinition> = table.iter().collect();
        let refused = check_table(&rows).expect_err("it is refused");
        assert_eq!(refused.fault, *expected);
        assert_eq!(
            refused.resource,
            format!("{:?}", table.last().expect("a row"))
        );
    }

    #[test]
    fn the_built_in_resources_can_be_served_together() {
        let rows = built_in();
        let rows: Vec<&ResourceDefinition> = rows.iter().map(|row| &**row).collect();
        assert_eq!(check_table(&rows), Ok(()));
        for other in &not_stored() {
            assert_eq!(check_added(&rows, other), Ok(()));
        }
    }

    #[test]
    fn versions_that_are_there_twice_are_refused() {
        assert_fault(&[gadgets("v1"), gadgets("v1")], &Fault::Twice);
        let stored = |version: &str| ResourceDefinition {
            unserved: OLD,
            ..gadgets(version)
        };
        let twice = Fault::UnservedTwice("v1beta1".to_owned());
        assert_fault(&[stored("v1beta1")], &twice);
        assert_fault(&[stored("v1"), gadgets("v1beta1")], &twice);
        let rows = [gadgets("v1beta1"), stored("v1")];
        assert_eq!(
            check_added(&[&rows[0]], &rows[1]),
            Err(refusal(&rows[1], twice))
        );
    }

    #[test]
    fn a_group_without_a_version_is_refused() {
        for version in ["", "apps/v1", "V1"] {
            assert_fault(&[gadgets(version)], &Fault::NoVersion(version.to_owned()));
        }
    }

    /// API-28
    #[test]
    fn a_group_that_discovery_has_no_place_for_is_refused() {
        let row = ResourceDefinition::named("example.com", "v1", "Gadget", "gadgets");
        assert_eq!(check_added(&[], &row), Ok(()));
        assert_fault(&[row], &Fault::Unannounced("example.com".to_owned()));
    }

    /// API-28, API-30
    #[test]
    fn versions_and_groups_in_another_order_are_refused() {
        let misplaced = |row: &ResourceDefinition| Fault::Misplaced(format!("{row:?}"));
        for [first, last] in [
            [gadgets("v1"), gadgets("v2")],
            [gadgets("v1beta1"), gadgets("v1")],
            [levers(), gadgets("v1")],
            [
                gadgets("v1"),
                ResourceDefinition::named("", "v1", "Cog", "cogs"),
            ],
        ] {
            let fault = misplaced(&first);
            assert_fault(&[first, last], &fault);
        }
    }

    /// CRD-62
    #[test]
    fn two_resources_of_a_group_under_one_name_are_refused() {
        let named = |change: fn(&mut ResourceDefinition)| {
            let mut row = levers();
            change(&mut row);
            row
        };
        let other = format!("{:?}", gadgets("v1"));
        for (name, row) in [
            ("Gadget", named(|row| row.kind = "Gadget".to_owned())),
            (
                "GadgetList",
                named(|row| row.kind = "GadgetList".to_owned()),
            ),
            ("gadget", named(|row| row.singular = "gadget".to_owned())),
            (
                "gadgets",
                named(|row| row.short_names = vec!["gadgets".to_owned()]),
            ),
            ("gd", named(|row| row.short_names = vec!["gd".to_owned()])),
        ] {
            let fault = Fault::Name {
                name: name.to_owned(),
                other: other.clone(),
            };
            assert_fault(&[gadgets("v1"), row], &fault);
        }
        // Each group has names of its own, and so has a resource in all of its versions.
        let elsewhere = ResourceDefinition {
            scope: ResourceScope::Cluster,
            ..ResourceDefinition::named("batch", "v1", "Gadget", "gadgets")
        };
        let rows = [gadgets("v2"), gadgets("v1"), elsewhere];
        assert_eq!(check_table(&rows.iter().collect::<Vec<_>>()), Ok(()));
    }

    #[test]
    fn two_subresources_under_one_name_are_refused() {
        let rows = built_in();
        let deployments = rows.iter().find(|row| row.is("apps", "deployments"));
        let status = deployments.and_then(|row| row.subresource("status"));
        let status = status.expect("deployments have a status");
        let row = ResourceDefinition {
            subresources: vec![status.clone(), status.clone()],
            ..gadgets("v1")
        };
        assert_fault(&[row], &Fault::Subresource("status".to_owned()));
    }

    /// KV-1
    #[test]
    fn keys_below_those_of_another_resource_are_refused() {
        for prefix in ["gadgets/below", "gadgets/below/these"] {
            let row = ResourceDefinition {
                key_prefix: prefix.to_owned(),
                ..levers()
            };
            let other = Fault::Keys(format!("{:?}", gadgets("v1")));
            assert_fault(&[gadgets("v1"), row.clone()], &other);
            let around = Fault::Keys(format!("{row:?}"));
            let refused = check_added(&[&row], &gadgets("v1"));
            assert_eq!(refused.map_err(|error| error.fault), Err(around));
        }
    }
}
