//! The resources that the daemon serves, as a sequence of generations.
//!
//! A [`Catalog`] is one generation and never changes. Adding or removing a resource creates a new
//! generation, which replaces the current one as a whole ([`super::Registry`]). Consecutive
//! generations share everything that the change does not affect: other groups and versions are the
//! same objects, and a version that gets one more resource copies a few nodes of a tree. So a
//! change costs the same however many resources there are.

mod group;

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use sha2::{Digest, Sha256};

use self::group::Parts;
pub use self::group::{Group, GroupVersion, ServedResource};
use super::definition_check::Names;
use super::discovery_order::GROUPS;
use super::rest::RestStorage;
use super::store::RegistryStore;
use crate::api::resource::ResourceDefinition;
use crate::storage::codec::TypeName;

/// One generation of the served resources.
#[derive(Clone, Default)]
pub struct Catalog {
    number: u64,
    replacements: u64,
    /// By name.
    groups: OrdMap<Arc<str>, Arc<Group>>,
    /// By the name of the stored resource.
    stored: OrdMap<Arc<str>, StoredVersions>,
    names: Names,
}

/// The served versions of a stored resource, in the order in which they were added.
#[derive(Clone)]
struct StoredVersions(Arc<[Arc<RegistryStore>]>);

/// Compares by identity, so that the difference of two generations is cheap.
impl PartialEq for StoredVersions {
    fn eq(&self, other: &StoredVersions) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A stored resource that only one of two generations has.
pub enum StoredChange<'c> {
    /// The later generation has it.
    Added(&'c Arc<RegistryStore>),
    /// The earlier one had it, under this name.
    Removed(&'c str),
}

impl Catalog {
    /// Creates a generation from these stores and from other paths: resources that are not stored,
    /// and subresources that are not part of their object.
    pub fn new(stores: Vec<Arc<RegistryStore>>, others: Vec<Arc<dyn RestStorage>>) -> Catalog {
        Catalog::default().with_all(stores).with_others(others)
    }

    /// Returns the next generation, with one more store. It replaces a store of the same resource
    /// and version.
    pub fn with(&self, store: Arc<RegistryStore>) -> Catalog {
        self.with_all([store])
    }

    /// Returns the next generation, with several more stores.
    pub fn with_all(&self, stores: impl IntoIterator<Item = Arc<RegistryStore>>) -> Catalog {
        let mut next = self.next();
        for store in stores {
            let definition = Arc::clone(store.definition());
            next.change(&definition, |parts| parts.store = Some(store));
        }
        next
    }

    /// Returns the next generation, with more paths that do not belong to a stored resource. Each
    /// replaces the previous storage of its path.
    pub fn with_others(&self, storages: impl IntoIterator<Item = Arc<dyn RestStorage>>) -> Catalog {
        let mut next = self.next();
        for storage in storages {
            let definition = Arc::clone(storage.resource());
            next.change(&definition, |parts| {
                let others = &mut parts.others;
                others.retain(|other| other.subresource() != storage.subresource());
                others.push(storage);
            });
        }
        next
    }

    /// Returns the next generation, without a version of a resource.
    pub fn without(&self, group: &str, version: &str, plural: &str) -> Catalog {
        let mut next = self.next();
        if let Some(served) = self.served_resource(group, version, plural) {
            let definition = Arc::clone(served.storage.resource());
            next.change(&definition, |parts| *parts = Parts::default());
        }
        next
    }

    /// Returns the next generation, in which some stores are replaced by others, or removed.
    pub fn replaced(
        &self,
        removed: &[Arc<RegistryStore>],
        added: impl IntoIterator<Item = Arc<RegistryStore>>,
    ) -> Catalog {
        let added: Vec<_> = added.into_iter().collect();
        let mut next = self.next();
        for store in removed {
            let definition = store.definition();
            let mut replacing = added.iter().map(|store| store.definition());
            // linear: a resource has few versions.
            if !replacing.any(|other| other.is_version_of(definition)) {
                next.change(&Arc::clone(definition), |parts| *parts = Parts::default());
            }
        }
        for store in added {
            let definition = Arc::clone(store.definition());
            next.change(&definition, |parts| parts.store = Some(store));
        }
        next
    }

    fn next(&self) -> Catalog {
        Catalog {
            number: self.number + 1,
            ..self.clone()
        }
    }

    /// Changes the parts of a resource in one version.
    fn change(&mut self, of: &ResourceDefinition, change: impl FnOnce(&mut Parts)) {
        let (version, plural) = (&*of.version, &*of.plural);
        let before = self.served_resource(&of.group, version, plural).cloned();
        let parts = before.as_ref().map(|served| served.parts.clone());
        let mut parts = parts.unwrap_or_default();
        change(&mut parts);
        let after = ServedResource::of(parts).map(Arc::new);
        if let Some(before) = &before {
            self.replacements += 1;
            self.names.remove(before.storage.resource());
            if let Some(store) = before.store() {
                self.set_stored(store, |other| !Arc::ptr_eq(other, store), None);
            }
        }
        if let Some(after) = &after {
            self.names.insert(after.storage.resource());
            if let Some(store) = after.store() {
                self.set_stored(store, |_| true, Some(store));
            }
        }
        let group = self.groups.get(&*of.group);
        let group = group.map(|group| Group::clone(group));
        let mut group = group.unwrap_or_else(|| Group::new(&of.group));
        group.set(version, plural, after);
        match group.versions.is_empty() {
            true => self.groups.remove(&*of.group),
            false => self
                .groups
                .insert(of.group.as_str().into(), Arc::new(group)),
        };
    }

    /// Keeps the selected versions of a store's stored resource, and adds one.
    fn set_stored(
        &mut self,
        of: &Arc<RegistryStore>,
        is_kept: impl Fn(&Arc<RegistryStore>) -> bool,
        added: Option<&Arc<RegistryStore>>,
    ) {
        let name = &*of.stored_resource().name;
        let known = self.versions_stored_as(name).iter();
        let kept = known.filter(|store| is_kept(store)).chain(added);
        let kept: Arc<[Arc<RegistryStore>]> = kept.cloned().collect();
        match kept.is_empty() {
            true => self.stored.remove(name),
            false => self.stored.insert(name.into(), StoredVersions(kept)),
        };
    }

    /// Returns the number of generations before this one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns how often a resource was removed or replaced up to this generation. If the number
    /// has not changed between two generations, resources were only added.
    pub fn replacements(&self) -> u64 {
        self.replacements
    }

    /// Returns the index of served names, to check several definitions at once.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the storage of a path. The resource itself has an empty `subresource`.
    pub fn endpoint(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        subresource: &str,
    ) -> Option<&Arc<dyn RestStorage>> {
        self.served_resource(group, version, plural)?
            .path(subresource)
    }

    fn served_resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<ServedResource>> {
        self.group(group)?.version(version)?.resource(plural)
    }

    /// Returns the store of a resource by the parts of its URL.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<RegistryStore>> {
        let served = self.served_resource(group, version, plural)?;
        served.store().cloned()
    }

    /// Returns the store of a resource by its name in messages and metrics: `deployments.apps`.
    pub fn named(&self, qualified: &str) -> Option<Arc<RegistryStore>> {
        let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
        self.stores_of(group, plural).next().cloned()
    }

    /// Returns the stores of all versions of a resource, by version as text.
    pub fn stores_of(
        &self,
        group: &str,
        plural: &str,
    ) -> impl Iterator<Item = &Arc<RegistryStore>> {
        let group = self.group(group).into_iter();
        group.flat_map(move |group| group.stores_of(plural))
    }

    /// Returns the store of a kind in a group and version.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<RegistryStore>> {
        let mut rows = self.names.of_kind(group, kind);
        let row = rows.find(|row| row.version == version)?;
        self.find(group, version, &row.plural)
    }

