//! What the daemon serves: the table of resources, and a store for each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::definitions::{apps, coordination, core};
use super::namespace_source::NamespaceSource;
use super::store::{RegistryStore, Shared};
use crate::admission::lifecycle::NamespaceLifecycle;
use crate::admission::{Admission, Plugin};
use crate::api::resource::ResourceDefinition;
use crate::storage::{ResourceStorage, Root};

/// Every resource, in the order of [`GROUPS`] and by name within a group.
pub static DEFINITIONS: &[&ResourceDefinition] = &[
    &core::CONFIGMAPS,
    &core::EVENTS,
    &core::NAMESPACES,
    &core::NODES,
    &core::PODS,
    &core::SECRETS,
    &core::SERVICEACCOUNTS,
    &core::SERVICES,
    &apps::DEPLOYMENTS,
    &coordination::LEASES,
];

/// The groups, in the order in which discovery names them (API-28); the core group first, which
/// has its own path. The order decides which group an ambiguous short name means.
pub static GROUPS: &[&str] = &["", "apps", "coordination.k8s.io"];

/// A group as discovery shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name; empty for the core group.
    pub name: &'static str,
    /// Its versions, the preferred one first.
    pub versions: Vec<GroupVersion>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// `v1`.
    pub version: &'static str,
    /// Its resources, sorted by name.
    pub resources: Vec<&'static ResourceDefinition>,
}

/// The stores of all resources.
pub struct Catalog {
    stores: Vec<Arc<RegistryStore>>,
    by_path: HashMap<(&'static str, &'static str, &'static str), usize>,
}

impl Catalog {
    /// The catalog of these rows over their storages; `root` is where physical keys begin, and
    /// events are kept for so long (zero is for ever).
    pub fn assemble(
        root: impl Into<Root>,
        event_ttl: Duration,
        storages: Vec<(&'static ResourceDefinition, ResourceStorage)>,
    ) -> Catalog {
        let namespaces = storages
            .iter()
            .find(|(row, _)| std::ptr::eq(*row, &core::NAMESPACES));
        let lifecycle = namespaces.map(|(row, storages)| {
            let source = Arc::new(NamespaceSource::new(row, storages.storage.clone()));
            Arc::new(NamespaceLifecycle::new(source, row)) as Arc<dyn Plugin>
        });
        let shared = Shared {
            admission: Admission::new(lifecycle.into_iter().collect()),
            root: root.into(),
            event_ttl,
            ..Shared::default()
        };
        let stores = storages
            .into_iter()
            .map(|(row, ResourceStorage { storage, dry_run })| {
                Arc::new(RegistryStore::new(row, storage, dry_run, shared.clone()))
            });
        Catalog::new(stores.collect())
    }

    /// A catalog of these stores.
    pub fn new(stores: Vec<Arc<RegistryStore>>) -> Catalog {
        let by_path = stores
            .iter()
            .enumerate()
            .map(|(at, store)| {
                let definition = store.definition();
                (
                    (definition.group, definition.version, definition.plural),
                    at,
                )
            })
            .collect();
        Catalog { stores, by_path }
    }

    /// The store of a resource by its place in a URL.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<RegistryStore>> {
        let at = self.by_path.get(&(group, version, plural))?;
        self.stores.get(*at).cloned()
    }

    /// The store of a resource by its name in messages and metrics: `deployments.apps`.
    pub fn named(&self, qualified: &str) -> Option<Arc<RegistryStore>> {
        let mut stores = self.stores.iter();
        stores
            .find(|store| store.definition().qualified() == qualified)
            .cloned()
    }

    /// All stores.
    pub fn stores(&self) -> &[Arc<RegistryStore>] {
        &self.stores
    }

    /// All rows, in the table's order.
    pub fn definitions(&self) -> &'static [&'static ResourceDefinition] {
        DEFINITIONS
    }

    /// The groups for discovery.
    pub fn groups(&self) -> Vec<Group> {
        groups()
    }
}

/// The groups of [`DEFINITIONS`] for discovery, in the order of [`GROUPS`].
pub fn groups() -> Vec<Group> {
    GROUPS.iter().map(|name| group(name)).collect()
}

