//! One watch: follows a feed of the engine, and makes messages of its events.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{At, DataEngine, EngineError, Event, Feed, FeedItem, KeyValue, Revision};
use etcd_client::proto::{PbEvent, PbWatchResponse};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tonic::Status;

use super::request::Wanted;
use crate::etcd_shim::kv::{event, key_value, read};
use crate::etcd_shim::store::{BEGINS_AT, Counted, Store, number};

/// Bytes of events after which a message is full.
const MESSAGE_BYTES: usize = 256 << 10;

/// The queue to the client.
pub(super) type Queue = mpsc::Sender<Result<PbWatchResponse, Status>>;

/// How a watch begins.
pub(super) enum Begun {
    /// It follows a feed.
    Follows {
        feed: Box<dyn Feed>,
        /// The compacted revision whose event comes first.
        first: Option<Revision>,
    },
    /// The engine has no such feed.
    Refused(EngineError),
}

/// Why a watch ends.
enum End {
    /// The client has gone away.
    Gone,
    /// The engine can't go on.
    Failed(EngineError),
}

impl End {
    /// A client learns the end of the program by that of its connection, and comes back. It would
    /// take a canceled watch for a decision.
    fn of(error: EngineError) -> End {
        match error {
            EngineError::Closed => End::Gone,
            error => End::Failed(error),
        }
    }
}

/// A watch.
pub(super) struct Follower {
    pub(super) store: Arc<Store>,
    pub(super) queue: Queue,
    pub(super) id: i64,
    pub(super) wanted: Wanted,
    /// Everything up to here was delivered.
    pub(super) reached: watch::Sender<Revision>,
    /// How often an idle watch reports progress.
    pub(super) interval: Duration,
    pub(super) _counted: Counted,
}

impl Follower {
    /// Delivers events until the feed ends. Returns the number of the watch.
    pub(super) async fn run(self, begun: Begun) -> i64 {
        let ended = match begun {
            Begun::Follows { feed, first } => self.follow(feed, first).await,
            Begun::Refused(error) => Err(End::of(error)),
        };
        if let Err(End::Failed(error)) = ended {
            self.cancel(error).await;
        }
        self.id
    }

    async fn follow(&self, mut feed: Box<dyn Feed>, first: Option<Revision>) -> Result<(), End> {
        if let Some(revision) = first {
            self.deliver_compacted(revision).await?;
        }
        let mut report_at = Instant::now() + self.interval;
        loop {
            // It is not dropped before it is ready, so nothing is lost.
            let mut next = feed.next();
            let item = loop {
                tokio::select! {
                    item = &mut next => break item,
                    () = tokio::time::sleep_until(report_at), if self.wanted.reports_progress => {
                        self.report().await?;
                        report_at = Instant::now() + self.interval;
                    }
                    () = self.queue.closed() => return Err(End::Gone),
                }
            };
            match item.map_err(End::of)? {
                FeedItem::Events(events) => {
                    if self.deliver(&events).await? {
                        report_at = Instant::now() + self.interval;
                    }
                }
                FeedItem::Progress(revision) => {
                    self.reached.send_replace(revision);
                }
                // Only a store in memory is reset, and this one is in files.
                FeedItem::Reset { revision, .. } => {
                    return self.deliver_compacted(revision).await;
                }
            }
        }
    }

