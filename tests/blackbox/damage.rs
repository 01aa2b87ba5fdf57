//! Damage to the store's file while the daemon serves from it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{CONFIGMAPS, Call, Daemon, Options, body, configmap, version};

/// The time limit for verifying a small store on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const DAMAGED: &str = "taffrail_storage_damaged_records";
const PASSES: &str = "taffrail_storage_verification_passes_total";

/// A value of some KiB that is unique in the file.
fn value_of(number: usize) -> String {
    format!("object {number:03} ").repeat(300)
}

/// A daemon with some hundred objects of some KiB, which are in the database and not in its
/// journal only.
async fn filled(rate: &str) -> (Daemon, Vec<Value>) {
    let mut daemon = Daemon::with(&["--verify-bytes-per-second", rate]).await;
    let client = daemon.client();
    let mut objects = Vec::new();
    for number in 0..200 {
        let object = body(&format!("c{number}"), &value_of(number));
        objects.push(
            client
                .call(Call::post(CONFIGMAPS, &object))
                .await
                .expect(201),
        );
    }
    daemon.stop(Signal::TERM).await;
    daemon.restart().await;
    (daemon, objects)
}

/// Changes `count` bytes of the file inside a value.
fn flip(daemon: &Daemon, value: &str, count: u64) {
    let path = daemon.data().join("events.redb");
    let bytes = std::fs::read(&path).unwrap();
    let places = places_of(&bytes, value.as_bytes());
    assert!(!places.is_empty(), "the file does not hold {value:.20}");
    let file = File::options().write(true).open(&path).unwrap();
    for place in places {
        for at in (place + 100..).take(count as usize) {
            file.write_all_at(&[bytes[at] ^ 0x55], at as u64).unwrap();
        }
    }
}

/// All places where a text begins.
fn places_of(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let begins = |at: &usize| bytes[*at] == text[0] && bytes[*at..].starts_with(text);
    (0..bytes.len()).filter(begins).collect()
}

