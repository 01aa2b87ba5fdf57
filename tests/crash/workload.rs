//! A random workload on a store, and a record of the store's promises.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    At, Change, DataEngine, EngineError, Event, EventKind, Expect, HistoryRequest, Key, KeyValue,
    LeaseEngine, MaintenanceEngine, Mutation, Origin, Outcome, Prefix, Prepared, RangeRequest,
    Revision,
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions, OpenError};

use crate::disk::{Dice, SimulatedDisk};
use crate::leases::{self, Clock, Given, Leases};

/// The promises of a store: acknowledged or fed events, and a horizon.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// By revision.
    pub events: BTreeMap<Revision, Event>,
    pub compacted: Revision,
}

impl Promises {
    pub fn newest(&self) -> Revision {
        self.events
            .last_key_value()
            .map_or(Revision::ZERO, |(revision, _)| *revision)
    }

    pub fn add(&mut self, event: &Event) {
        let known = self
            .events
            .entry(event.revision)
            .or_insert_with(|| event.clone());
        assert_eq!(
            known.value, event.value,
            "revision {} was used twice",
            event.revision
        );
        assert_eq!(
            known.key, event.key,
            "revision {} was used twice",
            event.revision
        );
    }

    /// The state after a revision.
    pub fn state_at(&self, at: Revision) -> BTreeMap<Key, (Revision, Bytes)> {
        let mut state = BTreeMap::new();
        for (revision, event) in self.events.range(..=at) {
            match event.kind {
                EventKind::Put => {
                    state.insert(event.key.clone(), (*revision, event.value.clone()));
                }
                EventKind::Delete => {
                    state.remove(&event.key);
                }
            }
        }
        state
    }
}

pub fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("/nowhere");
    options.cache_bytes = 256 * 1024;
    options.ballast_bytes = 0;
    // Small, so that its files change often.
    options.journal_bytes = 128 * 1024;
    // Many checkpoints, beside which groups go to the next epoch.
    options.checkpoint_bytes = 16 * 1024;
    options.checkpoint_pause = Duration::from_millis(500);
    options.reserve_bytes = 0;
    options.reader_threads = 1;
    options.value_bytes_max = 1 << 20;
    options.reopen_pause_max = std::time::Duration::from_millis(10);
    options.verdict_wait = std::time::Duration::from_millis(50);
    options
}

pub fn open(disk: &SimulatedDisk) -> Result<Arc<EmbeddedEngine>, OpenError> {
    EmbeddedEngine::open_on(Arc::new(disk.clone()), options())
}

/// Opens a store under this clock, whose wall clock is so many seconds behind.
pub fn open_at(
    disk: &SimulatedDisk,
    clock: &Clock,
    behind: u64,
) -> Result<Arc<EmbeddedEngine>, OpenError> {
    let mut options = options();
    clock.set(&mut options, behind);
    EmbeddedEngine::open_on(Arc::new(disk.clone()), options)
}

/// Compares two states and says in few words where they differ.
#[track_caller]
pub fn same_state(
    found: &BTreeMap<Key, (Revision, Bytes)>,
    expected: &BTreeMap<Key, (Revision, Bytes)>,
    at: Revision,
) {
    let outline = |state: &BTreeMap<Key, (Revision, Bytes)>| -> Vec<(String, u64)> {
        state
            .iter()
            .map(|(key, (revision, _))| (key.to_string(), revision.0))
            .collect()
    };
    assert_eq!(outline(found), outline(expected), "the state at {at}");
    assert!(found == expected, "values of the state at {at}");
}

/// A store under load.
pub struct Workload {
    pub engine: Arc<EmbeddedEngine>,
    pub disk: SimulatedDisk,
    pub promises: Arc<Mutex<Promises>>,
    pub dice: Dice,
    /// What the load believes of its keys.
    believed: BTreeMap<Key, Revision>,
    /// Values of mutations that certainly did nothing.
    pub rejected: Vec<Bytes>,
    /// Nothing after this is compacted: what nobody has seen must not vanish unseen.
    pub seen: Revision,
    serial: u64,
    pub clock: Clock,
    pub leases: Arc<Mutex<Leases>>,
    /// Every event up to here is among the promises.
    noted: Revision,
}

impl Workload {
    pub fn begin(disk: SimulatedDisk, seed: u64) -> Workload {
        let clock = Clock::at(1_700_000_000);
        Workload {
            engine: open_at(&disk, &clock, 0).unwrap(),
            disk,
            promises: Arc::default(),
            dice: Dice::new(seed),
            believed: BTreeMap::new(),
            rejected: Vec::new(),
            seen: Revision::MAX,
            serial: 0,
            clock,
            leases: Arc::default(),
            noted: Revision::ZERO,
        }
    }

