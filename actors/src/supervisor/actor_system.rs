//! Starts and stops all actors of the daemon, except the Dispatchers of the HTTP threads.

use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use actix_rt::{Arbiter, System};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::child::Child;
use super::child_specs::ChildContext;
use super::child_statuses::{ChildState, ChildStatuses};
use super::config::{ActorSystemConfig, CacherSpec, StoreSpec};
use super::messages::StopAll;
use super::resources::{AddResourceError, RemoveResourceError, Replaced, Replacement, Resources};
use super::{Supervisor, child_specs};
use crate::actor_ref::ActorRef;
use crate::cacher::{CacherHandle, Readiness};
use crate::compactor::CompactorHandle;
use crate::lessor::LessorHandle;
use crate::mailbox;
use crate::ring::RingBudget;
use crate::tasks;
use crate::threads;
use crate::watchdog::Watchdog;
use crate::writer::WriterHandle;

/// Why the actors could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ActorSystemError {
    /// A thread or its runtime could not be created.
    #[error("a thread for the actors could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// The calling thread has no actix system.
    #[error("the actors need a thread with an actix system to be started from")]
    NoSystem,
    /// Two resources have the same name.
    #[error(transparent)]
    Resource(#[from] AddResourceError),
}

/// The status of one actor, for `/readyz?verbose` and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorStatus {
    /// Its name: `cacher/configmaps`, `compactor`.
    pub name: String,
    /// Whether it works.
    pub ready: bool,
    /// One phrase: what it is doing, or why it does not work.
    pub text: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// Whether it died too often, so that it is left alone for a while.
    pub is_degraded: bool,
}

/// The status of every actor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActorSystemState {
    /// In the order in which they are started.
    pub actors: Vec<ActorStatus>,
}

impl ActorSystemState {
    /// Whether every actor works.
    pub fn is_ready(&self) -> bool {
        self.actors.iter().all(|actor| actor.ready)
    }
}

/// The running actors. Cheap to clone.
#[derive(Clone)]
pub struct ActorSystem {
    resources: Resources,
    writers: WriterHandle,
    /// With the name of the store, in the order of the configuration.
    compactors: Arc<[(String, CompactorHandle)]>,
    /// With the name of the store, in the order of the configuration.
    lessors: Arc<[(String, LessorHandle)]>,
    statuses: ChildStatuses,
    supervisor: Arc<ActorRef<Supervisor>>,
    alive: watch::Receiver<()>,
    threads: Arc<Mutex<Vec<Arbiter>>>,
}

/// How long [`ActorSystem::stop`] waits for all actors to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

