//! The groups of a catalog, their versions and resources. All are immutable: a changed copy shares
//! everything else with the original.

use std::sync::Arc;

use imbl::OrdMap;

use crate::api::resource::Phase;
use crate::registry::discovery_order::compare_versions;
use crate::registry::rest::{self, RestStorage};
use crate::registry::store::RegistryStore;

/// A group as discovery shows it.
#[derive(Clone)]
pub struct Group {
    /// Its name; empty for the core group.
    pub name: String,
    /// Its versions, the preferred one first. The next generation shares those that a change does
    /// not affect.
    pub versions: Vec<Arc<GroupVersion>>,
    /// Its stored resources by plural, then by version as text.
    stores: OrdMap<(Arc<str>, Arc<str>), Arc<RegistryStore>>,
}

/// A version of a group.
#[derive(Clone)]
pub struct GroupVersion {
    /// `v1`.
    pub version: String,
    resources: OrdMap<Arc<str>, Arc<ServedResource>>,
}

/// The storages of a resource in one version.
pub struct ServedResource {
    /// The storage of the resource's own paths.
    pub storage: Arc<dyn RestStorage>,
    /// The storages of its subresources, sorted by name.
    pub subresources: Vec<Arc<dyn RestStorage>>,
    pub(super) parts: Parts,
}

/// The storages from which the paths of a resource are made.
#[derive(Clone, Default)]
pub(super) struct Parts {
    /// The store of its objects, if they are stored.
    pub(super) store: Option<Arc<RegistryStore>>,
    /// Paths that do not belong to the store.
    pub(super) others: Vec<Arc<dyn RestStorage>>,
}

impl GroupVersion {
    /// Its resources, sorted by name.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        self.resources.values()
    }

    /// Its resources that discovery shows, sorted by name.
    pub fn announced(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        let is_shown =
            |served: &&Arc<ServedResource>| served.storage.resource().phase != Phase::Unannounced;
        self.resources().filter(is_shown)
    }

    /// Returns whether discovery shows it.
    pub fn is_announced(&self) -> bool {
        self.announced().next().is_some()
    }

    /// Returns the number of resources.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Returns whether it has no resources. A catalog never has such versions.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Returns a resource by its plural name.
    pub(super) fn resource(&self, plural: &str) -> Option<&Arc<ServedResource>> {
        self.resources.get(plural)
    }
}

impl ServedResource {
    /// Builds the paths of a resource. Returns `None` without any.
    pub(super) fn of(parts: Parts) -> Option<ServedResource> {
        let mut paths: Vec<Arc<dyn RestStorage>> = parts.others.clone();
        paths.extend(parts.store.iter().flat_map(rest::endpoints));
        paths.sort_by(|one, other| one.subresource().cmp(&other.subresource()));
        let mut paths = paths.into_iter();
        Some(ServedResource {
            storage: paths.next()?,
            subresources: paths.collect(),
            parts,
        })
    }

    /// Returns the store of its objects, if they are stored.
    pub(super) fn store(&self) -> Option<&Arc<RegistryStore>> {
        self.parts.store.as_ref()
    }

    /// Returns the storage of one of its paths. The resource's own path has an empty `subresource`.
    pub(super) fn path(&self, subresource: &str) -> Option<&Arc<dyn RestStorage>> {
        let name = |storage: &Arc<dyn RestStorage>| {
            let name = storage.subresource().unwrap_or_default();
            name == subresource
        };
        let paths = std::iter::once(&self.storage).chain(&self.subresources);
        // linear: a resource has few subresources.
        paths.into_iter().find(|storage| name(storage))
    }
}

impl Group {
    /// Creates a group without versions.
    pub(super) fn new(name: &str) -> Group {
        Group {
            name: name.to_owned(),
            versions: Vec::new(),
            stores: OrdMap::new(),
        }
    }

    /// Returns a version, if it has served resources.
    pub fn version(&self, version: &str) -> Option<&Arc<GroupVersion>> {
        // linear: a group has few versions.
        self.versions.iter().find(|known| known.version == version)
    }

    /// Returns the versions that discovery shows, the preferred one first.
    pub fn announced(&self) -> impl Iterator<Item = &Arc<GroupVersion>> {
        self.versions
            .iter()
            .filter(|version| version.is_announced())
    }

    /// Returns its stores, by plural and then by version as text.
    pub fn stores(&self) -> impl Iterator<Item = &Arc<RegistryStore>> {
        self.stores.values()
    }

    /// Returns the stores of a resource, one for each version, by version as text.
    pub(super) fn stores_of(&self, plural: &str) -> impl Iterator<Item = &Arc<RegistryStore>> {
        let first: (Arc<str>, Arc<str>) = (plural.into(), "".into());
        let plural = Arc::clone(&first.0);
        let stores = self.stores.range(first..);
        stores
            .take_while(move |((of, _), _)| *of == plural)
            .map(|(_, store)| store)
    }

    /// Sets or removes a resource of a version. Copies the version, and removes it with its last
    /// resource.
    pub(super) fn set(&mut self, version: &str, plural: &str, served: Option<Arc<ServedResource>>) {
        let plural: Arc<str> = plural.into();
        let id = (Arc::clone(&plural), version.into());
        match served.as_ref().and_then(|served| served.store()) {
            Some(store) => self.stores.insert(id, Arc::clone(store)),
            None => self.stores.remove(&id),
        };
        // linear: a group has few versions.
        let mut versions = self.versions.iter();
        let place = versions.position(|known| known.version == version);
        let mut changed = match place {
            Some(place) => GroupVersion::clone(&self.versions.remove(place)),
            None => GroupVersion {
                version: version.to_owned(),
                resources: OrdMap::new(),
            },
        };
        match served {
            Some(served) => changed.resources.insert(plural, served),
            None => changed.resources.remove(&plural),
        };
        if changed.is_empty() {
            return;
        }
        let order = |known: &Arc<GroupVersion>| compare_versions(&known.version, version).is_lt();
        let place = self.versions.partition_point(order);
        self.versions.insert(place, Arc::new(changed));
    }
}
