//! The actual history, from a separate watch of etcd that starts before the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, EventType, GetOptions, WatchOptions};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::load::WatchEvent;

/// Watches a prefix until it is dropped.
pub struct EtcdWatch {
    seen: Arc<Mutex<Vec<WatchEvent>>>,
    following: JoinHandle<()>,
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl EtcdWatch {
    /// Watches the ConfigMaps of a namespace from now on.
    pub async fn start(urls: &[String], namespace: &str) -> EtcdWatch {
        let prefix = format!("/registry/configmaps/{namespace}/");
        let mut client = Client::connect(urls, None).await.unwrap();
        let now = client.get("now", Some(GetOptions::new())).await.unwrap();
        let from = now.header().unwrap().revision() + 1;
        let seen: Arc<Mutex<Vec<WatchEvent>>> = Arc::default();
        let following = tokio::spawn(follow(urls.to_vec(), prefix, from, seen.clone()));
        EtcdWatch { seen, following }
    }

    /// Waits for all events up to a version.
    pub async fn events_until(&self, version: u64) -> Vec<WatchEvent> {
        let reached = || self.seen.lock().last().map_or(0, |seen| seen.version) >= version;
        let waiting = async {
            while !reached() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.expect("the watch of etcd doesn't reach the end");
        self.seen.lock().clone()
    }
}

async fn follow(urls: Vec<String>, prefix: String, from: i64, seen: Arc<Mutex<Vec<WatchEvent>>>) {
    let mut next = from;
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    loop {
        for url in &urls {
            // If a member fails, the next one is tried.
            let _ = follow_at(url, &prefix, &mut next, &mut values, &seen).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn follow_at(
    url: &str,
    prefix: &str,
    next: &mut i64,
    values: &mut BTreeMap<String, String>,
    seen: &Mutex<Vec<WatchEvent>>,
) -> Result<(), etcd_client::Error> {
    let options = etcd_client::ConnectOptions::new()
        .with_require_leader(true)
        .with_connect_timeout(Duration::from_secs(1))
        .with_keep_alive(Duration::from_secs(5), Duration::from_secs(3));
    let mut client = Client::connect([url], Some(options)).await?;
    let options = WatchOptions::new().with_prefix().with_start_revision(*next);
    let opening = client.watch(prefix, Some(options));
    let late = |_| etcd_client::Error::WatchError("no answer".to_owned());
    let mut stream = tokio::time::timeout(Duration::from_secs(3), opening)
        .await
        .map_err(late)??;
    while let Some(response) = stream.message().await? {
        assert_eq!(
            response.compact_revision(),
            0,
            "the history was compacted before it was read"
        );
        if response.canceled() {
            return Ok(());
        }
        for event in response.events() {
            let kv = event.kv().unwrap();
            let key = kv.key_str().unwrap();
            let name = key.rsplit('/').next().unwrap().to_owned();
            let (kind, value) = match event.event_type() {
                EventType::Delete => ("DELETED", values.remove(&name).unwrap()),
                EventType::Put => {
                    let object: Value = serde_json::from_slice(kv.value()).unwrap();
                    let value = object["data"]["k"].as_str().unwrap().to_owned();
                    let before = values.insert(name.clone(), value.clone());
                    (before.map_or("ADDED", |_| "MODIFIED"), value)
                }
            };
            seen.lock().push(WatchEvent {
                version: kv.mod_revision().cast_unsigned(),
                kind: kind.to_owned(),
                name,
                value,
            });
            *next = kv.mod_revision() + 1;
        }
    }
    Ok(())
}