impl ActorSystem {
    /// Starts all actors. It returns before the caches are filled. It must be called on a thread
    /// with an actix system.
    ///
    /// # Errors
    /// [`ActorSystemError`]
    pub fn start(
        config: ActorSystemConfig,
        specs: Vec<CacherSpec>,
    ) -> Result<ActorSystem, ActorSystemError> {
        if System::try_current().is_none() {
            return Err(ActorSystemError::NoSystem);
        }
        let threads = (0..config.data_arbiters.max(1))
            .map(|_| threads::spawn_arbiter())
            .collect::<Result<Vec<Arbiter>, _>>()?;
        let statuses = ChildStatuses::default();
        let context = ChildContext {
            ids: Arc::default(),
            arbiters: threads.iter().map(Arbiter::handle).collect(),
            statuses: statuses.clone(),
        };
        let supervisor = ActorRef::new("supervisor", mailbox::SUPERVISOR);
        let mut initial = InitialChildren::new(context.clone());
        let resources = Resources::new(
            context,
            RingBudget::new(config.rings),
            Arc::clone(&supervisor),
            config.on_removed,
        );
        for spec in specs {
            initial.children.extend(resources.insert(spec)?);
        }
        let writers = initial.add_writers(config.writer_shards);
        let stores = config.stores.iter();
        let lessors = stores.map(|store| (store.name.clone(), initial.add_lessor(store)));
        let lessors = lessors.collect();
        let stores = config.stores.into_iter();
        let compactors = stores.map(|store| (store.name.clone(), initial.add_compactor(store)));
        let compactors = compactors.collect();
        for (number, thread) in threads.iter().enumerate() {
            thread.spawn(config.watchdog.probe(format!("data/{number}")));
        }
        let (alive, watch_alive) = watch::channel(());
        let watchdog = config.watchdog;
        initial.start(config.restarts, watchdog, &supervisor, alive);
        Ok(ActorSystem {
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

    /// Adds a cached resource. Its cache is filled after this returns.
    ///
    /// # Errors
    /// [`AddResourceError`]
    pub async fn add_resource(&self, spec: CacherSpec) -> Result<CacherHandle, AddResourceError> {
        self.resources.add(spec).await
    }

    /// Adds a cached resource whose cache is filled at its first use: see
    /// [`CacherHandle::in_use`]. Until then it has no actors.
    ///
    /// # Errors
    /// [`AddResourceError`]
    pub fn add_unused_resource(&self, spec: CacherSpec) -> Result<CacherHandle, AddResourceError> {
        self.resources.add_unused(spec)
    }

    /// Removes a cached resource. Its watches end without an error, so clients reconnect and see
    /// that it is gone. This returns when the Cacher and the Reflector have ended and nothing of
    /// them is left: snapshot, ring, feed, topics, statuses, metric series. The same name can then
    /// be added again. A removal that has begun is completed even if the caller goes away.
    ///
    /// # Errors
    /// [`RemoveResourceError`]
    pub async fn remove_resource(&self, resource: &str) -> Result<(), RemoveResourceError> {
        self.resources.remove(resource).await
    }

    /// Starts a second cache of a cached resource, with other settings. The first one serves until
    /// [`ActorSystem::replace`]. If nobody has used the first one, nobody has used the second one.
    ///
    /// # Errors
    /// [`AddResourceError::Stopped`]
    pub async fn begin_replacement(
        &self,
        spec: CacherSpec,
    ) -> Result<Replacement, AddResourceError> {
        self.resources.begin_replacement(spec).await
    }

    /// Makes a second cache that of its resource. Returns the first one, which serves those who
    /// still use it until [`ActorSystem::retire`].
    pub fn replace(&self, replacement: Replacement) -> Option<Replaced> {
        self.resources.replace(replacement)
    }

    /// Stops a cache that was replaced, or that will not replace another one. Its watches end
    /// without an error.
    pub async fn retire(&self, cache: impl Into<Replaced>) {
        self.resources.retire(cache.into()).await;
    }

    /// Has the cache of a resource filled again, which ends its watches. It serves its current
    /// content until then. Does nothing for a resource that is not cached.
    pub fn refill(&self, resource: &str) {
        if let Some(resource) = self.resources.get(resource) {
            resource.relist.notify_one();
        }
    }

    /// The cache of a resource.
    pub fn cacher(&self, resource: &str) -> Option<CacherHandle> {
        Some(self.resources.get(resource)?.handle)
    }

    /// All caches, by name of the resource.
    pub fn cachers(&self) -> Vec<CacherHandle> {
        self.resources.handles()
    }

    /// The Writers, for the keys of a store.
    pub fn writers(&self, store: &str) -> WriterHandle {
        let number = self.compactors.iter().position(|(name, _)| name == store);
        self.writers.of_store(number.unwrap_or(0))
    }

    /// The Compactors, with the names of their stores.
    pub fn compactors(&self) -> &[(String, CompactorHandle)] {
        &self.compactors
    }

    /// The Lessor of a store.
    pub fn lessor(&self, store: &str) -> Option<LessorHandle> {
        let mut lessors = self.lessors.iter();
        let (_, lessor) = lessors.find(|(name, _)| name == store)?;
        Some(lessor.clone())
    }

    /// Starts the deletion of keys whose lease has expired. Call it when the daemon is ready.
    pub fn begin_expiry(&self) {
        for (_, lessor) in self.lessors.iter() {
            lessor.begin();
        }
    }

    /// Waits until the keys are deleted whose lease has expired by now
    /// ([`LessorHandle::expired`]).
    pub async fn expired(&self) {
        for (_, lessor) in self.lessors.iter() {
            lessor.expired().await;
        }
    }

    /// Waits until every cache that is in use has been filled once or is stopped (WC-46).
    pub async fn all_ready(&self) {
        let cachers = self.cachers().into_iter();
        for cacher in cachers.filter(|cacher| !cacher.is_unused()) {
            cacher.settled().await;
        }
    }

    /// Waits until every cache that is in use has been filled once, at most for `limit`.
    ///
    /// # Errors
    /// One line for each cache that is not filled by then, with the reason.
    pub async fn ready_within(&self, limit: Duration) -> Result<(), Vec<String>> {
        // A timeout is not an error here: the caches are asked below.
        let _ = tokio::time::timeout(limit, self.all_ready()).await;
        let cachers = self.cachers().into_iter();
        let cachers = cachers.filter(|cacher| !cacher.is_unused());
        let unfilled = cachers.filter_map(|cacher| {
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

    /// The status of every actor.
    pub fn state(&self) -> ActorSystemState {
        let statuses = self.statuses.read().into_iter();
        let actors = statuses.map(|status| {
            let (mut ready, mut text) = match status.state {
                ChildState::Running => (true, "running".to_owned()),
                ChildState::Restarting => (false, "restarting after its death".to_owned()),
                ChildState::Degraded => (false, "died too often, left alone for now".to_owned()),
                ChildState::Stopped => (false, "stopped".to_owned()),
            };
            if ready && let Some(detail) = self.detail(&status.name) {
                (ready, text) = detail;
            }
            ActorStatus {
                name: status.name,
                ready,
                text,
                restarts: status.restarts,
                is_degraded: status.state == ChildState::Degraded,
            }
        });
        ActorSystemState {
            actors: actors.collect(),
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

    /// Makes a Cacher panic.
    #[cfg(test)]
    pub(crate) async fn panic_cacher(&self, resource: &str) {
        let actor_ref = self.resources.get(resource).unwrap().actor_ref;
        let answer = actor_ref
            .ask_patiently(crate::cacher::messages::Panic)
            .await;
        assert_eq!(answer, Err(crate::actor_ref::AskError::Gone));
    }

    /// The state that a running actor reports of itself.
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
            // A Reflector that lists does not count as unready: its Cacher already does.
            "reflector" => Some((true, resource.reflector.lock().describe())),
            _ => None,
        }
    }

    /// Returns when the Supervisor has ended: after [`ActorSystem::stop`], or after a panic, which
    /// must end the daemon.
    pub async fn ended(&self) {
        let mut alive = self.alive.clone();
        // Nothing is ever sent. The sender is dropped with the Supervisor.
        while alive.changed().await.is_ok() {}
    }

    /// Stops all actors in this order: Compactors, Lessors, Reflectors, Writers, Cachers, the
    /// Supervisor. Then it stops their threads.
    pub async fn stop(&self) {
        let deadline = Instant::now() + STOP_WITHIN;
        if let Err(error) = self.supervisor.ask(StopAll, deadline).await {
            tracing::warn!(%error, "the actors were not stopped in order; their threads are stopped now");
        }
        tracing::debug!("actors stopped");
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in &threads {
            thread.stop();
        }
        let joined = tasks::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        // A thread that panicked while it stopped has logged the panic.
        let _ = tokio::time::timeout_at(deadline, joined).await;
        tracing::debug!("threads of actors ended");
    }
}

/// The children that are started with the Supervisor.
struct InitialChildren {
    children: Vec<Child>,
    context: ChildContext,
}

impl InitialChildren {
    fn new(context: ChildContext) -> InitialChildren {
        InitialChildren {
            children: Vec::new(),
            context,
        }
    }

    fn add(&mut self, child: Child) {
        self.context.statuses.add(&child);
        self.children.push(child);
    }

    fn add_writers(&mut self, shards: usize) -> WriterHandle {
        let arbiters = Arc::clone(&self.context.arbiters);
        let shards = (0..shards.max(1)).zip(arbiters.iter().cycle());
        let actor_refs = shards.map(|(number, arbiter)| {
            let actor_ref = ActorRef::new("writer", mailbox::WRITER);
            let writer =
                child_specs::writer(self.context.ids.next(), arbiter.clone(), number, &actor_ref);
            self.add(writer);
            actor_ref
        });
        WriterHandle::new(actor_refs)
    }

    fn add_compactor(&mut self, store: StoreSpec) -> CompactorHandle {
        let actor_ref = ActorRef::new("compactor", mailbox::COMPACTOR);
        if let Some(arbiter) = self.context.arbiters.first().cloned() {
            self.add(child_specs::compactor(
                self.context.ids.next(),
                arbiter,
                store,
                &actor_ref,
            ));
        }
        CompactorHandle { actor_ref }
    }

    fn add_lessor(&mut self, store: &StoreSpec) -> LessorHandle {
        let handle = LessorHandle::new(store.engine.clone(), store.leases);
        if let Some(arbiter) = self.context.arbiters.first().cloned() {
            let actor_ref = ActorRef::new("lessor", mailbox::LESSOR);
            let (name, handle) = (store.name.clone(), handle.clone());
            let lessor =
                child_specs::lessor(self.context.ids.next(), arbiter, name, handle, &actor_ref);
            self.add(lessor);
        }
        handle
    }

    fn start(
        self,
        restarts: super::RestartBudget,
        watchdog: Watchdog,
        supervisor: &ActorRef<Supervisor>,
        alive: watch::Sender<()>,
    ) {
        let (children, statuses) = (self.children, self.context.statuses);
        if let Some(arbiter) = self.context.arbiters.first() {
            supervisor.set(Supervisor::start_in_arbiter(arbiter, move |_| {
                Supervisor::new(children, restarts, statuses, watchdog, alive)
            }));
        }
    }
}
