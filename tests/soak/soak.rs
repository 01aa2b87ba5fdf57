//! Very many watches and many writers for minutes: nothing is lost, repeated or refused, and memory
//! stays flat. `cargo bench -- soak` does the same for ten minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::harness::client::Lines;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body, configmap, version};

/// Watches of one connection.
const STREAMS: usize = 100;
/// Time for the last events to arrive.
const SETTLING: Duration = Duration::from_secs(60);

/// The size of a soak.
#[derive(Clone, Copy)]
pub struct Soak {
    /// Each watches one of the writers' objects.
    pub watches: usize,
    /// Each writes an object of its own.
    pub writers: usize,
    /// Time between two writes of a writer.
    pub pace: Duration,
    pub duration: Duration,
}

/// What became of it.
pub struct SoakOutcome {
    pub writes: u64,
    pub deliveries: u64,
    /// Events that were missing, repeated or out of order.
    pub wrong: u64,
    /// Resident memory in MiB, after a fifth of the time and at the end.
    pub early: f64,
    pub late: f64,
}

/// What the tasks share.
#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    deliveries: AtomicU64,
    wrong: AtomicU64,
}

fn name(writer: usize) -> String {
    format!("w{writer}")
}

/// Writes rising numbers into an object until it is told to stop. Returns the last one.
async fn write(client: Client, writer: usize, pace: Duration, counts: Arc<Counts>) -> u64 {
    let path = configmap(&name(writer));
    let mut number = 0;
    while !counts.stop.load(Ordering::Relaxed) {
        let due = Instant::now() + pace;
        number += 1;
        let call = Call::put(&path, &body(&name(writer), &number.to_string()));
        client.call(call).await.expect(200);
        tokio::time::sleep_until(due.into()).await;
    }
    number
}

/// Reads events until the stream ends. They must bring the numbers from 1 on, one by one.
async fn follow(mut lines: Lines, client: Arc<Client>, counts: Arc<Counts>) {
    let mut last = 0;
    while let Ok(Some(line)) = lines.next().await {
        let number = number(&line);
        if number != last + 1 {
            counts.wrong.fetch_add(1, Ordering::Relaxed);
        }
        last = number;
        counts.deliveries.fetch_add(1, Ordering::Relaxed);
    }
    drop(client);
}

/// The number in an event. Parsing each as JSON would cost more than the daemon spends on it.
fn number(line: &[u8]) -> u64 {
    let key = b"\"k\":\"";
    let at = line.windows(key.len()).position(|window| window == key);
    let digits = at.map_or(&[][..], |at| &line[at + key.len()..]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'))
}

/// Opens all watches, a piece for each object.
async fn open(daemon: &Daemon, soak: Soak, from: u64, counts: &Arc<Counts>) {
    let mut opened = 0;
    while opened < soak.watches {
        let client = Arc::new(daemon.client());
        let streams = STREAMS.min(soak.watches - opened);
        let opening = (opened..opened + streams).map(|number| {
            let name = name(number % soak.writers);
            let path = format!(
                "{CONFIGMAPS}?watch=true&timeoutSeconds=7200&resourceVersion={from}\
                 &fieldSelector=metadata.name={name}"
            );
            let client = Arc::clone(&client);
            async move { client.watch(&path).await }
        });
        for lines in join_all(opening).await {
            tokio::spawn(follow(lines, Arc::clone(&client), Arc::clone(counts)));
        }
        opened += streams;
    }
}

pub async fn run(daemon: &Daemon, soak: Soak) -> SoakOutcome {
    let counts = Arc::new(Counts::default());
    let client = daemon.client();
    for writer in 0..soak.writers {
        let object = body(&name(writer), "0");
        client
            .call(Call::post(CONFIGMAPS, &object))
            .await
            .expect(201);
    }
    let from = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    open(daemon, soak, from, &counts).await;
    let writers = (0..soak.writers).map(|writer| {
        let writing = write(daemon.client(), writer, soak.pace, Arc::clone(&counts));
        tokio::spawn(writing)
    });
    let writers: Vec<_> = writers.collect();
    tokio::time::sleep(soak.duration / 5).await;
    let early = daemon.resident();
    tokio::time::sleep(soak.duration - soak.duration / 5).await;
    let late = daemon.resident();
    counts.stop.store(true, Ordering::Relaxed);
    let (mut writes, mut wanted) = (0, 0);
    for (writer, running) in writers.into_iter().enumerate() {
        let last = running.await.expect("a writer without errors");
        writes += last;
        let watches = (writer..soak.watches).step_by(soak.writers).count();
        wanted += last * watches as u64;
    }
    let arrived = || counts.deliveries.load(Ordering::Relaxed);
    let deadline = Instant::now() + SETTLING;
    while arrived() < wanted && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    SoakOutcome {
        writes,
        deliveries: arrived(),
        wrong: counts.wrong.load(Ordering::Relaxed) + wanted.abs_diff(arrived()),
        early,
        late,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_watches_and_two_hundred_writers_go_on_and_on() {
    let daemon = Daemon::with(&["--watch-ring-bytes=1MiB", "--retention-bytes=8MiB"]).await;
    let soak = Soak {
        watches: 20_000,
        writers: 200,
        pace: Duration::from_secs(2),
        duration: Duration::from_secs(60),
    };
    let soaked = run(&daemon, soak).await;
    let SoakOutcome { early, late, .. } = soaked;
    println!(
        "{} writes, {} deliveries, {early} and {late} MiB",
        soaked.writes, soaked.deliveries
    );
    assert_eq!(soaked.wrong, 0, "{}", daemon.stderr());
    assert!(soaked.deliveries > 200_000, "{}", soaked.deliveries);
    assert!(late < early * 1.05 + 8.0, "{early} MiB grew to {late}");
}
