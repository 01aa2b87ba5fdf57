//! A rolling restart of three daemons on one etcd, under load. Clients know all three addresses.
//! Acknowledged writes stay, watches continue at another daemon, and no write fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::client::Answer;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Protocol, configmap, version};
use crate::load::record::{Outcome, State, WriteRequest};
use crate::load::watcher::WatchRecord;
use crate::load::writer::AcknowledgedWrite;
use crate::load::{PossibleStates, Random, Watcher, WriteLog, fold, seed};
use crate::servers::etcd::Cluster;

const DAEMONS: usize = 3;
const ROUNDS: usize = 2;
const WRITERS: u64 = 12;
const OBJECTS: usize = 4;
/// `--shutdown-timeout` in seconds.
const STOP_WITHIN: u64 = 8;
/// Between two writes of a writer.
const PACE: Duration = Duration::from_millis(2);
/// For a write that is repeated until a daemon takes it.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);

/// The name and the value of a ConfigMap.
fn read(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        text(&object["metadata"]["name"]),
        text(&object["data"]["k"]),
    )
}

/// A client of each daemon, the preferred one first. All speak the same protocol.
fn clients(daemons: &[Daemon], preferred: u64) -> Vec<Client> {
    let protocol = match preferred.is_multiple_of(2) {
        true => Protocol::Http2,
        false => Protocol::Http1,
    };
    let in_turn = daemons.iter().cycle().skip(preferred as usize % DAEMONS);
    let targets = in_turn.take(DAEMONS).map(Daemon::target);
    targets.map(|target| target.client_over(protocol)).collect()
}

/// What a writer knows about one of its objects.
struct Known {
    states: PossibleStates,
    /// The version of what exists.
    version: Option<u64>,
}

/// Writes objects of its own at one daemon, and changes to the next one when it is refused.
struct Writer {
    name: String,
    clients: Vec<Client>,
    /// The daemon that it uses.
    at: usize,
    random: Random,
    log: Arc<WriteLog>,
    /// Writes that were carried out although their connection broke.
    unanswered: Arc<AtomicU64>,
    written: u64,
    objects: Vec<Known>,
}

impl Writer {
    /// Writes until stopped. Returns the states of its objects.
    async fn run(mut self) -> BTreeMap<String, PossibleStates> {
        while !self.log.stop.load(Ordering::SeqCst) {
            let index = self.random.below(OBJECTS as u64) as usize;
            self.write(index).await;
            tokio::time::sleep(PACE).await;
        }
        let names: Vec<String> = (0..OBJECTS).map(|index| self.object(index)).collect();
        let states = self.objects.into_iter().map(|known| known.states);
        names.into_iter().zip(states).collect()
    }