fn group(name: &'static str) -> Group {
    let mut versions: Vec<GroupVersion> = Vec::new();
    for definition in DEFINITIONS.iter().filter(|d| d.group == name) {
        match versions
            .iter_mut()
            .find(|v| v.version == definition.version)
        {
            Some(version) => version.resources.push(definition),
            None => versions.push(GroupVersion {
                version: definition.version,
                resources: vec![definition],
            }),
        }
    }
    Group { name, versions }
}

/// `storageVersionHash` of discovery: which form a resource is stored in, opaque to clients
/// (API-26).
pub fn storage_version_hash(definition: &ResourceDefinition) -> String {
    let ResourceDefinition {
        group,
        version,
        kind,
        ..
    } = definition;
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(digest.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use actors::watch::Predicate;

    use super::*;
    use crate::api::selector::Selection;

    /// API-26: the values of http.md 6.1.
    #[test]
    fn the_storage_version_hash_is_kubernetes_own() {
        let hash = |plural: &str| {
            let row = DEFINITIONS.iter().find(|d| d.plural == plural);
            storage_version_hash(row.expect("in the table"))
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
    }

    /// API-25, API-28: discovery takes the table's order.
    #[test]
    fn the_table_is_ordered_by_group_and_name() {
        let place = |d: &ResourceDefinition| GROUPS.iter().position(|g| *g == d.group);
        assert!(DEFINITIONS.iter().all(|d| place(d).is_some()));
        assert!(DEFINITIONS.is_sorted_by_key(|d| (place(d), d.plural)));
        let listed: usize = groups()
            .iter()
            .flat_map(|g| &g.versions)
            .map(|v| v.resources.len())
            .sum();
        assert_eq!(listed, DEFINITIONS.len());
    }

    /// KV-1, KV-2: no resource's keys lie under another's prefix.
    #[test]
    fn key_prefixes_do_not_overlap() {
        for (at, one) in DEFINITIONS.iter().enumerate() {
            for other in DEFINITIONS.iter().skip(at + 1) {
                let slashed = |d: &ResourceDefinition| format!("{}/", d.key_prefix);
                assert!(!slashed(one).starts_with(&slashed(other)), "{}", one.plural);
                assert!(!slashed(other).starts_with(&slashed(one)), "{}", one.plural);
            }
        }
        assert_eq!(core::SERVICES.key_prefix, "services/specs");
        assert_eq!(core::NODES.key_prefix, "minions");
    }

    /// http.md 6.3, WA-52: watchers of any of these fields are filed under the value they want.
    #[test]
    fn each_field_that_a_kind_is_selected_by_is_a_topic() {
        let fields = |plural: &str| match plural {
            "pods" => {
                "spec.nodeName spec.host spec.restartPolicy spec.schedulerName \
                 spec.serviceAccountName spec.hostNetwork status.phase status.podIP \
                 status.podIPs status.nominatedNodeName"
            }
            "nodes" => "spec.unschedulable",
            "namespaces" => "status.phase",
            "secrets" => "type",
            "services" => "spec.clusterIP spec.type",
            "events" => {
                "involvedObject.kind involvedObject.namespace involvedObject.name \
                 involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion \
                 involvedObject.fieldPath reason reportingComponent source type"
            }
            _ => "",
        };
        for row in DEFINITIONS {
            let labels: Vec<&str> = fields(row.plural).split_whitespace().collect();
            let known: Vec<&str> = row.selectable_fields.iter().map(|f| f.label).collect();
            assert_eq!(known, labels, "{}", row.plural);
            for (place, label) in labels.iter().enumerate() {
                let demand = |text: &str| {
                    let selection = Selection::parse("a=b", text, row).expect("a selector");
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
        for row in DEFINITIONS {
            let all = [row.plural, row.singular]
                .into_iter()
                .chain(row.short_names.iter().copied());
            assert!(
                all.into_iter().all(|name| names.insert((row.group, name))),
                "{}",
                row.plural
            );
            assert!(row.verbs.is_sorted());
            assert!(row.subresources.is_sorted_by_key(|s| s.name));
            assert_eq!(row.singular, row.kind.to_lowercase());
            assert_eq!(
                row.columns.first().map(|c| (c.name, c.format)),
                Some(("Name", "name"))
            );
        }
    }
}
