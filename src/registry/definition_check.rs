//! Checks that resources can be served together. Pure.
//!
//! The check looks up the names of a new resource in an index ([`Names`]), so it takes the same
//! time however many resources there are.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use imbl::OrdMap;

use super::discovery_order::{GROUPS, compare_versions, rank};
use crate::api::cost;
use crate::api::names::dns_label;
use crate::api::resource::ResourceDefinition;

/// A resource that cannot be served, and the reason.
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
    /// The name of its version is not a DNS label.
    #[error("{0:?} is not a valid version name")]
    NoVersion(String),
    /// The same version of the same resource is already served.
    #[error("this version is served already")]
    Twice,
    /// A version that it declares as stored but not served is served, or is declared twice.
    #[error("its version {0} is declared as not served, but is served or declared twice")]
    UnservedTwice(String),
    /// Its group has no place in the order of discovery.
    #[error("the group {0:?} has no place in discovery")]
    Unannounced(String),
    /// It is more preferred than the row before it.
    #[error("it must be listed before {0}")]
    Misplaced(String),
    /// Another resource of its group has one of its names (CRD-62).
    #[error("{other} already has the name {name}")]
    Name {
        /// The plural, singular, short name, kind, or list kind.
        name: String,
        /// The other resource.
        other: String,
    },
    /// Two of its subresources have the same name.
    #[error("two of its subresources have the name {0}")]
    Subresource(String),
    /// Its key prefix lies below that of another resource, or above it (KV-1).
    #[error("its keys overlap with those of {0}")]
    Keys(String),
}

use DefinitionFault as Fault;

/// Checks the built-in resources, which must be in the order of discovery (API-28, API-30).
///
/// # Errors
/// The first [`DefinitionError`].
pub fn check_table(table: &[&Arc<ResourceDefinition>]) -> Result<(), DefinitionError> {
    let mut names = Names::default();
    let mut before: Option<&ResourceDefinition> = None;
    for &own in table {
        let refuse = |fault| Err(refusal(own, fault));
        if !GROUPS.contains(&&*own.group) {
            return refuse(Fault::Unannounced(own.group.clone()));
        }
        names.check(own)?;
        if let Some(last) = before
            && place(last, own) == Ordering::Greater
        {
            return refuse(Fault::Misplaced(format!("{last:?}")));
        }
        names.insert(own);
        before = Some(own);
    }
    Ok(())
}

/// An index of the names that must be unique among served resources. A clone shares all that is not
/// changed afterwards.
#[derive(Clone, Default)]
pub struct Names {
    entries: OrdMap<Entry, Arc<ResourceDefinition>>,
}

/// A name of a resource in one version. The versions of a resource are adjacent in the index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    space: Space,
    /// The group; empty for key prefixes, which are unique across groups.
    group: Arc<str>,
    name: Arc<str>,
    /// The resource and its version.
    owner: Arc<str>,
}

/// A space in which names must be unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    /// Plurals, singulars and short names of a group.
    Resources,
    /// Kinds and list kinds of a group.
    Kinds,
    /// Key prefixes of all groups.
    Keys,
}

impl Names {
    /// Adds the names of a resource.
    pub fn insert(&mut self, row: &Arc<ResourceDefinition>) {
        for entry in entries(row) {
            self.entries.insert(entry, Arc::clone(row));
        }
    }

    /// Removes the names of a resource.
    pub fn remove(&mut self, row: &ResourceDefinition) {
        for entry in entries(row) {
            self.entries.remove(&entry);
        }
    }

    /// Checks a definition against the indexed ones.
    ///
    /// # Errors
    /// [`DefinitionError`]
    pub fn check(&self, own: &ResourceDefinition) -> Result<(), DefinitionError> {
        let fault = own_fault(own)
            .or_else(|| self.version_fault(own))
            .or_else(|| self.name_fault(own))
            .or_else(|| self.key_fault(own));
        fault.map_or(Ok(()), |fault| Err(refusal(own, fault)))
    }

    /// Checks a version of a custom resource. Its names have been accepted before (CRD-62).
    ///
    /// # Errors
    /// [`DefinitionError`]
    pub fn check_custom(&self, own: &ResourceDefinition) -> Result<(), DefinitionError> {
        let fault = own_fault(own).or_else(|| self.key_fault(own));
        fault.map_or(Ok(()), |fault| Err(refusal(own, fault)))
    }

    /// Returns the versions of a kind in a group.
    pub fn of_kind<'n>(
        &'n self,
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = &'n Arc<ResourceDefinition>> + use<'n> {
        self.of(Space::Kinds, group, kind)
    }

