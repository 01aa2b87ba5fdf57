//! Watchers that resume.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::record::Seen;
use super::{Patience, event};
use crate::harness::{Call, Client, version};

/// Follows a part of a collection from a version on, over any number of connections.
pub struct Watcher {
    pub client: Client,
    /// The path of the collection.
    pub path: String,
    /// The name and the value of an object.
    pub read: fn(&Value) -> (String, String),
    /// The selector of what it follows, as a query; nothing for everything.
    pub selector: String,
    pub from: u64,
    /// The version at which it may stop, or 0 while it is unknown.
    pub until: Arc<AtomicU64>,
}

/// The events that a watcher saw, in order, and its streams.
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
        let mut patience = Patience::default();
        loop {
            self.follow(&mut at, &mut story).await;
            let until = self.until.load(Ordering::SeqCst);
            if until != 0 {
                if at >= until {
                    return story;
                }
                patience.check(&format!("{}{:?}", self.path, self.selector), at, until);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// One stream, until it ends or has seen enough.
    async fn follow(&self, at: &mut u64, story: &mut Story) {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={at}{}",
            self.path, self.selector
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
            let (kind, object) = event(&line);
            if kind == "ERROR" {
                // History is kept for long enough: only what a resume may meet on the way is
                // allowed.
                assert!(
                    matches!(object["code"].as_u64(), Some(429 | 500 | 503)),
                    "{object}"
                );
                return story.step(*at, object.to_string());
            }
            let version = version(&object);
            if kind == "BOOKMARK" {
                assert!(
                    version >= *at,
                    "a bookmark went back from {at} to {version}"
                );
                story.step(*at, object.to_string());
            } else {
                assert!(
                    version > *at,
                    "an event again, or too late, after {at}: {object}"
                );
                let (name, value) = (self.read)(&object);
                story.seen.push(Seen {
                    version,
                    kind,
                    name,
                    value,
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
