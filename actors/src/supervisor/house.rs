//! All actors of the daemon but those that live on HTTP threads, as one thing to start and stop.

use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use actix_rt::{Arbiter, ArbiterHandle, System};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::child::{Child, ChildIds};
use super::config::{CacherSpec, HouseConfig, StoreSpec};
use super::messages::StopAll;
use super::resources::{AddResourceError, RemoveResourceError, Resources, Surroundings};
use super::statuses::{ActorState, ActorStatuses};
use super::{Supervisor, children};
use crate::cacher::{CacherHandle, Readiness};
use crate::compactor::CompactorHandle;
use crate::lessor::LessorHandle;
use crate::mailbox;
use crate::ring::RingBudget;
use crate::slot::Slot;
use crate::writer::WriterHandle;

/// A house that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HouseError {
    /// A thread or its runtime could not be made.
    #[error("a thread for the actors could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// Threads of actors belong to a system.
    #[error("the actors need a thread with an actix system to be started from")]
    NoSystem,
    /// Two resources have the same name.
    #[error(transparent)]
    Resource(#[from] AddResourceError),
}

/// One part of the house, for `/readyz?verbose` and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    /// Its name: `cacher/configmaps`, `compactor`.
    pub name: String,
    /// Whether it does its work.
    pub ready: bool,
    /// One phrase on what it is doing or why it isn't.
    pub text: String,
    /// How often it was restarted after a death.
    pub restarts: u64,
}

/// All parts of the house.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HouseState {
    /// In order of start.
    pub parts: Vec<PartState>,
}

impl HouseState {
    /// Whether every part does its work.
    pub fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| part.ready)
    }
}

/// The running house.
#[derive(Clone)]
pub struct House {
    resources: Resources,
    writers: WriterHandle,
    /// By name of the store, in the order they were given in.
    compactors: Arc<[(String, CompactorHandle)]>,
    /// The same.
    lessors: Arc<[(String, LessorHandle)]>,
    statuses: ActorStatuses,
    supervisor: Arc<Slot<Supervisor>>,
    alive: watch::Receiver<()>,
    threads: Arc<Mutex<Vec<Arbiter>>>,
}

/// How long [`House::stop`] may take for everything.
const STOP_WITHIN: Duration = Duration::from_secs(10);

impl House {
    /// Starts everything; returns before the caches are filled. Must be called on a thread with
    /// an actix system.
    ///
    /// # Errors
    /// [`HouseError`]
    pub fn start(config: HouseConfig, specs: Vec<CacherSpec>) -> Result<House, HouseError> {
        if System::try_current().is_none() {
            return Err(HouseError::NoSystem);
        }
        let threads = (0..config.data_arbiters.max(1))
            .map(|_| Arbiter::try_new())
            .collect::<Result<Vec<Arbiter>, _>>()?;
        let surroundings = Surroundings {
            ids: Arc::default(),
            budget: RingBudget::new(config.rings),
            arbiters: threads.iter().map(Arbiter::handle).collect(),
            statuses: ActorStatuses::default(),
            supervisor: Slot::new("supervisor", mailbox::SUPERVISOR),
        };
        let mut plan = Plan::new(&surroundings);
        let (statuses, supervisor) = (
            surroundings.statuses.clone(),
            Arc::clone(&surroundings.supervisor),
        );
        let resources = Resources::new(surroundings, config.on_removed);
        for spec in specs {
            plan.children.extend(resources.insert(spec)?);
        }
        let writers = plan.add_writers(config.writer_shards);
        let stores = config.stores.iter();
        let lessors = stores.map(|store| (store.name.clone(), plan.add_lessor(store)));
        let lessors = lessors.collect();
        let stores = config.stores.into_iter();
        let compactors = stores.map(|store| (store.name.clone(), plan.add_compactor(store)));
        let compactors = compactors.collect();
        let (alive, watch_alive) = watch::channel(());
        plan.start(config.restarts, &supervisor, alive);
        Ok(House {
            resources,
            writers,
            compactors,
            lessors,
            statuses,
            supervisor,
            alive: watch_alive,
            threads: Arc::new(Mutex::new(threads)),
        })
    }

