//! The resources that the daemon serves, as a sequence of generations.
//!
//! A [`Catalog`] is one generation and never changes. Adding or removing a resource creates a new
//! generation, which replaces the current one as a whole ([`super::Registry`]).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::rest::{self, RestStorage};
use super::store::RegistryStore;
use crate::api::resource::ResourceDefinition;
use crate::storage::codec::TypeName;

/// The built-in groups in the order of discovery (API-28). The core group comes first and has its
/// own path. The order decides which group an ambiguous short name means. Other groups follow by
/// name.
pub(super) const GROUPS: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// A group as discovery shows it.
#[derive(Clone)]
pub struct Group {
    /// Its name; empty for the core group.
    pub name: String,
    /// Its versions, the preferred one first.
    pub versions: Vec<GroupVersion>,
}

/// A version of a group.
#[derive(Clone)]
pub struct GroupVersion {
    /// `v1`.
    pub version: String,
    /// Its resources, sorted by name.
    pub resources: Vec<ServedResource>,
}

/// The storages of a resource in one version.
#[derive(Clone)]
pub struct ServedResource {
    /// The storage of the resource's own paths.
    pub storage: Arc<dyn RestStorage>,
    /// The storages of its subresources, sorted by name.
    pub subresources: Vec<Arc<dyn RestStorage>>,
}

/// One generation of the served resources.
#[derive(Clone)]
pub struct Catalog {
    /// Stored resources, in the order of [`order`].
    stores: Vec<Arc<RegistryStore>>,
    /// Other storages.
    others: Vec<Arc<dyn RestStorage>>,
    /// The storage of each path, in the order of [`endpoint_key`].
    endpoints: Vec<Arc<dyn RestStorage>>,
    groups: Vec<Group>,
}

impl Catalog {
    /// A generation of these stores and of other paths: resources that are not stored, and
    /// subresources that are not part of their object.
    pub fn new(mut stores: Vec<Arc<RegistryStore>>, others: Vec<Arc<dyn RestStorage>>) -> Catalog {
        stores.sort_by(|a, b| order(a.definition(), b.definition()));
        let mut endpoints: Vec<_> = stores.iter().flat_map(rest::endpoints).collect();
        endpoints.extend(others.iter().cloned());
        endpoints.sort_by(|a, b| endpoint_key(&**a).cmp(&endpoint_key(&**b)));
        Catalog {
            groups: groups(&endpoints),
            stores,
            others,
            endpoints,
        }
    }

    /// The next generation with one more store. It replaces a store of the same resource and
    /// version.
    pub fn with(&self, store: Arc<RegistryStore>) -> Catalog {
        let is_other = |other: &&Arc<RegistryStore>| {
            order(other.definition(), store.definition()) != Ordering::Equal
        };
        let mut stores: Vec<Arc<RegistryStore>> =
            self.stores.iter().filter(is_other).cloned().collect();
        stores.push(store);
        Catalog::new(stores, self.others.clone())
    }

    /// The next generation with one more path that does not belong to a stored resource. It
    /// replaces the previous storage of the path.
    pub fn with_other(&self, storage: Arc<dyn RestStorage>) -> Catalog {
        let others = self.others.iter();
        let rest = others.filter(|other| endpoint_key(&***other) != endpoint_key(&*storage));
        let mut others: Vec<_> = rest.cloned().collect();
        others.push(storage);
        Catalog::new(self.stores.clone(), others)
    }

    /// The next generation without a version of a resource.
    pub fn without(&self, group: &str, version: &str, plural: &str) -> Catalog {
        let is_other = |row: &ResourceDefinition| key(row) != (rank(group), plural, version);
        let stores = self.stores.iter();
        let rest = stores.filter(|store| is_other(store.definition()));
        let others = self.others.iter();
        let other_rest = others.filter(|other| is_other(other.resource()));
        Catalog::new(rest.cloned().collect(), other_rest.cloned().collect())
    }

    /// The storage of a path. The name of the subresource is empty for the resource itself.
    pub fn endpoint(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        subresource: &str,
    ) -> Option<&Arc<dyn RestStorage>> {
        let wanted = ((rank(group), plural, version), subresource);
        let at = self
            .endpoints
            .binary_search_by(|storage| endpoint_key(&**storage).cmp(&wanted))
            .ok()?;
        self.endpoints.get(at)
    }

