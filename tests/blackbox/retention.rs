//! History is removed at the end of its retention, and its space is freed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap, version};

const KEYS: u64 = 1_000;
const WRITERS: u64 = 32;
const MIB: u64 = 1024 * 1024;

/// The disk space of a folder.
fn allocated(folder: &Path) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        // A file may go away meanwhile.
        let Ok(metadata) = entry.and_then(|entry| Ok((entry.metadata()?, entry.path()))) else {
            continue;
        };
        sum += metadata.0.blocks() * 512;
        if metadata.0.is_dir() {
            sum += allocated(&metadata.1);
        }
    }
    sum
}

/// Updates each key in turn from many writers; returns the longest that one update took.
async fn update(daemon: &Daemon, updates: u64) -> Duration {
    let next = Arc::new(AtomicU64::new(0));
    let writers = (0..WRITERS).map(|_| {
        let (client, next) = (daemon.client(), next.clone());
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= updates {
                    return longest;
                }
                let name = format!("key-{}", number % KEYS);
                let value = format!("{number:0>1000}");
                let call = match number / KEYS {
                    0 => Call::post(CONFIGMAPS, &body(&name, &value)),
                    _ => Call::put(&configmap(&name), &body(&name, &value)),
                };
                let start = Instant::now();
                let answer = client.call(call).await;
                longest = longest.max(start.elapsed());
                // An update may overtake the creation of its key.
                assert!(
                    answer.status.is_success() || answer.status == 404,
                    "{}",
                    answer.text()
                );
            }
        })
    });
    join_all(writers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .max()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_forgotten_history_is_bounded_and_given_back() {
    let long = std::env::var_os("TAFFRAIL_LONG").is_some();
    let (updates, age) = if long { (200_000, 10) } else { (20_000, 2) };
    let daemon = Daemon::with(&["--retention-age", &format!("{age}s")]).await;
    let first = version(
        &daemon
            .client()
            .call(Call::get(CONFIGMAPS))
            .await
            .expect(200),
    );
    let data = daemon.data();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let sampler = tokio::spawn(async move {
        let mut stopped = std::pin::pin!(stopped);
        let mut most = 0;
        loop {
            most = most.max(allocated(&data));
            let wait = tokio::time::timeout(Duration::from_millis(100), &mut stopped);
            if wait.await.is_ok() {
                return most;
            }
        }
    });
    let longest = update(&daemon, updates).await;
    stop.send(()).unwrap();
    let most = sampler.await.unwrap();
    println!(
        "{updates} updates: at most {} MiB, longest update {longest:?}",
        most / MIB
    );
    assert!(most <= 256 * MIB, "{} MiB", most / MIB);
    assert!(
        longest < Duration::from_secs(5),
        "an update took {longest:?}"
    );

    // Younger history stays, however small the file could be.
    tokio::time::sleep(Duration::from_secs(age + 1)).await;
    daemon.compact().await;
    let after = allocated(&daemon.data());
    let list = daemon.client().call(Call::get(CONFIGMAPS)).await;
    let live = list.body.len() as u64;
    println!("compacted: {} KiB, live {} KiB", after / 1024, live / 1024);
    assert!(
        after <= 3 * live + 16 * MIB,
        "{} MiB of {} KiB",
        after / MIB,
        live / 1024
    );
    let list = list.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len() as u64, KEYS);
    assert!(
        version(&list) >= first + updates - KEYS,
        "{}",
        version(&list)
    );
}

#[tokio::test]
async fn history_older_than_its_age_is_forgotten_without_being_asked() {
    let daemon = Daemon::with(&["--retention-age", "1s"]).await;
    let client = daemon.client();
    let first = version(
        &client
            .call(Call::post(CONFIGMAPS, &body("a", "0")))
            .await
            .expect(201),
    );
    let start = Instant::now();
    let mut number = 0;
    loop {
        number += 1;
        let put = Call::put(&configmap("a"), &body("a", &number.to_string()));
        client.call(put).await.expect(200);
        let exact = format!("{CONFIGMAPS}?resourceVersion={first}&resourceVersionMatch=Exact");
        match client.call(Call::get(&exact)).await.status.as_u16() {
            410 => break,
            200 => assert!(
                start.elapsed() < Duration::from_secs(60),
                "it is never forgotten"
            ),
            other => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        start.elapsed() >= Duration::from_millis(900),
        "forgotten too early"
    );
    // The object itself stays, however old.
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert_eq!(list["items"][0]["data"]["k"], number.to_string());
}
