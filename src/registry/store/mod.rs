//! The verbs on one resource: checks, strategy and admission around [`Storage`], a file per verb.

use std::sync::Arc;
use std::time::Duration;

use actors::object::CachedObject;
use tokio::sync::watch;

use super::deletion::Collector;
use super::errors::{Verb, interpret};
use super::keys::{KeyError, object_key};
use super::pending_creates::PendingCreates;
use super::rest::NamespacedName;
use super::strategy::Strategy;
use crate::admission::Admission;
use crate::api::object::Object;
use crate::api::patch::Patch;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::storage::codec::{Codec, object_of};
use crate::storage::{ResourceStorage, Root, Storage, StorageError};

mod admit;
mod create;
mod delete;
mod read;
mod update;

pub use delete::{Answer, Deletion};
pub use read::{Audience, WatchRefusal};

/// What all stores of a daemon have in common.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// Who is asked about writes.
    pub admission: Admission,
    /// PendingCreates under way.
    pub pending_creates: PendingCreates,
    /// Whether the finalizers of propagation policies are served by anybody.
    pub collector: Collector,
    /// Where the store's keys begin.
    pub root: Root,
    /// How long events are kept; zero is for ever.
    pub event_ttl: Duration,
}

/// The content that an update is to give an object.
#[derive(Clone, Debug)]
pub enum UpdateSource {
    /// This object (PUT).
    Replace(Object),
    /// What this patch makes of the object, whatever it is by then (API-151).
    Patch(Patch),
}

/// The answer to an update.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object as stored.
    pub object: Arc<CachedObject>,
    /// It was absent before (201).
    pub created: bool,
}

/// The store of one resource.
pub struct RegistryStore {
    strategy: Strategy,
    codec: Codec,
    storage: Arc<dyn Storage>,
    dry_run: Arc<dyn Storage>,
    options: StoreOptions,
    removed: watch::Sender<bool>,
}

impl RegistryStore {
    /// A store over a storage and its dry-run twin.
    pub fn new(
        definition: Arc<ResourceDefinition>,
        storages: ResourceStorage,
        options: StoreOptions,
    ) -> RegistryStore {
        let ResourceStorage { storage, dry_run } = storages;
        RegistryStore {
            strategy: Strategy::of(definition.clone()),
            codec: Codec::new(definition),
            storage,
            dry_run,
            options,
            removed: watch::Sender::new(false),
        }
    }

    /// The resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        self.strategy.definition()
    }

    /// The storage below, for metrics and readiness.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// PendingCreates under way in this and all other stores of the daemon.
    pub fn pending_creates(&self) -> &PendingCreates {
        &self.options.pending_creates
    }

    /// How many bytes of JSON an object is, as far as that is known without waiting; else 0.
    pub fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        let key = self.key(at);
        key.map_or(0, |key| self.storage.held_bytes(&key))
    }

    /// The storage that a request's writes go to.
    fn target(&self, dry_run: bool) -> &Arc<dyn Storage> {
        match dry_run {
            true => &self.dry_run,
            false => &self.storage,
        }
    }

    /// What is stored lives for so many seconds; `None` for ever.
    fn time_to_live(&self) -> Option<u64> {
        self.strategy.time_to_live(self.options.event_ttl)
    }

    fn key(&self, at: NamespacedName<'_>) -> Result<String, Box<Status>> {
        object_key(self.definition(), at.namespace, at.name).map_err(bad_key)
    }

    fn fault(&self, error: StorageError, verb: Verb, name: &str) -> Box<Status> {
        interpret(error, verb, self.definition(), name)
    }
}

/// A key that can't be formed is a bad request (RG-1).
fn bad_key(error: KeyError) -> Box<Status> {
    Box::new(Status::bad_request(error.to_string()))
}

/// A cached object as a tree.
fn tree(cached: &CachedObject) -> Result<Object, Box<Status>> {
    object_of(cached).map_err(|error| Box::new(Status::internal(error)))
}

/// Gives an object the namespace of its request (API-92, API-203).
fn reconcile_namespace(
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
