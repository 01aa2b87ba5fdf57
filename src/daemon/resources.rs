//! Resources that come and go while the daemon runs.

use std::sync::Arc;

use actors::supervisor::{ActorSystem, AddResourceError, RemoveResourceError};
use tokio::sync::Mutex;

use crate::api::resource::ResourceDefinition;
use crate::registry::Registry;
use crate::storage::encryption::Encryption;
use crate::storage::factory::{Engines, FactoryError, StorageFactory, StoragePlan};
use crate::telemetry::{Series, TelemetryError};

/// Why a resource was not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// It is served already, or its objects would lie among those of another.
    #[error("{resource}: {other} is stored below the same keys")]
    Taken {
        /// The resource.
        resource: String,
        /// Who has the keys.
        other: String,
    },
    /// It is not served.
    #[error("{0} is not served")]
    NotServed(String),
    /// It can't be stored.
    #[error(transparent)]
    Storage(#[from] FactoryError),
    /// It can't be measured.
    #[error(transparent)]
    Metrics(#[from] TelemetryError),
    /// It can't be cached.
    #[error(transparent)]
    Add(#[from] AddResourceError),
    /// Its cache can't be taken down.
    #[error(transparent)]
    Remove(#[from] RemoveResourceError),
}

/// Adds and removes resources; clones are handles of the same.
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
    /// Held by who changes what is served: one change follows the other.
    pub(super) changing: Mutex<()>,
}

impl Resources {
    pub(super) fn new(parts: Parts) -> Resources {
        Resources {
            parts: Arc::new(parts),
        }
    }

    /// Serves one more resource, from a cache that has been filled.
    ///
    /// # Errors
    /// [`ResourceError`]; then nothing has changed.
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

    /// Serves a resource no more: requests find nothing, its watches end, and its cache goes. What
    /// is stored of it stays.
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
            // It had no cache.
            Ok(()) | Err(RemoveResourceError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        series.remove_resource(&name);
        Ok(())
    }
}

/// Starts the cache of a resource that is to have one, and waits until it is filled. One that can't
/// be filled now answers for itself, as any that is filled again.
async fn start_cache(actor_system: &ActorSystem, plan: &StoragePlan) -> Result<(), ResourceError> {
    if plan.destination().is_cached {
        let cacher = actor_system.add_resource(plan.cacher_spec()).await?;
        cacher.settled().await;
    }
    Ok(())
}

/// No resource's keys may lie below those of another (KV-1).
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
