//! Adding and removing of resources while the daemon runs.

use std::sync::Arc;

use actors::supervisor::{ActorSystem, AddResourceError, RemoveResourceError};
use tokio::sync::Mutex;

use crate::api::resource::ResourceDefinition;
use crate::registry::Registry;
use crate::storage::encryption::Encryption;
use crate::storage::factory::{Engines, FactoryError, StorageFactory, StoragePlan};
use crate::telemetry::{Series, TelemetryError};

/// The reason why a resource was not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// It is served already, or its keys overlap those of another resource.
    #[error("{resource}: {other} is stored below the same keys")]
    Taken {
        /// The resource.
        resource: String,
        /// The resource with these keys.
        other: String,
    },
    /// It is not served.
    #[error("{0} is not served")]
    NotServed(String),
    /// It can't be stored.
    #[error(transparent)]
    Storage(#[from] FactoryError),
    /// It can't have metrics.
    #[error(transparent)]
    Metrics(#[from] TelemetryError),
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
    /// Held during a change of the served resources, so that changes run one after another.
    pub(super) changing: Mutex<()>,
}

impl Resources {
    pub(super) fn new(parts: Parts) -> Resources {
        Resources {
            parts: Arc::new(parts),
        }
    }

    /// Adds a resource, with a full cache.
    ///
    /// # Errors
    /// [`ResourceError`], in which case nothing has changed.
    pub async fn add(&self, definition: ResourceDefinition) -> Result<(), ResourceError> {
        let Parts {
            registry,
            actor_system,
            factory,
            engines,
            encryption,
            series,
            changing,
        } = &*self.parts;
        let _changing = changing.lock().await;
        check_keys(registry, &definition)?;
        let definition = Arc::new(definition);
        let name = definition.qualified();
        series.add_resource(&name)?;
        let planned = factory.plan(&definition, engines, encryption);
        let started = match planned {
            Ok(plan) => start_cache(actor_system, &plan).await.map(|()| plan),
            Err(error) => Err(error.into()),
        };
        match started {
            Ok(plan) => registry.add((definition, plan.build(actor_system))),
            Err(error) => {
                series.remove_resource(&name);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes a resource: requests no longer find it, its watches end, and its cache is removed.
    /// Its stored data stays.
    ///
    /// # Errors
    /// [`ResourceError::NotServed`]
    pub async fn remove(&self, group: &str, plural: &str) -> Result<(), ResourceError> {
        let Parts {
            registry,
            actor_system,
            series,
            changing,
            ..
        } = &*self.parts;
        let _changing = changing.lock().await;
        let catalog = registry.current();
        let mut served = catalog.definitions();
        let Some(definition) = served.find(|known| known.is(group, plural)) else {
            let name = match group {
                "" => plural.to_owned(),
                group => format!("{plural}.{group}"),
            };
            return Err(ResourceError::NotServed(name));
        };
        registry.remove(group, plural);
        let name = definition.qualified();
        match actor_system.remove_resource(&name).await {
            // The resource has no cache.
            Ok(()) | Err(RemoveResourceError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        series.remove_resource(&name);
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

/// Checks that no resource's keys lie below those of another (KV-1).
fn check_keys(registry: &Registry, definition: &ResourceDefinition) -> Result<(), ResourceError> {
    let below = |one: &str, other: &str| format!("{one}/").starts_with(&format!("{other}/"));
    let catalog = registry.current();
    let mut others = catalog.definitions();
    let taken = others.find(|other| {
        let (own, other) = (&definition.key_prefix, &other.key_prefix);
        below(own, other) || below(other, own)
    });
    match taken {
        None => Ok(()),
        Some(other) => Err(ResourceError::Taken {
            resource: definition.qualified(),
            other: other.qualified(),
        }),
    }
}
