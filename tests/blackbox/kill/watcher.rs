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

/// What a watcher saw, in order, and how its streams came and went.
#[derive(Default)]
pub struct Story {
    pub seen: Vec<Seen>,
    steps: Vec<Step>,
}

/// A thing of note beside the events, with the version at which the watcher stood.
struct Step {
    at: u64,
    what: String,
}

impl Story {
    /// What happened beside the events from shortly before a version until shortly after it.
    pub fn around(&self, version: u64) -> String {
        let near = version.saturating_sub(5)..=version + 5;
        self.steps
            .iter()
            .filter(|step| near.contains(&step.at))
            .map(|step| format!("at {}: {}\n", step.at, step.what))
            .collect()
    }

    fn step(&mut self, at: u64, what: impl Into<String>) {
        let what = what.into();
        self.steps.push(Step { at, what });
    }
}

impl Watcher {
    /// What it saw, in order.
    pub async fn run(self) -> Story {
        let mut story = Story::default();
        let mut at = self.from;
        let mut known_since = None;
        loop {
            self.follow(&mut at, &mut story).await;
            let until = self.until.load(Ordering::SeqCst);
            if until != 0 {
                if at >= until {
                    return story;
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
    async fn follow(&self, at: &mut u64, story: &mut Story) {
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
        story.step(*at, "a watch opened");
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                ended => return story.step(*at, format!("it ended: {:?}", ended.err())),
            };
            let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let kind = event["type"].as_str().unwrap();
            let object = &event["object"];
            if kind == "ERROR" {
                // History is kept for an hour: only what a resume may meet on the way is allowed.
                assert!(
                    matches!(object["code"].as_u64(), Some(429 | 500 | 503)),
                    "{event}"
                );
                return story.step(*at, event.to_string());
            }
            let version = version(object);
            if kind == "BOOKMARK" {
                assert!(version >= *at, "a bookmark went back from {at}: {event}");
                story.step(*at, event.to_string());
            } else {
                assert!(
                    version > *at,
                    "an event again, or too late, after {at}: {event}"
                );
                story.seen.push(Seen {
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
