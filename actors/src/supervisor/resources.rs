//! The cached resources. Each has a Cacher and a Reflector. They can be added and removed while
//! everything else runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::child::Child;
use super::child_specs::ChildContext;
use super::config::{CacherSpec, OnRemoved};
use super::messages::{AddChildren, RemoveChildren};
use super::unused::Unused;
use super::{Supervisor, child_specs};
use crate::actor_ref::ActorRef;
use crate::cacher::{CacherHandle, FirstUse, WatchCache};
use crate::exit::ChildId;
use crate::mailbox;
use crate::reflector::{Observed, Source};
use crate::ring::RingBudget;
use crate::tasks;

/// Why a resource was not added.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddResourceError {
    /// A resource of this name is cached, or is being added or removed.
    #[error("the resource {0} is cached already")]
    Exists(String),
    /// The actors are stopping or have stopped.
    #[error("the actors are stopping")]
    Stopped,
}

/// Why a resource was not removed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RemoveResourceError {
    /// No resource of this name is cached, or it is being added or removed.
    #[error("the resource {0} is not cached")]
    NotFound(String),
    /// The actors are stopping or have stopped.
    #[error("the actors are stopping")]
    Stopped,
}

/// How long a removal waits for the HTTP threads to leave the resource. It does not fail if one
/// takes longer.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// The cached resources, by name. Cheap to clone.
#[derive(Clone)]
pub(super) struct Resources {
    entries: Arc<Mutex<Entries>>,
    context: ChildContext,
    pub(super) budget: Arc<RingBudget>,
    supervisor: Arc<ActorRef<Supervisor>>,
    on_removed: Option<OnRemoved>,
}

/// All names, and how many of them run on each arbiter.
struct Entries {
    by_name: BTreeMap<String, ResourceEntry>,
    loads: Vec<usize>,
}

/// The entry under a name.
enum ResourceEntry {
    Cached(Resource),
    /// The resource is being added to this arbiter or removed from it. No other change may begin.
    Changing(usize),
}

impl ResourceEntry {
    fn arbiter(&self) -> usize {
        match self {
            ResourceEntry::Cached(resource) => resource.arbiter,
            ResourceEntry::Changing(arbiter) => *arbiter,
        }
    }
}

impl Entries {
    /// Reserves a name on the arbiter with the fewest. `None` without arbiters.
    fn reserve(&mut self, name: &str) -> Option<usize> {
        let number = self.least_loaded()?;
        let entry = ResourceEntry::Changing(number);
        self.by_name.insert(name.to_owned(), entry);
        Some(number)
    }

    /// Counts one more resource on the arbiter with the fewest. `None` without arbiters.
    fn least_loaded(&mut self) -> Option<usize> {
        let loads = self.loads.iter_mut().enumerate();
        let (number, load) = loads.min_by_key(|(_, load)| **load)?;
        *load += 1;
        Some(number)
    }

    fn unload(&mut self, number: usize) {
        if let Some(load) = self.loads.get_mut(number) {
            *load = load.saturating_sub(1);
        }
    }

    fn remove(&mut self, name: &str) {
        let removed = self.by_name.remove(name);
        if let Some(load) = removed.and_then(|entry| self.loads.get_mut(entry.arbiter())) {
            *load -= 1;
        }
    }
}

/// A resource that is cached.
#[derive(Clone)]
pub(super) struct Resource {
    pub(super) handle: CacherHandle,
    pub(super) reflector: Observed,
    /// Has the Reflector list everything again.
    pub(super) relist: Arc<Notify>,
    #[cfg(test)]
    pub(super) actor_ref: Arc<ActorRef<crate::cacher::Cacher>>,
    /// Its Cacher and its Reflector.
    children: [ChildId; 2],
    /// The index of its arbiter.
    arbiter: usize,
    /// Its children until its first use, if it is filled only then.
    unused: Option<Arc<Unused>>,
}

/// A cache that fills and will replace that of its resource.
pub struct Replacement {
    name: String,
    resource: Resource,
}

