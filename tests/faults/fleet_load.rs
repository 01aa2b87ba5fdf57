//! Load on a fleet during a fault, and the requirements after it: no acknowledged write is lost, no
//! watch has a gap or a repetition, and no response is impossible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::etcd_watch::EtcdWatch;
use crate::fleet::Fleet;
use crate::harness::{Call, Client, Protocol, version};
use crate::load::watcher::WatchRecord;
use crate::load::{
    Labelled, PossibleStates, Random, WatchEvent, Watcher, WriteLog, Writer, fold, seed,
};
use crate::registers::check::{ActualHistory, History, check};
use crate::registers::client::{self as registers, REGISTERS, RegisterClient};

const NAMESPACE: &str = "writers";
const WRITERS_PER_DAEMON: u64 = 3;
const REGISTER_CLIENTS_PER_DAEMON: u64 = 3;

/// The time limit for a fleet to serve again after the fault.
pub const RECOVERED_WITHIN: Duration = Duration::from_secs(45);

fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// The name and the value of a ConfigMap.
fn read(object: &Value) -> (String, String) {
    let (name, _, value) = registers::read(object);
    (name, value)
}

/// The load while it runs.
pub struct FleetLoad {
    write_log: Arc<WriteLog>,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<BTreeMap<String, PossibleStates>>>,
    register_clients: Vec<JoinHandle<History>>,
    watchers: Vec<(String, JoinHandle<WatchRecord>)>,
    until: Arc<AtomicU64>,
    etcd_watch: EtcdWatch,
    registers_watch: EtcdWatch,
}

/// Totals of the load.
pub struct Totals {
    pub acknowledged: usize,
    pub calls: usize,
}

