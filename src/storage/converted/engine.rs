//! An engine whose values have another version than the stored one: each is decoded, converted and
//! encoded again on its way up. It is for reads alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use actors::engine::{
    At, DataEngine, EngineError, Event, EventKind, Feed, FeedItem, FeedProgress, GetResponse,
    Health, HistoryChunk, HistoryRequest, KeyValue, Mutation, Outcome, Position, Prefix, Prepared,
    RangeRequest, RangeResponse, Revision,
};
use actors::object::{CachedObject, Decode, DecodeError};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;

use super::ShownVersion;
use super::memo::{Memo, ValueId};
use crate::api::deep::Roomy;
use crate::storage::underlying::Underlying;

/// The most objects of one call.
const BATCH: usize = 500;

/// The bytes of stored values from which on a call has no further object. Trees of objects have up
/// to forty times as many, and answers have room for that.
const BATCH_BYTES: usize = 1 << 20;

/// Reads the values of a resource in another version.
#[derive(Clone)]
pub(super) struct ConvertedEngine(Arc<Inner>);

struct Inner {
    store: Arc<Underlying>,
    version: Arc<ShownVersion>,
    memo: Mutex<Memo>,
    /// Held while events are converted, so that each is converted once.
    turn: tokio::sync::Mutex<()>,
}

/// A stored value to be shown.
struct Stored {
    id: ValueId,
    object: Arc<CachedObject>,
    /// The length of the value.
    bytes: usize,
}

/// Splits values into those of one call each.
fn batches(stored: &[Stored]) -> impl Iterator<Item = &[Stored]> {
    let mut bytes = 0;
    let fits = move |before: &Stored, one: &Stored| {
        bytes += before.bytes;
        let fits = bytes + one.bytes <= BATCH_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    };
    stored.chunk_by(fits).flat_map(|batch| batch.chunks(BATCH))
}

