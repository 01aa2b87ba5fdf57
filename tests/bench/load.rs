//! Runs any number of writers. Each waits for its response before it continues.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{Call, Daemon, Protocol, Target};
use crate::meter::{Sample, Used};
use crate::report::Durations;
use crate::servers::kube_apiserver::{KubeApiserver, TOKEN};

pub const NAMESPACE: &str = "bench";

/// The streams of one HTTP/2 connection.
pub const STREAMS: usize = 50;

/// Makes the JSON of an object about 1 KiB long.
const FILLER: usize = 800;

/// The action of writers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
}

/// The end of a load: a time or a number of writes.
#[derive(Clone, Copy)]
pub enum Until {
    Count(u64),
    Time(Duration),
}

/// The result of the writers.
pub struct Written {
    pub count: u64,
    pub latency: Durations,
    pub used: Used,
}

pub fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// Returns a ConfigMap whose JSON has about 1 KiB.
pub fn object(number: u64, stamp: &str) -> serde_json::Value {
    filled(number, stamp, FILLER)
}

/// Returns a ConfigMap with `filler` bytes of filler.
fn filled(number: u64, stamp: &str, filler: usize) -> serde_json::Value {
    // The filler is incompressible, and equal for equal numbers.
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let filler: String = (0..filler)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'a' + (state % 26) as u8)
        })
        .collect();
    json!({ "metadata": { "name": name(number) }, "data": { "stamp": stamp, "filler": filler } })
}

pub fn name(number: u64) -> String {
    format!("object-{number:07}")
}

/// A server that is loaded, and whose CPU is measured.
pub trait Loaded {
    fn target(&self) -> Target;
    fn pid(&self) -> u32;
}

impl Loaded for Daemon {
    fn target(&self) -> Target {
        Daemon::target(self)
    }

    fn pid(&self) -> u32 {
        Daemon::pid(self)
    }
}

impl Loaded for KubeApiserver {
    fn target(&self) -> Target {
        Target::new(self.address(), Some(TOKEN.to_owned()), None)
    }

    fn pid(&self) -> u32 {
        KubeApiserver::pid(self)
    }
}

/// One of the pointers to a daemon.
impl<P: Deref<Target = Daemon>> Loaded for P {
    fn target(&self) -> Target {
        Daemon::target(self)
    }

    fn pid(&self) -> u32 {
        Daemon::pid(self)
    }
}

pub async fn namespace(server: &impl Loaded) {
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    server
        .target()
        .client()
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await
        .expect(201);
}

/// Writes with this many clients, each on its own connection. Creates continue from `first`.
/// Updates cycle through the first `first` objects.
pub async fn write(
    server: &impl Loaded,
    verb: Verb,
    clients: u64,
    first: u64,
    until: Until,
) -> Written {
    write_filled(server, verb, clients, first, until, FILLER).await
}

/// Like [`write()`], with objects that have `filler` bytes of filler.
pub async fn write_filled(
    server: &impl Loaded,
    verb: Verb,
    clients: u64,
    first: u64,
    until: Until,
    filler: usize,
) -> Written {
    let next = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = {
        let connecting = (0..clients).map(|_| async {
            let client = server.target().client_over(Protocol::Http2);
            client.call(Call::get("/version")).await.expect(200);
            client
        });
        join_all(connecting).await
    };
    let before = Sample::take(server.pid());
    let start = Instant::now();
    let running = workers.into_iter().map(|client| {
        let next = next.clone();
        tokio::spawn(async move {
            let mut latency = Durations::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let over = match until {
                    Until::Count(count) => number >= count,
                    Until::Time(time) => start.elapsed() >= time,
                };
                if over {
                    return latency;
                }
                let call = match verb {
                    Verb::Create => {
                        let object = filled(first + number, "0", filler);
                        Call::post(&collection(), &object)
                    }
                    Verb::Update => {
                        let key = number % first;
                        let path = format!("{}/{}", collection(), name(key));
                        Call::put(&path, &filled(key, &number.to_string(), filler))
                    }
                };
                let sent = Instant::now();
                let answer = client.call(call).await;
                latency.add(sent.elapsed());
                assert!(answer.status.is_success(), "{}", answer.text());
            }
        })
    });
    let mut latency = Durations::default();
    for each in join_all(running).await {
        latency.extend(each.unwrap());
    }
    let used = before.until(&Sample::take(server.pid()));
    Written {
        count: latency.len() as u64,
        latency,
        used,
    }
}
