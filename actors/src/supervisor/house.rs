//! All actors of the daemon but those that live on HTTP threads, as one thing to start and stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use actix_rt::{Arbiter, ArbiterHandle, System};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::board::{Board, Standing};
use super::child::Child;
use super::config::{CacherSpec, HouseConfig, StoreSpec};
use super::messages::StopAll;
use super::{Supervisor, children};
use crate::cacher::{CacherHandle, Readiness, Shared};
use crate::compactor::CompactorHandle;
use crate::lessor::LessorHandle;
use crate::mailbox;
use crate::reflector::{Observed, Source};
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
    cachers: Arc<BTreeMap<String, Cached>>,
    writers: WriterHandle,
    /// By name of the store, in the order they were given in.
    compactors: Arc<[(String, CompactorHandle)]>,
    /// The same.
    lessors: Arc<[(String, LessorHandle)]>,
    board: Board,
    supervisor: Arc<Slot<Supervisor>>,
    alive: watch::Receiver<()>,
    threads: Arc<Mutex<Vec<Arbiter>>>,
}

struct Cached {
    handle: CacherHandle,
    reflector: Observed,
    #[cfg(test)]
    slot: Arc<Slot<crate::cacher::Cacher>>,
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
        let arbiters: Vec<ArbiterHandle> = threads.iter().map(Arbiter::handle).collect();
        let mut plan = Plan::default();
        let budget = RingBudget::new(config.rings);
        let mut cachers = BTreeMap::new();
        for (spec, arbiter) in specs.into_iter().zip(arbiters.iter().cycle()) {
            let resource = spec.resource.clone();
            let cached = plan.add_cacher(spec, &budget, arbiter);
            cachers.insert(resource, cached);
        }
        let writers = plan.add_writers(config.writer_shards, &arbiters);
        let stores = config.stores.iter();
        let lessors = stores.map(|store| (store.name.clone(), plan.add_lessor(store, &arbiters)));
        let lessors = lessors.collect();
        let stores = config.stores.into_iter();
        let compactors =
            stores.map(|store| (store.name.clone(), plan.add_compactor(store, &arbiters)));
        let compactors = compactors.collect();
        let board = Board::default();
        let children = plan.into_children();
        for child in &children {
            board.add(child.name.clone());
        }
        let (alive, watch_alive) = watch::channel(());
        let supervisor = Slot::new("supervisor", mailbox::SUPERVISOR);
        if let Some(arbiter) = arbiters.first() {
            let restarts = config.restarts;
            let board = board.clone();
            supervisor.fill(Supervisor::start_in_arbiter(arbiter, move |_| {
                Supervisor::new(children, restarts, board, alive)
            }));
        }
        Ok(House {
            cachers: Arc::new(cachers),
            writers,
            compactors,
            lessors,
            board,
            supervisor,
            alive: watch_alive,
            threads: Arc::new(Mutex::new(threads)),
        })
    }

    /// The cache of a resource.
    pub fn cacher(&self, resource: &str) -> Option<CacherHandle> {
        Some(self.cachers.get(resource)?.handle.clone())
    }

    /// All caches, by name of the resource.
    pub fn cachers(&self) -> impl Iterator<Item = &CacherHandle> {
        self.cachers.values().map(|cached| &cached.handle)
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
        let unfilled = self.cachers().filter_map(|cacher| {
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
        let lines = self.board.read().into_iter();
        let parts = lines.map(|line| {
            let (mut ready, mut text) = match line.standing {
                Standing::Running => (true, "running".to_owned()),
                Standing::Restarting => (false, "restarting after its death".to_owned()),
                Standing::Degraded => (false, "died too often, left alone for now".to_owned()),
                Standing::Stopped => (false, "stopped".to_owned()),
            };
            if ready && let Some(detail) = self.detail(&line.name) {
                (ready, text) = detail;
            }
            PartState {
                name: line.name,
                ready,
                text,
                restarts: line.restarts,
            }
        });
        HouseState {
            parts: parts.collect(),
        }
    }

    /// Makes a Cacher die as a fault in it would.
    #[cfg(test)]
    pub(crate) async fn panic_cacher(&self, resource: &str) {
        let slot = &self.cachers[resource].slot;
        let answer = slot.ask_patiently(crate::cacher::messages::Panic).await;
        assert_eq!(answer, Err(crate::slot::AskError::Gone));
    }

    /// What a running part says of itself.
    fn detail(&self, name: &str) -> Option<(bool, String)> {
        let (kind, resource) = name.split_once('/')?;
        let cached = self.cachers.get(resource)?;
        match kind {
            "cacher" => {
                let readiness = cached.handle.readiness();
                let mut text = readiness.describe();
                let snapshot = cached.handle.snapshot();
                match snapshot.map_or(0, |snapshot| snapshot.unreadable_count()) {
                    0 => {}
                    unreadable => text.push_str(&format!(", {unreadable} values can't be read")),
                }
                Some((readiness.is_ready(), text))
            }
            // A Reflector that lists shows in its Cacher's readiness; here it is only told.
            "reflector" => Some((true, cached.reflector.lock().describe())),
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

/// The children in order of start, which is the reverse of the order of stop.
#[derive(Default)]
struct Plan {
    cachers: Vec<Child>,
    writers: Vec<Child>,
    reflectors: Vec<Child>,
    lessors: Vec<Child>,
    compactors: Vec<Child>,
}

impl Plan {
    fn add_cacher(
        &mut self,
        spec: CacherSpec,
        budget: &Arc<RingBudget>,
        arbiter: &ArbiterHandle,
    ) -> Cached {
        let shared = Shared::new(
            spec.resource.clone(),
            spec.prefix.clone(),
            Arc::clone(budget),
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
        let cacher = children::cacher(arbiter.clone(), Arc::clone(&shared), &slot);
        self.cachers.push(cacher);
        let reflector = children::reflector(arbiter.clone(), source, &reflector);
        self.reflectors.push(reflector);
        Cached {
            handle: CacherHandle { shared },
            reflector: observed,
            #[cfg(test)]
            slot,
        }
    }

    fn add_writers(&mut self, shards: usize, arbiters: &[ArbiterHandle]) -> WriterHandle {
        let shards = (0..shards.max(1)).zip(arbiters.iter().cycle());
        let slots = shards.map(|(number, arbiter)| {
            let slot = Slot::new("writer", mailbox::WRITER);
            let writer = children::writer(arbiter.clone(), number, &slot);
            self.writers.push(writer);
            slot
        });
        WriterHandle::new(slots)
    }

    fn add_compactor(&mut self, store: StoreSpec, arbiters: &[ArbiterHandle]) -> CompactorHandle {
        let slot = Slot::new("compactor", mailbox::COMPACTOR);
        if let Some(arbiter) = arbiters.first() {
            let compactor = children::compactor(arbiter.clone(), store, &slot);
            self.compactors.push(compactor);
        }
        CompactorHandle { slot }
    }

    fn add_lessor(&mut self, store: &StoreSpec, arbiters: &[ArbiterHandle]) -> LessorHandle {
        let handle = LessorHandle::new(store.engine.clone(), store.leases);
        if let Some(arbiter) = arbiters.first() {
            let slot = Slot::new("lessor", mailbox::LESSOR);
            let (name, handle) = (store.name.clone(), handle.clone());
            let lessor = children::lessor(arbiter.clone(), name, handle, &slot);
            self.lessors.push(lessor);
        }
        handle
    }

    fn into_children(self) -> Vec<Child> {
        let Plan {
            mut cachers,
            writers,
            reflectors,
            lessors,
            compactors,
        } = self;
        cachers.extend(writers);
        cachers.extend(reflectors);
        cachers.extend(lessors);
        cachers.extend(compactors);
        cachers
    }
}
