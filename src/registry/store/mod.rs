//! The verbs of one resource.
//!
//! This folder owns the checks, strategy and admission around [`Storage`], with one file for each
//! verb. It takes decoded objects, options and a request context, and returns stored objects, lists
//! and watches, or a `Status`. It must not know HTTP connections, wire encodings or storage
//! engines.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actors::cacher::Readiness;
use actors::engine::Revision;
use actors::object::CachedObject;
use tokio::sync::watch;

use super::deletion::Collector;
use super::errors::{FailedOperation, interpret};
use super::keys::{KeyError, object_key};
use super::namespaced_name::NamespacedName;
use super::pending_creates::PendingCreates;
use super::strategy::{Strategy, Valid};
use crate::admission::Admission;
use crate::api::deep;
use crate::api::error_list::ClusterPolicies;
use crate::api::field_validation::StrictDecodingError;
use crate::api::object::Object;
use crate::api::patch::Patch;
use crate::api::resource::{Converter, ResourceDefinition, convert, converted};
use crate::api::schema::Empty;
use crate::api::status::Status;
use crate::auth::Authorizer;
use crate::storage::codec::Codec;
use crate::storage::{NewObject, ResourceStorage, Root, Storage, StorageError, StoredResource};
use owners::Filters;

mod admit;
mod allocation;
mod awaited;
mod change;
mod create;
mod delete;
mod owners;
mod read;
mod replacement;
mod rights;
mod scale;
mod update;

pub use admit::unstored;
pub use allocation::{Allocated, Allocation};
pub use delete::{Answer, Deletion};
pub use read::{Audience, WatchRefusal};
pub use replacement::Replacement;
pub use rights::{RightsCheck, RightsQuestion};

use awaited::ConvertedFrom;

/// The parts that all stores of a daemon share.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// The admission chain for writes.
    pub admission: Admission,
    /// The pending creates of all stores.
    pub pending_creates: PendingCreates,
    /// Whether a garbage collector handles the finalizers of propagation policies.
    pub collector: Collector,
    /// The number of objects of a collection that are deleted concurrently. Zero means one (RG-12).
    pub delete_collection_workers: usize,
    /// The prefix of the store's keys.
    pub root: Root,
    /// How long events are kept. Zero means forever.
    pub event_ttl: Duration,
    /// The policies that validation obeys.
    pub policies: ClusterPolicies,
    /// The allocator for objects of this resource.
    pub allocation: Option<Arc<dyn Allocation>>,
    /// The rights that authors of objects of this resource need.
    pub rights: Option<Arc<dyn RightsCheck>>,
    /// Decides whether an update may create an absent object. `None` allows it.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

/// How long an acknowledgement waits until the daemon obeys the object. A durable write must not be
/// answered much later only because a cache is being filled.
const OBEYED_WITHIN: Duration = Duration::from_secs(1);

/// The new content for an update.
#[derive(Debug)]
pub enum UpdateSource {
    /// An object that replaces the current one (PUT).
    Replace(Replacement),
    /// A patch of the current object (API-151).
    Patch(Patch),
    /// A server-side apply (API-172).
    Apply {
        /// The applied configuration, which is not read by the type of its kind yet.
        object: Object,
        /// The duplicate members of its body.
        faults: Vec<StrictDecodingError>,
    },
}

/// The result of an update.
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
    /// The strategy of the version, for objects that were converted to the hub.
    strategy: Strategy,
    /// The fields that endpoints exclude from managedFields.
    filters: Filters,
    codec: Codec,
    storages: ResourceStorage,
    options: StoreOptions,
    /// Whether the log already says that objects of the kind have no effect.
    has_told_of_no_effect: AtomicBool,
    /// The store of the stored version, if objects are converted to this one by somebody who must
    /// be waited for.
    base: Option<Arc<RegistryStore>>,
    /// Whether it is no longer served. Made when somebody waits for that, because it is large.
    removed: OnceLock<watch::Sender<bool>>,
}