/// Retries until the answer has this status.
pub async fn retry_until(client: &Client, call: Call, status: u16) -> Value {
    let begun = Instant::now();
    loop {
        match client.attempt(call.clone()).await {
            Ok(answer) if answer.status == status => return answer.json(),
            other => assert!(begun.elapsed() < RECOVERED_WITHIN, "{call:?}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl FleetLoad {
    /// Starts load on every daemon of a fleet.
    pub async fn start(fleet: &Fleet) -> FleetLoad {
        let seed = seed();
        println!("TAFFRAIL_SEED={seed}");
        let mut random = Random::new(seed);
        let urls = fleet.cluster.urls();
        let client = fleet.daemons[0].client();
        for namespace in [NAMESPACE, registers::NAMESPACE] {
            let namespace = json!({ "metadata": { "name": namespace } });
            retry_until(&client, Call::post("/api/v1/namespaces", &namespace), 201).await;
        }
        let etcd_watch = EtcdWatch::start(&urls, NAMESPACE).await;
        let registers_watch = EtcdWatch::start(&urls, registers::NAMESPACE).await;
        for number in 0..REGISTERS {
            let object = registers::object(&registers::name(number), "0", None);
            retry_until(&client, Call::post(&registers::collection(), &object), 201).await;
        }
        let list = client.call(Call::get(&collection())).await.expect(200);
        let mut load = FleetLoad {
            write_log: Arc::default(),
            stop: Arc::default(),
            writers: Vec::new(),
            register_clients: Vec::new(),
            watchers: Vec::new(),
            until: Arc::default(),
            etcd_watch,
            registers_watch,
        };
        for number in 0..fleet.daemons.len() {
            load.start_on(fleet, number, version(&list), &mut random);
        }
        load
    }

    fn start_on(&mut self, fleet: &Fleet, number: usize, from: u64, random: &mut Random) {
        let target = fleet.daemons[number].target();
        let over = |number: u64| match number.is_multiple_of(2) {
            true => target.client_over(Protocol::Http2),
            false => target.client_over(Protocol::Http1),
        };
        for writer in 0..WRITERS_PER_DAEMON {
            let name = format!("w{number}{writer}");
            let labelled = Arc::new(Labelled {
                path: collection(),
                writer: name.clone(),
                read,
                is_in_etcd: true,
            });
            let write_log = self.write_log.clone();
            let writer = Writer::new(over(writer), write_log, labelled, name, random.next());
            self.writers.push(tokio::spawn(writer.run()));
        }
        for client in 0..REGISTER_CLIENTS_PER_DAEMON {
            let name = format!("d{number}c{client}");
            let client = RegisterClient::new(over(client), name, random.next(), self.stop.clone());
            self.register_clients.push(tokio::spawn(client.run()));
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

    /// The number of writes acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.write_log.acknowledged.lock().len()
    }

    /// Waits until this many more writes are acknowledged.
    pub async fn wait_for_writes(&self, more: usize) {
        let goal = self.acknowledged() + more;
        let begun = Instant::now();
        while self.acknowledged() < goal {
            assert!(begun.elapsed() < RECOVERED_WITHIN, "no more writes succeed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops the load and compares all answers with the real history.
    pub async fn stop_and_check(self, fleet: &Fleet) -> Totals {
        for daemon in &fleet.daemons {
            daemon.ready().await;
        }
        // It recovers without help.
        self.wait_for_writes(20).await;
        self.write_log.stop.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        let mut possible = BTreeMap::new();
        for writer in self.writers {
            possible.extend(writer.await.unwrap());
        }
        let mut answers = History::default();
        for client in self.register_clients {
            let history = client.await.unwrap();
            answers.calls.extend(history.calls);
            answers.lists.extend(history.lists);
        }
        let client = fleet.daemons[0].client();
        let marked = json!({ "metadata": { "name": "end" }, "data": { "k": "end" } });
        let end = version(&retry_until(&client, Call::post(&collection(), &marked), 201).await);
        self.until.store(end, Ordering::SeqCst);
        let history = self.etcd_watch.events_until(end).await;
        for daemon in &fleet.daemons {
            check_state(&history, &daemon.client(), &possible).await;
        }
        self.write_log.check(&history);
        for (selector, watcher) in self.watchers {
            check_stream(&selector, &watcher.await.unwrap(), &history);
        }
        check_registers(&self.registers_watch, &client, &answers).await;
        let totals = Totals {
            acknowledged: self.write_log.acknowledged.lock().len(),
            calls: answers.calls.len(),
        };
        println!(
            "{} writes acknowledged, {} unknown, {} refused, {} events; {} calls of registers, \
             {} lists",
            totals.acknowledged,
            self.write_log.unknown.load(Ordering::SeqCst),
            self.write_log.refused.load(Ordering::SeqCst),
            history.len(),
            totals.calls,
            answers.lists.len()
        );
        totals
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

fn selects(selector: &str, event: &WatchEvent) -> bool {
    match selector {
        "" => true,
        "&labelSelector=writer%3Dw01" => event.name.starts_with("w01-"),
        _ => event.name == "w10-0",
    }
}

/// Checks that history ends in the current state, and that each object has a possible state.
async fn check_state(
    history: &[WatchEvent],
    client: &Client,
    possible: &BTreeMap<String, PossibleStates>,
) {
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

fn check_stream(selector: &str, stream: &WatchRecord, history: &[WatchEvent]) {
    let wanted = history.iter().filter(|event| selects(selector, event));
    let wanted: Vec<WatchEvent> = wanted.cloned().collect();
    let differs = wanted.iter().zip(&stream.events).find(|(a, b)| a != b);
    let around = differs.map(|(wanted, _)| stream.around(wanted.version));
    assert_eq!(
        stream.events, wanted,
        "the stream of {selector:?} isn't what happened; around the difference: {around:?}"
    );
}

async fn check_registers(etcd_watch: &EtcdWatch, client: &Client, answers: &History) {
    let path = registers::collection();
    let list = client.call(Call::get(&path)).await.expect(200);
    let newest = list["items"].as_array().unwrap().iter().map(version).max();
    let mut actual = ActualHistory::new();
    for event in etcd_watch.events_until(newest.unwrap()).await {
        actual
            .entry(event.name)
            .or_default()
            .insert(event.version, event.value);
    }
    if let Err(error) = check(answers, &actual) {
        panic!("the answers to clients are impossible: {error}");
    }
}