    fn object(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    /// The next request for an object. Half of the updates name the version that they replace.
    fn next_request(&mut self, index: usize) -> (WriteRequest, Call) {
        self.written += 1;
        let name = self.object(index);
        let value = format!("{}.{}", self.name, self.written);
        let mut body = json!({
            "metadata": { "name": name, "labels": { "writer": self.name } },
            "data": { "k": value },
        });
        let path = configmap(&name);
        let Some(version) = self.objects[index].version else {
            let call = Call::post(CONFIGMAPS, &body);
            return (WriteRequest::Create(value), call);
        };
        match self.random.below(10) {
            0 | 1 => (WriteRequest::Delete, Call::delete(&path)),
            2..=5 => (WriteRequest::Update(value), Call::put(&path, &body)),
            _ => {
                body["metadata"]["resourceVersion"] = json!(version.to_string());
                (WriteRequest::Update(value), Call::put(&path, &body))
            }
        }
    }

    /// Writes once. Repeats the request while connections break or daemons refuse.
    async fn write(&mut self, index: usize) {
        let (request, call) = self.next_request(index);
        let begun = Instant::now();
        loop {
            let before = self.log.newest();
            match self.clients[self.at].attempt(call.clone()).await {
                Err(_) => {
                    self.log.unknown.fetch_add(1, Ordering::Relaxed);
                    if self.was_carried_out(index, &request).await {
                        self.unanswered.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                }
                Ok(answer) if is_refusal(&answer) => {
                    self.log.refused.fetch_add(1, Ordering::Relaxed);
                    self.change_daemon().await;
                }
                Ok(answer) => return self.done(index, request, &answer, (before, begun)),
            }
            assert!(begun.elapsed() < TAKEN_WITHIN, "{call:?}: nobody takes it");
        }
    }

    async fn change_daemon(&mut self) {
        self.at = (self.at + 1) % DAEMONS;
        tokio::time::sleep(PACE).await;
    }

    /// Records a request that was carried out, which its answer must say.
    fn done(
        &mut self,
        index: usize,
        request: WriteRequest,
        answer: &Answer,
        (before, requested_at): (u64, Instant),
    ) {
        let name = self.object(index);
        let status = answer.status.as_u16();
        assert!(
            matches!(status, 200 | 201),
            "{request:?} of {name}: {status} {}",
            answer.text()
        );
        let states = self.objects[index].states.after(&request, Outcome::Done);
        let states = states.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut known = Known {
            states,
            version: None,
        };
        if let WriteRequest::Create(value) | WriteRequest::Update(value) = request {
            let at = version(&answer.json());
            known.version = Some(at);
            let written = AcknowledgedWrite {
                name,
                value,
                requested_at,
            };
            self.log.acknowledge(before, at, written);
        }
        self.objects[index] = known;
    }

    /// Whether a request was carried out whose connection broke. The next daemon that answers a
    /// read knows.
    async fn was_carried_out(&mut self, index: usize, request: &WriteRequest) -> bool {
        let name = self.object(index);
        let states = self.objects[index].states.after(request, Outcome::Unknown);
        let (state, version) = self.read(&name).await;
        let states = states.and_then(|states| states.read(state.clone()));
        let states = states.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.objects[index] = Known { states, version };
        match request {
            WriteRequest::Create(value) | WriteRequest::Update(value) => {
                state.as_ref() == Some(value)
            }
            WriteRequest::Delete => state.is_none(),
        }
    }

    async fn read(&mut self, name: &str) -> (State, Option<u64>) {
        let begun = Instant::now();
        loop {
            self.change_daemon().await;
            let answer = self.clients[self.at]
                .attempt(Call::get(&configmap(name)))
                .await;
            match answer {
                Ok(answer) if answer.status == 404 => return (None, None),
                Ok(answer) if answer.status == 200 => {
                    let object = answer.json();
                    return (Some(read(&object).1), Some(version(&object)));
                }
                Ok(answer) => assert!(is_refusal(&answer), "{name}: {}", answer.text()),
                Err(_) => {}
            }
            assert!(begun.elapsed() < TAKEN_WITHIN, "{name}: nobody shows it");
        }
    }
}

/// Whether a daemon asks to come again, and says when.
fn is_refusal(answer: &Answer) -> bool {
    let is_refusal = answer.status == 429;
    assert!(
        !is_refusal || answer.header("retry-after").is_some(),
        "{answer:?}"
    );
    is_refusal
}

/// The load while it runs.
struct Load {
    log: Arc<WriteLog>,
    unanswered: Arc<AtomicU64>,
    /// The version before the first write.
    from: u64,
    until: Arc<AtomicU64>,
    writers: Vec<JoinHandle<BTreeMap<String, PossibleStates>>>,
    watchers: Vec<(&'static str, JoinHandle<WatchRecord>)>,
}

/// Everything, one writer's objects, one object, and nothing.
const SELECTORS: [&str; 7] = [
    "",
    "",
    "",
    "&labelSelector=writer%3Dw1",
    "&fieldSelector=metadata.name%3Dw2-0",
    "&labelSelector=writer%3Dnobody",
    "",
];

impl Load {
    async fn begin(daemons: &[Daemon], random: &mut Random) -> Load {
        let list = daemons[0].client().call(Call::get(CONFIGMAPS)).await;
        let mut load = Load {
            log: Arc::default(),
            unanswered: Arc::default(),
            from: version(&list.expect(200)),
            until: Arc::default(),
            writers: Vec::new(),
            watchers: Vec::new(),
        };
        for number in 0..WRITERS {
            let unknown = || Known {
                states: PossibleStates::absent(),
                version: None,
            };
            let writer = Writer {
                name: format!("w{number}"),
                clients: clients(daemons, number),
                at: 0,
                random: Random::new(random.next()),
                log: load.log.clone(),
                unanswered: load.unanswered.clone(),
                written: 0,
                objects: (0..OBJECTS).map(|_| unknown()).collect(),
            };
            load.writers.push(tokio::spawn(writer.run()));
        }
        for (selector, number) in SELECTORS.into_iter().zip(0..) {
            let watcher = load.watch(daemons, number, selector);
            load.watchers.push((selector, watcher));
        }
        load
    }

    fn watch(&self, daemons: &[Daemon], preferred: u64, selector: &str) -> JoinHandle<WatchRecord> {
        let mut clients = clients(daemons, preferred).into_iter();
        let watcher = Watcher {
            client: clients.next().unwrap(),
            path: CONFIGMAPS.to_owned(),
            read,
            selector: selector.to_owned(),
            from: self.from,
            until: self.until.clone(),
        };
        let others: Vec<Client> = clients.collect();
        tokio::spawn(async move { watcher.run_over(&others).await })
    }

    fn acknowledged(&self) -> usize {
        self.log.acknowledged.lock().len()
    }

    /// Waits until writes succeed while a daemon is down, or again.
    async fn goes_on(&self) {
        let begun = Instant::now();
        let wanted = self.acknowledged() + 20;
        while self.acknowledged() < wanted {
            assert!(begun.elapsed() < TAKEN_WITHIN, "no writes succeed");
            tokio::time::sleep(PACE).await;
        }
    }

    /// Ends the load and checks the states, the history and the watches against one another.
    async fn end(mut self, daemons: &[Daemon]) {
        self.log.stop.store(true, Ordering::SeqCst);
        let mut known = BTreeMap::new();
        for writer in std::mem::take(&mut self.writers) {
            known.extend(writer.await.unwrap());
        }
        let marked = json!({ "metadata": { "name": "end" }, "data": { "k": "end" } });
        let client = daemons[0].client();
        let marked = client.call(Call::post(CONFIGMAPS, &marked));
        let end = version(&marked.await.expect(201));
        self.until.store(end, Ordering::SeqCst);
        let history = self.watch(daemons, 0, "").await.unwrap().events;
        self.log.check(&history);
        let state = fold(&history).unwrap();
        for (name, states) in known {
            let read = states.read(state.get(&name).cloned());
            read.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for daemon in daemons {
            let list = daemon
                .client()
                .call(Call::get(CONFIGMAPS))
                .await
                .expect(200);
            let items = list["items"].as_array().unwrap().iter();
            let listed: BTreeMap<String, String> = items.map(read).collect();
            assert_eq!(listed, state, "history doesn't end in the state");
        }
        for (selector, watcher) in std::mem::take(&mut self.watchers) {
            watcher.await.unwrap().check(selector, &history);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        println!(
            "{} writes acknowledged, {} connections broken, {} refusals, {} events",
            self.acknowledged(),
            count(&self.log.unknown),
            count(&self.log.refused),
            history.len()
        );
        let unanswered = count(&self.unanswered);
        assert_eq!(unanswered, 0, "writes were carried out and not answered");
    }
}

/// Stops a daemon, which must take no longer than it may, and say so.
async fn stop(daemon: &mut Daemon) {
    let begun = Instant::now();
    daemon.stop(Signal::TERM).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(STOP_WITHIN), "{took:?}");
    let log = daemon.stderr();
    let last = log.lines().last().unwrap();
    let (_, told) = last
        .split_once("stopped milliseconds=")
        .unwrap_or_else(|| panic!("{last}"));
    let told: String = told.chars().take_while(char::is_ascii_digit).collect();
    assert!(told.parse::<u64>().unwrap() < STOP_WITHIN * 1000, "{last}");
    for problem in ["connections were cut", "not everything stopped"] {
        assert!(!log.contains(problem), "{log}");
    }
    println!("stopped in {told} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_loses_no_write_and_no_watch_event() {
    let seed = seed();
    println!("TAFFRAIL_SEED={seed}");
    let mut random = Random::new(seed);
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = cluster.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let within = format!("--shutdown-timeout={STOP_WITHIN}s");
    let mut daemons = Vec::new();
    for _ in 0..DAEMONS {
        daemons.push(Daemon::with(&[&servers, &within]).await);
    }
    let load = Load::begin(&daemons, &mut random).await;
    for _ in 0..ROUNDS {
        for daemon in &mut daemons {
            tokio::time::sleep(Duration::from_millis(200 + random.below(800))).await;
            stop(daemon).await;
            load.goes_on().await;
            daemon.restart().await;
            load.goes_on().await;
        }
    }
    load.end(&daemons).await;
}
