//! Load on a fleet during a fault, and the demands after it: no acknowledged write is lost, no
//! watch has a gap or a repetition, and no answer is impossible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet::Fleet;
use crate::harness::{Call, Client, Protocol, version};
use crate::load::watcher::Story as Stream;
use crate::load::{Form, Ledger, Possible, Random, Seen, Watcher, Writer, fold, seed};
use crate::registers::check::{History, Truth, check};
use crate::registers::client::{self as registers, REGISTERS, Registrar};
use crate::witness::Witness;

/// Where writers write.
const NAMESPACE: &str = "writers";
const WRITERS_PER_DAEMON: u64 = 3;
const REGISTRARS_PER_DAEMON: u64 = 3;

/// The time limit for a fleet to serve again after the fault.
const RECOVERED_WITHIN: Duration = Duration::from_secs(45);

fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// The name and the value of a ConfigMap.
fn read(object: &Value) -> (String, String) {
    let (name, _, value) = registers::read(object);
    (name, value)
}

/// ConfigMaps of one namespace, each labelled with its writer.
struct Labelled(String);

impl Form for Labelled {
    fn collection(&self) -> String {
        collection()
    }

    fn object(&self, name: &str, value: &str) -> Value {
        let labels = json!({ "writer": self.0 });
        json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": value } })
    }

    fn value_of(&self, object: &Value) -> String {
        read(object).1
    }
}

/// The load while it runs.
pub struct Story {
    ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<BTreeMap<String, Possible>>>,
    registrars: Vec<JoinHandle<History>>,
    watchers: Vec<(String, JoinHandle<Stream>)>,
    until: Arc<AtomicU64>,
    witness: Witness,
    registers: Witness,
}

/// What came of it, to be looked at further.
pub struct End {
    pub acknowledged: usize,
    pub calls: usize,
}