/// Waits until `more` further passes are complete.
async fn passes(daemon: &Daemon, more: u64) {
    let before = daemon.count(PASSES).await;
    let begun = Instant::now();
    while daemon.count(PASSES).await < before + more {
        assert!(begun.elapsed() < TIMEOUT, "no pass is completed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn damage_behind_a_serving_daemon_ends_its_readiness_and_is_named() {
    let (daemon, objects) = filled("1GiB").await;
    let (client, stranger) = (daemon.client(), daemon.target().anonymous().client());
    // While nothing is damaged, passes continue.
    passes(&daemon, 2).await;
    let ready = client.call(Call::get("/readyz?verbose")).await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(
        ready.text().contains("[+]storage-integrity ok\n"),
        "{}",
        ready.text()
    );
    assert_eq!(daemon.count(DAMAGED).await, 0);

    flip(&daemon, &value_of(77), 60);
    let begun = Instant::now();
    while stranger.call(Call::get("/readyz")).await.status == 200 {
        assert!(begun.elapsed() < TIMEOUT, "60 bytes went unnoticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let listing = stranger.call(Call::get("/readyz")).await;
    assert_eq!(listing.status, 500);
    // An anonymous client sees which check fails, an authorized one also sees why.
    let text = listing.text();
    assert!(text.contains("[-]storage-integrity failed"), "{text}");
    let why = client.call(Call::get("/readyz/storage-integrity")).await;
    assert_eq!(why.status, 500);
    let record = format!(
        "table events, record {}: its checksum is",
        version(&objects[77])
    );
    for word in ["/events.redb is damaged", &record, "restore"] {
        assert!(why.text().contains(word), "{word}: {}", why.text());
    }
    stranger
        .call(Call::get("/readyz/storage-integrity"))
        .await
        .refusal(403, "Forbidden");
    for path in ["/livez", "/healthz"] {
        assert_eq!(stranger.call(Call::get(path)).await.status, 200, "{path}");
    }
    assert_eq!(daemon.count(DAMAGED).await, 1);

    // No client gets a wrong value, and everything else can be read and written.
    for number in [0, 77, 199] {
        let found = client
            .call(Call::get(&configmap(&format!("c{number}"))))
            .await;
        if number != 77 || found.status == 200 {
            assert_eq!(found.expect(200), objects[number]);
        }
    }
    let created = client.call(Call::post(CONFIGMAPS, &body("later", "1")));
    created.await.expect(201);
    // The fault is logged once, even if many passes find it.
    let found_again = daemon.count(PASSES).await;
    passes(&daemon, 2).await;
    assert!(daemon.count(PASSES).await >= found_again + 2);
    let log = daemon.stderr();
    let lines = log.lines().filter(|line| line.contains(&record));
    assert_eq!(lines.clone().count(), 1, "{log}");
    assert!(
        lines.into_iter().all(|line| line.contains("ERROR")),
        "{log}"
    );
    assert_eq!(stranger.call(Call::get("/readyz")).await.status, 500);
}

#[tokio::test]
async fn damage_anywhere_in_the_file_is_noticed_and_the_daemon_lives() {
    let (daemon, _) = filled("1GiB").await;
    passes(&daemon, 1).await;
    // Every page that holds one of these, and whatever else is in it.
    for number in (0..200).step_by(10) {
        flip(&daemon, &value_of(number), 3000);
    }
    let client = daemon.client();
    let begun = Instant::now();
    while daemon.count(DAMAGED).await < 20 {
        assert!(begun.elapsed() < TIMEOUT, "not all damage is noticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(client.call(Call::get("/livez")).await.status, 200);
    assert_eq!(client.call(Call::get("/readyz")).await.status, 500);
    let why = client
        .call(Call::get("/readyz/storage-integrity"))
        .await
        .text();
    assert!(why.contains("(and 19 more"), "{why}");
}

/// Waits until the daemon has this readiness.
async fn until_ready(daemon: &Daemon, is_ready: bool) {
    let begun = Instant::now();
    while (daemon.client().call(Call::get("/readyz")).await.status == 200) != is_ready {
        assert!(begun.elapsed() < TIMEOUT, "ready: not {is_ready}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_store_that_is_not_at_its_path_any_more_ends_readiness_until_it_is_put_back() {
    let (mut daemon, _) = filled("1GiB").await;
    let [path, kept, again] = ["events.redb", "kept", "again"].map(|name| daemon.data().join(name));
    // A second name is not a fault, because the served file is still at its path.
    std::fs::hard_link(&path, &kept).unwrap();
    passes(&daemon, 2).await;
    until_ready(&daemon, true).await;
    let gone = || std::fs::remove_file(&path).unwrap();
    let replaced = || {
        std::fs::copy(&kept, &again).unwrap();
        std::fs::rename(&again, &path).unwrap();
    };
    for (name, harm) in [("gone", &gone as &dyn Fn()), ("replaced", &replaced)] {
        harm();
        until_ready(&daemon, false).await;
        let client = daemon.client();
        let why = client.call(Call::get("/readyz/storage-integrity")).await;
        for word in [
            "/events.redb is damaged: it is not at its path any more, or another file is",
            "put the file back",
        ] {
            assert!(why.text().contains(word), "{word}: {}", why.text());
        }
        let created = client.call(Call::post(CONFIGMAPS, &body(name, "1")));
        created.await.expect(201);
        assert_eq!(client.call(Call::get("/livez")).await.status, 200);
        // The fault ends when the file is restored.
        std::fs::hard_link(&kept, &again).unwrap();
        std::fs::rename(&again, &path).unwrap();
        until_ready(&daemon, true).await;
        assert_eq!(daemon.count(DAMAGED).await, 0);
    }
    std::fs::remove_file(&kept).unwrap();
    daemon.stop(Signal::TERM).await;
    let daemon = Options::default().over(daemon.folder()).start().await;
    for name in ["gone", "replaced"] {
        let read = Call::get(&configmap(name));
        daemon.client().call(read).await.expect(200);
    }
}

/// Whether the process has a thread that verifies.
fn has_verifier(daemon: &Daemon) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    tasks.flatten().any(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == "storage-verify"
    })
}

#[tokio::test]
async fn a_rate_of_zero_verifies_nothing_and_the_default_does() {
    assert!(has_verifier(&Daemon::start().await));
    let daemon = Daemon::with(&["--verify-bytes-per-second", "0"]).await;
    assert!(!has_verifier(&daemon));
    let wrong = crate::harness::daemon::taffrail()
        .args(["config", "--verify-bytes-per-second", "fast"])
        .output()
        .unwrap();
    assert!(!wrong.status.success());
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        text.contains("verify-bytes-per-second") && text.contains("not a size"),
        "{text}"
    );
}