impl From<Replacement> for Replaced {
    /// A replacement that is given up.
    fn from(replacement: Replacement) -> Replaced {
        let Replacement { name, resource } = replacement;
        Replaced { name, resource }
    }
}

impl Replacement {
    /// The new cache.
    pub fn handle(&self) -> &CacherHandle {
        &self.resource.handle
    }
}

/// A cache that another one has replaced. Requests and watches may still use it.
pub struct Replaced {
    name: String,
    resource: Resource,
}

impl Resources {
    /// An empty list of resources.
    pub(super) fn new(
        context: ChildContext,
        budget: Arc<RingBudget>,
        supervisor: Arc<ActorRef<Supervisor>>,
        on_removed: Option<OnRemoved>,
    ) -> Resources {
        let entries = Entries {
            by_name: BTreeMap::new(),
            loads: vec![0; context.arbiters.len()],
        };
        Resources {
            entries: Arc::new(Mutex::new(entries)),
            context,
            budget,
            supervisor,
            on_removed,
        }
    }

    /// The resource of this name.
    pub(super) fn get(&self, name: &str) -> Option<Resource> {
        match self.entries.lock().by_name.get(name)? {
            ResourceEntry::Cached(resource) => Some(resource.clone()),
            ResourceEntry::Changing(_) => None,
        }
    }

    /// All caches, by name of the resource.
    pub(super) fn handles(&self) -> Vec<CacherHandle> {
        let entries = self.entries.lock();
        let handles = entries.by_name.values().filter_map(|entry| match entry {
            ResourceEntry::Cached(resource) => Some(resource.handle.clone()),
            ResourceEntry::Changing(_) => None,
        });
        handles.collect()
    }

    /// How many resources run on each arbiter.
    #[cfg(test)]
    pub(super) fn loads(&self) -> Vec<usize> {
        self.entries.lock().loads.clone()
    }

    /// Adds a resource before the Supervisor starts. Its children are started with all others.
    pub(super) fn insert(&self, spec: CacherSpec) -> Result<[Child; 2], AddResourceError> {
        let name = spec.resource.clone();
        let (resource, children) = self.reserve(spec)?;
        self.add_statuses(&children);
        self.cached(name, resource);
        Ok(children)
    }

    /// Adds a resource whose children are started at its first use.
    pub(super) fn add_unused(&self, spec: CacherSpec) -> Result<CacherHandle, AddResourceError> {
        let name = spec.resource.clone();
        let (resource, children) = self.reserve(spec)?;
        let resource = self.unused(resource, children);
        let handle = resource.handle.clone();
        self.cached(name, resource);
        Ok(handle)
    }

    /// Has the children of a resource started at its first use.
    fn unused(&self, resource: Resource, children: [Child; 2]) -> Resource {
        let watch_cache = Arc::clone(&resource.handle.watch_cache);
        let statuses = self.context.statuses.clone();
        let supervisor = Arc::clone(&self.supervisor);
        let unused = Unused::new(children, Arc::clone(&watch_cache), statuses, supervisor);
        let unused = Arc::new(unused);
        let (started, arbiters) = (Arc::clone(&unused), Arc::clone(&self.context.arbiters));
        let first_use = FirstUse::new(move || {
            let started = Arc::clone(&started);
            let start = async move { started.start().await };
            // Without a thread the actors have stopped.
            let is_begun = arbiters.first().is_some_and(|first| first.spawn(start));
            if !is_begun {
                watch_cache.close();
            }
        });
        Resource {
            handle: CacherHandle {
                first_use: Some(Arc::new(first_use)),
                ..resource.handle
            },
            unused: Some(unused),
            ..resource
        }
    }

    fn add_statuses(&self, children: &[Child]) {
        let statuses = &self.context.statuses;
        children.iter().for_each(|child| statuses.add(child));
    }

    fn cached(&self, name: String, resource: Resource) {
        let entry = ResourceEntry::Cached(resource);
        self.entries.lock().by_name.insert(name, entry);
    }

