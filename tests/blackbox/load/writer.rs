//! Writers that record their writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::random::Random;
use super::record::{Outcome, Possible, Seen, Wish};
use crate::harness::{Call, Client, version};

/// What all writers share.
#[derive(Default)]
pub struct Ledger {
    /// The acknowledged writes by their versions.
    pub acknowledged: Mutex<BTreeMap<u64, Written>>,
    /// The newest version in any answer.
    newest: AtomicU64,
    pub stop: AtomicBool,
    pub unknown: AtomicU64,
    pub refused: AtomicU64,
}

/// An acknowledged write.
#[derive(Clone, Debug)]
pub struct Written {
    pub name: String,
    pub value: String,
    /// The time of the request. The write happened later.
    pub asked: Instant,
}

/// The objects of one collection, each of which encodes a value.
pub trait Form: Send + Sync + 'static {
    /// The path of the collection.
    fn collection(&self) -> String;

    /// The object of a name that stands for a value.
    fn object(&self, name: &str, value: &str) -> Value;

    /// The value that an object stands for.
    fn value_of(&self, object: &Value) -> String;

    /// A unique value, built from `unique`.
    fn value(&self, unique: String, _random: &mut Random) -> String {
        unique
    }

    /// What an object is called where there are several collections.
    fn title(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Whether an object is marked before it is deleted, so that a deletion may stop halfway.
    fn is_marked_first(&self) -> bool {
        false
    }
}

/// Writes its own objects, which no other writer changes.
pub struct Writer {
    form: Arc<dyn Form>,
    client: Client,
    ledger: Arc<Ledger>,
    random: Random,
    name: String,
    written: u64,
    objects: Vec<Possible>,
}

impl Ledger {
    /// Remembers a version that a client was told, of a write that began when `before` was newest.
    pub fn acknowledge(&self, before: u64, at: u64, written: Written) {
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
    pub fn check(&self, history: &[Seen]) {
        let events: BTreeMap<u64, &Seen> = history.iter().map(|e| (e.version, e)).collect();
        for (version, written) in self.acknowledged.lock().iter() {
            let event = events.get(version);
            assert!(
                event.is_some_and(|e| e.name == written.name && e.value == written.value),
                "{written:?} was acknowledged at {version}, history has {event:?}"
            );
        }
    }

    /// The latest time at which a write was asked for that got a version up to this one.
    pub fn asked_up_to(&self, version: u64) -> Option<Instant> {
        let acknowledged = self.acknowledged.lock();
        // Writes are in each other's way only for so long.
        let last = acknowledged.range(..=version).rev().take(100);
        last.map(|(_, written)| written.asked).max()
    }

    /// The newest version that anybody was told.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }
}

impl Writer {
    pub fn new(
        client: Client,
        ledger: Arc<Ledger>,
        form: Arc<dyn Form>,
        name: String,
        seed: u64,
    ) -> Writer {
        let objects = vec![Possible::absent(); 4];
        Writer {
            form,
            client,
            ledger,
            random: Random::new(seed),
            name,
            written: 0,
            objects,
        }
    }

    /// Writes until it is told to stop; returns what its objects may hold.
    pub async fn run(mut self) -> BTreeMap<String, Possible> {
        while !self.ledger.stop.load(Ordering::SeqCst) {
            let index = self.random.below(self.objects.len() as u64) as usize;
            let wish = self.wish(index);
            self.carry_out(index, wish).await;
        }
        let names = (0..self.objects.len()).map(|index| self.form.title(&self.object(index)));
        let names = names.collect::<Vec<_>>();
        names.into_iter().zip(self.objects).collect()
    }

    fn object(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    fn wish(&mut self, index: usize) -> Wish {
        self.written += 1;
        let unique = format!("{}.{}", self.name, self.written);
        let value = self.form.value(unique, &mut self.random);
        match self.objects[index].is_there() {
            Some(false) => Wish::Create(value),
            _ if self.random.below(5) == 0 => Wish::Delete,
            Some(true) => Wish::Update(value),
            None if self.random.below(2) == 0 => Wish::Create(value),
            None => Wish::Update(value),
        }
    }

    async fn carry_out(&mut self, index: usize, wish: Wish) {
        let name = self.object(index);
        let (before, asked) = (self.ledger.newest(), Instant::now());
        let (collection, form) = (self.form.collection(), &self.form);
        let path = format!("{collection}/{name}");
        let call = match &wish {
            Wish::Create(value) => Call::post(&collection, &form.object(&name, value)),
            Wish::Update(value) => Call::put(&path, &form.object(&name, value)),
            Wish::Delete => Writer::deletion(&path),
        };
        let outcome = match self.client.attempt(call).await {
            // While the daemon lives every request is answered, so no request runs later.
            Err(error) if error.is::<tokio::time::error::Elapsed>() => panic!("{name}: no answer"),
            Err(_) => Outcome::Unknown,
            Ok(answer) => match answer.status.as_u16() {
                200 | 201 => {
                    if let Wish::Create(value) | Wish::Update(value) = &wish {
                        let at = version(&answer.json());
                        let written = Written {
                            name: form.title(&name),
                            value: value.clone(),
                            asked,
                        };
                        self.ledger.acknowledge(before, at, written);
                    }
                    Outcome::Done
                }
                404 => Outcome::NotFound,
                409 => Outcome::AlreadyExists,
                // Not ready, too busy, or on its way down: nothing was done.
                429 | 503 => Outcome::Refused,
                // The store can't be reached: nothing was done, either (ST-11).
                500 if answer.json()["reason"] == "ServerTimeout" => Outcome::Refused,
                504 => Outcome::Unknown,
                other => panic!("{wish:?} of {name}: {other} {}", answer.text()),
            },
        };
        self.objects[index] = self.objects[index]
            .after(&wish, outcome)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if wish == Wish::Delete && self.form.is_marked_first() {
            match outcome {
                Outcome::Unknown | Outcome::Refused => return self.delete(index).await,
                _ => {}
            }
        }
        match outcome {
            Outcome::Unknown => {
                self.ledger.unknown.fetch_add(1, Ordering::Relaxed);
                // Half of the time the next write meets the unknown, else a read resolves it.
                if self.random.below(2) == 0 {
                    self.resolve(index).await;
                }
            }
            Outcome::Refused => {
                self.ledger.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            _ => {}
        }
    }

    fn deletion(path: &str) -> Call {
        Call::delete(&format!("{path}?gracePeriodSeconds=0"))
    }

    /// Deletes until the object is surely absent.
    async fn delete(&mut self, index: usize) {
        let path = format!("{}/{}", self.form.collection(), self.object(index));
        loop {
            match self.client.attempt(Writer::deletion(&path)).await {
                Ok(answer) if matches!(answer.status.as_u16(), 200 | 404) => break,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        self.objects[index] = Possible::absent();
    }

    /// Reads until there is an answer, which must be one of the possible states.
    async fn resolve(&mut self, index: usize) {
        let name = self.object(index);
        let path = format!("{}/{name}", self.form.collection());
        while !self.ledger.stop.load(Ordering::SeqCst) {
            let state = match self.client.attempt(Call::get(&path)).await {
                Ok(answer) if answer.status == 200 => Some(self.form.value_of(&answer.json())),
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