    /// Caches a further resource. Its cache is filled after this comes back.
    ///
    /// # Errors
    /// [`AddResourceError`]
    pub async fn add_resource(&self, spec: CacherSpec) -> Result<CacherHandle, AddResourceError> {
        self.resources.add(spec).await
    }

    /// Stops caching a resource. Its watches end silently, so that clients come back and find out.
    /// Comes back when its Cacher and Reflector have ended and nothing is left of them: snapshot,
    /// ring, feed, topics, statuses, series of metrics. A resource of the same name may be added
    /// again from then on. Once begun it is done, whether or not anybody waits.
    ///
    /// # Errors
    /// [`RemoveResourceError`]
    pub async fn remove_resource(&self, resource: &str) -> Result<(), RemoveResourceError> {
        self.resources.remove(resource).await
    }

    /// The cache of a resource.
    pub fn cacher(&self, resource: &str) -> Option<CacherHandle> {
        Some(self.resources.get(resource)?.handle)
    }

    /// All caches, by name of the resource.
    pub fn cachers(&self) -> Vec<CacherHandle> {
        self.resources.handles()
    }

    /// Where to ask for turns at keys of a store.
    pub fn writers(&self, store: &str) -> WriterHandle {
        let number = self.compactors.iter().position(|(name, _)| name == store);
        self.writers.of_store(number.unwrap_or(0))
    }

    /// Where to ask for a compaction, by name of the store.
    pub fn compactors(&self) -> &[(String, CompactorHandle)] {
        &self.compactors
    }

    /// Where to ask for leases of a store.
    pub fn lessor(&self, store: &str) -> Option<LessorHandle> {
        let mut lessors = self.lessors.iter();
        let (_, lessor) = lessors.find(|(name, _)| name == store)?;
        Some(lessor.clone())
    }

    /// Lets what has outlived its lease be deleted from now on: for when the daemon is ready.
    pub fn begin_expiry(&self) {
        for (_, lessor) in self.lessors.iter() {
            lessor.begin();
        }
    }

    /// Waits until every cache has been filled once, or will never be (WC-46).
    pub async fn all_ready(&self) {
        for cacher in self.cachers() {
            cacher.settled().await;
        }
    }

    /// The same, but no longer than this; tells each cache that was not filled by then, with the
    /// reason where there is one.
    ///
    /// # Errors
    /// The lines to be told, one for each cache.
    pub async fn ready_within(&self, limit: Duration) -> Result<(), Vec<String>> {
        // What is ready or not is asked below.
        let _ = tokio::time::timeout(limit, self.all_ready()).await;
        let unfilled = self.cachers().into_iter().filter_map(|cacher| {
            let Readiness::Pending { last_error, .. } = cacher.readiness() else {
                return None;
            };
            let reason = last_error.unwrap_or_else(|| "still being read".to_owned());
            Some(format!("{}: {reason}", cacher.resource()))
        });
        let unfilled: Vec<String> = unfilled.collect();
        if unfilled.is_empty() {
            Ok(())
        } else {
            Err(unfilled)
        }
    }

    /// What every part is doing.
    pub fn state(&self) -> HouseState {
        let statuses = self.statuses.read().into_iter();
        let parts = statuses.map(|status| {
            let (mut ready, mut text) = match status.state {
                ActorState::Running => (true, "running".to_owned()),
                ActorState::Restarting => (false, "restarting after its death".to_owned()),
                ActorState::Degraded => (false, "died too often, left alone for now".to_owned()),
                ActorState::Stopped => (false, "stopped".to_owned()),
            };
            if ready && let Some(detail) = self.detail(&status.name) {
                (ready, text) = detail;
            }
            PartState {
                name: status.name,
                ready,
                text,
                restarts: status.restarts,
            }
        });
        HouseState {
            parts: parts.collect(),
        }
    }

    /// How many resources run on each arbiter.
    #[cfg(test)]
    pub(crate) fn loads(&self) -> Vec<usize> {
        self.resources.loads()
    }

    /// How many rings share the memory for rings.
    #[cfg(test)]
    pub(crate) fn rings(&self) -> usize {
        self.resources.budget.rings()
    }

    /// Makes a Cacher die as a fault in it would.
    #[cfg(test)]
    pub(crate) async fn panic_cacher(&self, resource: &str) {
        let slot = self.resources.get(resource).unwrap().slot;
        let answer = slot.ask_patiently(crate::cacher::messages::Panic).await;
        assert_eq!(answer, Err(crate::slot::AskError::Gone));
    }