    /// Reserves the name of a resource and builds its children.
    fn reserve(&self, spec: CacherSpec) -> Result<(Resource, [Child; 2]), AddResourceError> {
        let number = {
            let mut entries = self.entries.lock();
            if entries.by_name.contains_key(&spec.resource) {
                return Err(AddResourceError::Exists(spec.resource));
            }
            entries.reserve(&spec.resource)
        };
        let arbiter = number.and_then(|number| Some((number, self.context.arbiters.get(number)?)));
        let Some((number, arbiter)) = arbiter else {
            return Err(AddResourceError::Stopped);
        };
        Ok(self.build(spec, number, arbiter))
    }

    fn build(
        &self,
        spec: CacherSpec,
        number: usize,
        arbiter: &ArbiterHandle,
    ) -> (Resource, [Child; 2]) {
        let watch_cache = WatchCache::new(spec.resource.clone(), spec.prefix.clone(), &self.budget);
        let actor_ref = ActorRef::new("cacher", mailbox::CACHER);
        let observed = Observed::default();
        let relist = Arc::<Notify>::default();
        let source = Source {
            resource: spec.resource,
            prefix: spec.prefix,
            engine: spec.engine,
            decode: spec.decode,
            indexed_fields: spec.indexed_fields,
            cacher: Arc::clone(&actor_ref),
            observed: Arc::clone(&observed),
            relist: Arc::clone(&relist),
        };
        let reflector = ActorRef::new("reflector", mailbox::REFLECTOR);
        let ids = [self.context.ids.next(), self.context.ids.next()];
        let children = [
            child_specs::cacher(
                ids[0],
                arbiter.clone(),
                Arc::clone(&watch_cache),
                &actor_ref,
            ),
            child_specs::reflector(ids[1], arbiter.clone(), source, &reflector),
        ];
        let resource = Resource {
            handle: CacherHandle {
                watch_cache,
                first_use: None,
            },
            reflector: observed,
            relist,
            #[cfg(test)]
            actor_ref,
            children: ids,
            arbiter: number,
            unused: None,
        };
        (resource, children)
    }

    /// Adds a resource while the Supervisor runs. Its cache is filled after this returns.
    pub(super) async fn add(&self, spec: CacherSpec) -> Result<CacherHandle, AddResourceError> {
        let name = spec.resource.clone();
        let (resource, children) = self.reserve(spec)?;
        self.add_statuses(&children);
        let resources = self.clone();
        let added = async move { resources.start(name, resource, children).await };
        let added = self.run_to_completion(added).await;
        added.unwrap_or(Err(AddResourceError::Stopped))
    }

    /// Starts a second cache of a cached resource, which replaces the first one when it is full. If
    /// nobody has used the first one, nobody has used the second one either.
    pub(super) async fn begin_replacement(
        &self,
        spec: CacherSpec,
    ) -> Result<Replacement, AddResourceError> {
        let number = self.entries.lock().least_loaded();
        let arbiter = number.and_then(|number| Some((number, self.context.arbiters.get(number)?)));
        let Some((number, arbiter)) = arbiter else {
            return Err(AddResourceError::Stopped);
        };
        let name = spec.resource.clone();
        let is_unused = self
            .get(&name)
            .is_some_and(|first| first.handle.is_unused());
        let (resource, children) = self.build(spec, number, arbiter);
        if is_unused {
            let resource = self.unused(resource, children);
            return Ok(Replacement { name, resource });
        }
        self.add_statuses(&children);
        let resources = self.clone();
        let beginning = async move {
            let message = AddChildren(children.into());
            if let Ok(Ok(())) = resources.supervisor.ask_patiently(message).await {
                return Ok(Replacement { name, resource });
            }
            for id in resource.children {
                resources.context.statuses.remove(id);
            }
            resource.handle.watch_cache.close();
            resources.entries.lock().unload(number);
            Err(AddResourceError::Stopped)
        };
        let begun = self.run_to_completion(beginning).await;
        begun.unwrap_or(Err(AddResourceError::Stopped))
    }