    /// The store of a resource by its URL.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<RegistryStore>> {
        let wanted = (rank(group), plural, version);
        let at = self
            .stores
            .binary_search_by(|store| key(store.definition()).cmp(&wanted))
            .ok()?;
        self.stores.get(at).cloned()
    }

    /// The store of a resource by its name in messages and metrics: `deployments.apps`.
    pub fn named(&self, qualified: &str) -> Option<Arc<RegistryStore>> {
        let mut stores = self.stores.iter();
        stores
            .find(|store| store.definition().qualified() == qualified)
            .cloned()
    }

    /// One store for each stored resource, whatever its versions and groups are.
    pub fn stored_resources(&self) -> impl Iterator<Item = &Arc<RegistryStore>> {
        let mut seen = HashSet::new();
        let stores = self.stores.iter();
        stores.filter(move |store| seen.insert(store.stored_resource().name.as_str()))
    }

    /// All stores.
    pub fn stores(&self) -> &[Arc<RegistryStore>] {
        &self.stores
    }

    /// All resources, in the order of discovery.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<ResourceDefinition>> {
        self.stores.iter().map(|store| store.definition())
    }

    /// All resources, in the order of discovery, and those that are not stored.
    pub fn served(&self) -> impl Iterator<Item = &Arc<ResourceDefinition>> {
        let versions = self.groups.iter().flat_map(|group| &group.versions);
        let resources = versions.flat_map(|version| &version.resources);
        resources.map(|resource| resource.storage.resource())
    }

    /// The groups for discovery.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether anything of a group is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known.name == group)
    }

    /// Whether anything of a version of a group is served.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        let mut groups = self.groups.iter();
        let versions = groups.find(|known| known.name == group);
        let mut versions = versions.into_iter().flat_map(|group| &group.versions);
        versions.any(|known| known.version == version)
    }
}

/// The rank of a group: built-in groups in the order of [`GROUPS`], then others by name.
pub(super) fn rank(group: &str) -> (usize, &str) {
    let place = GROUPS.iter().position(|known| *known == group);
    (place.unwrap_or(GROUPS.len()), group)
}

fn key(definition: &ResourceDefinition) -> ((usize, &str), &str, &str) {
    let ResourceDefinition {
        group,
        version,
        plural,
        ..
    } = definition;
    (rank(group), plural, version)
}

/// Orders by group, then by name, then by version.
fn order(one: &ResourceDefinition, other: &ResourceDefinition) -> Ordering {
    key(one).cmp(&key(other))
}

/// The sort key of a path. Subresources follow their resource.
fn endpoint_key(storage: &dyn RestStorage) -> (((usize, &str), &str, &str), &str) {
    let subresource = storage.subresource().unwrap_or_default();
    (key(storage.resource()), subresource)
}

