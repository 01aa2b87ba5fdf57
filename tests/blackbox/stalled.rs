//! Streams that are read, on a connection with streams whose window never opens.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::streams::{Connection, Stream};
use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap, version};

/// Less than one event.
const WINDOW: u32 = 1 << 10;
const OPEN_WINDOW: u32 = 64 << 10;
const RING_BYTES: u64 = 256 << 10;
const VALUE_BYTES: u64 = 4 << 10;
/// The ring wraps eight times.
const WRITES: u64 = 8 * RING_BYTES / VALUE_BYTES;
const OBJECTS: u64 = 20;
const CONNECTIONS: usize = 2;
/// Of each connection.
const FAST: usize = 3;
const STALLED: usize = 30;
/// A queue of its own for each stalled stream would take 130 MiB.
const GROWTH_MAX: f64 = 50.0;
const TIMEOUT: Duration = Duration::from_secs(60);

async fn next(stream: &mut Stream) -> Value {
    let event = tokio::time::timeout(TIMEOUT, stream.event()).await;
    let event = event.expect("an event in time").unwrap();
    let event = event.expect("the stream goes on");
    assert_ne!(event["type"], "ERROR", "{event}");
    event["object"].clone()
}

async fn versions(stream: &mut Stream, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(version(&next(stream).await));
    }
    seen
}

/// A write of some KiB, and its version.
async fn write(daemon: &Daemon, client: &crate::harness::Client, number: u64) -> u64 {
    let name = format!("a{}", number % OBJECTS);
    let value = format!("{number:0>width$}", width = VALUE_BYTES as usize);
    let call = match number / OBJECTS {
        0 => Call::post(CONFIGMAPS, &body(&name, &value)),
        _ => Call::put(&configmap(&name), &body(&name, &value)),
    };
    let answer = client.call(call).await;
    assert!(
        answer.status.is_success(),
        "{}\n{}",
        answer.text(),
        daemon.stderr()
    );
    version(&answer.json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_streams_delay_none_of_their_connection_and_go_on_from_history_pf_14_wa_25() {
    let ring = RING_BYTES.to_string();
    let daemon = Daemon::with(&["--watch-ring-bytes", &ring]).await;
    let client = daemon.client();
    let from = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
    let mut connections = Vec::new();
    let (mut fast, mut stalled) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let connection = Connection::open(&daemon.target(), WINDOW).await.unwrap();
        for _ in 0..STALLED {
            stalled.push(connection.watch(&path).await.unwrap());
        }
        for _ in 0..FAST {
            fast.push(connection.watch(&path).await.unwrap());
        }
        connections.push(connection);
    }
    let lost = Connection::open(&daemon.target(), WINDOW).await.unwrap();
    let mut cut = lost.watch(&path).await.unwrap();

    let mut wanted = Vec::new();
    let mut cut_saw = Vec::new();
    let before = daemon.resident();
    for number in 0..WRITES {
        wanted.push(write(&daemon, &client, number).await);
        // No other stream's window delays them: each has the event before the next write.
        for stream in &mut fast {
            assert_eq!(Some(&version(&next(stream).await)), wanted.last());
        }
        if number < 10 {
            cut_saw.push(version(&next(&mut cut).await));
        }
    }
    let growth = daemon.resident() - before;
    println!("{growth} MiB more for {} streams that stall", stalled.len());
    assert!(
        growth < GROWTH_MAX,
        "{growth} MiB more for streams that don't read"
    );

    let reads = "taffrail_watch_history_reads_total";
    let idle_reads = daemon.count(reads).await;
    assert_eq!(idle_reads, 0, "history was read that nobody could be sent");

    // Their windows open at last, long after the ring has dropped the events that they missed.
    for connection in &connections {
        connection.open_windows(OPEN_WINDOW).await;
    }
    let reading = stalled.into_iter().map(|mut stream| {
        let count = wanted.len();
        tokio::spawn(async move { (versions(&mut stream, count).await, stream) })
    });
    let mut streams = Vec::new();
    for read in join_all(reading).await {
        let (seen, stream) = read.unwrap();
        assert_eq!(seen, wanted);
        streams.push(stream);
    }
    assert!(
        daemon.count(reads).await > 0,
        "the ring still had everything"
    );
    drop((lost, cut));
    let newest = cut_saw.last().unwrap();
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={newest}");
    let connection = Connection::open(&daemon.target(), WINDOW).await.unwrap();
    let mut resumed = connection.watch(&path).await.unwrap();
    cut_saw.extend(versions(&mut resumed, wanted.len() - cut_saw.len()).await);
    assert_eq!(cut_saw, wanted);

    // No event was repeated: the next one for all of them is the next write.
    let last = write(&daemon, &client, WRITES).await;
    for stream in fast.iter_mut().chain(&mut streams).chain([&mut resumed]) {
        let object = next(stream).await;
        assert_eq!(version(&object), last);
        assert_eq!(
            object["metadata"]["name"],
            json!(format!("a{}", WRITES % OBJECTS))
        );
    }
}
