//! Adds many resources to a running daemon, one after another and as a batch. Measures the time and
//! memory that this takes, the growth of the page of metrics, and the effect on clients that watch
//! another resource meanwhile. The daemon runs in this process, because resources are added through
//! its handle. The watches run in another process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use taffrail::api::resource::ResourceDefinition;

use crate::daemons;
use crate::fanout::{self, FanoutOptions};
use crate::harness::{Call, Target, version};
use crate::load::{self, STREAMS};
use crate::process::{Process, Running};
use crate::report::{Durations, figure, part};
use crate::servers::etcd::Cluster;

/// The first argument of the process that watches.
pub const WATCHERS: &str = "--additions-watchers";
/// The first argument of a process that measures one way to add resources. It is separate, because
/// memory that another daemon has left in a process would be reused.
pub const ALONE: &str = "--additions-alone";
const RESOURCES: usize = 1_000;
/// The number of watches, unless `BENCH_WATCHES` sets another.
const WATCHES: usize = 5_000;
const UPDATES_A_SECOND: f64 = 20.0;
/// How often the watches are measured with and without additions, alternately.
const ROUNDS: usize = 3;
/// The length of each measurement.
const WINDOW: Duration = Duration::from_secs(5);
/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(12);
/// The memory that is used and freed before that. The daemon gives freed memory back only if it is
/// more than 4 MiB, which would make a difference of 4 KiB for each resource.
const FREED: [usize; 2] = [16 << 10, 1 << 10];

/// The number of watches.
pub fn watches() -> usize {
    let watches = std::env::var("BENCH_WATCHES").ok();
    watches.map_or(WATCHES, |text| text.parse().expect("a number"))
}

/// A way to add resources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    OneByOne,
    Batch,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::OneByOne => "one after another",
            How::Batch => "as a batch",
        }
    }
}

/// Adds further resources. Returns the seconds that this took.
async fn add(running: &Running, how: How, numbers: std::ops::Range<usize>) -> f64 {
    let rows = numbers.map(|number| {
        let (kind, plural) = (format!("Idle{number}"), format!("idle{number}s"));
        ResourceDefinition::named("example.com", "v1", &kind, &plural)
    });
    let rows: Vec<ResourceDefinition> = rows.collect();
    let began = Instant::now();
    match how {
        How::Batch => running.resources.add_all(rows).await.unwrap(),
        How::OneByOne => {
            for row in rows {
                running.resources.add(row).await.unwrap();
            }
        }
    }
    began.elapsed().as_secs_f64()
}

async fn page_bytes(running: &Running) -> f64 {
    let client = running.client();
    client.call(Call::get("/metrics")).await;
    client.call(Call::get("/metrics")).await.text().len() as f64
}

/// Returns the seconds until a client has the response.
async fn asked(running: &Running, path: &str) -> f64 {
    let client = running.client();
    let began = Instant::now();
    client.call(Call::get(path)).await.expect(200);
    began.elapsed().as_secs_f64()
}

/// The memory of this process, once it has given back all that it does not use.
async fn settled_mib() -> f64 {
    let [pieces, bytes] = FREED;
    drop((0..pieces).map(|_| vec![1_u8; bytes]).collect::<Vec<_>>());
    tokio::time::sleep(SETTLE).await;
    Process::resident_mib()
}

async fn alone(running: &Running, how: How) {
    // The first resources allocate memory that later ones reuse.
    add(running, how, 0..10).await;
    asked(running, "/openapi/v3").await;
    let bytes = page_bytes(running).await;
    let memory = settled_mib().await;
    let took = add(running, how, 10..10 + RESOURCES).await;
    let more = page_bytes(running).await - bytes;
    let each = (settled_mib().await - memory) * 1024.0 / RESOURCES as f64;
    figure(&format!("time, {}", how.name()), took, "s", "< 5");
    figure("memory of each while empty", each, "KiB", "< 20");
    figure(
        "more on the page of metrics",
        more / 1024.0,
        "KiB",
        "<= 300",
    );
    let document = asked(running, "/openapi/v3/apis/example.com/v1").await;
    figure("the OpenAPI document of all of them", document, "s", "");
    add(running, how, 10 + RESOURCES..11 + RESOURCES).await;
    let index = asked(running, "/openapi/v3").await;
    figure("the list of documents after one more", index, "s", "");
}

/// The process that watches one object, whose updates it sends.
pub struct Watchers {
    child: Child,
    said: BufReader<ChildStdout>,
    told: ChildStdin,
}