    /// Delivers those of a batch of events that are wanted. Returns whether there were any.
    async fn deliver(&self, events: &[Event]) -> Result<bool, End> {
        let is_wanted = |event: &&Event| self.wanted.includes(event);
        let wanted: Vec<&Event> = events.iter().filter(is_wanted).collect();
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            // First a place in the queue, then the message.
            let place = self.queue.reserve().await.map_err(|_| End::Gone)?;
            let (mut message, mut bytes, mut last) = (Vec::new(), 0, Revision::ZERO);
            while bytes < MESSAGE_BYTES
                && let Some((event, more)) = rest.split_first()
            {
                rest = more;
                let made = self.event(event).await?;
                bytes += size(&made);
                last = event.revision;
                message.push(made);
            }
            place.send(Ok(PbWatchResponse {
                header: self.store.header(last),
                watch_id: self.id,
                events: message,
                ..PbWatchResponse::default()
            }));
        }
        if let Some(last) = events.last() {
            self.reached.send_replace(last.revision);
        }
        Ok(!wanted.is_empty())
    }

    async fn event(&self, of: &Event) -> Result<PbEvent, End> {
        let previous = match self.wanted.prev_kv && of.prev_revision > Revision::ZERO {
            true => self.previous(of).await?,
            false => None,
        };
        Ok(event(of, previous.as_ref()))
    }

    /// The key and the value before an event. `None` if they are compacted.
    async fn previous(&self, event: &Event) -> Result<Option<KeyValue>, End> {
        let before = Revision(event.revision.0.saturating_sub(1));
        let found = self
            .store
            .engine
            .get(event.key.clone(), At::Revision(before));
        match found.await {
            Ok(found) => Ok(found.item),
            Err(EngineError::Compacted { .. }) => Ok(None),
            Err(error) => Err(End::of(error)),
        }
    }

    /// Delivers the event of the newest compacted revision. Its value before is compacted.
    async fn deliver_compacted(&self, revision: Revision) -> Result<(), End> {
        let made = match self.store.edge(revision) {
            Some(edge) if self.wanted.includes(&edge) => event(&edge, None),
            Some(_) => return Ok(()),
            // Another process has compacted the store. It kept the event only if its value is
            // still in the state.
            None => {
                let at = At::Revision(revision);
                let found = read(&self.store, &self.wanted.range, at, 0).await;
                // If it was compacted further meanwhile, the feed reports it.
                let items = found.map(|found| found.items).unwrap_or_default();
                match items.iter().find(|item| item.revision == revision) {
                    Some(item) => PbEvent {
                        kv: Some(key_value(item)),
                        ..PbEvent::default()
                    },
                    None if revision <= BEGINS_AT => return Ok(()),
                    None => {
                        return Err(End::of(EngineError::Compacted {
                            requested: Revision(revision.0.saturating_sub(1)),
                            compacted: revision,
                        }));
                    }
                }
            }
        };
        self.send(PbWatchResponse {
            header: self.store.header(revision),
            events: vec![made],
            ..PbWatchResponse::default()
        })
        .await
    }

    /// Reports how far the watch is, if it has delivered everything.
    async fn report(&self) -> Result<(), End> {
        let position = self.store.engine.known(&self.wanted.range.directory());
        if *self.reached.borrow() < position.prefix_revision {
            return Ok(());
        }
        self.send(PbWatchResponse {
            header: self.store.header(position.revision),
            ..PbWatchResponse::default()
        })
        .await
    }

    async fn send(&self, response: PbWatchResponse) -> Result<(), End> {
        let response = PbWatchResponse {
            watch_id: self.id,
            ..response
        };
        self.queue.send(Ok(response)).await.map_err(|_| End::Gone)
    }

    /// Ends the watch for the client.
    async fn cancel(&self, error: EngineError) {
        let (compact_revision, why) = match &error {
            // Watching from there is possible again.
            EngineError::Compacted { .. } => (number(self.store.engine.compacted()), String::new()),
            error => (0, error.to_string()),
        };
        let revision = *self.reached.borrow();
        // A client that has gone away needs no answer.
        let _ = self
            .send(PbWatchResponse {
                header: self.store.header(revision),
                canceled: true,
                compact_revision,
                cancel_reason: why,
                ..PbWatchResponse::default()
            })
            .await;
    }
}

/// The bytes of an event, about.
fn size(event: &PbEvent) -> usize {
    let items = event.kv.iter().chain(&event.prev_kv);
    let bytes = items.map(|item| item.key.len() + item.value.len());
    bytes.sum::<usize>() + 64
}
