//! Clients that read registers, set them conditionally or unconditionally, and record the
//! responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::check::{Call as RecordedCall, History, ListResult, Operation};
use crate::harness::client::Broken;
use crate::harness::{Call, Client, version};
use crate::load::Random;

/// The number of registers. It is small, so that clients conflict.
pub const REGISTERS: u64 = 4;

pub const NAMESPACE: &str = "registers";

/// The path of their collection.
pub fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// The name of a register.
pub fn name(number: u64) -> String {
    format!("r{number}")
}

/// The object of a register.
pub fn object(name: &str, value: &str, over: Option<u64>) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(over) = over {
        metadata["resourceVersion"] = over.to_string().into();
    }
    json!({ "metadata": metadata, "data": { "k": value } })
}

/// The name, version and value of a register's object.
pub fn read(object: &Value) -> (String, u64, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = text(&object["metadata"]["name"]);
    (name, version(object), text(&object["data"]["k"]))
}

/// One client, with the versions that it last saw.
pub struct RegisterClient {
    pub client: Client,
    pub name: String,
    pub random: Random,
    pub stop: Arc<AtomicBool>,
    known: BTreeMap<String, u64>,
    written: u64,
    history: History,
}

impl RegisterClient {
    pub fn new(client: Client, name: String, seed: u64, stop: Arc<AtomicBool>) -> RegisterClient {
        RegisterClient {
            client,
            name,
            random: Random::new(seed),
            stop,
            known: BTreeMap::new(),
            written: 0,
            history: History::default(),
        }
    }

    /// Runs until stopped, and returns the record.
    pub async fn run(mut self) -> History {
        while !self.stop.load(Ordering::SeqCst) {
            let key = name(self.random.below(REGISTERS));
            match self.random.below(10) {
                0..4 => self.get(key).await,
                4..6 => self.list(None).await,
                6 => self.list(Some(key)).await,
                _ => self.set(key).await,
            }
            // Pauses of all lengths, so that calls begin at all moments.
            tokio::time::sleep(Duration::from_millis(self.random.below(8))).await;
        }
        self.history
    }

    fn note(&mut self, key: String, begun: Instant, operation: Operation) {
        if let Operation::Read { version, .. } | Operation::Set { version, .. } = &operation {
            self.known.insert(key.clone(), *version);
        }
        self.history.calls.push(RecordedCall {
            key,
            begun,
            ended: Instant::now(),
            operation,
        });
    }

    async fn get(&mut self, key: String) {
        let begun = Instant::now();
        let path = format!("{}/{key}", collection());
        if let Some(object) = self.answer(Call::get(&path)).await {
            let (_, version, value) = read(&object);
            self.note(key, begun, Operation::Read { version, value });
        }
    }

    /// A list of all registers, in pages or not, or of one of them.
    async fn list(&mut self, one: Option<String>) {
        let begun = Instant::now();
        let limit = self.random.below(2) * 500;
        let selector = one
            .as_ref()
            .map(|key| format!("&fieldSelector=metadata.name%3D{key}"));
        let selector = selector.unwrap_or_default();
        let path = format!("{}?limit={limit}{selector}", collection());
        let Some(list) = self.answer(Call::get(&path)).await else {
            return;
        };
        let items = list["items"].as_array().unwrap().iter().map(read);
        let items: Vec<_> = items.collect();
        for (key, version, value) in items.iter().cloned() {
            self.note(key, begun, Operation::Read { version, value });
        }
        if one.is_none() {
            let item = |(key, version, value)| (key, (version, value));
            self.history.lists.push(ListResult {
                begun,
                ended: Instant::now(),
                version: version(&list),
                items: items.into_iter().map(item).collect(),
            });
        }
    }

    /// Sets a register by a PUT that names the version to replace, or by a patch of any version.
    async fn set(&mut self, key: String) {
        let over = match self.random.below(2) {
            0 => None,
            _ => match self.known.get(&key).copied() {
                None => return self.get(key).await,
                known => known,
            },
        };
        self.written += 1;
        let value = format!("{}.{}", self.name, self.written);
        let path = format!("{}/{key}", collection());
        let begun = Instant::now();
        let call = match over {
            Some(_) => Call::put(&path, &object(&key, &value, over)),
            None => Call::merge_patch(&path, &json!({ "data": { "k": value } })),
        };
        let operation = match self.client.attempt(call).await {
            Err(_) => Operation::Unknown { over, value },
            Ok(answer) => match (answer.status.as_u16(), over) {
                (200, _) => {
                    let version = version(&answer.json());
                    Operation::Set {
                        over,
                        value,
                        version,
                    }
                }
                (409, Some(over)) => Operation::Conflict { over, value },
                (504, _) => Operation::Unknown { over, value },
                (code, _) => {
                    assert!(is_refusal(code, &answer.json()), "{}", answer.text());
                    Operation::Refused { value }
                }
            },
        };
        if matches!(
            operation,
            Operation::Conflict { .. } | Operation::Unknown { .. }
        ) {
            self.known.remove(&key);
        }
        self.note(key, begun, operation);
    }

    /// The object or list that was read, or `None` after a refusal.
    async fn answer(&self, call: Call) -> Option<Value> {
        let answer: Result<_, Broken> = self.client.attempt(call).await;
        let answer = answer.ok()?;
        if answer.status == 200 {
            return Some(answer.json());
        }
        let code = answer.status.as_u16();
        let body = answer.json();
        assert!(code == 504 || is_refusal(code, &body), "{body}");
        None
    }
}

/// Whether an answer says that nothing was done and that a retry may work soon (ST-11).
pub fn is_refusal(code: u16, status: &Value) -> bool {
    match code {
        429 | 503 => true,
        500 => status["reason"] == "ServerTimeout",
        _ => false,
    }
}
