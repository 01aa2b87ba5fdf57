//! The resources that are cached: each has a Cacher and a Reflector, and may come and go while
//! everything else runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::child::{Child, ChildIds};
use super::config::{CacherSpec, OnRemoved};
use super::messages::{AddChildren, RemoveChildren};
use super::statuses::ActorStatuses;
use super::{Supervisor, children};
use crate::cacher::{CacherHandle, Shared};
use crate::exit::ChildId;
use crate::mailbox;
use crate::reflector::{Observed, Source};
use crate::ring::RingBudget;
use crate::slot::Slot;

/// A resource that was not added.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddResourceError {
    /// There is one of this name, or it is being added or removed.
    #[error("the resource {0} is cached already")]
    Exists(String),
    /// The actors are stopping or have stopped.
    #[error("the actors are stopping")]
    Stopped,
}

/// A resource that was not removed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RemoveResourceError {
    /// There is none of this name, or it is being added or removed.
    #[error("the resource {0} is not cached")]
    NotFound(String),
    /// The actors are stopping or have stopped.
    #[error("the actors are stopping")]
    Stopped,
}

/// How long HTTP threads may take to notice that a resource is gone. A removal does not fail
/// because of one that takes longer.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// See the module's documentation.
#[derive(Clone)]
pub(super) struct Resources {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    ids: Arc<ChildIds>,
    pub(super) budget: Arc<RingBudget>,
    arbiters: Arc<[ArbiterHandle]>,
    statuses: ActorStatuses,
    supervisor: Arc<Slot<Supervisor>>,
    on_removed: Option<OnRemoved>,
}

/// What a name stands for.
enum Entry {
    Cached(Resource),
    /// It is being added to this arbiter or removed from it: nobody else does either meanwhile.
    Changing(usize),
}

impl Entry {
    fn arbiter(&self) -> usize {
        match self {
            Entry::Cached(resource) => resource.arbiter,
            Entry::Changing(arbiter) => *arbiter,
        }
    }
}

/// A resource that is cached.
#[derive(Clone)]
pub(super) struct Resource {
    pub(super) handle: CacherHandle,
    pub(super) reflector: Observed,
    #[cfg(test)]
    pub(super) slot: Arc<Slot<crate::cacher::Cacher>>,
    /// Its Cacher and its Reflector.
    children: [ChildId; 2],
    /// The place of its arbiter among all.
    arbiter: usize,
}

/// What the resources share with the rest of the house.
pub(super) struct Surroundings {
    pub(super) ids: Arc<ChildIds>,
    pub(super) budget: Arc<RingBudget>,
    pub(super) arbiters: Arc<[ArbiterHandle]>,
    pub(super) statuses: ActorStatuses,
    pub(super) supervisor: Arc<Slot<Supervisor>>,
}

impl Resources {
    /// No resources yet.
    pub(super) fn new(surroundings: Surroundings, on_removed: Option<OnRemoved>) -> Resources {
        let Surroundings {
            ids,
            budget,
            arbiters,
            statuses,
            supervisor,
        } = surroundings;
        Resources {
            entries: Arc::default(),
            ids,
            budget,
            arbiters,
            statuses,
            supervisor,
            on_removed,
        }
    }

    /// A resource by its name.
    pub(super) fn get(&self, name: &str) -> Option<Resource> {
        match self.entries.lock().get(name)? {
            Entry::Cached(resource) => Some(resource.clone()),
            Entry::Changing(_) => None,
        }
    }

    /// All caches, by name of the resource.
    pub(super) fn handles(&self) -> Vec<CacherHandle> {
        let entries = self.entries.lock();
        let handles = entries.values().filter_map(|entry| match entry {
            Entry::Cached(resource) => Some(resource.handle.clone()),
            Entry::Changing(_) => None,
        });
        handles.collect()
    }

    /// How many resources run on each arbiter.
    #[cfg(test)]
    pub(super) fn loads(&self) -> Vec<usize> {
        loads(&self.entries.lock(), self.arbiters.len())
    }

    /// Takes up a resource whose children are started with all others.
    pub(super) fn insert(&self, spec: CacherSpec) -> Result<[Child; 2], AddResourceError> {
        let name = spec.resource.clone();
        let (resource, children) = self.begin(spec)?;
        self.entries.lock().insert(name, Entry::Cached(resource));
        Ok(children)
    }

    /// Reserves the name of a resource and makes its children.
    fn begin(&self, spec: CacherSpec) -> Result<(Resource, [Child; 2]), AddResourceError> {
        let mut entries = self.entries.lock();
        if entries.contains_key(&spec.resource) {
            return Err(AddResourceError::Exists(spec.resource));
        }
        let loads = loads(&entries, self.arbiters.len()).into_iter();
        let least_loaded = loads.zip(self.arbiters.iter()).enumerate();
        let least_loaded = least_loaded.min_by_key(|(_, (load, _))| *load);
        let Some((number, (_, arbiter))) = least_loaded else {
            return Err(AddResourceError::Stopped);
        };
        entries.insert(spec.resource.clone(), Entry::Changing(number));
        let (resource, children) = self.build(spec, number, arbiter);
        children.iter().for_each(|child| self.statuses.add(child));
        Ok((resource, children))
    }

