//! Watchers that resume where they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::NAMESPACE;
use super::record::Seen;
use crate::harness::{Call, Client, version};

/// Follows a part of the namespace from a version on, over as many connections as it takes.
pub struct Watcher {
    pub client: Client,
    /// The selector of what it follows, as a query; nothing for everything.
    pub selector: String,
    pub from: u64,
    /// The version at which it may stop, 0 while nobody knows.
    pub until: Arc<AtomicU64>,
}

/// How long a watcher may take to reach the end once it is known: some watches of five seconds
/// each, as one may begin before the end was written and show nothing.
const CATCH_UP: Duration = Duration::from_secs(60);

impl Watcher {
    /// What it saw, in order.
    pub async fn run(self) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut at = self.from;
        let mut known_since = None;
        loop {
            self.follow(&mut at, &mut seen).await;
            let until = self.until.load(Ordering::SeqCst);
            if until != 0 {
                if at >= until {
                    return seen;
                }
                let since = known_since.get_or_insert_with(Instant::now);
                assert!(
                    since.elapsed() < CATCH_UP,
                    "the watch of {:?} stands at {at} and never reaches {until}",
                    self.selector
                );
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// One stream, until it ends or has seen enough.
    async fn follow(&self, at: &mut u64, seen: &mut Vec<Seen>) {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true&allowWatchBookmarks=true\
             &timeoutSeconds=5&resourceVersion={at}{}",
            self.selector
        );
        let Ok(mut lines) = self.client.lines(Call::get(&path)).await else {
            return;
        };
        if matches!(lines.status.as_u16(), 429 | 503) {
            return;
        }
        assert_eq!(lines.status, 200, "a watch from {at}");
        while let Ok(Some(line)) = lines.next().await {
            let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let kind = event["type"].as_str().unwrap();
            let object = &event["object"];
            if kind == "ERROR" {
                // History is kept for an hour: only what a resume may meet on the way is allowed.
                assert!(
                    matches!(object["code"].as_u64(), Some(429 | 500 | 503)),
                    "{event}"
                );
                return;
            }
            let version = version(object);
            if kind == "BOOKMARK" {
                assert!(version >= *at, "a bookmark went back from {at}: {event}");
            } else {
                assert!(
                    version > *at,
                    "an event again, or too late, after {at}: {event}"
                );
                seen.push(Seen {
                    version,
                    kind: kind.to_owned(),
                    name: object["metadata"]["name"].as_str().unwrap().to_owned(),
                    value: object["data"]["k"].as_str().unwrap().to_owned(),
                });
            }
            *at = version;
            let until = self.until.load(Ordering::SeqCst);
            if until != 0 && *at >= until {
                return;
            }
        }
    }
}
