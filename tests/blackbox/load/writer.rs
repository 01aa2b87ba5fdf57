//! Writers that record their writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::random::Random;
use super::record::{Outcome, PossibleStates, WatchEvent, WriteRequest};
use crate::harness::{Call, Client, version};

/// The acknowledged writes and counters of all writers.
#[derive(Default)]
pub struct WriteLog {
    /// The acknowledged writes by their versions.
    pub acknowledged: Mutex<BTreeMap<u64, AcknowledgedWrite>>,
    /// The newest version in any answer.
    newest: AtomicU64,
    pub stop: AtomicBool,
    pub unknown: AtomicU64,
    pub refused: AtomicU64,
}

/// An acknowledged write.
#[derive(Clone, Debug)]
pub struct AcknowledgedWrite {
    pub name: String,
    pub value: String,
    /// The time of the request. The write happened later.
    pub requested_at: Instant,
}

/// A collection of objects, each of which encodes a value.
pub trait Collection: Send + Sync + 'static {
    /// The path of the collection.
    fn path(&self) -> String;

    /// The object of a name that stands for a value.
    fn object(&self, name: &str, value: &str) -> Value;

    /// The value that an object stands for.
    fn value_of(&self, object: &Value) -> String;

    /// A unique value, built from `unique`.
    fn value(&self, unique: String, _random: &mut Random) -> String {
        unique
    }

    /// The name of an object that is unique among several collections.
    fn full_name(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Whether an object gets a deletionTimestamp before it is removed. A deletion may then stop
    /// halfway.
    fn is_deleted_gracefully(&self) -> bool {
        false
    }

    /// Whether the objects are in an etcd.
    fn is_in_etcd(&self) -> bool {
        false
    }
}

/// ConfigMaps of one namespace, each labelled with its writer.
pub struct Labelled {
    /// The path of the collection.
    pub path: String,
    /// The name of the writer.
    pub writer: String,
    /// The name and the value of an object.
    pub read: fn(&Value) -> (String, String),
    pub is_in_etcd: bool,
}

impl Collection for Labelled {
    fn path(&self) -> String {
        self.path.clone()
    }

    fn object(&self, name: &str, value: &str) -> Value {
        let labels = json!({ "writer": self.writer });
        json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": value } })
    }

    fn value_of(&self, object: &Value) -> String {
        (self.read)(object).1
    }

    fn is_in_etcd(&self) -> bool {
        self.is_in_etcd
    }
}

/// Writes its own objects, which no other writer changes.
pub struct Writer {
    collection: Arc<dyn Collection>,
    client: Client,
    write_log: Arc<WriteLog>,
    random: Random,
    name: String,
    written: u64,
    objects: Vec<PossibleStates>,
}

impl WriteLog {
    /// Records the version of a write that was requested when `before` was the newest version.
    pub fn acknowledge(&self, before: u64, at: u64, written: AcknowledgedWrite) {
        assert!(
            at > before,
            "{written:?} got version {at}, after {before} had been given out"
        );
        if let Some(other) = self.acknowledged.lock().insert(at, written.clone()) {
            panic!("version {at} was given to {written:?} and to {other:?}");
        }
        self.newest.fetch_max(at, Ordering::SeqCst);
    }

    /// Checks that each acknowledged write is in the history, under its version.
    pub fn check(&self, history: &[WatchEvent]) {
        let events: BTreeMap<u64, &WatchEvent> = history.iter().map(|e| (e.version, e)).collect();
        for (version, written) in self.acknowledged.lock().iter() {
            let event = events.get(version);
            assert!(
                event.is_some_and(|e| e.name == written.name && e.value == written.value),
                "{written:?} was acknowledged at {version}, history has {event:?}"
            );
        }
    }

    /// The latest time at which a write with a version up to this one was requested.
    pub fn last_request_up_to(&self, version: u64) -> Option<Instant> {
        let acknowledged = self.acknowledged.lock();
        // Only concurrent writes are out of order, so the last ones suffice.
        let last = acknowledged.range(..=version).rev().take(100);
        last.map(|(_, written)| written.requested_at).max()
    }

    /// The newest version that any client was told.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }
}

impl Writer {
    pub fn new(
        client: Client,
        write_log: Arc<WriteLog>,
        collection: Arc<dyn Collection>,
        name: String,
        seed: u64,
    ) -> Writer {
        let absent = match collection.is_in_etcd() {
            true => PossibleStates::absent_in_etcd(),
            false => PossibleStates::absent(),
        };
        Writer {
            collection,
            client,
            write_log,
            random: Random::new(seed),
            name,
            written: 0,
            objects: vec![absent; 4],
        }
    }

