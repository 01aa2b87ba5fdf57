//! Registers on the embedded engine, whose updates take turns and share commits, while the daemon
//! is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::harness::{Call, Daemon, Protocol, version};
use crate::load::{Random, Watcher, from_environment, seed};
use crate::registers::check::{ActualHistory, History, check};
use crate::registers::client::{self as registers, REGISTERS, RegisterClient};

const CLIENTS: u64 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_linearizable_while_updates_share_commits_and_the_daemon_is_killed() {
    let _turn = crate::turn().await;
    let rounds = from_environment("TAFFRAIL_KILL_ROUNDS").unwrap_or(8);
    let seed = seed();
    println!("TAFFRAIL_SEED={seed} TAFFRAIL_KILL_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    let mut daemon = Daemon::start().await;
    let namespace = json!({ "metadata": { "name": registers::NAMESPACE } });
    let created = daemon
        .client()
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await;
    let from = version(&created.expect(201));
    for number in 0..REGISTERS {
        let object = registers::object(&registers::name(number), "0", None);
        let post = Call::post(&registers::collection(), &object);
        daemon.client().call(post).await.expect(201);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let protocol = match number.is_multiple_of(2) {
                true => Protocol::Http2,
                false => Protocol::Http1,
            };
            let client = daemon.target().client_over(protocol);
            let name = format!("c{number}");
            let client = RegisterClient::new(client, name, random.next(), stop.clone());
            tokio::spawn(client.run())
        })
        .collect();
    for _ in 0..rounds {
        tokio::time::sleep(Duration::from_millis(200 + random.below(800))).await;
        daemon.kill().await;
        daemon.relaunch().await;
        daemon.ready().await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut answers = History::default();
    for client in clients {
        let history = client.await.unwrap();
        answers.calls.extend(history.calls);
        answers.lists.extend(history.lists);
    }
    let path = registers::collection();
    let end = registers::object("end", "end", None);
    let end = daemon.client().call(Call::post(&path, &end)).await;
    let end = version(&end.expect(201));
    let watcher = Watcher {
        client: daemon.client(),
        path,
        read: |object| {
            let (name, _, value) = registers::read(object);
            (name, value)
        },
        selector: String::new(),
        from,
        until: Arc::new(AtomicU64::new(end)),
    };
    let mut actual = ActualHistory::new();
    for event in watcher.run().await.events {
        let versions = actual.entry(event.name).or_default();
        versions.insert(event.version, event.value);
    }
    // It was created when all lists had been answered.
    actual.remove("end");
    println!(
        "{} calls, {} lists, {} versions",
        answers.calls.len(),
        answers.lists.len(),
        actual
            .values()
            .map(|versions| versions.len())
            .sum::<usize>()
    );
    assert!(answers.calls.len() as u64 > rounds * CLIENTS);
    if let Err(error) = check(&answers, &actual) {
        panic!("the answers to clients are impossible: {error}");
    }
}
