//! The verbs of one resource.
//!
//! This folder owns the checks, strategy and admission around [`Storage`], in a file per verb.
//! Decoded objects and options enter with a request context. Stored objects, lists and watches
//! leave, or a `Status`. This folder must not know HTTP connections, wire encodings or storage
//! engines.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use actors::object::CachedObject;
use tokio::sync::watch;

use super::deletion::Collector;
use super::errors::{FailedOperation, interpret};
use super::keys::{KeyError, object_key};
use super::namespaced_name::NamespacedName;
use super::pending_creates::PendingCreates;
use super::strategy::Strategy;
use crate::admission::Admission;
use crate::api::decode::FieldFault;
use crate::api::deep;
use crate::api::object::Object;
use crate::api::patch::Patch;
use crate::api::resource::{ResourceDefinition, converted};
use crate::api::schema::Empty;
use crate::api::status::Status;
use crate::storage::codec::Codec;
use crate::storage::{ResourceStorage, Root, Storage, StorageError, StoredResource};
use manage::Filters;

mod admit;
mod allocation;
mod change;
mod create;
mod delete;
mod manage;
mod read;
mod replacement;
mod scale;
mod update;

pub use allocation::{Allocated, Allocation};
pub use delete::{Answer, Deletion};
pub use read::{Audience, WatchRefusal};
pub use replacement::Replacement;

/// The parts that all stores of a daemon share.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// Admission for writes.
    pub admission: Admission,
    /// The pending creates.
    pub pending_creates: PendingCreates,
    /// Whether a collector handles the finalizers of propagation policies.
    pub collector: Collector,
    /// How many objects of a collection are deleted at a time. Zero means one (RG-12).
    pub delete_collection_workers: usize,
    /// The prefix of the store's keys.
    pub root: Root,
    /// How long events are kept. Zero means forever.
    pub event_ttl: Duration,
    /// What objects of this resource take of the cluster.
    pub allocation: Option<Arc<dyn Allocation>>,
}

/// The new content for an update.
#[derive(Debug)]
pub enum UpdateSource {
    /// This object (PUT).
    Replace(Replacement),
    /// The result of this patch on the current object (API-151).
    Patch(Patch),
    /// The current object with this one applied (API-172). It has no type yet.
    Apply {
        /// What is applied.
        object: Object,
        /// Members that its body has twice.
        faults: Vec<FieldFault>,
    },
}

/// The answer to an update.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object as stored.
    pub object: Arc<CachedObject>,
    /// Whether the object was absent before (201).
    pub created: bool,
}

/// The store of one version of a resource. It shares its storage with the other versions.
pub struct RegistryStore {
    definition: Arc<ResourceDefinition>,
    /// The rules of the version, for objects in the form of the hub.
    strategy: Strategy,
    /// The fields that count for managedFields, by endpoint.
    filters: Filters,
    codec: Codec,
    storages: ResourceStorage,
    options: StoreOptions,
    /// Whether the log says that objects of the kind have no effect.
    has_told_of_no_effect: AtomicBool,
    removed: watch::Sender<bool>,
}

impl RegistryStore {
    /// A store over a storage and the storage for its dry runs.
    pub fn new(
        definition: Arc<ResourceDefinition>,
        storages: ResourceStorage,
        options: StoreOptions,
    ) -> RegistryStore {
        RegistryStore {
            strategy: Strategy::over(definition.clone(), storages.resource.hub.clone()),
            filters: Filters::of(&definition),
            codec: Codec::new(storages.resource.hub.clone()),
            definition,
            storages,
            options,
            has_told_of_no_effect: AtomicBool::new(false),
            removed: watch::Sender::new(false),
        }
    }

    /// The resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        &self.definition
    }

    /// What is stored, which other versions may share.
    pub fn stored_resource(&self) -> &Arc<StoredResource> {
        &self.storages.resource
    }

    /// The storages, which other versions may share.
    pub fn storages(&self) -> &ResourceStorage {
        &self.storages
    }

    /// The storage, for metrics and readiness.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storages.storage
    }

    /// How many objects of a collection are deleted at a time, at least one (RG-12).
    pub(super) fn delete_collection_workers(&self) -> usize {
        self.options.delete_collection_workers.max(1)
    }

    /// The pending creates of this and all other stores of the daemon.
    pub fn pending_creates(&self) -> &PendingCreates {
        &self.options.pending_creates
    }

    /// The size of an object in bytes of JSON if it is known without waiting, else 0.
    pub fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        let key = self.key(at);
        key.map_or(0, |key| self.storage().held_bytes(&key))
    }

    /// The storage for the writes of a request.
    fn target(&self, dry_run: bool) -> &Arc<dyn Storage> {
        match dry_run {
            true => &self.storages.dry_run,
            false => &self.storages.storage,
        }
    }

    /// The lifetime of stored objects in seconds, or `None` for no limit.
    fn time_to_live(&self) -> Option<u64> {
        self.strategy.time_to_live(self.options.event_ttl)
    }

    fn key(&self, at: NamespacedName<'_>) -> Result<String, Box<Status>> {
        object_key(self.definition(), at.namespace, at.name).map_err(bad_key)
    }

    /// The version in which objects are stored, checked and cached.
    fn hub(&self) -> &Arc<ResourceDefinition> {
        &self.stored_resource().hub
    }

    /// An object of the hub in the version of this store.
    fn in_version<'o>(&self, object: &'o Object) -> Cow<'o, Object> {
        if self.is_hub() {
            return Cow::Borrowed(object);
        }
        let (hub, own) = (self.hub(), self.definition());
        Cow::Owned(converted(object, hub, own, Empty::Forgotten))
    }

    /// A stored object that is changed and stored again, in the version of the hub, with the texts
    /// of its raw JSON.
    async fn to_change(&self, cached: &CachedObject) -> Result<Object, Box<Status>> {
        let object = deep::retry(|| self.codec.object_of(cached)).await;
        let object = object.map_err(|error| Box::new(Status::internal(error)))?;
        // They are text, which is read later.
        let managed_fields = object.managed_fields();
        if managed_fields.is_some_and(|text| deep::is_deep(text.as_bytes())) {
            deep::room().await;
        }
        Ok(object)
    }

    fn is_hub(&self) -> bool {
        Arc::ptr_eq(self.definition(), self.hub())
    }

    fn fault(&self, error: StorageError, operation: FailedOperation, name: &str) -> Box<Status> {
        interpret(error, operation, self.definition(), name)
    }
}

/// Converts a key error to a bad request (RG-1).
fn bad_key(error: KeyError) -> Box<Status> {
    Box::new(Status::bad_request(error.to_string()))
}

/// Sets the namespace of an object to that of its request (API-92, API-203).
///
/// # Errors
/// 400 if the object names another one.
pub fn reconcile_namespace(
    object: &mut Object,
    definition: &ResourceDefinition,
    namespace: Option<&str>,
) -> Result<(), Box<Status>> {
    let Some(namespace) = namespace.filter(|_| definition.is_namespaced()) else {
        object.set_meta("namespace", "");
        return Ok(());
    };
    if !matches!(object.namespace(), "") && object.namespace() != namespace {
        return Err(Box::new(Status::namespace_mismatch()));
    }
    object.set_meta("namespace", namespace);
    Ok(())
}

#[cfg(test)]
mod tests;
