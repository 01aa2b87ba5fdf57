//! Many watches of one object that changes continuously.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{CONFIGMAPS, Call, body, configmap, version};
use crate::process::Running;

const WATCHES: usize = 100;
const WATCHES_PER_CONNECTION: usize = 25;
/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(10);

/// The load while it goes on.
pub struct Load {
    writer: JoinHandle<u64>,
    watches: Vec<JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
    /// The last change, once it is known.
    last: Arc<AtomicU64>,
}

impl Load {
    pub async fn begin(running: &Running) -> Load {
        let client = running.client();
        let created = client
            .call(Call::post(CONFIGMAPS, &body("load", "0")))
            .await;
        let from = version(&created.expect(201));
        let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
        let last = Arc::new(AtomicU64::new(u64::MAX));
        let mut watches = Vec::new();
        for _ in 0..WATCHES / WATCHES_PER_CONNECTION {
            let client = Arc::new(running.client());
            for _ in 0..WATCHES_PER_CONNECTION {
                let (client, path, last) = (client.clone(), path.clone(), last.clone());
                watches.push(tokio::spawn(async move {
                    let mut lines = client.watch(&path).await;
                    let mut seen = 0;
                    while seen < last.load(Ordering::SeqCst) {
                        let next = tokio::time::timeout(Duration::from_secs(1), lines.next());
                        let Ok(line) = next.await else { continue };
                        let line = line.unwrap().expect("the watch goes on");
                        let event: Value = serde_json::from_slice(&line).unwrap();
                        seen += 1;
                        // Each change, once and in its order.
                        assert_eq!(event["object"]["data"]["k"], seen.to_string());
                    }
                }));
            }
        }
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = is_ending.clone();
        let writer = tokio::spawn(async move {
            let mut number = 0;
            while !ending.load(Ordering::SeqCst) {
                number += 1;
                let patch = json!({ "data": { "k": number.to_string() } });
                let patched = client
                    .call(Call::merge_patch(&configmap("load"), &patch))
                    .await;
                patched.expect(200);
                tokio::time::sleep(PAUSE).await;
            }
            number
        });
        Load {
            writer,
            watches,
            is_ending,
            last,
        }
    }

    /// Ends the load. Every watch has seen every change.
    pub async fn end(self) {
        self.is_ending.store(true, Ordering::SeqCst);
        let written = self.writer.await.unwrap();
        assert!(written > 100, "only {written} changes");
        self.last.store(written, Ordering::SeqCst);
        for watch in self.watches {
            let ended = tokio::time::timeout(Duration::from_secs(60), watch).await;
            ended.expect("a watch misses the last change").unwrap();
        }
    }
}
