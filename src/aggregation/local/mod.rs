//! The local APIServices: those of what this server serves itself (CN-8 to CN-12).
//!
//! This folder owns their priorities, the decision about each, and one task that follows the caches
//! of APIServices and of definitions. It runs on every daemon: what it writes follows from what is
//! served and from what is stored alone, and is not written if it changes nothing. So daemons and
//! kube-apiservers on one store agree without a leader. An event concerns one APIService, however
//! many there are.

mod decision;
mod priorities;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews};
use actors::tasks::{self, Running, until_stopped};
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;

use super::service::{ApiService, Keeper, name_of};
use super::view::{APISERVICES, ApiServices};
use crate::api::status::Status;
use crate::controllers::Milestone;
use crate::registry::{Catalog, Completeness, DefinedVersions, GROUPS, Registry, RegistryStore};
use decision::{Action, Moment, decide};
pub use priorities::{CUSTOM, OWN_GROUP, Priorities, of_built_in};
use writes::{Wanted, carry_out};

/// The pause before something that failed is tried again.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The number of writes at a time.
const WRITES: usize = 32;

/// The dependencies of the registrar.
#[derive(Clone)]
pub struct Setup {
    /// The resources.
    pub registry: Registry,
    /// The APIServices.
    pub services: Arc<ApiServices>,
    /// The group versions that definitions serve.
    pub defined: Arc<DefinedVersions>,
    /// Knows which definitions are taken into account, if they are served.
    pub completeness: Option<Arc<dyn Completeness>>,
}

/// Keeps the local APIServices.
pub struct Registrar {
    setup: Setup,
    /// The built-in group versions, by the names of their APIServices.
    own: BTreeMap<String, OwnVersion>,
    registered: Milestone,
    /// Whether the first attempt to write those of a start has ended.
    has_tried: watch::Sender<bool>,
}

struct OwnVersion {
    group: String,
    version: String,
    priorities: Priorities,
}

impl Registrar {
    /// Returns `None` if APIServices are not served.
    pub fn new(setup: Setup) -> Option<Registrar> {
        let catalog = setup.registry.current();
        catalog.named(APISERVICES)?;
        Some(Registrar {
            own: own_versions(&catalog),
            setup,
            registered: Milestone::default(),
            has_tried: watch::Sender::new(false),
        })
    }

    /// Starts the task on the calling thread's runtime. It begins to work when the APIServices of a
    /// start have been written ([`Registrar::register_own`]).
    pub fn run(self: &Arc<Self>) -> Running {
        let keeping = Arc::clone(self).keep();
        Running::start(|stopped| tasks::spawn(until_stopped(stopped, keeping)))
    }

    /// Whether the APIServices of built-in groups were written since the start. Before that, lists
    /// of groups show built-in groups without them.
    pub fn has_registered(&self) -> bool {
        self.registered.is_reached()
    }

    /// Waits until [`Registrar::has_registered`].
    pub async fn registered(&self) {
        self.registered.reached().await;
    }

    /// Waits until the APIServices of all built-in groups are written and available. Reports which
    /// ones are not, whenever the APIServices have changed.
    pub async fn completed(&self, missing: impl Fn(&[&str])) {
        self.registered().await;
        let mut follower = self.setup.services.cache().follow();
        loop {
            let changed = follower.changed();
            while matches!(follower.read(), CacheNews::State(_) | CacheNews::Events(_)) {}
            let view = self.setup.services.current();
            let names = self.own.keys().map(String::as_str);
            let unavailable = |name: &&str| !view.named(name).is_some_and(|one| one.is_available());
            let unavailable: Vec<&str> = names.filter(unavailable).collect();
            if unavailable.is_empty() {
                return;
            }
            missing(&unavailable);
            changed.await;
        }
    }

    /// Writes the APIServices of built-in groups, once after a start. If that fails, the task tries
    /// again later.
    ///
    /// # Errors
    /// A write failed.
    pub async fn register_own(&self) -> Result<(), Box<Status>> {
        let outcome = self.try_register_own().await;
        self.has_tried.send_replace(true);
        outcome
    }