    /// Makes the second cache the resource's own, and returns the first one.
    pub(super) fn replace(&self, replacement: Replacement) -> Option<Replaced> {
        let Replacement { name, resource } = replacement;
        let mut entries = self.entries.lock();
        let entry = ResourceEntry::Cached(resource);
        match entries.by_name.insert(name.clone(), entry) {
            Some(ResourceEntry::Cached(resource)) => Some(Replaced { name, resource }),
            _ => None,
        }
    }

    /// Stops a cache that another one has replaced, which ends its watches.
    pub(super) async fn retire(&self, replaced: Replaced) {
        let Replaced { name, resource } = replaced;
        let resources = self.clone();
        let retiring = async move {
            let number = resource.arbiter;
            // The actors stop, so nothing is left to do.
            let _ = resources.stop_children(&name, resource).await;
            resources.entries.lock().unload(number);
        };
        // As above.
        let _ = self.run_to_completion(retiring).await;
    }

    async fn start(
        &self,
        name: String,
        resource: Resource,
        children: [Child; 2],
    ) -> Result<CacherHandle, AddResourceError> {
        let handle = resource.handle.clone();
        let message = AddChildren(children.into());
        if let Ok(Ok(())) = self.supervisor.ask_patiently(message).await {
            self.cached(name, resource);
            return Ok(handle);
        }
        for id in resource.children {
            self.context.statuses.remove(id);
        }
        handle.watch_cache.close();
        self.entries.lock().remove(&name);
        Err(AddResourceError::Stopped)
    }

    /// Removes a resource. Returns when nothing is left of it.
    pub(super) async fn remove(&self, name: &str) -> Result<(), RemoveResourceError> {
        let not_found = || RemoveResourceError::NotFound(name.to_owned());
        let resource = {
            let mut entries = self.entries.lock();
            let entry = entries.by_name.get_mut(name).ok_or_else(not_found)?;
            let changing = ResourceEntry::Changing(entry.arbiter());
            match std::mem::replace(entry, changing) {
                ResourceEntry::Cached(resource) => resource,
                ResourceEntry::Changing(_) => return Err(not_found()),
            }
        };
        let (resources, name) = (self.clone(), name.to_owned());
        let removed = async move {
            resources.tear_down(&name, resource).await?;
            resources.entries.lock().remove(&name);
            Ok(())
        };
        let removed = self.run_to_completion(removed).await;
        removed.unwrap_or(Err(RemoveResourceError::Stopped))
    }

    async fn tear_down(&self, name: &str, resource: Resource) -> Result<(), RemoveResourceError> {
        self.stop_children(name, resource).await?;
        if let Some(on_removed) = &self.on_removed {
            on_removed(name);
        }
        tracing::debug!(resource = name, "the resource is no longer cached");
        Ok(())
    }

    async fn stop_children(
        &self,
        name: &str,
        resource: Resource,
    ) -> Result<(), RemoveResourceError> {
        let is_unused = match &resource.unused {
            Some(unused) => unused.give_up().await,
            None => false,
        };
        if !is_unused {
            let message = RemoveChildren(resource.children.into());
            self.supervisor
                .ask_patiently(message)
                .await
                .map_err(|_| RemoveResourceError::Stopped)?;
        }
        let watch_cache = resource.handle.watch_cache;
        let closed = Arc::clone(&watch_cache);
        // This frees the ring, which may take some MiB: not on an actor's thread.
        tasks::spawn_blocking(move || closed.close())
            .await
            .map_err(|_| RemoveResourceError::Stopped)?;
        if timeout(LEAVE_WITHIN, watch_cache.all_left()).await.is_err() {
            tracing::warn!(
                resource = name,
                "the resource is removed, but an HTTP thread has not left it yet"
            );
        }
        Ok(())
    }

    /// Runs the work to its end, even if the caller goes away. `None` if no thread is left to
    /// run it on.
    async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (done, outcome) = oneshot::channel();
        self.context.arbiters.first()?.spawn(async move {
            // The caller may have gone away.
            let _ = done.send(work.await);
        });
        outcome.await.ok()
    }
}
