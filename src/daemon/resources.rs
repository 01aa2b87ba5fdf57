//! Adding and removing of resources while the daemon runs.

use std::sync::Arc;

use actors::supervisor::{ActorSystem, AddResourceError, RemoveResourceError};
use futures_util::future::FutureExt;
use tokio::sync::Mutex;

use crate::api::resource::ResourceDefinition;
use crate::registry::Registry;
use crate::registry::definition_check::{DefinitionError, check_added};
use crate::storage::encryption::Encryption;
use crate::storage::factory::{Engines, FactoryError, GroupResource, StorageFactory, StoragePlan};
use crate::storage::rewrite::RewrittenStores;
use crate::storage::{ResourceStorage, RunToCompletion};
use crate::telemetry::Series;

/// The reason why a resource was not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// It can't be served beside the others.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It is not served.
    #[error("{0} is not served")]
    NotServed(String),
    /// It can't be stored.
    #[error(transparent)]
    Storage(#[from] FactoryError),
    /// It can't be cached.
    #[error(transparent)]
    Add(#[from] AddResourceError),
    /// Its cache can't be removed.
    #[error(transparent)]
    Remove(#[from] RemoveResourceError),
}

/// Adds and removes resources. Clones share the same state.
#[derive(Clone)]
pub struct Resources {
    parts: Arc<Parts>,
}

pub(super) struct Parts {
    pub(super) registry: Registry,
    pub(super) actor_system: ActorSystem,
    pub(super) factory: StorageFactory,
    pub(super) engines: Engines,
    pub(super) encryption: Encryption,
    pub(super) series: Series,
    /// The stores that a rewrite goes through.
    pub(super) rewritten: RewrittenStores,
    /// Held during a change of the served resources, so that changes run one after another.
    pub(super) changing: Mutex<()>,
}

impl Resources {
    pub(super) fn new(parts: Parts) -> Resources {
        Resources {
            parts: Arc::new(parts),
        }
    }

    /// Adds a version of a resource. The first version of a stored resource gets a cache, which is
    /// full when this returns. Later versions share it.
    ///
    /// # Errors
    /// [`ResourceError`], in which case nothing has changed.
    pub async fn add(&self, definition: ResourceDefinition) -> Result<(), ResourceError> {
        let resources = self.clone();
        let adding = async move { resources.add_now(Arc::new(definition)).await };
        RunToCompletion::new(adding.boxed()).await
    }

    async fn add_now(&self, definition: Arc<ResourceDefinition>) -> Result<(), ResourceError> {
        let Parts {
            registry,
            factory,
            series,
            changing,
            ..
        } = &*self.parts;
        let _changing = changing.lock().await;
        let catalog = registry.current();
        let beside: Vec<&ResourceDefinition> = catalog.served().map(|row| &**row).collect();
        check_added(&beside, &definition)?;
        let served: Vec<_> = catalog.definitions().cloned().collect();
        let prefix = &definition.key_prefix;
        let mut stores = catalog.stores().iter();
        let storages = match stores.find(|store| store.definition().key_prefix == *prefix) {
            Some(other) => {
                factory.check_version(other.stored_resource(), &definition)?;
                other.storages().clone()
            }
            None => self.start(&definition, &served).await?,
        };
        let (name, own_name) = (&storages.resource.name, definition.qualified());
        if own_name != *name && !served.iter().any(|other| other.qualified() == own_name) {
            // Another group of the stored resource, whose requests are counted under its own name.
            series.add_resource(&own_name);
        }
        registry.add((definition, storages));
        Ok(())
    }

    /// Starts the cache and the metrics of a stored resource with its first version.
    async fn start(
        &self,
        definition: &Arc<ResourceDefinition>,
        served: &[Arc<ResourceDefinition>],
    ) -> Result<ResourceStorage, ResourceError> {
        let Parts {
            actor_system,
            factory,
            engines,
            encryption,
            series,
            rewritten,
            ..
        } = &*self.parts;
        let name = &factory.stored_resource_name(definition, served);
        // The plan has metrics already.
        series.add_resource(name);
        let planned = factory.plan(definition, served, engines, encryption);
        let started = match planned {
            Ok(plan) => start_cache(actor_system, &plan).await.map(|()| plan),
            Err(error) => Err(error.into()),
        };
        match started {
            Ok(plan) => {
                rewritten.add(plan.rewritten(actor_system));
                Ok(plan.build(actor_system))
            }
            Err(error) => {
                series.remove_resource(name);
                Err(error)
            }
        }
    }

    /// Removes a version of a resource: requests no longer find it. With the last version of its
    /// stored resource the cache is removed too. Its watches end, and with a cache those of the
    /// other versions too, as in Kubernetes. Stored data stays.
    ///
    /// # Errors
    /// [`ResourceError::NotServed`]
    pub async fn remove(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<(), ResourceError> {
        let resources = self.clone();
        let [group, version, plural] = [group, version, plural].map(str::to_owned);
        let removing = async move { resources.remove_now(&group, &version, &plural).await };
        RunToCompletion::new(removing.boxed()).await
    }

    async fn remove_now(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<(), ResourceError> {
        let Parts {
            registry,
            actor_system,
            series,
            rewritten,
            changing,
            ..
        } = &*self.parts;
        let _changing = changing.lock().await;
        let Some(store) = registry.current().find(group, version, plural) else {
            let resource = GroupResource::new(group, plural);
            return Err(ResourceError::NotServed(format!("{resource} in {version}")));
        };
        registry.remove(group, version, plural);
        let name = &store.stored_resource().name;
        let catalog = registry.current();
        let own_name = store.definition().qualified();
        if own_name != *name
            && !catalog
                .definitions()
                .any(|other| other.qualified() == own_name)
        {
            series.remove_resource(&own_name);
        }
        let mut rest = catalog.stores().iter();
        if rest.any(|other| other.stored_resource().name == *name) {
            actor_system.refill(name);
            return Ok(());
        }
        match actor_system.remove_resource(name).await {
            // The resource has no cache.
            Ok(()) | Err(RemoveResourceError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        series.remove_resource(name);
        rewritten.remove(name);
        Ok(())
    }
}

/// Starts the cache of a resource, if it has one, and waits until it is full. A cache that can't be
/// filled now reports its own state, as after any later refill.
async fn start_cache(actor_system: &ActorSystem, plan: &StoragePlan) -> Result<(), ResourceError> {
    if plan.destination().is_cached {
        let cacher = actor_system.add_resource(plan.cacher_spec()).await?;
        cacher.settled().await;
    }
    Ok(())
}
