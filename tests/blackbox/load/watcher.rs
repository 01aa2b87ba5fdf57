//! Watchers that resume.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::record::WatchEvent;
use super::{CatchUpDeadline, event};
use crate::harness::{Call, Client, version};

/// Watches part of a collection from a version on, over any number of connections.
pub struct Watcher {
    pub client: Client,
    /// The path of the collection.
    pub path: String,
    /// The name and the value of an object.
    pub read: fn(&Value) -> (String, String),
    /// The selector as query parameters. Empty selects everything.
    pub selector: String,
    pub from: u64,
    /// The version at which it may stop, or 0 while it is unknown.
    pub until: Arc<AtomicU64>,
}

/// The events that a watcher saw, in order, and notes about its streams.
#[derive(Default)]
pub struct WatchRecord {
    pub events: Vec<WatchEvent>,
    notes: Vec<Note>,
}

/// The start or end of a stream or a bookmark, with the version that the watcher had reached.
struct Note {
    at: u64,
    what: String,
}

impl WatchRecord {
    /// The notes from shortly before a version until shortly after it.
    pub fn around(&self, version: u64) -> String {
        let near = version.saturating_sub(5)..=version + 5;
        self.notes
            .iter()
            .filter(|note| near.contains(&note.at))
            .map(|note| format!("at {}: {}\n", note.at, note.what))
            .collect()
    }

    /// Checks that a watch with this selector has seen what happened, and nothing else.
    pub fn check(&self, selector: &str, history: &[WatchEvent]) {
        let wanted = history.iter().filter(|event| selects(selector, event));
        let wanted: Vec<WatchEvent> = wanted.cloned().collect();
        let differs = wanted.iter().zip(&self.events).find(|(a, b)| a != b);
        let around = differs.map(|(wanted, _)| self.around(wanted.version));
        assert_eq!(
            self.events, wanted,
            "the stream of {selector:?} isn't what history holds; around the difference: {around:?}"
        );
    }

    fn note(&mut self, at: u64, what: impl Into<String>) {
        let what = what.into();
        self.notes.push(Note { at, what });
    }
}

/// Whether a watch with this selector is to see an event. These are all that watchers use.
fn selects(selector: &str, event: &WatchEvent) -> bool {
    match selector {
        "" => true,
        "&labelSelector=writer%3Dw1" => event.name.starts_with("w1-"),
        "&fieldSelector=metadata.name%3Dw2-0" => event.name == "w2-0",
        _ => false,
    }
}

impl Watcher {
    /// Watches until it reaches the end.
    pub async fn run(self) -> WatchRecord {
        self.run_over(&[]).await
    }

    /// As [`Watcher::run`], but each stream is asked of the next daemon.
    pub async fn run_over(self, others: &[Client]) -> WatchRecord {
        let mut record = WatchRecord::default();
        let mut at = self.from;
        let mut deadline = CatchUpDeadline::default();
        let mut clients = std::iter::once(&self.client).chain(others).cycle();
        loop {
            let client = clients.next().unwrap_or(&self.client);
            self.follow(client, &mut at, &mut record).await;
            let until = self.until.load(Ordering::SeqCst);
            if until != 0 {
                if at >= until {
                    return record;
                }
                deadline.check(&format!("{}{:?}", self.path, self.selector), at, until);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// One stream, until it ends or reaches the end version.
    async fn follow(&self, client: &Client, at: &mut u64, record: &mut WatchRecord) {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={at}{}",
            self.path, self.selector
        );
        let Ok(mut lines) = client.lines(Call::get(&path)).await else {
            return;
        };
        if matches!(lines.status.as_u16(), 429 | 503) {
            return;
        }
        assert_eq!(lines.status, 200, "a watch from {at}");
        record.note(*at, "a watch opened");
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                ended => return record.note(*at, format!("it ended: {:?}", ended.err())),
            };
            let (kind, object) = event(&line);
            if kind == "ERROR" {
                // History is kept long enough for every resume, so 410 is not allowed.
                assert!(
                    matches!(object["code"].as_u64(), Some(429 | 500 | 503)),
                    "{object}"
                );
                return record.note(*at, object.to_string());
            }
            let version = version(&object);
            if kind == "BOOKMARK" {
                assert!(
                    version >= *at,
                    "a bookmark went back from {at} to {version}"
                );
                record.note(*at, object.to_string());
            } else {
                assert!(
                    version > *at,
                    "an event again, or too late, after {at}: {object}"
                );
                let (name, value) = (self.read)(&object);
                record.events.push(WatchEvent {
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
