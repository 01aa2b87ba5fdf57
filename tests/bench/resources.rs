//! Measures many unused resources: the cost of each, and their effect on used resources. The daemon
//! runs in this process, because resources are added through its handle.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use taffrail::api::resource::ResourceDefinition;

use crate::harness::Call;
use crate::load;
use crate::meter::{self, Sample};
use crate::process::{Process, Running};
use crate::report::{figure, noise, part};

const FEW: usize = 10;
/// The number of resources with objects and requests.
const USED: usize = 100;
const MANY: usize = 1_000;
const SCRAPES: u32 = 200;
const WRITES: u64 = 5_000;

/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(12);

async fn add(running: &Running, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let (kind, plural) = (format!("Idle{number}"), format!("idle{number}s"));
        let idle = ResourceDefinition::named("example.com", "v1", &kind, &plural);
        running.resources.add(idle).await.unwrap();
    }
}

/// Returns the microseconds of this process's CPU for a write and its event.
async fn write(running: &Running) -> f64 {
    let client = running.client();
    let path = format!("{}/{}", load::collection(), load::name(0));
    let before = Sample::without_daemon();
    for number in 0..WRITES {
        let patch = json!({ "data": { "stamp": number.to_string() } });
        client
            .call(Call::merge_patch(&path, &patch))
            .await
            .expect(200);
    }
    let used = before.until(&Sample::without_daemon());
    noise(used.other_cores);
    used.own * 1e6 / WRITES as f64
}

/// Requests objects of resources in each way, so that all their series exist.
async fn ask(running: &Running, numbers: std::ops::Range<usize>) {
    let client = running.client();
    for number in numbers {
        let kind = format!("Idle{number}");
        let all = format!("/apis/example.com/v1/namespaces/default/idle{number}s");
        let object = format!("{all}/a");
        let body = json!({
            "apiVersion": "example.com/v1", "kind": kind, "metadata": { "name": "a" },
        });
        let mut watch = client.watch(&format!("{all}?watch=true")).await;
        client.call(Call::post(&all, &body)).await.expect(201);
        watch.event().await;
        for call in [
            Call::get(&all),
            Call::get(&object),
            Call::merge_patch(&object, &json!({ "metadata": { "labels": { "a": "b" } } })),
        ] {
            client.call(call).await.expect(200);
        }
    }
}

/// Returns the milliseconds of the daemon's CPU for a scrape, and the bytes of the page. It scrapes
/// as Prometheus does: over one connection to the port for metrics.
fn scrape(running: &Running) -> (f64, usize) {
    let address = running.metrics;
    let before = Sample::without_daemon();
    let scraping = std::thread::spawn(move || {
        let mut connection = BufReader::new(TcpStream::connect(address).unwrap());
        let mut bytes = 0;
        for _ in 0..SCRAPES {
            bytes = page(&mut connection);
        }
        (meter::thread(), bytes)
    });
    let (client, bytes) = scraping.join().unwrap();
    let used = before.until(&Sample::without_daemon());
    let daemon = used.own - client;
    (daemon * 1e3 / f64::from(SCRAPES), bytes)
}

/// Requests a page. Returns its length in bytes.
fn page(connection: &mut BufReader<TcpStream>) -> usize {
    let asked = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.get_mut().write_all(asked).unwrap();
    let mut bytes = None;
    let mut line = String::new();
    loop {
        line.clear();
        connection.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        match line.strip_prefix("content-length: ") {
            Some(length) => bytes = Some(length.parse().unwrap()),
            None if line.is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; bytes.unwrap()];
    connection.read_exact(&mut body).unwrap();
    body.len()
}

async fn idle(running: &Running) {
    let client = running.client();
    let namespace = json!({ "metadata": { "name": load::NAMESPACE } });
    let created = client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await;
    created.expect(201);
    let object = load::object(0, "0");
    let created = client.call(Call::post(&load::collection(), &object)).await;
    created.expect(201);
    add(running, 0..FEW).await;
    write(running).await;
    let few = write(running).await;
    add(running, FEW..USED).await;
    ask(running, 0..USED).await;
    let (scrape, bytes) = scrape(running);
    tokio::time::sleep(SETTLE).await;
    let before = Process::resident_mib();
    let started = Instant::now();
    add(running, USED..MANY).await;
    let took = started.elapsed().as_secs_f64() * 1e3 / (MANY - USED) as f64;
    tokio::time::sleep(SETTLE).await;
    let each = (Process::resident_mib() - before) * 1024.0 / (MANY - USED) as f64;
    let many = write(running).await;
    let each_name = "memory of each idle resource";
    figure(each_name, each, "KiB", "< 20");
    figure("adding one, with its cache", took, "ms", "");
    let name = format!("CPU of a scrape with {USED} used resources");
    figure(&name, scrape, "ms", "< 5");
    figure("bytes of its page", bytes as f64 / 1e3, "KB", "");
    let name = |count| format!("CPU of a write with {count}, client included");
    figure(&name(FEW), few, "µs", "");
    figure(&name(MANY), many, "µs", "the same");
}

pub async fn measure() {
    part(&format!("{MANY} idle resources"));
    let measured = tokio::task::spawn_blocking(|| {
        // The thread that verifies the file would fill the page cache meanwhile.
        let running = Running::start(&["--verify-bytes-per-second=0"]);
        running.block_on(idle(&running));
        running.stop();
    });
    measured.await.unwrap();
}
