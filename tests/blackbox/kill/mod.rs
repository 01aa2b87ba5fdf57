//! Kills of the real daemon at random moments, with writers and watchers.
//!
//! This folder owns the test, its counter and its patches. `TAFFRAIL_KILL_ROUNDS` sets the number
//! of kills, and `TAFFRAIL_SEED` repeats the random choices of a run. It must not know the daemon's
//! code.

mod counter;
mod patches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Call, Daemon, Protocol, version};
use crate::load::{
    Collection, PossibleStates, Random, WatchEvent, Watcher, WriteLog, Writer, fold,
    from_environment, seed,
};

const NAMESPACE: &str = "kills";
const WRITERS: u64 = 8;

fn collection() -> String {
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

/// ConfigMaps of one namespace, each labelled with its writer.
struct Labelled(String);

impl Collection for Labelled {
    fn path(&self) -> String {
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

fn protocol(number: u64) -> Protocol {
    if number.is_multiple_of(2) {
        Protocol::Http2
    } else {
        Protocol::Http1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_no_watch_has_a_gap_when_the_daemon_is_killed() {
    let rounds = from_environment("TAFFRAIL_KILL_ROUNDS").unwrap_or(60);
    let seed = seed();
    println!("TAFFRAIL_SEED={seed} TAFFRAIL_KILL_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    let mut daemon = Daemon::start().await;
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    let created = daemon
        .client()
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await;
    let from = version(&created.expect(201));

    let write_log = Arc::new(WriteLog::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let client = daemon.target().client_over(protocol(number));
            let name = format!("w{number}");
            let labelled = Arc::new(Labelled(name.clone()));
            tokio::spawn(
                Writer::new(client, write_log.clone(), labelled, name, random.next()).run(),
            )
        })
        .collect();
    let path = collection();
    daemon
        .client()
        .call(Call::post(&path, &counter::zero()))
        .await
        .expect(201);
    let count = Arc::new(counter::Count::default());
    let counting: Vec<_> = (0..3)
        .map(|number| {
            let client = daemon.target().client_over(protocol(number));
            tokio::spawn(counter::run(client, write_log.clone(), count.clone()))
        })
        .collect();
    daemon
        .client()
        .call(Call::post(&path, &patches::unpatched()))
        .await
        .expect(201);
    let acknowledged = patches::Acknowledged::default();
    let patching: Vec<_> = (0..patches::WRITERS)
        .map(|number| {
            let client = daemon.target().client_over(protocol(number));
            let (write_log, acknowledged) = (write_log.clone(), acknowledged.clone());
            tokio::spawn(patches::run(client, number, write_log, acknowledged))
        })
        .collect();
    let until = Arc::new(AtomicU64::new(0));
    let watchers: Vec<_> = selectors()
        .into_iter()
        .zip(0..)
        .map(|(selector, number)| {
            let client = daemon.target().client_over(protocol(number));
            let watcher = Watcher {
                client,
                path: collection(),
                read,
                selector: selector.clone(),
                from,
                until: until.clone(),
            };
            (selector, tokio::spawn(watcher.run()))
        })
        .collect();

    for round in 0..rounds {
        let newest = write_log.newest();
        // Some kills come before the daemon is ready, some later.
        let wait = if random.below(8) == 0 {
            random.below(60)
        } else {
            20 + random.below(400)
        };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        daemon.kill().await;
        daemon.relaunch().await;
        if random.below(8) != 0 {
            daemon.ready().await;
            let list = list(&daemon).await;
            assert!(
                version(&list) >= newest,
                "round {round}: back to {list} from {newest}"
            );
        }
    }

    daemon.ready().await;
    write_log.stop.store(true, Ordering::SeqCst);
    let mut possible = BTreeMap::new();
    for writer in writers {
        possible.extend(writer.await.unwrap());
    }
    for each in counting.into_iter().chain(patching) {
        each.await.unwrap();
    }
    let marked = json!({ "metadata": { "name": "end" }, "data": { "k": "end" } });
    let end = version(
        &daemon
            .client()
            .call(Call::post(&path, &marked))
            .await
            .expect(201),
    );
    until.store(end, Ordering::SeqCst);
    let history = history(&daemon, from, end).await;
    check_state(&history, &list(&daemon).await, &possible);
    write_log.check(&history);
    check_count(&history, &count);
    patches::check(&history, &acknowledged);
    for (selector, watcher) in watchers {
        let record = watcher.await.unwrap();
        let wanted: Vec<WatchEvent> = history
            .iter()
            .filter(|event| selects(&selector, event))
            .cloned()
            .collect();
        let differs = wanted.iter().zip(&record.events).find(|(a, b)| a != b);
        let around = differs.map(|(wanted, _)| record.around(wanted.version));
        assert_eq!(
            record.events, wanted,
            "the stream of {selector:?} isn't what history holds; around the difference: {around:?}"
        );
    }
    println!(
        "{} writes acknowledged, {} unknown, {} refused, {} events",
        write_log.acknowledged.lock().len(),
        write_log.unknown.load(Ordering::SeqCst),
        write_log.refused.load(Ordering::SeqCst),
        history.len()
    );
    assert!(
        write_log.acknowledged.lock().len() as u64 >= rounds,
        "hardly anything was written"
    );
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

fn selects(selector: &str, event: &WatchEvent) -> bool {
    match selector {
        "" => true,
        "&labelSelector=writer%3Dw1" => event.name.starts_with("w1-"),
        "&fieldSelector=metadata.name%3Dw2-0" => event.name == "w2-0",
        _ => false,
    }
}

async fn list(daemon: &Daemon) -> Value {
    let path = collection();
    daemon.client().call(Call::get(&path)).await.expect(200)
}

/// All events from one version to another, as a new watch sees them.
async fn history(daemon: &Daemon, from: u64, end: u64) -> Vec<WatchEvent> {
    let until = Arc::new(AtomicU64::new(end));
    let selector = String::new();
    Watcher {
        client: daemon.client(),
        path: collection(),
        read,
        selector,
        from,
        until,
    }
    .run()
    .await
    .events
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
