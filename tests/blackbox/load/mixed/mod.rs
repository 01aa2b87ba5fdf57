//! A load of all kinds of writes on the ConfigMaps of one namespace, with watchers: single writers,
//! writers that contend for a counter, writers that patch one object. At the end the responses to
//! the writers and the events of the watchers are compared with history and state.

mod counter;
mod patches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::watcher::WatchRecord;
use super::{Labelled, PossibleStates, Random, WatchEvent, Watcher, WriteLog, Writer, fold};
use crate::harness::{Call, Protocol, Target, version};

const NAMESPACE: &str = "mixed";
const WRITERS: u64 = 8;

/// The path of the ConfigMaps that are written.
pub fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// The name and the value of a ConfigMap.
fn read(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = text(&object["metadata"]["name"]);
    let value = match name.as_str() {
        patches::NAME => patches::value_of(object),
        _ => text(&object["data"]["k"]),
    };
    (name, value)
}

fn protocol(number: u64) -> Protocol {
    if number.is_multiple_of(2) {
        Protocol::Http2
    } else {
        Protocol::Http1
    }
}

/// The load while it goes on.
pub struct MixedLoad {
    pub write_log: Arc<WriteLog>,
    /// The version before the first write.
    from: u64,
    until: Arc<AtomicU64>,
    writers: Vec<JoinHandle<BTreeMap<String, PossibleStates>>>,
    count: Arc<counter::Count>,
    patches: patches::Acknowledged,
    others: Vec<JoinHandle<()>>,
    watchers: Vec<(String, JoinHandle<WatchRecord>)>,
}

impl MixedLoad {
    /// Makes the namespace, and begins. The target must keep its address.
    pub async fn begin(target: &Target, random: &mut Random) -> MixedLoad {
        let client = target.client();
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        let created = client.call(Call::post("/api/v1/namespaces", &namespace));
        let from = version(&created.await.expect(201));
        for object in [counter::zero(), patches::unpatched()] {
            client
                .call(Call::post(&collection(), &object))
                .await
                .expect(201);
        }
        let mut load = MixedLoad {
            write_log: Arc::default(),
            from,
            until: Arc::default(),
            writers: Vec::new(),
            count: Arc::default(),
            patches: patches::Acknowledged::default(),
            others: Vec::new(),
            watchers: Vec::new(),
        };
        load.begin_writers(target, random);
        load.begin_watchers(target);
        load
    }

    fn begin_writers(&mut self, target: &Target, random: &mut Random) {
        for number in 0..WRITERS {
            let client = target.client_over(protocol(number));
            let name = format!("w{number}");
            let labelled = Arc::new(Labelled {
                path: collection(),
                writer: name.clone(),
                read,
                is_in_etcd: false,
            });
            let log = self.write_log.clone();
            let writer = Writer::new(client, log, labelled, name, random.next());
            self.writers.push(tokio::spawn(writer.run()));
        }
        for number in 0..3 {
            let client = target.client_over(protocol(number));
            let counting = counter::run(client, self.write_log.clone(), self.count.clone());
            self.others.push(tokio::spawn(counting));
        }
        for number in 0..patches::WRITERS {
            let client = target.client_over(protocol(number));
            let (log, acknowledged) = (self.write_log.clone(), self.patches.clone());
            let patching = patches::run(client, number, log, acknowledged);
            self.others.push(tokio::spawn(patching));
        }
    }

    fn begin_watchers(&mut self, target: &Target) {
        for (selector, number) in selectors().into_iter().zip(0..) {
            let watcher = Watcher {
                client: target.client_over(protocol(number)),
                path: collection(),
                read,
                selector: selector.clone(),
                from: self.from,
                until: self.until.clone(),
            };
            self.watchers.push((selector, tokio::spawn(watcher.run())));
        }
    }

    /// Ends the load, and checks that nothing acknowledged is lost and that no watch has a gap or
    /// saw an event twice. Returns the number of acknowledged writes.
    pub async fn end(self, target: &Target) -> usize {
        let client = target.client();
        self.write_log.stop.store(true, Ordering::SeqCst);
        let mut possible = BTreeMap::new();
        for writer in self.writers {
            possible.extend(writer.await.unwrap());
        }
        for other in self.others {
            other.await.unwrap();
        }
        let marked = json!({ "metadata": { "name": "end" }, "data": { "k": "end" } });
        let marked = client.call(Call::post(&collection(), &marked)).await;
        let end = version(&marked.expect(201));
        self.until.store(end, Ordering::SeqCst);
        let history = Watcher {
            client: target.client(),
            path: collection(),
            read,
            selector: String::new(),
            from: self.from,
            until: Arc::new(AtomicU64::new(end)),
        };
        let history = history.run().await.events;
        let listed = client.call(Call::get(&collection())).await.expect(200);
        check_state(&history, &listed, &possible);
        self.write_log.check(&history);
        check_count(&history, &self.count);
        patches::check(&history, &self.patches);
        for (selector, watcher) in self.watchers {
            watcher.await.unwrap().check(&selector, &history);
        }
        let acknowledged = self.write_log.acknowledged.lock().len();
        println!(
            "{acknowledged} writes acknowledged, {} unknown, {} refused, {} events",
            self.write_log.unknown.load(Ordering::SeqCst),
            self.write_log.refused.load(Ordering::SeqCst),
            history.len()
        );
        acknowledged
    }
}

/// Everything twice, one writer's objects by label, one object by name, and nothing.
fn selectors() -> Vec<String> {
    [
        "",
        "",
        "&labelSelector=writer%3Dw1",
        "&fieldSelector=metadata.name%3Dw2-0",
    ]
    .into_iter()
    .chain(["&labelSelector=writer%3Dnobody", ""])
    .map(str::to_owned)
    .collect()
}

/// Checks that the end of history equals the state, and that each object has a state that its
/// writer allows.
fn check_state(history: &[WatchEvent], list: &Value, possible: &BTreeMap<String, PossibleStates>) {
    let folded = fold(history).unwrap();
    let listed: BTreeMap<String, String> =
        list["items"].as_array().unwrap().iter().map(read).collect();
    assert_eq!(folded, listed, "history doesn't end in the state");
    for (name, possible) in possible {
        let state = listed.get(name).cloned();
        possible
            .read(state)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Checks that no increment was overwritten.
fn check_count(history: &[WatchEvent], count: &counter::Count) {
    let last = history
        .iter()
        .rev()
        .find(|event| event.name == counter::NAME)
        .unwrap();
    let last: u64 = last.value.parse().unwrap();
    let acknowledged = count.acknowledged.load(Ordering::SeqCst);
    let unknown = count.unknown.load(Ordering::SeqCst);
    assert!(
        acknowledged <= last,
        "{acknowledged} additions were acknowledged, {last} are there"
    );
    assert!(
        last <= acknowledged + unknown,
        "{last} additions of {acknowledged} and {unknown}"
    );
}
