//! Measures the cost of protobuf: conversions of a pod in both directions, and watchers of protobuf
//! compared with those of JSON.

use std::hint::black_box;
use std::time::Duration;

use api::protobuf::{Texts, to_json, write_document};
use kinds::types::TYPES;
use serde_json::{Value, json};

use crate::daemons;
use crate::fanout::{self, FanoutOptions};
use crate::harness::{Call, Daemon};
use crate::load::{self, NAMESPACE, STREAMS};
use crate::report::{figure, noise, part};

/// How often a pod is converted for one mean, and the number of means.
const CONVERSIONS: u32 = 2_000;
const MEANS: usize = 50;

/// Returns a pod whose stored JSON, including managedFields, has about 2 KiB.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-7d4b9c6f5-x2x7k", "labels": {"app": "web"}},
        "spec": {
            "nodeName": "node-1",
            "containers": [{
                "name": "web",
                "image": "registry.example.com/team/web:1.2.3",
                "args": ["--port=8080"],
                "ports": [{"containerPort": 8080, "name": "http"}],
                "env": [{"name": "LEVEL", "value": "info"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
            }],
        },
    })
}

/// Returns the CPU time that this thread has used.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("it begins with a number"))
}

/// Prints the smallest of several means, in microseconds.
fn conversion(name: &str, convert: impl Fn()) {
    let means = (0..MEANS).map(|_| {
        let start = used();
        (0..CONVERSIONS).for_each(|_| convert());
        (used() - start) / CONVERSIONS
    });
    let least = means.min().unwrap_or_default();
    figure(name, least.as_secs_f64() * 1e6, "µs", "<= 15");
}

/// Measures the conversions of a pod as the daemon returns it.
pub async fn transcoding() {
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let created = daemon.client().call(Call::post(&pods, &pod())).await;
    let json = created.body.trim_ascii_end().to_vec();
    part(&format!("conversions of a pod of {} bytes", json.len()));
    let mut packed = Vec::new();
    assert!(write_document(&TYPES, &json, &mut packed));
    let read = |body: &[u8]| to_json(body, "", "", &TYPES, Texts::Strict).unwrap();
    let parsed = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap();
    assert_eq!(parsed(&read(&packed)), parsed(&json));
    conversion("JSON to protobuf", || {
        let mut out = Vec::new();
        black_box(write_document(&TYPES, black_box(&json), &mut out));
        black_box(out);
    });
    conversion("protobuf to JSON", || {
        black_box(read(black_box(&packed)));
    });
}

/// Measures the fan-out of both formats, alternately.
pub async fn watchers(watchers: usize, rounds: usize, time: Duration) {
    part(&format!(
        "{watchers} watchers over HTTP/2 of one object of 1 KiB, JSON and protobuf in turns"
    ));
    let (mut costs, mut ratios, mut busy) = ([0.0; 2], Vec::new(), 0.0_f64);
    for _ in 0..rounds {
        let mut cpu = [0.0; 2];
        for is_protobuf in [false, true] {
            let options = FanoutOptions {
                watchers,
                streams: STREAMS,
                is_protobuf,
                rate: 10.0,
                time,
            };
            let result = fanout::run(daemons::daemon().await, options).await;
            assert_eq!((result.lost, result.wrong), (0, 0), "lost, or out of order");
            let cost = result.used.daemon / (result.delivered as f64 / 1e6);
            cpu[usize::from(is_protobuf)] = cost;
            costs[usize::from(is_protobuf)] += cost / rounds as f64;
            busy = busy.max(result.used.other_cores - result.store_cores);
        }
        ratios.push(cpu[1] / cpu[0]);
    }
    ratios.sort_by(f64::total_cmp);
    let unit = "s";
    figure("CPU of a million deliveries, JSON", costs[0], unit, "<= 3");
    figure("CPU of a million deliveries, protobuf", costs[1], unit, "");
    let (least, most) = (ratios[0], ratios[rounds - 1]);
    figure(
        "protobuf / JSON, median of the rounds",
        ratios[rounds / 2],
        "",
        "<= 1.1",
    );
    figure("protobuf / JSON, least", least, "", "");
    figure("protobuf / JSON, most", most, "", "");
    noise(busy.max(0.0));
}