impl ConvertedEngine {
    /// Creates an engine over that of a store.
    pub fn new(store: Arc<Underlying>, version: Arc<ShownVersion>) -> ConvertedEngine {
        ConvertedEngine(Arc::new(Inner {
            store,
            version,
            memo: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    fn below(&self) -> &Arc<dyn DataEngine> {
        &self.0.store.engine
    }

    fn decoded(&self, item: &KeyValue) -> Result<Stored, EngineError> {
        let decoder = &self.0.store.decoder;
        let object = decoder.decode(&item.key, item.revision, &item.value);
        Ok(Stored {
            id: (item.key.clone(), item.revision),
            object: Arc::new(object.map_err(unreadable)?),
            bytes: item.value.len(),
        })
    }

    /// Converts values, in batches. The result has them in order. Deep objects have room, also where
    /// no request is carried out.
    async fn shown(&self, stored: &[Stored], is_list: bool) -> Result<Vec<Bytes>, EngineError> {
        Roomy::new(self.shown_here(stored, is_list)).await
    }

    async fn shown_here(
        &self,
        stored: &[Stored],
        is_list: bool,
    ) -> Result<Vec<Bytes>, EngineError> {
        let Inner { version, .. } = &*self.0;
        let mut shown = Vec::with_capacity(stored.len());
        for batch in batches(stored) {
            let mut objects = Vec::with_capacity(batch.len());
            for one in batch {
                let object = version.object(&one.object).await;
                objects.push(object.map_err(EngineError::Refused)?);
            }
            let converted = version.converter.shown(objects, is_list).await;
            let converted = converted.map_err(EngineError::Refused)?;
            if converted.len() != batch.len() {
                let why = "a conversion returned another number of objects".to_owned();
                return Err(EngineError::Refused(why));
            }
            let encoded = converted.iter().map(|object| version.shown.encode(object));
            shown.extend(encoded.map(Bytes::from));
        }
        Ok(shown)
    }

    async fn show_one(&self, item: KeyValue, is_list: bool) -> Result<KeyValue, EngineError> {
        let stored = self.decoded(&item)?;
        let value = self.shown(&[stored], is_list).await?.pop();
        let value = value.unwrap_or_default();
        Ok(KeyValue { value, ..item })
    }

    /// Converts the items of a list, except those that a watch has converted.
    async fn show_list(&self, items: &mut [KeyValue]) -> Result<(), EngineError> {
        let mut places = Vec::new();
        let mut missing = Vec::new();
        for (place, item) in items.iter_mut().enumerate() {
            let known = self.0.memo.lock().get(&(item.key.clone(), item.revision));
            match known {
                Some(value) => item.value = value,
                None => {
                    missing.push(self.decoded(item)?);
                    places.push(place);
                }
            }
        }
        let shown = self.shown(&missing, true).await?;
        for (place, value) in places.into_iter().zip(shown) {
            if let Some(item) = items.get_mut(place) {
                item.value = value;
            }
        }
        Ok(())
    }

    /// Converts the values of events, and those before them, by one call.
    async fn show_events(&self, events: &[Event]) -> Result<Vec<Event>, EngineError> {
        let _turn = self.0.turn.lock().await;
        let now = Instant::now();
        let mut known: HashMap<ValueId, Bytes> = HashMap::new();
        let mut asked: HashSet<ValueId> = HashSet::new();
        let mut missing = Vec::new();
        for event in events {
            let decoder = &self.0.store.decoder;
            if event.kind == EventKind::Put {
                let id = (event.key.clone(), event.revision);
                if !self.knows(&id, &mut known) && asked.insert(id.clone()) {
                    let object = decoder.decode_event(event).map_err(unreadable)?;
                    let bytes = event.value.len();
                    missing.push(Stored { id, object, bytes });
                }
            }
            if let Some(value) = &event.previous {
                let id = (event.key.clone(), event.prev_revision);
                if !self.knows(&id, &mut known) && asked.insert(id.clone()) {
                    let object = decoder.decode(&id.0, id.1, value);
                    let object = Arc::new(object.map_err(unreadable)?);
                    let bytes = value.len();
                    missing.push(Stored { id, object, bytes });
                }
            }
        }
        if !missing.is_empty() {
            if let Some(why) = self.0.memo.lock().failure(now) {
                return Err(EngineError::Refused(why));
            }
            let shown = self.shown(&missing, true).await;
            let mut memo = self.0.memo.lock();
            let shown = shown.inspect_err(|error| memo.fail(&error.to_string(), Instant::now()))?;
            for (Stored { id, .. }, value) in missing.into_iter().zip(shown) {
                memo.add(id.clone(), value.clone());
                known.insert(id, value);
            }
        }
        let value = |event: &Event, revision| {
            let id = (event.key.clone(), revision);
            known.get(&id).cloned().unwrap_or_default()
        };
        let shown = events.iter().map(|event| Event {
            value: match event.kind {
                EventKind::Put => value(event, event.revision),
                EventKind::Delete => Bytes::new(),
            },
            previous: event
                .previous
                .as_ref()
                .map(|_| value(event, event.prev_revision)),
            prepared: Prepared::default(),
            ..event.clone()
        });
        Ok(shown.collect())
    }

    fn knows(&self, id: &ValueId, known: &mut HashMap<ValueId, Bytes>) -> bool {
        if known.contains_key(id) {
            return true;
        }
        let Some(value) = self.0.memo.lock().get(id) else {
            return false;
        };
        known.insert(id.clone(), value);
        true
    }
}

fn unreadable(error: DecodeError) -> EngineError {
    EngineError::Corrupt(error.to_string())
}

impl DataEngine for ConvertedEngine {
    fn get(
        &self,
        key: actors::engine::Key,
        at: At,
    ) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        async move {
            let GetResponse { revision, item } = self.below().get(key, at).await?;
            let item = match item {
                Some(item) => Some(self.show_one(item, false).await?),
                None => None,
            };
            Ok(GetResponse { revision, item })
        }
        .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        async move {
            let mut response = self.below().range(request).await?;
            self.show_list(&mut response.items).await?;
            Ok(response)
        }
        .boxed()
    }

    /// Refuses: writes go to the stored version.
    fn commit(&self, _mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        let why = "values of a converted version cannot be written".to_owned();
        ready(Err(EngineError::Refused(why))).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        async move {
            let below = self.below().feed(prefix, after).await?;
            self.0.memo.lock().begin();
            let feed = ConvertedFeed {
                engine: self.clone(),
                below,
            };
            Ok(Box::new(feed) as Box<dyn Feed>)
        }
        .boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        async move {
            let HistoryChunk { events, reached } = self.below().history(request).await?;
            let events = self.show_events(&events).await?;
            Ok(HistoryChunk { events, reached })
        }
        .boxed()
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        self.below().current(prefix)
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.below().known(prefix)
    }

    fn feed_progress(&self) -> FeedProgress {
        self.below().feed_progress()
    }

    fn request_progress(&self, prefix: &Prefix, up_to: Revision) {
        self.below().request_progress(prefix, up_to);
    }

    fn epoch(&self) -> u64 {
        self.below().epoch()
    }

    fn knows_origins(&self) -> bool {
        self.below().knows_origins()
    }

    fn compacted(&self) -> Revision {
        self.below().compacted()
    }

    fn health(&self) -> Health {
        self.below().health()
    }
}

/// The events of a prefix, converted. The memo lasts as long as one of them.
struct ConvertedFeed {
    engine: ConvertedEngine,
    below: Box<dyn Feed>,
}

impl Feed for ConvertedFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            Ok(match self.below.next().await? {
                FeedItem::Events(events) => {
                    FeedItem::Events(self.engine.show_events(&events).await?.into())
                }
                progress @ FeedItem::Progress(_) => progress,
            })
        }
        .boxed()
    }
}

impl Drop for ConvertedFeed {
    fn drop(&mut self) {
        self.engine.0.memo.lock().end();
    }
}