    /// A random mutation of one of a few keys; mostly one whose precondition holds.
    fn mutation(&mut self) -> Mutation {
        let resource = ["pods", "configmaps"][self.dice.roll(2) as usize];
        let key = Key::new(format!("/registry/{resource}/ns/{:02}", self.dice.roll(24)));
        let expect = match self.believed.get(&key) {
            Some(revision) => Expect::Unchanged(*revision),
            None => Expect::Absent,
        };
        self.serial += 1;
        let room = match self.dice.roll(44) {
            0 => 40_000,
            1..=4 => 5_000,
            5..=15 => 20,
            _ => 1_100,
        };
        let mut value = format!("{:016x}-", self.serial).into_bytes();
        value.resize(value.len() + self.dice.roll(room) as usize, b'v');
        let delete = matches!(expect, Expect::Unchanged(_)) && self.dice.roll(4) == 0;
        Mutation {
            key,
            expect,
            change: if delete {
                Change::Delete
            } else {
                Change::Put {
                    value: Bytes::from(value),
                    lease: leases::choose(&mut self.dice, &self.leases.lock()),
                }
            },
            origin: Origin::default(),
            prepared: Prepared::default(),
        }
    }

    /// Records an answer.
    fn note(&mut self, mutation: &Mutation, answer: &Result<Outcome, EngineError>) {
        match answer {
            Ok(Outcome::Committed(event)) => {
                self.promises.lock().add(event);
                self.believe(
                    &mutation.key,
                    (event.kind == EventKind::Put).then_some(event.revision),
                );
            }
            Ok(Outcome::Refused { current, .. }) => {
                self.believe(&mutation.key, current.as_ref().map(|item| item.revision));
            }
            Err(EngineError::OutcomeUnknown(_)) => {}
            Err(_) => {
                if let Change::Put { value, .. } = &mutation.change {
                    self.rejected.push(value.clone());
                }
            }
        }
    }

    fn believe(&mut self, key: &Key, revision: Option<Revision>) {
        match revision {
            Some(revision) => self.believed.insert(key.clone(), revision),
            None => self.believed.remove(key),
        };
    }

    /// One commit by itself.
    pub async fn single(&mut self) -> Result<Outcome, EngineError> {
        let mutation = self.mutation();
        let answer = self.engine.commit(mutation.clone()).await;
        self.note(&mutation, &answer);
        answer
    }

    /// Commits that share one transaction, whatever the threads do: the writer is held in
    /// another one while they queue.
    pub async fn group(&mut self, count: u64) {
        let known = self
            .engine
            .known(&Prefix::new("/registry/"))
            .revision
            .min(self.seen);
        let horizon = Revision(self.engine.compacted().0 + 1).min(known);
        let mutations: Vec<Mutation> = (0..count).map(|_| self.mutation()).collect();
        let engine = Arc::clone(&self.engine);
        self.disk.close_gate();
        let mut held = Queued::new(engine.compact(horizon));
        held.start();
        // A horizon that is compacted already needs no transaction, and nothing waits.
        if horizon > engine.compacted() {
            self.disk.wait_at_gate();
        }
        let mut commits: Vec<_> = mutations
            .iter()
            .map(|mutation| Queued::new(engine.commit(mutation.clone())))
            .collect();
        for commit in &mut commits {
            commit.start();
        }
        self.disk.open_gate();
        if held.finish().await.is_ok() {
            let mut promises = self.promises.lock();
            promises.compacted = promises.compacted.max(horizon);
        }
        let answers = join_all(commits.into_iter().map(Queued::finish)).await;
        for (mutation, answer) in mutations.iter().zip(&answers) {
            self.note(mutation, answer);
        }
    }

    /// One step of a random load.
    pub async fn step(&mut self) {
        match self.dice.roll(20) {
            16 => self.grant().await,
            17 => self.revoke().await,
            18 => self.clock.pass(self.dice.roll(5)),
            19 => {
                let _ = self.engine.expire().await;
                self.note_deletions().await;
            }
            0..=6 => {
                let _ = self.single().await;
            }
            7..=11 => {
                let count = self.dice.roll(12) + 2;
                self.group(count).await;
            }
            12..=13 => {
                // Removes a bit; an error is the disk's, and the load goes on.
                let _ = self.engine.maintain(false).await;
            }
            14 => {
                let known = self.engine.known(&Prefix::new("/registry/")).revision;
                let horizon = Revision(known.0 * 3 / 4).min(self.seen);
                if self.engine.compact(horizon).await.is_ok() {
                    let mut promises = self.promises.lock();
                    promises.compacted = promises.compacted.max(horizon);
                }
            }
            _ => self.reclaim().await,
        }
    }