    fn build(
        &self,
        spec: CacherSpec,
        number: usize,
        arbiter: &ArbiterHandle,
    ) -> (Resource, [Child; 2]) {
        let shared = Shared::new(
            spec.resource.clone(),
            spec.prefix.clone(),
            Arc::clone(&self.budget),
        );
        let slot = Slot::new("cacher", mailbox::CACHER);
        let observed = Observed::default();
        let source = Source {
            resource: spec.resource,
            prefix: spec.prefix,
            engine: spec.engine,
            decode: spec.decode,
            cacher: Arc::clone(&slot),
            observed: Arc::clone(&observed),
        };
        let reflector = Slot::new("reflector", mailbox::REFLECTOR);
        let ids = [self.ids.next(), self.ids.next()];
        let children = [
            children::cacher(ids[0], arbiter.clone(), Arc::clone(&shared), &slot),
            children::reflector(ids[1], arbiter.clone(), source, &reflector),
        ];
        let resource = Resource {
            handle: CacherHandle { shared },
            reflector: observed,
            #[cfg(test)]
            slot,
            children: ids,
            arbiter: number,
        };
        (resource, children)
    }

    /// Adds a resource to a house that runs. It is filled after this comes back.
    pub(super) async fn add(&self, spec: CacherSpec) -> Result<CacherHandle, AddResourceError> {
        let name = spec.resource.clone();
        let (resource, children) = self.begin(spec)?;
        let resources = self.clone();
        let added = async move { resources.start(name, resource, children).await };
        let added = self.to_its_end(added).await;
        added.unwrap_or(Err(AddResourceError::Stopped))
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
            self.entries.lock().insert(name, Entry::Cached(resource));
            return Ok(handle);
        }
        for id in resource.children {
            self.statuses.remove(id);
        }
        handle.shared.close();
        self.entries.lock().remove(&name);
        Err(AddResourceError::Stopped)
    }

    /// Removes a resource. Comes back when nothing is left of it.
    pub(super) async fn remove(&self, name: &str) -> Result<(), RemoveResourceError> {
        let not_found = || RemoveResourceError::NotFound(name.to_owned());
        let resource = {
            let mut entries = self.entries.lock();
            let entry = entries.get_mut(name).ok_or_else(not_found)?;
            let changing = Entry::Changing(entry.arbiter());
            match std::mem::replace(entry, changing) {
                Entry::Cached(resource) => resource,
                Entry::Changing(_) => return Err(not_found()),
            }
        };
        let (resources, name) = (self.clone(), name.to_owned());
        let removed = async move {
            resources.take_down(&name, resource).await?;
            resources.entries.lock().remove(&name);
            Ok(())
        };
        let removed = self.to_its_end(removed).await;
        removed.unwrap_or(Err(RemoveResourceError::Stopped))
    }

    async fn take_down(&self, name: &str, resource: Resource) -> Result<(), RemoveResourceError> {
        let message = RemoveChildren(resource.children.into());
        self.supervisor
            .ask_patiently(message)
            .await
            .map_err(|_| RemoveResourceError::Stopped)?;
        let shared = resource.handle.shared;
        let closed = Arc::clone(&shared);
        // A ring of some MiB is freed there.
        actix_rt::task::spawn_blocking(move || closed.close())
            .await
            .map_err(|_| RemoveResourceError::Stopped)?;
        if timeout(LEAVE_WITHIN, shared.all_left()).await.is_err() {
            tracing::warn!(
                resource = name,
                "the resource is removed, and an HTTP thread has not noticed it yet"
            );
        }
        if let Some(on_removed) = &self.on_removed {
            on_removed(name);
        }
        tracing::debug!(resource = name, "the resource is not cached any more");
        Ok(())
    }

    /// Does all of this, even if whoever waits for it goes away. `None` when there is no thread
    /// left to do it on.
    async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (done, outcome) = oneshot::channel();
        self.arbiters.first()?.spawn(async move {
            // Nobody may wait for it any more.
            let _ = done.send(work.await);
        });
        outcome.await.ok()
    }
}

/// How many resources run on each arbiter.
fn loads(entries: &BTreeMap<String, Entry>, arbiters: usize) -> Vec<usize> {
    let mut loads = vec![0; arbiters];
    for entry in entries.values() {
        if let Some(load) = loads.get_mut(entry.arbiter()) {
            *load += 1;
        }
    }
    loads
}
