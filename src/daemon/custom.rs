//! Serves the resources that follow from definitions: their caches, their place in the catalog, and
//! the change from one state to the next.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::readiness;
use super::resources::{Parts, Resources};
use crate::api::resource::ResourceDefinition;
use crate::custom_resources::conversion::WebhookConverter;
use crate::custom_resources::{CustomResources, DeletionPause, Made, Serving, Setup, ToServe};
use crate::registry::{Completeness, DefinedVersions, RegistryStore};
use crate::server::health::Health;
use crate::storage::converted::converted;
use crate::storage::factory::StoragePlan;
use crate::storage::underlying::Underlying;
use crate::storage::{ResourceStorage, RunToCompletion, StoredResource};

/// The resource of definitions, whose cache is followed.
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The number of caches that are filled at a time.
const FILLED_AT_A_TIME: usize = 16;
/// How long the first requests wait for a cache. One that takes longer answers 429 until then.
const FILL_PATIENCE: Duration = Duration::from_secs(10);
/// How long requests that have begun may use a cache that was replaced (CRD-91).
const GRACE: Duration = Duration::from_millis(500);

/// Starts the loops over definitions, which serve custom resources.
pub(super) fn start(
    resources: &Resources,
    health: &Arc<Health>,
    pause: DeletionPause,
    defined: &Arc<DefinedVersions>,
) -> Option<CustomResources> {
    let parts = resources.parts();
    let cacher = parts.actor_system.cacher(DEFINITIONS);
    let loops = cacher.clone().and_then(|cacher| {
        CustomResources::start(Setup {
            registry: parts.registry.clone(),
            definitions: cacher,
            serving: Arc::new(CustomServing::new(resources.clone())),
            pause,
            defined: Arc::clone(defined),
        })
    });
    let gate = loops.as_ref().map(CustomResources::gate);
    if let Some(gate) = gate {
        parts.registry.set_completeness(gate.clone());
    }
    readiness::wait_for_definitions(health, cacher, gate.cloned());
    loops
}

/// Returns the gate at which requests to unknown paths wait.
pub(super) fn gate(loops: Option<&CustomResources>) -> Option<Arc<dyn Completeness>> {
    loops.map(|loops| loops.gate().clone() as _)
}

/// Serves custom resources. Clones share the same state.
#[derive(Clone)]
pub(super) struct CustomServing {
    resources: Resources,
    /// The groups that are built in.
    built_in: Arc<HashSet<String>>,
    known: Arc<Mutex<HashMap<String, Known>>>,
}

/// A resource as it is served.
struct Known {
    form: u64,
    storages: ResourceStorage,
    /// The store below them, without a cache.
    store: Arc<Underlying>,
    /// Calls the webhook that converts its versions.
    webhook: Option<Arc<WebhookConverter>>,
    stores: Vec<Arc<RegistryStore>>,
    /// The end of the cache that the current one has replaced.
    retiring: Option<JoinHandle<()>>,
}

/// The storage of a resource that is about to be served.
struct Filled {
    storages: ResourceStorage,
    /// The store below them, without a cache.
    store: Arc<Underlying>,
    /// Calls the webhook that converts its versions.
    webhook: Option<Arc<WebhookConverter>>,
    /// The plan of a storage that did not exist before.
    plan: Option<StoragePlan>,
    /// The cache that replaces that of the former state.
    replacement: Option<actors::supervisor::Replacement>,
}

impl CustomServing {
    /// Creates the serving of custom resources. The groups that are served now hide theirs.
    pub(super) fn new(resources: Resources) -> CustomServing {
        let catalog = resources.parts().registry.current();
        let groups = catalog.groups().map(|group| group.name.clone());
        CustomServing {
            built_in: Arc::new(groups.collect()),
            resources,
            known: Arc::default(),
        }
    }

    fn parts(&self) -> &Parts {
        self.resources.parts()
    }

    async fn serve_now(&self, resources: Vec<ToServe>) -> Vec<Result<(), String>> {
        let filling = resources.iter().map(|one| self.fill(&one.made).boxed());
        let filling: Vec<_> = filling.collect();
        let filled: Vec<Result<Filled, String>> = stream::iter(filling)
            .buffered(FILLED_AT_A_TIME)
            .collect()
            .await;
        let _changing = self.parts().changing.lock().await;
        let names = self.parts().registry.current().names().clone();
        let mut outcomes = Vec::new();
        let mut removed = Vec::new();
        let mut added = Vec::new();
        let mut done = Vec::new();
        for (one, filled) in resources.into_iter().zip(filled) {
            let filled = match filled {
                Ok(filled) => filled,
                Err(error) => {
                    outcomes.push(Err(error));
                    continue;
                }
            };
            let mut versions = one.made.served.iter();
            let checked = versions.try_for_each(|version| names.check_custom(version));
            if let Err(error) = checked {
                outcomes.push(Err(error.to_string()));
                self.give_up(filled).await;
                continue;
            }
            outcomes.push(Ok(()));
            if let Some(known) = self.known.lock().get(&one.made.resource.name) {
                removed.extend(known.stores.iter().cloned());
            }
            let served = one.made.served.iter();
            let of = |version| (Arc::clone(version), storages_of(version, &filled));
            added.extend(served.map(of));
            done.push((one, filled));
        }
        // The new caches must be found when the garbage collector sees the new generation.
        let mut ends = Vec::new();
        for (one, filled) in done {
            ends.push(self.take_over(one, filled));
        }
        let stores = self.parts().registry.replace(&removed, added);
        let mut by_name: HashMap<String, Vec<Arc<RegistryStore>>> = HashMap::new();
        for store in stores {
            let name = store.stored_resource().name.clone();
            by_name.entry(name).or_default().push(store);
        }
        for (name, end) in ends {
            let before = {
                let mut known = self.known.lock();
                let stores = by_name.remove(&name).unwrap_or_default();
                let known = known.get_mut(&name);
                known.map(|known| std::mem::replace(&mut known.stores, stores))
            };
            self.end(&name, end, before.unwrap_or_default());
        }
        outcomes
    }