    /// Writes until stopped. Returns the possible states of its objects.
    pub async fn run(mut self) -> BTreeMap<String, PossibleStates> {
        while !self.write_log.stop.load(Ordering::SeqCst) {
            let index = self.random.below(self.objects.len() as u64) as usize;
            let request = self.next_request(index);
            self.send(index, request).await;
        }
        let names =
            (0..self.objects.len()).map(|index| self.collection.full_name(&self.object(index)));
        let names = names.collect::<Vec<_>>();
        names.into_iter().zip(self.objects).collect()
    }

    fn object(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    fn next_request(&mut self, index: usize) -> WriteRequest {
        self.written += 1;
        let unique = format!("{}.{}", self.name, self.written);
        let value = self.collection.value(unique, &mut self.random);
        match self.objects[index].is_there() {
            Some(false) => WriteRequest::Create(value),
            _ if self.random.below(5) == 0 => WriteRequest::Delete,
            Some(true) => WriteRequest::Update(value),
            None if self.random.below(2) == 0 => WriteRequest::Create(value),
            None => WriteRequest::Update(value),
        }
    }

    async fn send(&mut self, index: usize, request: WriteRequest) {
        let name = self.object(index);
        let (before, requested_at) = (self.write_log.newest(), Instant::now());
        let collection = &self.collection;
        let path = format!("{}/{name}", collection.path());
        let call = match &request {
            WriteRequest::Create(value) => {
                Call::post(&collection.path(), &collection.object(&name, value))
            }
            WriteRequest::Update(value) => Call::put(&path, &collection.object(&name, value)),
            WriteRequest::Delete => Writer::deletion(&path),
        };
        let outcome = match self.client.attempt(call).await {
            // While the daemon lives every request is answered, so no request runs later.
            Err(error) if error.is::<tokio::time::error::Elapsed>() => panic!("{name}: no answer"),
            Err(_) => Outcome::Unknown,
            Ok(answer) => match answer.status.as_u16() {
                200 | 201 => {
                    if let WriteRequest::Create(value) | WriteRequest::Update(value) = &request {
                        let at = version(&answer.json());
                        let written = AcknowledgedWrite {
                            name: collection.full_name(&name),
                            value: value.clone(),
                            requested_at,
                        };
                        self.write_log.acknowledge(before, at, written);
                    }
                    Outcome::Done
                }
                404 => Outcome::NotFound,
                409 => Outcome::AlreadyExists,
                // Not ready, too busy, or shutting down: nothing was done.
                429 | 503 => Outcome::Refused,
                // The store can't be reached: nothing was done (ST-11).
                500 if answer.json()["reason"] == "ServerTimeout" => Outcome::Refused,
                504 => Outcome::Unknown,
                other => panic!("{request:?} of {name}: {other} {}", answer.text()),
            },
        };
        self.objects[index] = self.objects[index]
            .after(&request, outcome)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if request == WriteRequest::Delete && self.collection.is_deleted_gracefully() {
            match outcome {
                Outcome::Unknown | Outcome::Refused => return self.delete(index).await,
                _ => {}
            }
        }
        match outcome {
            Outcome::Unknown => {
                self.write_log.unknown.fetch_add(1, Ordering::Relaxed);
                // Half of the time a read resolves the state. Else the next write meets it.
                if self.random.below(2) == 0 {
                    self.resolve(index).await;
                }
            }
            Outcome::Refused => {
                self.write_log.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            _ => {}
        }
    }

    fn deletion(path: &str) -> Call {
        Call::delete(&format!("{path}?gracePeriodSeconds=0"))
    }

    /// Deletes until the object is certainly absent.
    async fn delete(&mut self, index: usize) {
        let path = format!("{}/{}", self.collection.path(), self.object(index));
        loop {
            match self.client.attempt(Writer::deletion(&path)).await {
                Ok(answer) if matches!(answer.status.as_u16(), 200 | 404) => break,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        self.objects[index] = PossibleStates::absent();
    }

    /// Reads until there is an answer, which must be one of the possible states.
    async fn resolve(&mut self, index: usize) {
        let name = self.object(index);
        let path = format!("{}/{name}", self.collection.path());
        while !self.write_log.stop.load(Ordering::SeqCst) {
            let state = match self.client.attempt(Call::get(&path)).await {
                Ok(answer) if answer.status == 200 => {
                    Some(self.collection.value_of(&answer.json()))
                }
                Ok(answer) if answer.status == 404 => None,
                _ => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
            };
            self.objects[index] = self.objects[index]
                .read(state)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            return;
        }
    }
}
