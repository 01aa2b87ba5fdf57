//! The identity and the storages of what is stored below one key prefix.

use std::sync::Arc;

use super::Storage;
use super::codec::TypeName;
use crate::api::resource::ResourceDefinition;

/// What is stored below one key prefix: a resource in all its versions, and in all groups that
/// share its keys (SF-41). It has one cache, one series of metrics and one storage.
#[derive(Clone, Debug)]
pub struct StoredResource {
    /// The resource that decides where it is stored: `deployments.apps`.
    pub name: String,
    /// Its group; empty for the core group.
    pub group: String,
    /// Its plural.
    pub plural: String,
    /// The version that caches hold.
    pub hub: Arc<ResourceDefinition>,
    /// All its versions.
    pub versions: Vec<Arc<ResourceDefinition>>,
    /// The type that objects are stored as.
    pub stored_as: TypeName,
}

impl StoredResource {
    /// A resource that is stored and cached in this version.
    pub fn of(hub: Arc<ResourceDefinition>) -> StoredResource {
        StoredResource {
            name: hub.qualified(),
            group: hub.group.clone(),
            plural: hub.plural.clone(),
            stored_as: TypeName::of(&hub),
            versions: vec![hub.clone()],
            hub,
        }
    }
}

/// The storages of a resource, which its versions share.
#[derive(Clone)]
pub struct ResourceStorage {
    /// What is stored.
    pub resource: Arc<StoredResource>,
    /// For reads and writes.
    pub storage: Arc<dyn Storage>,
    /// For `dryRun=All`: tells how a write would end.
    pub dry_run: Arc<dyn Storage>,
}
