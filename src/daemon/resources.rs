//! Addition and removal of resources while the daemon runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actors::supervisor::{ActorSystem, AddResourceError, RemoveResourceError};
use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use tokio::sync::Mutex;

use super::addition_pace::AdditionPace;
use super::encryption;
use crate::api::resource::ResourceDefinition;
use crate::registry::definition_check::DefinitionError;
use crate::registry::{Catalog, Registry};
use crate::storage::encryption::Encryption;
use crate::storage::factory::{Engines, FactoryError, GroupResource, StorageFactory, StoragePlan};
use crate::storage::rewrite::Rewriter;
use crate::storage::rewrite::RewrittenStores;
use crate::storage::{ResourceStorage, RunToCompletion};
use crate::telemetry::Series;

/// The reason why a resource was not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// It cannot be served together with the others.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It is not served.
    #[error("{0} is not served")]
    NotServed(String),
    /// It cannot be stored.
    #[error(transparent)]
    Storage(#[from] FactoryError),
    /// It cannot be cached.
    #[error(transparent)]
    Add(#[from] AddResourceError),
    /// Its cache cannot be removed.
    #[error(transparent)]
    Remove(#[from] RemoveResourceError),
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
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
    /// The stores that a rewrite with the current keys goes through.
    pub(super) rewritten: RewrittenStores,
    /// Held during a change of the served resources, so that changes run one after another.
    pub(super) changing: Mutex<AdditionPace>,
}

impl Resources {
    pub(super) fn new(parts: Parts) -> Resources {
        Resources {
            parts: Arc::new(parts),
        }
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the number of generations before the current one. An addition of any number of
    /// resources makes one generation.
    pub fn generation(&self) -> u64 {
        self.parts.registry.current().number()
    }

    /// Adds a version of a resource. The first version of a stored resource gets a cache, which is
    /// full when this returns. Later versions share it.
    ///
    /// # Errors
    /// [`ResourceError`]. Nothing has changed then.
    pub async fn add(&self, definition: ResourceDefinition) -> Result<(), ResourceError> {
        self.add_all([definition]).await
    }

    /// Adds versions of resources in one generation: clients see all of them or none. Their caches
    /// are filled concurrently, and are full when this returns.
    ///
    /// # Errors
    /// The first [`ResourceError`]. Nothing has changed then.
    pub async fn add_all(
        &self,
        definitions: impl IntoIterator<Item = ResourceDefinition>,
    ) -> Result<(), ResourceError> {
        let definitions: Vec<_> = definitions.into_iter().map(Arc::new).collect();
        let parts = Arc::clone(&self.parts);
        let adding = async move {
            let pace = parts.changing.lock().await;
            Addition::new(&parts, &pace).run(definitions).await
        };
        RunToCompletion::new(adding.boxed()).await
    }

    /// Removes a version of a resource: requests no longer find it. The last version of a stored
    /// resource also removes the cache. Watches of the version end, and with a cache those of other
    /// versions too, as in Kubernetes. Stored data stays.
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
        if own_name != *name && catalog.named(&own_name).is_none() {
            series.remove_resource(&own_name);
        }
        if !catalog.versions_stored_as(name).is_empty() {
            actor_system.refill(name);
            return Ok(());
        }
        match actor_system.remove_resource(name).await {
            // A resource without a cache.
            Ok(()) | Err(RemoveResourceError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        series.remove_resource(name);
        rewritten.remove(name);
        Ok(())
    }
}

/// The number of caches that one addition fills at a time. More would not fill earlier: the engine
/// reads few ranges at a time, and caches of other resources share their threads.
const FILLED_AT_A_TIME: usize = 16;

/// An addition of some resources. If one of them cannot be added, it undoes all that it has begun.
struct Addition<'p> {
    parts: &'p Parts,
    pace: &'p AdditionPace,
    catalog: Arc<Catalog>,
    /// The stored resources that get a cache, by key prefix.
    plans: HashMap<String, StoragePlan>,
    /// The key prefixes by the names of stored resources that get metrics.
    measured: HashMap<String, String>,
}

impl<'p> Addition<'p> {
    fn new(parts: &'p Parts, pace: &'p AdditionPace) -> Addition<'p> {
        Addition {
            parts,
            pace,
            catalog: parts.registry.current(),
            plans: HashMap::new(),
            measured: HashMap::new(),
        }
    }

    async fn run(mut self, definitions: Vec<Arc<ResourceDefinition>>) -> Result<(), ResourceError> {
        let planned = self.plan(&definitions);
        let filled = match planned {
            Ok(()) => self.fill().await,
            Err(error) => Err(error),
        };
        match filled {
            Ok(storages) => {
                self.serve(definitions, &storages);
                Ok(())
            }
            Err(error) => {
                self.undo().await;
                Err(error)
            }
        }
    }

    /// Checks all definitions, and plans the storage of new stored resources.
    fn plan(&mut self, definitions: &[Arc<ResourceDefinition>]) -> Result<(), ResourceError> {
        let mut names = self.catalog.names().clone();
        for definition in definitions {
            names.check(definition)?;
            names.insert(definition);
        }
        let factory = &self.parts.factory;
        for definition in definitions {
            let prefix = &definition.key_prefix;
            if let Some(plan) = self.plans.get(prefix) {
                factory.check_version(plan.resource(), definition)?;
            } else if let Some(other) = self.catalog.stored_below(prefix) {
                factory.check_version(other.stored_resource(), definition)?;
            } else {
                let plan = self.plan_one(definition)?;
                self.plans.insert(prefix.clone(), plan);
            }
        }
        Ok(())
    }

    fn plan_one(
        &mut self,
        definition: &Arc<ResourceDefinition>,
    ) -> Result<StoragePlan, ResourceError> {
        let Parts {
            factory,
            engines,
            encryption,
            series,
            ..
        } = self.parts;
        let beside = self.beside(definition);
        let name = factory.stored_resource_name(definition, &beside);
        // If the stored resource exists already, the version must fit its other versions.
        let known = self.catalog.versions_stored_as(&name).first();
        let known = known.map(|store| store.stored_resource());
        let planned = || self.plans.get(self.measured.get(&name)?);
        if let Some(known) = known.or_else(|| Some(planned()?.resource())) {
            factory.check_version(known, definition)?;
        }
        // A plan records metrics from its creation on, so the series must exist.
        series.add_unused_resource(&name);
        self.measured.insert(name, definition.key_prefix.clone());
        Ok(factory.plan(definition, &beside, engines, encryption)?)
    }

    /// Returns the served resources that influence how a version is stored.
    fn beside(&self, definition: &ResourceDefinition) -> Vec<Arc<ResourceDefinition>> {
        let cohabitants = self.parts.factory.cohabitants(definition).into_iter();
        let rows = cohabitants.flat_map(|one| {
            let versions = self.catalog.stores_of(&one.group, &one.resource);
            let mut rows: Vec<_> = versions.map(|store| store.definition().clone()).collect();
            if rows.is_empty() {
                let group = self.catalog.group(&one.group);
                let first = group.and_then(|group| group.stores().next());
                rows.extend(first.map(|store| store.definition().clone()));
            }
            rows
        });
        rows.collect()
    }

    /// Starts the caches at the pace of additions, and waits until they are full. A cache that
    /// cannot be filled now reports its own state, as it does after later refills. Returns the
    /// storages by their key prefixes.
    async fn fill(&self) -> Result<HashMap<String, ResourceStorage>, ResourceError> {
        let has_failed = AtomicBool::new(false);
        let filling = self.plans.iter();
        let filling: Vec<_> = filling
            .map(|(prefix, plan)| self.fill_one(prefix, plan, &has_failed))
            .collect();
        // All that have begun must end before the first error is returned, so that they can be
        // undone.
        let filled = stream::iter(filling).buffer_unordered(FILLED_AT_A_TIME);
        let filled: Vec<Result<_, AddResourceError>> = filled.collect().await;
        let begun = filled.into_iter().filter_map(Result::transpose);
        Ok(begun.collect::<Result<_, _>>()?)
    }

    /// Starts the cache of a plan, waits until it is full, and makes the storage. `None` if another
    /// plan has failed before this one began.
    async fn fill_one(
        &self,
        prefix: &str,
        plan: &StoragePlan,
        has_failed: &AtomicBool,
    ) -> Result<Option<(String, ResourceStorage)>, AddResourceError> {
        let actor_system = &self.parts.actor_system;
        if plan.destination().is_cached {
            let is_undone = || has_failed.load(Ordering::Relaxed);
            if is_undone() {
                return Ok(None);
            }
            self.pace.turn().await;
            if is_undone() {
                return Ok(None);
            }
            let added = actor_system.add_resource(plan.cacher_spec()).await;
            let cacher = added.inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            cacher.settled().await;
        }
        Ok(Some((prefix.to_owned(), plan.build(actor_system))))
    }

    async fn undo(self) {
        for plan in self.plans.values() {
            // A cache that was never started is not found.
            let removed = self
                .parts
                .actor_system
                .remove_resource(&plan.resource().name);
            if let Err(error) = removed.await {
                tracing::debug!(%error, "a resource that is not added has no cache");
            }
        }
        for name in self.measured.keys() {
            self.parts.series.remove_resource(name);
        }
    }

    /// Serves all of them in one generation.
    fn serve(
        self,
        definitions: Vec<Arc<ResourceDefinition>>,
        filled: &HashMap<String, ResourceStorage>,
    ) {
        let Parts {
            registry,
            actor_system,
            series,
            rewritten,
            ..
        } = self.parts;
        for plan in self.plans.values() {
            rewritten.add(plan.rewritten(actor_system));
        }
        let versions = definitions.into_iter().filter_map(|definition| {
            let storages = match filled.get(definition.key_prefix.as_str()) {
                Some(storages) => storages.clone(),
                None => {
                    let other = self.catalog.stored_below(&definition.key_prefix)?;
                    other.storages().clone()
                }
            };
            let own_name = definition.qualified();
            if own_name != storages.resource.name && self.catalog.named(&own_name).is_none() {
                // The stored resource has another group, whose requests are counted under its own
                // name.
                series.add_unused_resource(&own_name);
            }
            Some((definition, storages))
        });
        registry.add_all(versions);
    }
}

/// Where and how objects are stored.
pub(super) struct Stored<'s> {
    factory: StorageFactory,
    engines: &'s Engines,
    encryption: &'s Encryption,
}

impl<'s> Stored<'s> {
    pub(super) fn new(
        factory: StorageFactory,
        engines: &'s Engines,
        encryption: &'s Encryption,
    ) -> Stored<'s> {
        Stored {
            factory,
            engines,
            encryption,
        }
    }
}

/// Creates the parts that change what is served and how it is stored.
pub(super) fn changes(
    registry: &Registry,
    actor_system: &ActorSystem,
    plans: &[StoragePlan],
    stored: Stored<'_>,
    series: &Series,
) -> (Resources, Rewriter) {
    let Stored {
        factory,
        engines,
        encryption,
    } = stored;
    let rewritten = encryption::rewritten_stores(plans, actor_system);
    let rewriter = encryption::rewriter(encryption, &rewritten, actor_system, &factory);
    let resources = Resources::new(Parts {
        registry: registry.clone(),
        actor_system: actor_system.clone(),
        factory,
        engines: engines.clone(),
        encryption: encryption.clone(),
        series: series.clone(),
        rewritten,
        changing: tokio::sync::Mutex::default(),
    });
    (resources, rewriter)
}
