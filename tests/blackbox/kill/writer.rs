//! Writers that know what they wrote.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use super::NAMESPACE;
use super::random::Random;
use super::record::{Outcome, Possible, Wish};
use crate::harness::{Call, Client, version};

/// What all writers share.
#[derive(Default)]
pub struct Ledger {
    /// The versions of acknowledged writes, with object and value.
    pub acknowledged: Mutex<BTreeMap<u64, (String, String)>>,
    /// The newest version that anybody was told.
    newest: AtomicU64,
    pub stop: AtomicBool,
    pub unknown: AtomicU64,
    pub refused: AtomicU64,
}

/// Owns its objects: nobody else writes them.
pub struct Writer {
    client: Client,
    ledger: Arc<Ledger>,
    random: Random,
    name: String,
    written: u64,
    objects: Vec<Possible>,
}

impl Ledger {
    /// Remembers a version that a client was told, of a write that began when `before` was newest.
    pub fn acknowledge(&self, before: u64, at: u64, name: &str, value: &str) {
        assert!(
            at > before,
            "{name}={value} got version {at}, after {before} had been given out"
        );
        let entry = (name.to_owned(), value.to_owned());
        if let Some(other) = self.acknowledged.lock().insert(at, entry) {
            panic!("version {at} was given to {name}={value} and to {other:?}");
        }
        self.newest.fetch_max(at, Ordering::SeqCst);
    }

    /// The newest version that anybody was told.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }
}

impl Writer {
    pub fn new(client: Client, ledger: Arc<Ledger>, name: String, seed: u64) -> Writer {
        let objects = vec![Possible::absent(); 4];
        Writer {
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
        let names = (0..self.objects.len())
            .map(|index| self.object(index))
            .collect::<Vec<_>>();
        names.into_iter().zip(self.objects).collect()
    }

    fn object(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    fn wish(&mut self, index: usize) -> Wish {
        self.written += 1;
        let value = format!("{}.{}", self.name, self.written);
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
        let before = self.ledger.newest();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let object = |value: &str| {
            let labels = json!({ "writer": self.name });
            json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": value } })
        };
        let call = match &wish {
            Wish::Create(value) => Call::post(&path, &object(value)),
            Wish::Update(value) => Call::put(&format!("{path}/{name}"), &object(value)),
            Wish::Delete => Call::delete(&format!("{path}/{name}")),
        };
        let outcome = match self.client.attempt(call).await {
            // While the daemon lives every request is answered, so that none is carried out later.
            Err(error) if error.is::<tokio::time::error::Elapsed>() => panic!("{name}: no answer"),
            Err(_) => Outcome::Unknown,
            Ok(answer) => match answer.status.as_u16() {
                200 | 201 => {
                    if let Wish::Create(value) | Wish::Update(value) = &wish {
                        let at = version(&answer.json());
                        self.ledger.acknowledge(before, at, &name, value);
                    }
                    Outcome::Done
                }
                404 => Outcome::NotFound,
                409 => Outcome::AlreadyExists,
                // Not ready, too busy, or on its way down: nothing was done.
                429 | 503 => Outcome::Refused,
                504 => Outcome::Unknown,
                other => panic!("{wish:?} of {name}: {other} {}", answer.text()),
            },
        };
        self.objects[index] = self.objects[index]
            .after(&wish, outcome)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
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

    /// Reads until there is an answer, which must be one of the possible states.
    async fn resolve(&mut self, index: usize) {
        let name = self.object(index);
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
        while !self.ledger.stop.load(Ordering::SeqCst) {
            let state = match self.client.attempt(Call::get(&path)).await {
                Ok(answer) if answer.status == 200 => {
                    Some(answer.json()["data"]["k"].as_str().unwrap().to_owned())
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