    /// Returns a store whose objects have this key prefix.
    pub fn stored_below(&self, key_prefix: &str) -> Option<Arc<RegistryStore>> {
        let mut rows = self.names.below(key_prefix);
        rows.find_map(|row| self.find(&row.group, &row.version, &row.plural))
    }

    /// Returns all versions of a stored resource by its name, in all of its groups.
    pub fn versions_stored_as(&self, name: &str) -> &[Arc<RegistryStore>] {
        let found = self.stored.get(name);
        found.map_or(&[], |versions| &versions.0)
    }

    /// Returns one store for each stored resource, which may have several versions and groups. It
    /// waits for nobody who converts (HK-82).
    pub fn stored_resources(&self) -> impl Iterator<Item = &Arc<RegistryStore>> {
        let mut seen = HashSet::new();
        let stores = self.stores();
        let stores = stores.filter(move |store| seen.insert(&*store.stored_resource().name));
        stores.map(RegistryStore::of_server)
    }

    /// Returns the stored resources that were added or removed since an earlier generation, one
    /// whose storage was replaced as both. The cost grows with the number of changes only.
    pub fn stored_since<'c>(
        &'c self,
        before: &'c Catalog,
    ) -> impl Iterator<Item = StoredChange<'c>> {
        let first = |versions: &'c StoredVersions| versions.0.first().map(RegistryStore::of_server);
        let changes = before.stored.diff(&self.stored);
        let changes = changes.filter_map(move |change| match change {
            DiffItem::Add(_, versions) => Some([None, first(versions).map(StoredChange::Added)]),
            DiffItem::Remove(name, _) => Some([Some(StoredChange::Removed(name)), None]),
            DiffItem::Update {
                old: (name, old),
                new: (_, new),
            } => {
                let (old, new) = (first(old)?, first(new)?);
                let is_kept =
                    std::ptr::addr_eq(Arc::as_ptr(old.storage()), Arc::as_ptr(new.storage()));
                (!is_kept).then_some([
                    Some(StoredChange::Removed(name)),
                    Some(StoredChange::Added(new)),
                ])
            }
        });
        changes.flatten().flatten()
    }

    /// Returns all stores, in the order of discovery.
    pub fn stores(&self) -> impl Iterator<Item = &Arc<RegistryStore>> {
        self.groups().flat_map(|group| group.stores())
    }

    /// Returns all resources, in the order of discovery.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<ResourceDefinition>> {
        self.stores().map(|store| store.definition())
    }

    /// Returns the groups, in the order of discovery.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        let built_in = GROUPS.iter().filter_map(|name| self.groups.get(*name));
        let others = self.groups.values();
        built_in.chain(others.filter(|group| !GROUPS.contains(&&*group.name)))
    }

    /// Returns a group, if it has served resources.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// Returns whether a group has served resources.
    pub fn has_group(&self, group: &str) -> bool {
        self.group(group).is_some()
    }

    /// Returns a version of a group, if it has served resources.
    pub fn version(&self, group: &str, version: &str) -> Option<&Arc<GroupVersion>> {
        self.group(group)?.version(version)
    }

    /// Returns whether a version of a group has served resources.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some()
    }
}