    async fn try_register_own(&self) -> Result<(), Box<Status>> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let view = self.setup.services.current();
        let spurious = view.all().filter(|service| {
            service.keeper == Keeper::OnStart && !self.own.contains_key(&service.name)
        });
        let names = self.own.keys().chain(spurious.map(|service| &service.name));
        // The writes run concurrently, so that they share one disk sync.
        let writes = names.map(|name| {
            let (view, store) = (&view, &store);
            async move {
                let wanted = self.own.get(name).map(|own| Wanted {
                    group: &own.group,
                    version: &own.version,
                    priorities: own.priorities,
                    label: "onstart",
                });
                let stored = view.named(name);
                let priorities = wanted.as_ref().map(|wanted| wanted.priorities);
                let action = decide(stored.map(AsRef::as_ref), priorities, Moment::Start);
                carry_out(store, name, action, wanted, stored).await
            }
        });
        try_join_all(writes).await?;
        self.registered.reach();
        Ok(())
    }

    fn store(&self) -> Option<Arc<RegistryStore>> {
        self.setup.registry.current().named(APISERVICES)
    }

    /// Keeps the APIServices of definitions as they should be.
    async fn keep(self: Arc<Self>) {
        // An error would mean that the registrar is gone.
        let _ = self.has_tried.subscribe().wait_for(|tried| *tried).await;
        while !self.has_registered() {
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            if let Err(status) = self.try_register_own().await {
                tracing::warn!(%status, "writing local APIServices failed, retrying");
            }
        }
        if let Some(completeness) = &self.setup.completeness {
            // Until then it is not known what definitions serve.
            while completeness.settled(None).await.is_err() {
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
        let mut following = Following {
            follower: self.setup.services.cache().follow(),
            due: HashMap::new(),
        };
        loop {
            let changed = self.setup.defined.changed();
            for name in self.setup.defined.take_changed() {
                following.due.insert(name, Cause::Definition);
            }
            if !following.read(&self) {
                return;
            }
            let news = following.follower.changed();
            if following.due.is_empty() {
                tokio::select! {
                    () = changed => {}
                    () = news => {}
                }
                continue;
            }
            let due = std::mem::take(&mut following.due);
            let looks = due.into_iter().map(|(name, cause)| self.look(name, cause));
            let looks = stream::iter(looks).buffer_unordered(WRITES);
            let failed: Vec<_> = looks.filter_map(std::future::ready).collect().await;
            if !failed.is_empty() {
                following.due.extend(failed);
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    /// Does what is due about an APIService of this name. Returns it if that failed.
    async fn look(&self, name: String, cause: Cause) -> Option<(String, Cause)> {
        match self.try_look(&name, cause).await {
            Ok(()) => None,
            Err(status) => {
                tracing::warn!(name, %status, "writing a local APIService failed, retrying");
                Some((name, cause))
            }
        }
    }

    async fn try_look(&self, name: &str, cause: Cause) -> Result<(), Box<Status>> {
        let Some((version, group)) = name.split_once('.') else {
            return Ok(());
        };
        // Those of built-in groups are written once after a start.
        if self.own.contains_key(name) {
            return Ok(());
        }
        if self.action(name, group, version).0 == Action::Nothing {
            return Ok(());
        }
        if cause == Cause::Other
            && let Some(completeness) = &self.setup.completeness
        {
            // Another server may have seen a definition that this one has not seen yet.
            completeness.settled(Some(group)).await?;
        }
        let (action, stored) = self.action(name, group, version);
        let wanted = Wanted {
            group,
            version,
            priorities: CUSTOM,
            label: "true",
        };
        let Some(store) = self.store() else {
            return Ok(());
        };
        carry_out(&store, name, action, Some(wanted), stored.as_ref()).await
    }

    fn action(&self, name: &str, group: &str, version: &str) -> (Action, Option<Arc<ApiService>>) {
        let stored = self.setup.services.current().named(name).cloned();
        let wanted = self.setup.defined.serves(group, version).then_some(CUSTOM);
        (decide(stored.as_deref(), wanted, Moment::Later), stored)
    }
}

/// Why an APIService is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A definition that serves its group version came, changed or went.
    Definition,
    /// It has changed itself, or everything is looked at.
    Other,
}

/// The APIServices to look at.
struct Following {
    follower: CacheFollower,
    due: HashMap<String, Cause>,
}

impl Following {
    /// Reads all news of the cache. Returns false if it has stopped.
    fn read(&mut self, registrar: &Registrar) -> bool {
        loop {
            match self.follower.read() {
                CacheNews::Nothing | CacheNews::Filling => return true,
                CacheNews::Stopped => return false,
                CacheNews::State(_) => {
                    let view = registrar.setup.services.current();
                    let kept = view.all().filter(|one| one.keeper == Keeper::Always);
                    let kept = kept.map(|one| one.name.clone());
                    for name in kept.chain(registrar.setup.defined.all()) {
                        self.due.entry(name).or_insert(Cause::Other);
                    }
                }
                CacheNews::Events(events) => {
                    for event in events {
                        let object = event.current.as_ref().or(event.previous.as_ref());
                        if let Some(object) = object {
                            let name = object.attributes().name().to_owned();
                            self.due.entry(name).or_insert(Cause::Other);
                        }
                    }
                }
            }
        }
    }
}

/// Returns the built-in group versions that are served, except that of APIServices.
fn own_versions(catalog: &Catalog) -> BTreeMap<String, OwnVersion> {
    let groups = catalog.groups();
    let built_in = groups.filter(|group| GROUPS.contains(&&*group.name) && group.name != OWN_GROUP);
    let versions = built_in.flat_map(|group| {
        let versions = group.announced();
        versions.filter_map(|version| {
            let (group, version) = (group.name.clone(), version.version.clone());
            let own = OwnVersion {
                priorities: of_built_in(&group, &version)?,
                group,
                version,
            };
            Some((name_of(&own.group, &own.version), own))
        })
    });
    versions.collect()
}