/// Collects the groups of the endpoints, which are in the order of discovery.
fn groups(endpoints: &[Arc<dyn RestStorage>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for storage in endpoints {
        let name = &storage.resource().group;
        let known = groups.last_mut().filter(|group| group.name == *name);
        let group = match known {
            Some(group) => group,
            None => groups.push_mut(Group {
                name: name.clone(),
                versions: Vec::new(),
            }),
        };
        group.add(storage);
    }
    for group in &mut groups {
        let versions = &mut group.versions;
        versions.sort_by(|one, other| compare_versions(&one.version, &other.version));
    }
    groups
}

/// Orders versions by preference: v10, v2, v1, v2beta1, v1beta1, v1alpha1, then others by name
/// (API-30).
pub(super) fn compare_versions(one: &str, other: &str) -> Ordering {
    match (Stability::of(one), Stability::of(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// What the name of a version says, the most preferred last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    /// `v1alpha2` as 1 and 2.
    Alpha(u64, u64),
    /// `v1beta2` as 1 and 2.
    Beta(u64, u64),
    /// `v1`
    Stable(u64),
}

impl Stability {
    /// `None` for a name of another form.
    fn of(version: &str) -> Option<Stability> {
        let number = |text: &str| {
            let is_number = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        };
        let rest = version.strip_prefix('v')?;
        if let Some((major, minor)) = rest.split_once("alpha") {
            return Some(Stability::Alpha(number(major)?, number(minor)?));
        }
        if let Some((major, minor)) = rest.split_once("beta") {
            return Some(Stability::Beta(number(major)?, number(minor)?));
        }
        number(rest).map(Stability::Stable)
    }
}

impl Group {
    fn add(&mut self, storage: &Arc<dyn RestStorage>) {
        let definition = storage.resource();
        let mut versions = self.versions.iter_mut();
        let known = versions.find(|known| known.version == definition.version);
        let version = match known {
            Some(version) => version,
            None => self.versions.push_mut(GroupVersion {
                version: definition.version.clone(),
                resources: Vec::new(),
            }),
        };
        let mut resources = version.resources.iter_mut();
        match resources.find(|known| known.storage.resource().plural == definition.plural) {
            Some(resource) => resource.subresources.push(Arc::clone(storage)),
            None => version.resources.push(ServedResource {
                storage: Arc::clone(storage),
                subresources: Vec::new(),
            }),
        }
    }
}

/// `storageVersionHash` of discovery: an opaque identifier of the type that objects are stored as
/// (API-26).
pub fn storage_version_hash(stored_as: &TypeName) -> String {
    let TypeName { kind, api_version } = stored_as;
    let group_and_version = match api_version.contains('/') {
        true => api_version.clone(),
        // The core group has no name.
        false => format!("/{api_version}"),
    };
    let digest = Sha256::digest(format!("{group_and_version}/{kind}"));
    STANDARD.encode(digest.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use actors::watch::Predicate;

    use super::*;
    use crate::api::selector::Selection;
    use crate::kinds::definitions::{built_in, core};
    use crate::registry::tests::fixture::Fixture;

    /// API-26: the values of http.md 6.1.
    #[test]
    fn the_storage_version_hash_is_kubernetes_own() {
        let hash = |plural: &str| {
            let rows = built_in();
            let row = rows.iter().find(|row| row.plural == plural);
            let row = row.expect("in the table");
            let mut stored = TypeName::of(row);
            if let Some((version, _)) = row.unserved.first() {
                stored.api_version = format!("{}/{version}", row.group);
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
        // Kubernetes stores these in versions that are not served.
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
        let groups = catalog.groups();
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        // Groups without anything stored come with their resources.
        let stored = GROUPS
            .iter()
            .filter(|name| !name.starts_with("auth") || **name == "autoscaling");
        assert!(names.iter().eq(stored));
        let versions = groups.iter().flat_map(|group| &group.versions);
        let listed: usize = versions.map(|version| version.resources.len()).sum();
        // Bindings are not stored.
        assert_eq!(listed, rows.len() + 1);
    }

    /// API-30
    #[test]
    fn versions_are_ordered_as_clients_should_prefer_them() {
        let preferred = [
            "v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1",
        ];
        let others = ["foo1", "foo10", "v01", "v1beta"];
        let expected: Vec<&str> = preferred.into_iter().chain(others).collect();
        let mut versions = expected.clone();
        versions.sort_unstable();
        versions.sort_by(|one, other| compare_versions(one, other));
        assert_eq!(versions, expected);
    }

    /// KV-1, KV-2: no resource's keys lie under the prefix of another.
    #[test]
    fn key_prefixes_do_not_overlap() {
        let rows = built_in();
        for (at, one) in rows.iter().enumerate() {
            for other in rows.iter().skip(at + 1) {
                let slashed = |d: &ResourceDefinition| format!("{}/", d.key_prefix);
                // Versions and cohabiting groups are the same objects.
                let are_converted = one.conversion.is_supported();
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
            let known = row.selectable_fields.iter();
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
            let first = row.columns.first();
            let first = first.map(|column| (column.name.as_str(), column.format.as_str()));
            let named = match row.kind.as_str() {
                "Event" => ("Last Seen", ""),
                _ => ("Name", "name"),
            };
            assert_eq!(first, Some(named));
        }
    }
}