    async fn grant(&mut self) {
        let ttl = [4, 20, 3600][self.dice.roll(3) as usize];
        let given = Given {
            deadline: self.clock.now() + ttl,
            ending: false,
            ended: false,
        };
        let granted = self.engine.grant(Duration::from_secs(ttl)).await;
        if let Ok(lease) = granted {
            let before = self.leases.lock().insert(lease.id, given);
            assert!(before.is_none(), "{lease:?} was granted twice");
        }
    }

    async fn revoke(&mut self) {
        let lease = leases::choose(&mut self.dice, &self.leases.lock());
        if let Some(given) = self.leases.lock().get_mut(&lease) {
            given.ending = true;
        }
        let revoked = self.engine.revoke(lease).await;
        if let (Ok(()), Some(given)) = (revoked, self.leases.lock().get_mut(&lease)) {
            given.ended = true;
        }
        self.note_deletions().await;
    }

    /// Records the engine's own deletions. An error comes from the disk, and the next call finds
    /// the deletions.
    pub async fn note_deletions(&mut self) {
        let request = HistoryRequest {
            prefix: Prefix::new("/registry/"),
            after: self.noted.max(self.engine.compacted()),
            until: Revision::MAX,
            bytes_max: usize::MAX,
        };
        let Ok(chunk) = self.engine.history(request).await else {
            return;
        };
        for event in &chunk.events {
            self.promises.lock().add(event);
            let is_put = event.kind == EventKind::Put;
            self.believe(&event.key, is_put.then_some(event.revision));
        }
        self.noted = chunk.reached;
    }

    /// Makes the engine rebuild the log.
    pub async fn reclaim(&mut self) {
        self.disk.world().faults.bloated = true;
        while let Ok(step) = self.engine.maintain(true).await
            && step.more
        {}
        self.disk.world().faults.bloated = false;
    }
}

/// A future that is started in a known order and awaited later.
struct Queued<'f, T> {
    future: BoxFuture<'f, T>,
    done: Option<T>,
}

impl<'f, T> Queued<'f, T> {
    fn new(future: BoxFuture<'f, T>) -> Queued<'f, T> {
        Queued { future, done: None }
    }

    fn start(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(value) = self.future.as_mut().poll(&mut context) {
            self.done = Some(value);
        }
    }

    async fn finish(self) -> T {
        match self.done {
            Some(value) => value,
            None => self.future.await,
        }
    }
}

/// A read with retries, because an error of the disk may appear only now.
async fn patiently<'f, T>(
    read: impl Fn() -> BoxFuture<'f, Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let mut attempts_left = 2000;
    loop {
        match read().await {
            Err(error) if error.is_retryable() && attempts_left > 0 => {
                attempts_left -= 1;
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            other => return other,
        }
    }
}

/// The whole state at the newest revision.
pub async fn state(engine: &EmbeddedEngine) -> (Revision, BTreeMap<Key, (Revision, Bytes)>) {
    let mut request = RangeRequest {
        prefix: Prefix::new("/registry/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let mut found = BTreeMap::new();
    loop {
        let part = patiently(|| engine.range(request.clone())).await.unwrap();
        let revision = match request.at {
            At::Latest => part.revision,
            At::Revision(revision) => revision,
        };
        request.start = part.items.last().map(|item: &KeyValue| {
            let mut start = item.key.as_bytes().to_vec();
            start.push(0);
            start
        });
        found.extend(
            part.items
                .into_iter()
                .map(|item| (item.key, (item.revision, item.value))),
        );
        if !part.more {
            return (revision, found);
        }
        request.at = At::Revision(revision);
    }
}

/// The retained log. A compaction whose outcome is unknown may still take place, and then the log
/// is read again.
pub async fn log(engine: &EmbeddedEngine) -> Vec<Event> {
    loop {
        match log_after(engine, engine.compacted()).await {
            Err(EngineError::Compacted { .. }) => {}
            other => return other.unwrap(),
        }
    }
}

async fn log_after(engine: &EmbeddedEngine, after: Revision) -> Result<Vec<Event>, EngineError> {
    let mut request = HistoryRequest {
        prefix: Prefix::new("/registry/"),
        after,
        until: Revision::MAX,
        bytes_max: usize::MAX,
    };
    let mut events = Vec::new();
    loop {
        let chunk = patiently(|| engine.history(request.clone())).await?;
        if chunk.reached == request.after {
            return Ok(events);
        }
        request.after = chunk.reached;
        events.extend(chunk.events);
    }
}
