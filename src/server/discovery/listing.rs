//! The order of groups and versions in discovery, from what is served and from the APIServices
//! (CN-12, CN-20, CN-23). Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::aggregation::{
    ApiService, CUSTOM, Keeper, OWN_GROUP, Priorities, View, name_of, of_built_in,
};
use crate::registry::catalog::Group;
use crate::registry::{Catalog, GROUPS, compare_versions};

/// The sources of lists of groups.
#[derive(Clone, Copy)]
pub(super) struct Listing<'l> {
    /// The resources.
    pub catalog: &'l Catalog,
    /// The APIServices.
    pub view: &'l View,
    /// Whether built-in groups have APIServices. Until those are written, they are listed without.
    pub has_registered: bool,
}

/// A group in a list.
pub(super) struct Listed<'l> {
    pub name: &'l str,
    /// Its versions, the preferred one first.
    pub versions: Vec<&'l str>,
}

/// A version of a group, with its place.
struct Place<'l> {
    version: &'l str,
    priorities: Priorities,
}

impl<'l> Listing<'l> {
    /// Returns the named groups of the plain list.
    pub(super) fn groups(&self) -> Vec<Listed<'l>> {
        let mut places: BTreeMap<&'l str, Vec<Place<'l>>> = BTreeMap::new();
        for listed in self.view.groups() {
            places.insert(&listed.name, of_view(&listed.versions));
        }
        for group in self.catalog.groups() {
            let known = places.entry(group.name.as_str()).or_default();
            known.extend(self.unregistered(group));
        }
        in_order(places, |name, versions| {
            let ranks = versions.iter().map(|place| {
                let priority = match name {
                    OWN_GROUP => i32::MAX,
                    _ => place.priorities.group,
                };
                (Reverse(priority), name_of(name, place.version))
            });
            ranks.min()
        })
    }

    /// Returns a named group of the plain list. One without an APIService is listed as it is
    /// served.
    pub(super) fn group(&self, name: &str) -> Option<Listed<'l>> {
        let (of_view, served) = (self.view.group(name), self.catalog.group(name));
        let (name, versions) = match (of_view, served) {
            (Some(group), served) => {
                let mut versions = self::of_view(&group.versions);
                versions.extend(
                    served
                        .into_iter()
                        .flat_map(|group| self.unregistered(group)),
                );
                (&*group.name, versions)
            }
            (None, Some(group)) => {
                let versions = group.announced().map(|version| Place {
                    version: &version.version,
                    priorities: usual(&group.name, &version.version),
                });
                (group.name.as_str(), versions.collect())
            }
            (None, None) => return None,
        };
        (!name.is_empty() && !versions.is_empty()).then(|| listed(name, versions))
    }

    /// Returns the versions of a group that are served and announced, but have no APIService yet.
    /// That of a definition is made within a moment; resources that a program adds have none.
    fn unregistered(&self, group: &'l Group) -> impl Iterator<Item = Place<'l>> + use<'l> {
        let Listing {
            view,
            has_registered,
            ..
        } = *self;
        let name = group.name.as_str();
        let is_deleted = has_registered && name != OWN_GROUP && GROUPS.contains(&name);
        let versions = group.announced().filter(move |_| !is_deleted);
        let versions = versions.filter(move |version| view.find(name, &version.version).is_none());
        versions.map(move |version| Place {
            version: &version.version,
            priorities: usual(name, &version.version),
        })
    }

    /// Returns the named groups of the aggregated list, with the versions of each in order. Those
    /// that extensions serve are among them.
    pub(super) fn aggregated(&self) -> Vec<Listed<'l>> {
        let mut places: BTreeMap<&'l str, Vec<Place<'l>>> = BTreeMap::new();
        for group in self.catalog.groups() {
            let name = group.name.as_str();
            let versions = group.announced();
            let local =
                versions.filter(|version| self.view.remote(name, &version.version).is_none());
            let local = local.map(|version| Place {
                version: &version.version,
                priorities: self.priorities(name, &version.version),
            });
            places.insert(name, local.collect());
        }
        for service in self.view.remotes() {
            let known = places.entry(&service.group).or_default();
            known.push(Place {
                version: &service.version,
                priorities: Priorities {
                    group: service.group_priority,
                    version: service.version_priority,
                },
            });
        }
        in_order(places, |name, versions| {
            let priorities = versions.iter().map(|place| place.priorities.group);
            let priority = match name {
                OWN_GROUP => Some(i32::MAX),
                _ => priorities.max(),
            };
            (Reverse(priority), name.to_owned())
        })
    }

    /// Returns the priorities of a version that this server serves: for built-in groups its own.
    fn priorities(&self, group: &str, version: &str) -> Priorities {
        let of_view = || {
            let service = self.view.find(group, version)?;
            Some(Priorities {
                group: service.group_priority,
                version: service.version_priority,
            })
        };
        of_built_in(group, version)
            .or_else(of_view)
            .unwrap_or(CUSTOM)
    }
}

/// Returns the named groups that have versions, in the order of their ranks.
fn in_order<'l, R: Ord>(
    mut places: BTreeMap<&'l str, Vec<Place<'l>>>,
    rank: impl Fn(&str, &[Place<'l>]) -> R,
) -> Vec<Listed<'l>> {
    places.remove("");
    places.retain(|_, versions| !versions.is_empty());
    let ranked = places.into_iter().map(|(name, versions)| {
        let rank = rank(name, &versions);
        (rank, listed(name, versions))
    });
    let mut groups: Vec<_> = ranked.collect();
    groups.sort_by(|(one, _), (other, _)| one.cmp(other));
    groups.into_iter().map(|(_, listed)| listed).collect()
}

fn usual(group: &str, version: &str) -> Priorities {
    of_built_in(group, version).unwrap_or(CUSTOM)
}

/// Returns the versions that have APIServices. Those of definitions in built-in groups are hidden
/// (CRD-104).
fn of_view(versions: &[Arc<ApiService>]) -> Vec<Place<'_>> {
    let is_hidden = |service: &ApiService| {
        service.keeper == Keeper::Always
            && !service.is_remote()
            && GROUPS.contains(&&*service.group)
    };
    let shown = versions.iter().filter(|service| !is_hidden(service));
    let places = shown.map(|service| Place {
        version: &service.version,
        priorities: Priorities {
            group: service.group_priority,
            version: service.version_priority,
        },
    });
    places.collect()
}

fn listed<'l>(name: &'l str, mut versions: Vec<Place<'l>>) -> Listed<'l> {
    versions.sort_by(|one, other| {
        let by_priority = other.priorities.version.cmp(&one.priorities.version);
        by_priority.then_with(|| compare_versions(one.version, other.version))
    });
    let versions = versions.into_iter().map(|place| place.version);
    Listed {
        name,
        versions: versions.collect(),
    }
}