impl RegistryStore {
    /// Creates a store over a storage and the storage for its dry runs.
    pub fn new(
        definition: Arc<ResourceDefinition>,
        storages: ResourceStorage,
        options: StoreOptions,
    ) -> RegistryStore {
        let working = match definition.is_written_as_sent() {
            true => definition.clone(),
            false => storages.resource.hub.clone(),
        };
        RegistryStore {
            strategy: Strategy::over(definition.clone(), working, options.policies),
            filters: Filters::of(&definition),
            codec: Codec::new(storages.resource.hub.clone()),
            base: storages.base.as_deref().map(|base| {
                let hub = Arc::clone(&base.resource.hub);
                Arc::new(RegistryStore::new(hub, base.clone(), options.clone()))
            }),
            definition,
            storages,
            options,
            has_told_of_no_effect: AtomicBool::new(false),
            removed: OnceLock::new(),
        }
    }

    /// Returns the version of the resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        &self.definition
    }

    /// Returns the store through which the server itself reads and deletes objects of the resource:
    /// that of the stored version, if nothing else works without somebody who converts (HK-82).
    pub fn of_server(self: &Arc<RegistryStore>) -> &Arc<RegistryStore> {
        self.base.as_ref().unwrap_or(self)
    }

    /// Returns the stored version and the converter, if objects are converted to this one by
    /// somebody who must be waited for.
    fn converted_from(&self) -> Option<ConvertedFrom<'_>> {
        let base = self.storages.base.as_deref()?;
        Some(ConvertedFrom {
            stored: &base.resource.hub,
            converter: &**self.storages.converter.as_ref()?,
        })
    }

    /// Returns the converter between the versions, if it must be waited for.
    fn converter(&self) -> Option<&dyn Converter> {
        self.storages.converter.as_deref()
    }

    /// Returns the stored resource, which other versions may share.
    pub fn stored_resource(&self) -> &Arc<StoredResource> {
        &self.storages.resource
    }

    /// Returns the storages, which other versions may share.
    pub fn storages(&self) -> &ResourceStorage {
        &self.storages
    }

    /// Returns the storage, for metrics and readiness.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storages.storage
    }

    /// Returns the number of objects of a collection that are deleted concurrently, at least one
    /// (RG-12).
    pub(super) fn delete_collection_workers(&self) -> usize {
        self.options.delete_collection_workers.max(1)
    }

    /// Returns the pending creates, which all stores of the daemon share.
    pub fn pending_creates(&self) -> &PendingCreates {
        &self.options.pending_creates
    }

    /// Returns the size of an object in bytes of JSON, or 0 if it cannot be known without waiting.
    pub fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        let key = self.key(at);
        key.map_or(0, |key| self.storage().held_bytes(&key))
    }

    /// Returns the version of the object that a read would find, if it is known without waiting.
    pub(super) fn known_version(&self, at: NamespacedName<'_>) -> Option<u64> {
        let key = self.key(at).ok()?;
        Some(self.storage().known_revision(&key)?.0)
    }

    /// Returns the storage for the writes of a request.
    fn target(&self, dry_run: bool) -> &Arc<dyn Storage> {
        match dry_run {
            true => &self.storages.dry_run,
            false => &self.storages.storage,
        }
    }

    /// Waits until the daemon obeys a write of this revision, if it obeys objects of this resource
    /// from their acknowledgement on. Over etcd the watch of the cache delivers the write.
    async fn obeyed(&self, revision: Revision) {
        if let Some(cacher) = &self.storages.obeyed
            && !cacher.reached(revision, OBEYED_WITHIN).await
            && cacher.readiness() != Readiness::Stopped
        {
            tracing::warn!(
                resource = %self.definition.qualified(),
                %revision,
                "a write is acknowledged before the daemon obeys it, because its cache is late"
            );
        }
    }

    /// Returns the lifetime of stored objects in seconds, or `None` for no limit.
    fn time_to_live(&self) -> Option<u64> {
        self.strategy.time_to_live(self.options.event_ttl)
    }

    fn key(&self, at: NamespacedName<'_>) -> Result<String, Box<Status>> {
        object_key(self.definition(), at.namespace, at.name).map_err(bad_key)
    }

    /// Returns the version in which objects are stored, validated and cached.
    fn hub(&self) -> &Arc<ResourceDefinition> {
        &self.stored_resource().hub
    }

    /// Returns the version in which writes are carried out: the hub, or that of this store.
    fn working(&self) -> &Arc<ResourceDefinition> {
        match self.definition.is_written_as_sent() {
            true => &self.definition,
            false => self.hub(),
        }
    }

    /// Returns whether objects are the same in this version and in the one in which writes are
    /// carried out.
    fn is_working(&self) -> bool {
        self.definition.is_written_as_sent() || self.is_hub()
    }

    /// Converts an object of the hub to the version of this store.
    pub(super) fn in_version<'o>(&self, object: &'o Object) -> Cow<'o, Object> {
        if self.is_hub() {
            return Cow::Borrowed(object);
        }
        let (hub, own) = (self.hub(), self.definition());
        Cow::Owned(converted(object, hub, own, Empty::Forgotten))
    }

    /// Converts a stored object that is being changed to the version of this store.
    fn live<'o>(&self, stored: &'o Object) -> Cow<'o, Object> {
        match self.is_working() {
            true => Cow::Borrowed(stored),
            false => self.in_version(stored),
        }
    }

    /// Converts an object of the version in which writes are carried out to the hub.
    fn in_hub(&self, object: &mut Object) {
        if self.definition.is_written_as_sent() && !self.is_hub() {
            convert(object, &self.definition, self.hub());
        }
    }

    /// Returns why objects can't be shown or written in this version, if they can't.
    fn unconvertible(&self) -> Option<Box<Status>> {
        // A storage of this version converts.
        if self.is_hub() {
            return None;
        }
        let why = self.definition.rules().unconvertible.as_ref()?;
        Some(Box::new(Status::unknown(why)))
    }

    /// Decodes a stored object for a change, in the version in which writes are carried out, with
    /// the texts of its raw JSON.
    async fn to_change(&self, cached: &CachedObject) -> Result<Object, Box<Status>> {
        if let Some(refusal) = self.unconvertible() {
            return Err(refusal);
        }
        let object = deep::retry(|| self.codec.object_of(cached)).await;
        let mut object = object.map_err(|error| Box::new(Status::internal(error)))?;
        if self.definition.is_written_as_sent() && !self.is_hub() {
            convert(&mut object, self.hub(), &self.definition);
        }
        // managedFields stay JSON text until they are read, so their depth needs a check of its
        // own.
        let managed_fields = object.managed_fields();
        if managed_fields.is_some_and(|text| deep::is_deep(text.as_bytes())) {
            deep::room().await;
        }
        Ok(object)
    }

    /// Prepares a valid object for storage. If the store refuses it as too large, it is stored
    /// without managedFields (API-93, API-157). With `needs_managers` it is refused instead.
    fn to_store(&self, valid: Valid, needs_managers: bool) -> NewObject {
        let mut object = valid.into_object();
        self.in_hub(&mut object);
        NewObject {
            ttl: self.time_to_live(),
            lighten: (!needs_managers).then_some(forget_managers),
            ..NewObject::from(object)
        }
    }

    fn is_hub(&self) -> bool {
        self.definition().is_version_of(self.hub())
    }

    fn fault(&self, error: StorageError, operation: FailedOperation, name: &str) -> Box<Status> {
        interpret(error, operation, self.definition(), name)
    }
}

fn forget_managers(object: &mut Object) -> bool {
    let has_managers = object.managed_fields().is_some();
    object.set_managed_fields(None);
    has_managers
}

/// Converts a key error to a bad request (RG-1).
fn bad_key(error: KeyError) -> Box<Status> {
    Box::new(Status::bad_request(error.to_string()))
}

/// Sets the namespace of an object to that of its request (API-92, API-203).
///
/// # Errors
/// 400 if the object has another namespace.
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