/// Retries until the answer has this status.
async fn insist(client: &Client, call: Call, status: u16) -> Value {
    let begun = Instant::now();
    loop {
        match client.attempt(call.clone()).await {
            Ok(answer) if answer.status == status => return answer.json(),
            other => assert!(begun.elapsed() < RECOVERED_WITHIN, "{call:?}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Story {
    /// Puts load on every daemon of a fleet.
    pub async fn begin(fleet: &Fleet) -> Story {
        let seed = seed();
        println!("TAFFRAIL_SEED={seed}");
        let mut random = Random::new(seed);
        let urls = fleet.cluster.urls();
        let client = fleet.daemons[0].client();
        for namespace in [NAMESPACE, registers::NAMESPACE] {
            let namespace = json!({ "metadata": { "name": namespace } });
            insist(&client, Call::post("/api/v1/namespaces", &namespace), 201).await;
        }
        let witness = Witness::of(&urls, NAMESPACE).await;
        let of_registers = Witness::of(&urls, registers::NAMESPACE).await;
        for number in 0..REGISTERS {
            let object = registers::object(&registers::name(number), "0", None);
            insist(&client, Call::post(&registers::collection(), &object), 201).await;
        }
        let list = client.call(Call::get(&collection())).await.expect(200);
        let mut story = Story {
            ledger: Arc::default(),
            stop: Arc::default(),
            writers: Vec::new(),
            registrars: Vec::new(),
            watchers: Vec::new(),
            until: Arc::default(),
            witness,
            registers: of_registers,
        };
        for number in 0..fleet.daemons.len() {
            story.put_on(fleet, number, version(&list), &mut random);
        }
        story
    }

    fn put_on(&mut self, fleet: &Fleet, number: usize, from: u64, random: &mut Random) {
        let target = fleet.daemons[number].target();
        let over = |number: u64| match number.is_multiple_of(2) {
            true => target.client_over(Protocol::Http2),
            false => target.client_over(Protocol::Http1),
        };
        for writer in 0..WRITERS_PER_DAEMON {
            let name = format!("w{number}{writer}");
            let form = Arc::new(Labelled(name.clone()));
            let ledger = self.ledger.clone();
            let writer = Writer::new(over(writer), ledger, form, name, random.next());
            self.writers.push(tokio::spawn(writer.run()));
        }
        for registrar in 0..REGISTRARS_PER_DAEMON {
            let name = format!("d{number}c{registrar}");
            let registrar = Registrar::new(over(registrar), name, random.next(), self.stop.clone());
            self.registrars.push(tokio::spawn(registrar.run()));
        }
        for (selector, each) in selectors().into_iter().zip(0..) {
            let watcher = Watcher {
                client: over(each),
                path: collection(),
                read,
                selector: selector.clone(),
                from,
                until: self.until.clone(),
            };
            self.watchers.push((selector, tokio::spawn(watcher.run())));
        }
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.ledger.acknowledged.lock().len()
    }

    /// Waits until so many more writes were acknowledged.
    pub async fn writes(&self, more: usize) {
        let goal = self.acknowledged() + more;
        let begun = Instant::now();
        while self.acknowledged() < goal {
            assert!(
                begun.elapsed() < RECOVERED_WITHIN,
                "nothing is written any more"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops the load and compares all answers with the real history.
    pub async fn end(self, fleet: &Fleet) -> End {
        for daemon in &fleet.daemons {
            daemon.ready().await;
        }
        // It serves again by itself.
        self.writes(20).await;
        self.ledger.stop.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        let mut possible = BTreeMap::new();
        for writer in self.writers {
            possible.extend(writer.await.unwrap());
        }
        let mut told = History::default();
        for registrar in self.registrars {
            let history = registrar.await.unwrap();
            told.calls.extend(history.calls);
            told.lists.extend(history.lists);
        }
        let client = fleet.daemons[0].client();
        let marked = json!({ "metadata": { "name": "end" }, "data": { "k": "end" } });
        let end = version(&insist(&client, Call::post(&collection(), &marked), 201).await);
        self.until.store(end, Ordering::SeqCst);
        let history = self.witness.until(end).await;
        for daemon in &fleet.daemons {
            check_state(&history, &daemon.client(), &possible).await;
        }
        self.ledger.check(&history);
        for (selector, watcher) in self.watchers {
            check_stream(&selector, &watcher.await.unwrap(), &history);
        }
        check_registers(&self.registers, &client, &told).await;
        let end = End {
            acknowledged: self.ledger.acknowledged.lock().len(),
            calls: told.calls.len(),
        };
        println!(
            "{} writes acknowledged, {} unknown, {} refused, {} events; {} calls of registers, \
             {} lists",
            end.acknowledged,
            self.ledger.unknown.load(Ordering::SeqCst),
            self.ledger.refused.load(Ordering::SeqCst),
            history.len(),
            end.calls,
            told.lists.len()
        );
        end
    }
}

/// Everything twice, one writer's objects by label, one object by name.
fn selectors() -> Vec<String> {
    let selectors = [
        "",
        "&labelSelector=writer%3Dw01",
        "&fieldSelector=metadata.name%3Dw10-0",
        "",
    ];
    selectors.map(str::to_owned).to_vec()
}

fn selects(selector: &str, event: &Seen) -> bool {
    match selector {
        "" => true,
        "&labelSelector=writer%3Dw01" => event.name.starts_with("w01-"),
        _ => event.name == "w10-0",
    }
}

/// The end of history is the state, and each object is in a state that its writer allows.
async fn check_state(history: &[Seen], client: &Client, possible: &BTreeMap<String, Possible>) {
    let list = client.call(Call::get(&collection())).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    let listed: BTreeMap<String, String> = items.map(read).collect();
    assert_eq!(
        fold(history).unwrap(),
        listed,
        "the state isn't what happened"
    );
    for (name, possible) in possible {
        let state = listed.get(name).cloned();
        let read = possible.read(state);
        read.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

fn check_stream(selector: &str, stream: &Stream, history: &[Seen]) {
    let wanted = history.iter().filter(|event| selects(selector, event));
    let wanted: Vec<Seen> = wanted.cloned().collect();
    let differs = wanted.iter().zip(&stream.seen).find(|(a, b)| a != b);
    let around = differs.map(|(wanted, _)| stream.around(wanted.version));
    assert_eq!(
        stream.seen, wanted,
        "the stream of {selector:?} isn't what happened; around the difference: {around:?}"
    );
}

async fn check_registers(witness: &Witness, client: &Client, told: &History) {
    let path = registers::collection();
    let list = client.call(Call::get(&path)).await.expect(200);
    let newest = list["items"].as_array().unwrap().iter().map(version).max();
    let mut truth = Truth::new();
    for event in witness.until(newest.unwrap()).await {
        truth
            .entry(event.name)
            .or_default()
            .insert(event.version, event.value);
    }
    if let Err(error) = check(told, &truth) {
        panic!("what clients were told can't have happened: {error}");
    }
}