    /// Returns the storage of the former state of a resource, if its cache holds the same texts. It
    /// calls the webhook of the new state.
    fn same(&self, made: &Made) -> Option<Filled> {
        let known = self.known.lock();
        let known = known.get(&made.resource.name);
        let known = known.filter(|known| known.form == made.form)?;
        if let Some((webhook, conversion)) = known.webhook.as_ref().zip(made.conversion.as_ref()) {
            webhook.follow(Arc::clone(conversion));
        }
        let storages = ResourceStorage {
            // The former hub, which has the same form, decoded the objects in the cache.
            resource: Arc::new(StoredResource {
                hub: Arc::clone(&known.storages.resource.hub),
                ..StoredResource::clone(&made.resource)
            }),
            ..known.storages.clone()
        };
        Some(Filled {
            storages,
            store: Arc::clone(&known.store),
            webhook: known.webhook.clone(),
            plan: None,
            replacement: None,
        })
    }

    /// Returns what calls the webhook of a definition, if it names one.
    fn webhook(&self, made: &Made) -> Option<Arc<WebhookConverter>> {
        let conversion = Arc::clone(made.conversion.as_ref()?);
        let transport = Arc::clone(self.parts().registry.webhooks()?);
        Some(Arc::new(WebhookConverter::new(conversion, transport)))
    }

    /// Returns the storage of a resource: that of its former state if its cache holds the same
    /// texts, else a new one whose cache is full, or will be filled when somebody uses it.
    async fn fill(&self, made: &Made) -> Result<Filled, String> {
        let name = &made.resource.name;
        if let Some(same) = self.same(made) {
            return Ok(same);
        }
        let retiring = {
            let mut known = self.known.lock();
            known.get_mut(name).map(|known| known.retiring.take())
        };
        let Parts {
            factory,
            engines,
            encryption,
            series,
            actor_system,
            changing,
            ..
        } = self.parts();
        let is_new = retiring.is_none();
        if let Some(Some(retiring)) = retiring {
            // At most one former cache of a resource exists. Its end is bounded.
            let _ = retiring.await;
        }
        if is_new {
            // A plan records metrics from its creation on, so the series must exist.
            series.add_unused_resource(name);
        }
        let resource = StoredResource::clone(&made.resource);
        let plan = factory.plan_custom(resource, engines, encryption);
        let mut plan = plan.map_err(|error| error.to_string())?;
        let webhook = self.webhook(made);
        if let Some(webhook) = &webhook {
            let webhook = Arc::clone(webhook);
            plan = plan.converting(webhook);
        }
        let mut replacement = None;
        if plan.destination().is_cached {
            let spec = plan.cacher_spec();
            let begun = match is_new {
                true if plan.can_wait_for_first_use() => actor_system.add_unused_resource(spec),
                true => {
                    changing.lock().await.turn().await;
                    actor_system.add_resource(spec).await
                }
                false => actor_system.begin_replacement(spec).await.map(|begun| {
                    let handle = begun.handle().clone();
                    replacement = Some(begun);
                    handle
                }),
            };
            let cacher = begun.map_err(|error| error.to_string())?;
            if !cacher.is_unused() {
                // One that takes longer reports its own state.
                let _ = tokio::time::timeout(FILL_PATIENCE, cacher.settled()).await;
            }
            return Ok(Filled {
                storages: plan.build_over(actor_system, Some(cacher)),
                store: plan.rewritten(actor_system).store,
                webhook,
                plan: Some(plan),
                replacement,
            });
        }
        Ok(Filled {
            storages: plan.build_over(actor_system, None),
            store: plan.rewritten(actor_system).store,
            webhook,
            plan: Some(plan),
            replacement: None,
        })
    }