    /// What a running part says of itself.
    fn detail(&self, name: &str) -> Option<(bool, String)> {
        let (kind, resource) = name.split_once('/')?;
        let resource = self.resources.get(resource)?;
        match kind {
            "cacher" => {
                let readiness = resource.handle.readiness();
                let mut text = readiness.describe();
                let snapshot = resource.handle.snapshot();
                match snapshot.map_or(0, |snapshot| snapshot.unreadable_count()) {
                    0 => {}
                    unreadable => text.push_str(&format!(", {unreadable} values can't be read")),
                }
                Some((readiness.is_ready(), text))
            }
            // A Reflector that lists shows in its Cacher's readiness; here it is only told.
            "reflector" => Some((true, resource.reflector.lock().describe())),
            _ => None,
        }
    }

    /// Comes back when the Supervisor has died, which the daemon must not outlive, or after
    /// [`House::stop`].
    pub async fn ended(&self) {
        let mut alive = self.alive.clone();
        // It is never written to, only dropped.
        while alive.changed().await.is_ok() {}
    }

    /// Stops everything in order: Compactors, Lessors, Reflectors, Writers, Cachers, Supervisor,
    /// threads.
    pub async fn stop(&self) {
        let deadline = Instant::now() + STOP_WITHIN;
        if let Err(error) = self.supervisor.ask(StopAll, deadline).await {
            tracing::warn!(%error, "the actors were not stopped in order");
        }
        tracing::debug!("actors stopped");
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in &threads {
            thread.stop();
        }
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        // A thread that panicked while stopping has nothing left to say.
        let _ = tokio::time::timeout_at(deadline, joined).await;
        tracing::debug!("threads of actors ended");
    }
}

/// What is started with the house.
struct Plan {
    children: Vec<Child>,
    ids: Arc<ChildIds>,
    arbiters: Arc<[ArbiterHandle]>,
    statuses: ActorStatuses,
}

impl Plan {
    fn new(surroundings: &Surroundings) -> Plan {
        Plan {
            children: Vec::new(),
            ids: Arc::clone(&surroundings.ids),
            arbiters: Arc::clone(&surroundings.arbiters),
            statuses: surroundings.statuses.clone(),
        }
    }

    fn add(&mut self, child: Child) {
        self.statuses.add(&child);
        self.children.push(child);
    }

    fn add_writers(&mut self, shards: usize) -> WriterHandle {
        let arbiters = Arc::clone(&self.arbiters);
        let shards = (0..shards.max(1)).zip(arbiters.iter().cycle());
        let slots = shards.map(|(number, arbiter)| {
            let slot = Slot::new("writer", mailbox::WRITER);
            let writer = children::writer(self.ids.next(), arbiter.clone(), number, &slot);
            self.add(writer);
            slot
        });
        WriterHandle::new(slots)
    }

    fn add_compactor(&mut self, store: StoreSpec) -> CompactorHandle {
        let slot = Slot::new("compactor", mailbox::COMPACTOR);
        if let Some(arbiter) = self.arbiters.first().cloned() {
            self.add(children::compactor(self.ids.next(), arbiter, store, &slot));
        }
        CompactorHandle { slot }
    }

    fn add_lessor(&mut self, store: &StoreSpec) -> LessorHandle {
        let handle = LessorHandle::new(store.engine.clone(), store.leases);
        if let Some(arbiter) = self.arbiters.first().cloned() {
            let slot = Slot::new("lessor", mailbox::LESSOR);
            let (name, handle) = (store.name.clone(), handle.clone());
            let lessor = children::lessor(self.ids.next(), arbiter, name, handle, &slot);
            self.add(lessor);
        }
        handle
    }

    fn start(
        self,
        restarts: super::RestartBudget,
        supervisor: &Slot<Supervisor>,
        alive: watch::Sender<()>,
    ) {
        let (children, statuses) = (self.children, self.statuses);
        if let Some(arbiter) = self.arbiters.first() {
            supervisor.fill(Supervisor::start_in_arbiter(arbiter, move |_| {
                Supervisor::new(children, restarts, statuses, alive)
            }));
        }
    }
}