    /// Returns the versions of resources with this key prefix.
    pub fn below<'n>(
        &'n self,
        key_prefix: &str,
    ) -> impl Iterator<Item = &'n Arc<ResourceDefinition>> + use<'n> {
        self.of(Space::Keys, "", key_prefix)
    }

    /// Returns the resources with a name.
    fn of<'n>(
        &'n self,
        space: Space,
        group: &str,
        name: &str,
    ) -> impl Iterator<Item = &'n Arc<ResourceDefinition>> + use<'n> {
        let first = Entry {
            space,
            group: group.into(),
            name: name.into(),
            owner: "".into(),
        };
        let Entry { group, name, .. } = first.clone();
        let entries = self.entries.range(first..);
        let is_of = move |entry: &Entry| {
            cost::compared(1);
            entry.space == space && entry.group == group && entry.name == name
        };
        entries
            .take_while(move |(entry, _)| is_of(entry))
            .map(|(_, row)| row)
    }

    fn version_fault(&self, own: &ResourceDefinition) -> Option<Fault> {
        let lacks = |row: &ResourceDefinition, version: &str| {
            let mut unserved = row.rules().unserved.iter();
            unserved.all(|unserved| unserved.version != version)
        };
        let named = self.of(Space::Resources, &own.group, &own.plural);
        let mut versions = named.filter(|other| other.is(&own.group, &own.plural));
        versions.find_map(|other| match own {
            own if own.version == other.version => Some(Fault::Twice),
            own if !lacks(other, &own.version) => Some(Fault::UnservedTwice(own.version.clone())),
            own if !lacks(own, &other.version) => Some(Fault::UnservedTwice(other.version.clone())),
            _ => None,
        })
    }

    fn name_fault(&self, own: &ResourceDefinition) -> Option<Fault> {
        names(own).into_iter().find_map(|(space, name)| {
            let mut named = self.of(space, &own.group, &name);
            let other = named.find(|other| !other.is(&own.group, &own.plural))?;
            let other = format!("{other:?}");
            Some(Fault::Name { name, other })
        })
    }

    fn key_fault(&self, own: &ResourceDefinition) -> Option<Fault> {
        let is_other = |other: &&Arc<ResourceDefinition>| !other.is(&own.group, &own.plural);
        let prefix = own.key_prefix.as_str();
        let mut above = prefix.match_indices('/').filter_map(|(end, _)| {
            let mut around = self.below(prefix.get(..end)?);
            around.find(is_other)
        });
        let below = || {
            let folder = format!("{prefix}/");
            let first = Entry {
                space: Space::Keys,
                group: "".into(),
                name: folder.as_str().into(),
                owner: "".into(),
            };
            let entries = self.entries.range(first..);
            let mut below = entries
                .take_while(|(entry, _)| {
                    cost::compared(1);
                    entry.space == Space::Keys && entry.name.starts_with(&folder)
                })
                .map(|(_, row)| row);
            below.find(is_other)
        };
        let other = above.next().or_else(below)?;
        Some(Fault::Keys(format!("{other:?}")))
    }
}

/// Returns the names of a resource within its group, sorted.
fn names(row: &ResourceDefinition) -> BTreeSet<(Space, String)> {
    let names = [&row.plural, &row.singular].into_iter();
    let names = names.chain(&row.short_names).cloned();
    let kinds = [row.kind.clone(), row.list_kind()];
    let names = names.map(|name| (Space::Resources, name));
    names
        .chain(kinds.map(|kind| (Space::Kinds, kind)))
        .collect()
}

fn entries(row: &ResourceDefinition) -> impl Iterator<Item = Entry> {
    let owner: Arc<str> = format!("{row:?}").into();
    let group: Arc<str> = row.group.as_str().into();
    let own = names(row).into_iter();
    let own = own.map(move |(space, name)| (space, Arc::clone(&group), name));
    let keys = (Space::Keys, "".into(), row.key_prefix.clone());
    own.chain([keys]).map(move |(space, group, name)| Entry {
        space,
        group,
        name: name.into(),
        owner: Arc::clone(&owner),
    })
}

fn refusal(own: &ResourceDefinition, fault: Fault) -> DefinitionError {
    DefinitionError {
        resource: format!("{own:?}"),
        fault,
    }
}