    async fn give_up(&self, filled: Filled) {
        let actor_system = &self.parts().actor_system;
        match filled {
            Filled {
                replacement: Some(replacement),
                ..
            } => actor_system.retire(replacement).await,
            Filled {
                plan: Some(plan), ..
            } => {
                let name = &plan.resource().name;
                // One without a cache is not found.
                let _ = actor_system.remove_resource(name).await;
                self.parts().series.remove_resource(name);
            }
            Filled { .. } => {}
        }
    }

    /// Makes a storage that of its resource. Returns how the former state ends.
    fn take_over(&self, one: ToServe, filled: Filled) -> (String, End) {
        let Parts {
            actor_system,
            rewritten,
            ..
        } = self.parts();
        let name = one.made.resource.name.clone();
        let replaced = filled
            .replacement
            .and_then(|replacement| actor_system.replace(replacement));
        if let Some(plan) = &filled.plan {
            rewritten.remove(&name);
            rewritten.add(plan.rewritten(actor_system));
        }
        let end = match replaced {
            Some(replaced) => End::Retire(replaced),
            None if one.ends_watches => End::Watches,
            None => End::Nothing,
        };
        let mut known = self.known.lock();
        let stores = known
            .get_mut(&name)
            .map(|known| std::mem::take(&mut known.stores));
        let retiring = known.get_mut(&name).and_then(|known| known.retiring.take());
        let now = Known {
            form: one.made.form,
            storages: filled.storages,
            store: filled.store,
            webhook: filled.webhook,
            stores: stores.unwrap_or_default(),
            retiring,
        };
        known.insert(name.clone(), now);
        (name, end)
    }

    /// Ends the former state of a resource.
    fn end(&self, name: &str, end: End, before: Vec<Arc<RegistryStore>>) {
        let actor_system = self.parts().actor_system.clone();
        match end {
            End::Nothing => {}
            End::Watches => {
                before.iter().for_each(|store| store.remove());
                if let Some(cacher) = actor_system.cacher(name) {
                    cacher.end_watches();
                }
            }
            End::Retire(replaced) => {
                let retiring = tasks::spawn(async move {
                    tokio::time::sleep(GRACE).await;
                    before.iter().for_each(|store| store.remove());
                    actor_system.retire(replaced).await;
                });
                if let Some(known) = self.known.lock().get_mut(name) {
                    known.retiring = Some(retiring);
                }
            }
        }
    }

    async fn withdraw_now(&self, name: &str) -> Result<(), String> {
        let Parts {
            registry,
            actor_system,
            series,
            rewritten,
            changing,
            ..
        } = self.parts();
        let _changing = changing.lock().await;
        let Some(known) = self.known.lock().remove(name) else {
            return Ok(());
        };
        let mut uncached = rewritten.current().into_iter();
        if let Some(uncached) = uncached.find(|one| one.resource == *name) {
            let storages = ResourceStorage {
                storage: uncached.store.clone(),
                ..known.storages.clone()
            };
            let hub = Arc::clone(&storages.resource.hub);
            registry.remember(registry.store((hub, storages)));
        }
        registry.replace(&known.stores, []);
        known.stores.iter().for_each(|store| store.remove());
        if let Some(retiring) = known.retiring {
            let _ = retiring.await;
        }
        // One without a cache is not found.
        if let Err(error) = actor_system.remove_resource(name).await {
            tracing::debug!(%error, "a custom resource had no cache");
        }
        series.remove_resource(name);
        rewritten.remove(name);
        Ok(())
    }
}

/// How the former state of a resource ends.
enum End {
    /// It goes on.
    Nothing,
    /// Its watches end, and its cache goes on.
    Watches,
    /// Its cache ends after a while, and its watches with it.
    Retire(actors::supervisor::Replaced),
}

/// Returns the storages of a version. If a webhook makes its objects from stored ones, it has its
/// own, over those of the stored version.
fn storages_of(version: &Arc<ResourceDefinition>, filled: &Filled) -> ResourceStorage {
    let storages = &filled.storages;
    match &storages.converter {
        Some(converter) if !version.is_version_of(&storages.resource.hub) => {
            converted(storages, converter, &filled.store, version)
        }
        _ => storages.clone(),
    }
}

impl Serving for CustomServing {
    fn serve(&self, resources: Vec<ToServe>) -> BoxFuture<'static, Vec<Result<(), String>>> {
        let serving = self.clone();
        let serve = async move { serving.serve_now(resources).await };
        RunToCompletion::new(serve.boxed()).boxed()
    }

    fn withdraw(&self, group: &str, plural: &str) -> BoxFuture<'static, Result<(), String>> {
        let (serving, name) = (self.clone(), format!("{plural}.{group}"));
        let withdraw = async move { serving.withdraw_now(&name).await };
        RunToCompletion::new(withdraw.boxed()).boxed()
    }

    fn store(&self, name: &str) -> Option<Arc<RegistryStore>> {
        let known = self.known.lock();
        let storages = known.get(name)?.storages.clone();
        let hub = Arc::clone(&storages.resource.hub);
        Some(self.parts().registry.store((hub, storages)))
    }

    fn is_built_in(&self, group: &str) -> bool {
        self.built_in.contains(group)
    }
}