impl Watchers {
    /// Opens the watches of a server.
    pub fn start(target: &Target) -> Watchers {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([WATCHERS, &target.address.to_string()])
            .arg(target.token.as_deref().unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut watchers = Watchers { child, said, told };
        assert_eq!(watchers.line(), "ready");
        watchers
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Returns the 99th percentile of deliveries in milliseconds, during `work`.
    pub async fn during(&mut self, work: impl Future<Output = ()>) -> f64 {
        writeln!(self.told, "begin").unwrap();
        assert_eq!(self.line(), "begun");
        let begun = tokio::time::Instant::now();
        work.await;
        tokio::time::sleep_until(begun + WINDOW).await;
        writeln!(self.told, "end").unwrap();
        self.line().parse().unwrap()
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        // The process may have ended with an error, which it has already printed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the process that watches, with the arguments from [`Watchers::start`].
pub async fn watch(arguments: &[String]) {
    let [address, token] = arguments else {
        panic!("{WATCHERS} is for this program itself");
    };
    let target = Target::new(address.parse().unwrap(), Some(token.clone()), None);
    let client = target.client();
    let namespace = json!({ "metadata": { "name": load::NAMESPACE } });
    let created = client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await;
    created.expect(201);
    let object = load::object(0, "0");
    let created = client.call(Call::post(&load::collection(), &object)).await;
    let from = version(&created.expect(201));
    let options = FanoutOptions {
        watchers: watches(),
        streams: STREAMS,
        is_protobuf: false,
        rate: UPDATES_A_SECOND,
        time: Duration::ZERO,
    };
    let origin = Instant::now();
    let delivered = Arc::new(AtomicU64::new(0));
    let stamps = fanout::Stamps::default();
    let _watches = fanout::record(&target, options, from, origin, &delivered, &stamps).await;
    // The measurement begins when all connections are served evenly.
    fanout::update(&client, 20, UPDATES_A_SECOND, origin).await;
    println!("ready");
    let (ends, mut lines) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if ends.blocking_send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        assert_eq!(line, "begin");
        settled(&delivered).await;
        let before = delivered.load(Ordering::Relaxed);
        stamps.take();
        println!("begun");
        let (began, mut updates) = (tokio::time::Instant::now(), 0);
        while lines.try_recv().is_err() {
            fanout::update(&client, 1, UPDATES_A_SECOND, origin).await;
            updates += 1;
            let due = Duration::from_secs_f64(updates as f64 / UPDATES_A_SECOND);
            tokio::time::sleep_until(began + due).await;
        }
        settled(&delivered).await;
        let after = delivered.load(Ordering::Relaxed) - before;
        assert_eq!(after, updates * watches() as u64, "events were lost");
        let mut latency: Durations = stamps.take();
        println!("{}", latency.percentile(0.99));
    }
}

/// Waits until no event is in transit.
async fn settled(delivered: &AtomicU64) {
    loop {
        let before = delivered.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(300)).await;
        if delivered.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

async fn beside_watches(running: &Running) {
    let mut watchers = Watchers::start(running.target());
    let mut next = 0;
    let [mut quiet, mut one_by_one, mut batch] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        quiet.push(watchers.during(async {}).await);
        for (how, all) in [(How::OneByOne, &mut one_by_one), (How::Batch, &mut batch)] {
            let numbers = next..next + RESOURCES;
            next = numbers.end;
            let work = async {
                let took = add(running, how, numbers).await;
                let name = format!("time with {} watches, {}", watches(), how.name());
                figure(&name, took, "s", "< 5");
            };
            all.push(watchers.during(work).await);
        }
    }
    let median = |all: &mut Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let quiet = median(&mut quiet);
    figure("write to delivery p99 without additions", quiet, "ms", "");
    for (how, mut all) in [(How::OneByOne, one_by_one), (How::Batch, batch)] {
        let p99 = median(&mut all);
        let name = |what| format!("{what}, {}", how.name());
        figure(&name("the same meanwhile"), p99, "ms", "");
        figure(&name("ratio"), p99 / quiet, "", "<= 1.2");
    }
}

/// Runs a process that measures one way to add resources, with the arguments from [`measure`].
pub async fn measure_alone(arguments: &[String]) {
    let known = [How::OneByOne, How::Batch].into_iter();
    let mut known = known.filter(|how| arguments == [how.name()]);
    let how = known.next().expect("a way to add them");
    let measured = tokio::task::spawn_blocking(move || {
        with_daemon(async |running: &Running| alone(running, how).await);
    });
    measured.await.unwrap();
}

/// Runs a daemon in this process, over an etcd if the environment names one.
fn with_daemon(work: impl AsyncFnOnce(&Running)) {
    let cluster = daemons::version().map(|version| Cluster::durable(&version));
    let servers = cluster.as_ref().map(|cluster| cluster.urls().join(","));
    let mut arguments = vec!["--verify-bytes-per-second=0"];
    arguments.extend(
        servers
            .iter()
            .flat_map(|servers| ["--etcd-servers", servers]),
    );
    let running = Running::start(&arguments);
    running.block_on(work(&running));
    running.stop();
}

pub async fn measure() {
    let store = daemons::version().map_or("the embedded store".to_owned(), |version| {
        format!("etcd {version}")
    });
    for how in [How::OneByOne, How::Batch] {
        part(&format!(
            "{RESOURCES} open resources added over {store}, {}",
            how.name()
        ));
        let mut process = Command::new(std::env::current_exe().unwrap());
        let ended = process.args([ALONE, how.name()]).status().unwrap();
        assert!(ended.success(), "{ended}");
    }
    part(&format!(
        "{RESOURCES} open resources added over {store}, with {} watches of one object",
        watches()
    ));
    let measured = tokio::task::spawn_blocking(|| with_daemon(beside_watches));
    measured.await.unwrap();
}