/// Compares places in discovery: by group, then by name, then the preferred version first.
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
    let unserved = own.rules().unserved.iter();
    let mut unserved = unserved.map(|unserved| &*unserved.version);
    if let Some(version) = unserved.find(|version| !versions.insert(*version)) {
        return Some(Fault::UnservedTwice(version.to_owned()));
    }
    let mut parts = HashSet::new();
    let mut names = own.subresources.iter().map(|part| &*part.name);
    let twice = names.find(|name| !parts.insert(*name))?;
    Some(Fault::Subresource(twice.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resource::{
        ConversionStrategy, Declared, ResourceScope, Rules, UnservedVersion,
    };
    use crate::kinds::definitions::{built_in, not_stored};

    fn gadgets(version: &str) -> ResourceDefinition {
        ResourceDefinition {
            short_names: vec!["gd".to_owned()],
            ..ResourceDefinition::named("apps", version, "Gadget", "gadgets")
        }
    }

    fn levers() -> ResourceDefinition {
        ResourceDefinition::named("apps", "v1", "Lever", "levers")
    }

    fn check(table: &[ResourceDefinition]) -> Result<(), DefinitionError> {
        let rows: Vec<_> = table.iter().cloned().map(Arc::new).collect();
        check_table(&rows.iter().collect::<Vec<_>>())
    }

    /// Checks a definition in addition to others.
    fn check_added(
        served: &[ResourceDefinition],
        own: &ResourceDefinition,
    ) -> Result<(), DefinitionError> {
        let mut names = Names::default();
        for row in served {
            names.insert(&Arc::new(row.clone()));
        }
        names.check(own)
    }

    #[track_caller]
    fn assert_fault(table: &[ResourceDefinition], expected: &Fault) {
        let refused = check(table).expect_err("it is refused");
        assert_eq!(refused.fault, *expected);
        assert_eq!(
            refused.resource,
            format!("{:?}", table.last().expect("a row"))
        );
    }

    #[test]
    fn the_built_in_resources_can_be_served_together() {
        let rows = built_in();
        assert_eq!(check_table(&rows.iter().collect::<Vec<_>>()), Ok(()));
        let rows: Vec<_> = rows
            .iter()
            .map(|row| ResourceDefinition::clone(row))
            .collect();
        for other in &not_stored() {
            assert_eq!(check_added(&rows, other), Ok(()));
        }
    }

    #[test]
    fn versions_that_are_there_twice_are_refused() {
        assert_fault(&[gadgets("v1"), gadgets("v1")], &Fault::Twice);
        let stored = |version: &str| {
            let unserved = vec![UnservedVersion {
                version: "v1beta1".to_owned(),
                conversion: ConversionStrategy::TypeOnly,
            }];
            let rules = Rules {
                unserved,
                ..Rules::default()
            };
            gadgets(version).with(Declared {
                rules,
                ..Declared::default()
            })
        };
        let twice = Fault::UnservedTwice("v1beta1".to_owned());
        assert_fault(&[stored("v1beta1")], &twice);
        assert_fault(&[stored("v1"), gadgets("v1beta1")], &twice);
        let rows = [gadgets("v1beta1"), stored("v1")];
        assert_eq!(
            check_added(&rows[..1], &rows[1]),
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
        // Names are unique only within a group, and the versions of a resource share theirs.
        let elsewhere = ResourceDefinition {
            scope: ResourceScope::Cluster,
            ..ResourceDefinition::named("batch", "v1", "Gadget", "gadgets")
        };
        let rows = [gadgets("v2"), gadgets("v1"), elsewhere];
        assert_eq!(check(&rows), Ok(()));
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
            let refused = check_added(std::slice::from_ref(&row), &gadgets("v1"));
            assert_eq!(refused.map_err(|error| error.fault), Err(around));
        }
    }

    /// The check makes as few comparisons among a thousand resources as among ten, and the names of
    /// a removed resource can be used again.
    #[test]
    fn a_check_costs_the_same_beside_any_number_of_resources() {
        let row = |number: usize| {
            let (kind, plural) = (format!("Idle{number}"), format!("idle{number}s"));
            ResourceDefinition::named("example.com", "v1", &kind, &plural)
        };
        let mut names = Names::default();
        let costs = (0..1_000).map(|number| {
            let before = cost::counts();
            names.check(&row(number)).expect("it can be served");
            let compared = cost::counts().since(before).comparisons;
            names.insert(&Arc::new(row(number)));
            compared
        });
        let costs: Vec<u64> = costs.collect();
        assert!(costs.iter().all(|cost| *cost <= 8), "{costs:?}");
        assert!(names.check(&row(500)).is_err());
        names.remove(&row(500));
        assert_eq!(names.check(&row(500)), Ok(()));
        let left = names.entries.len();
        names.insert(&Arc::new(row(500)));
        names.remove(&row(500));
        assert_eq!(names.entries.len(), left);
    }
}
