//! Writers that increment a counter in one object, with optimistic concurrency.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NAMESPACE;
use crate::harness::{Call, Client, version};
use crate::load::writer::{AcknowledgedWrite, WriteLog};

pub const NAME: &str = "counter";

/// The increments of all writers.
#[derive(Default)]
pub struct Count {
    pub acknowledged: AtomicU64,
    pub unknown: AtomicU64,
}

/// The counter at zero.
pub fn zero() -> Value {
    json!({ "metadata": { "name": NAME }, "data": { "k": "0" } })
}

/// Increments the counter until stopped. Each update names the resourceVersion that it read.
pub async fn run(client: Client, write_log: Arc<WriteLog>, count: Arc<Count>) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}");
    while !write_log.stop.load(Ordering::SeqCst) {
        let read = match client.attempt(Call::get(&path)).await {
            Ok(answer) if answer.status == 200 => answer.json(),
            _ => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
        };
        let number: u64 = read["data"]["k"].as_str().unwrap().parse().unwrap();
        let value = (number + 1).to_string();
        let metadata =
            json!({ "name": NAME, "resourceVersion": read["metadata"]["resourceVersion"] });
        let body = json!({ "metadata": metadata, "data": { "k": value } });
        let (before, requested_at) = (write_log.newest(), Instant::now());
        match client.attempt(Call::put(&path, &body)).await {
            Ok(answer) => match answer.status.as_u16() {
                200 => {
                    let written = AcknowledgedWrite {
                        name: NAME.to_owned(),
                        value,
                        requested_at,
                    };
                    write_log.acknowledge(before, version(&answer.json()), written);
                    count.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                409 | 429 | 503 => {}
                500 if answer.json()["reason"] == "ServerTimeout" => {}
                504 => _ = count.unknown.fetch_add(1, Ordering::SeqCst),
                other => panic!("{other} {}", answer.text()),
            },
            Err(_) => _ = count.unknown.fetch_add(1, Ordering::SeqCst),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