/// Returns the `storageVersionHash` of discovery: an opaque identifier of the type that objects are
/// stored as (API-26).
pub fn storage_version_hash(stored_as: &TypeName) -> String {
    let TypeName { kind, api_version } = stored_as;
    let group_and_version = match api_version.contains('/') {
        true => api_version.clone(),
        // The core group has an empty name, before which Kubernetes keeps the slash.
        false => format!("/{api_version}"),
    };
    let digest = Sha256::digest(format!("{group_and_version}/{kind}"));
    STANDARD.encode(digest.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use actors::watch::Predicate;

    use super::*;
    use crate::api::resource::ConversionStrategy;
    use crate::api::selector::Selection;
    use crate::kinds::definitions::{built_in, core};
    use crate::registry::discovery_order::rank;
    use crate::registry::tests::fixture::Fixture;

    /// API-26: the values of http.md 6.1.
    #[test]
    fn the_storage_version_hash_is_kubernetes_own() {
        let hash = |plural: &str| {
            let rows = built_in();
            let row = rows.iter().find(|row| row.plural == plural);
            let row = row.expect("in the table");
            let mut stored = TypeName::of(row);
            if let Some(unserved) = row.rules().unserved.first() {
                stored.api_version = format!("{}/{}", row.group, unserved.version);
            }
            storage_version_hash(&stored)
        };
        assert_eq!(hash("configmaps"), "qFsyl6wFWjQ=");
        assert_eq!(hash("events"), "r2yiGXH7wu8=");
        assert_eq!(hash("namespaces"), "Q3oi5N2YM8M=");
        assert_eq!(hash("nodes"), "XwShjMxG9Fs=");
        assert_eq!(hash("pods"), "xPOwRZ+Yhw8=");
        assert_eq!(hash("secrets"), "S6u1pOWzb84=");
        assert_eq!(hash("serviceaccounts"), "pbx9ZvyFpBE=");
        assert_eq!(hash("services"), "0/CO1lhkEBI=");
        assert_eq!(hash("deployments"), "8aSe+NMegvE=");
        assert_eq!(hash("leases"), "gqkMMb/YqFM=");
        assert_eq!(hash("horizontalpodautoscalers"), "qwQve8ut294=");
        // Kubernetes stores these in versions that it does not serve.
        assert_eq!(hash("customresourcedefinitions"), "jfWCUB31mvA=");
        assert_eq!(hash("mutatingadmissionpolicies"), "LYmCf+UMVdg=");
        assert_eq!(hash("mutatingadmissionpolicybindings"), "90V5FRZZ3Zg=");
    }

    /// API-25, API-28: discovery takes the table's order.
    #[tokio::test]
    async fn the_table_is_ordered_by_group_and_name() {
        let rows = built_in();
        assert!(rows.iter().all(|row| GROUPS.contains(&row.group.as_str())));
        let place = |row: &Arc<ResourceDefinition>| (rank(&row.group).0, row.plural.clone());
        assert!(rows.is_sorted_by_key(place));
        let catalog = Fixture::over(|storages| storages).registry.current();
        let names: Vec<&str> = catalog.groups().map(|group| group.name.as_str()).collect();
        // Groups without stored resources are added with their other paths.
        let stored = GROUPS
            .iter()
            .filter(|name| !name.starts_with("auth") || **name == "autoscaling");
        assert!(names.iter().eq(stored));
        let versions = catalog.groups().flat_map(|group| &group.versions);
        let listed: usize = versions.map(|version| version.len()).sum();
        // Bindings are not stored.
        assert_eq!(listed, rows.len() + 1);
    }

    /// KV-1, KV-2: no resource's keys lie under the prefix of another.
    #[test]
    fn key_prefixes_do_not_overlap() {
        let rows = built_in();
        for (at, one) in rows.iter().enumerate() {
            for other in rows.iter().skip(at + 1) {
                let slashed = |d: &ResourceDefinition| format!("{}/", d.key_prefix);
                // Versions and cohabiting groups are the same objects.
                let are_converted = one.rules().conversion != ConversionStrategy::Unsupported;
                if are_converted && one.kind == other.kind && slashed(one) == slashed(other) {
                    continue;
                }
                assert!(!slashed(one).starts_with(&slashed(other)), "{}", one.plural);
                assert!(!slashed(other).starts_with(&slashed(one)), "{}", one.plural);
            }
        }
        assert_eq!(&core::services().key_prefix, "services/specs");
        assert_eq!(&core::nodes().key_prefix, "minions");
    }

    /// http.md 6.3, WA-52: watchers of any of these fields are indexed by the value that they
    /// demand.
    #[test]
    fn each_field_that_a_kind_is_selected_by_is_a_topic() {
        let fields = |qualified: &str| match qualified {
            "pods" => {
                "spec.nodeName spec.host spec.restartPolicy spec.schedulerName \
                 spec.serviceAccountName spec.hostNetwork status.phase status.podIP \
                 status.podIPs status.nominatedNodeName"
            }
            "nodes" => "spec.unschedulable",
            "replicationcontrollers" => "status.replicas",
            "jobs.batch" => "status.successful",
            "certificatesigningrequests.certificates.k8s.io" => "spec.signerName",
            "resourceslices.resource.k8s.io" => "spec.nodeName spec.driver",
            "namespaces" => "status.phase",
            "secrets" => "type",
            "services" => "spec.clusterIP spec.type",
            "events" => {
                "involvedObject.kind involvedObject.namespace involvedObject.name \
                 involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion \
                 involvedObject.fieldPath reason reportingComponent type source"
            }
            "events.events.k8s.io" => {
                "regarding.kind regarding.namespace regarding.name regarding.uid \
                 regarding.apiVersion regarding.resourceVersion regarding.fieldPath reason \
                 reportingController type"
            }
            _ => "",
        };
        for row in built_in() {
            let labels: Vec<&str> = fields(&row.qualified()).split_whitespace().collect();
            let known = row.behaviour.selectable_fields().iter();
            let known: Vec<&str> = known.map(|field| field.label.as_str()).collect();
            assert_eq!(known, labels, "{}", row.plural);
            for (place, label) in labels.iter().enumerate() {
                let demand = |text: &str| {
                    let selection = Selection::parse("a=b", text, &row).expect("a selector");
                    let demanded = selection.demanded_field();
                    demanded.map(|(place, value)| (place, value.to_owned()))
                };
                let wanted = Some((place, "x".to_owned()));
                assert_eq!(demand(&format!("metadata.name!=y,{label}=x")), wanted);
                assert_eq!(demand(&format!("{label}!=x")), None);
            }
        }
    }

    /// http.md 6.1: names, short names and kinds are unique within a group; lists are sorted.
    #[test]
    fn rows_are_consistent() {
        let mut names = HashSet::new();
        for row in built_in() {
            // The singular of endpoints is its plural.
            let singular = Some(&row.singular).filter(|singular| **singular != row.plural);
            let own = [&row.plural].into_iter().chain(singular);
            let mut all = own.chain(&row.short_names);
            let version = (row.group.clone(), row.version.clone());
            let is_new = all.all(|name| names.insert((version.clone(), name.clone())));
            assert!(is_new, "{}", row.plural);
            assert!(row.verbs.is_sorted());
            assert!(row.subresources.is_sorted_by_key(|s| s.name.as_str()));
            assert_eq!(row.singular, row.kind.to_lowercase());
            let first = row.behaviour.columns().first();
            let first = first.map(|column| (column.name.as_str(), column.format.as_str()));
            let named = match row.kind.as_str() {
                "Event" => ("Last Seen", ""),
                _ => ("Name", "name"),
            };
            assert_eq!(first, Some(named));
        }
    }
}
