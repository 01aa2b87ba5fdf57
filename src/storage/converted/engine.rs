//! An engine whose values are converted on their way up: those that are stored in another version
//! than the one that its reader knows. Events and lists are converted by one call for each batch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use actors::engine::{
    At, DataEngine, EngineError, Event, EventKind, Feed, FeedItem, FeedProgress, GetResponse,
    Health, HistoryChunk, HistoryRequest, Key, KeyValue, Mutation, Outcome, Position, Prefix,
    Prepared, RangeRequest, RangeResponse, Revision,
};
use actors::object::DecodeError;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;

use super::memo::{Memo, ValueId};
use crate::api::deep::Roomy;

/// The most objects of one call.
const BATCH: usize = 500;

/// The bytes of stored values from which on a call has no further object. Trees of objects have up
/// to forty times as many, and answers have room for that.
const BATCH_BYTES: usize = 1 << 20;

/// Which values are converted, and how.
pub(super) trait ValueConversion: Send + Sync + 'static {
    /// A decoded value that is to be converted.
    type Pending: Send + Sync + 'static;

    /// Whether writes pass through the engine.
    const WRITES: bool;

    /// Decodes a value, or returns `None` if it is read as it is stored.
    ///
    /// # Errors
    /// The value can't be read.
    fn pending(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<Option<Self::Pending>, DecodeError>;

    /// Does the same for the value of an event.
    ///
    /// # Errors
    /// The value can't be read.
    fn pending_event(&self, event: &Event) -> Result<Option<Self::Pending>, DecodeError> {
        self.pending(&event.key, event.revision, &event.value)
    }

    /// Converts values, in order. `is_list` says that they are part of a list or of events.
    ///
    /// # Errors
    /// The failure, as clients see it.
    fn convert<'c>(
        &'c self,
        pending: Vec<&'c Self::Pending>,
        is_list: bool,
    ) -> BoxFuture<'c, Result<Vec<Bytes>, String>>;
}

/// A value that is to be converted, and its length as it is stored.
struct Pending<P> {
    value: P,
    bytes: usize,
}

/// Splits values into those of one call each.
fn batches<P>(pending: &[Pending<P>]) -> impl Iterator<Item = &[Pending<P>]> {
    let mut bytes = 0;
    let fits = move |before: &Pending<P>, one: &Pending<P>| {
        bytes += before.bytes;
        let fits = bytes + one.bytes <= BATCH_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    };
    pending.chunk_by(fits).flat_map(|batch| batch.chunks(BATCH))
}

/// Reads the values of a resource as a conversion shows them.
pub(super) struct ConvertedEngine<C>(Arc<Inner<C>>);

impl<C> Clone for ConvertedEngine<C> {
    fn clone(&self) -> ConvertedEngine<C> {
        ConvertedEngine(Arc::clone(&self.0))
    }
}

struct Inner<C> {
    below: Arc<dyn DataEngine>,
    conversion: C,
    memo: Mutex<Memo>,
    /// Held while events are converted, so that each is converted once.
    turn: tokio::sync::Mutex<()>,
}

impl<C: ValueConversion> ConvertedEngine<C> {
    /// Creates an engine over another one.
    pub fn new(below: Arc<dyn DataEngine>, conversion: C) -> ConvertedEngine<C> {
        ConvertedEngine(Arc::new(Inner {
            below,
            conversion,
            memo: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    fn below(&self) -> &Arc<dyn DataEngine> {
        &self.0.below
    }

    fn pending(&self, item: &KeyValue) -> Result<Option<Pending<C::Pending>>, EngineError> {
        let KeyValue {
            key,
            value,
            revision,
            ..
        } = item;
        let pending = self.0.conversion.pending(key, *revision, value);
        let bytes = value.len();
        let pending = pending.map_err(unreadable)?;
        Ok(pending.map(|value| Pending { value, bytes }))
    }

    /// Converts values, in batches. The result has them in order. Deep objects have room, also
    /// where no request is carried out.
    async fn shown(
        &self,
        pending: &[Pending<C::Pending>],
        is_list: bool,
    ) -> Result<Vec<Bytes>, EngineError> {
        Roomy::new(self.shown_here(pending, is_list)).await
    }

    async fn shown_here(
        &self,
        pending: &[Pending<C::Pending>],
        is_list: bool,
    ) -> Result<Vec<Bytes>, EngineError> {
        let mut shown = Vec::with_capacity(pending.len());
        for batch in batches(pending) {
            let values = batch.iter().map(|one| &one.value);
            let converted = self.0.conversion.convert(values.collect(), is_list).await;
            let converted = converted.map_err(EngineError::Refused)?;
            if converted.len() != batch.len() {
                let why = "a conversion returned another number of objects".to_owned();
                return Err(EngineError::Refused(why));
            }
            shown.extend(converted);
        }
        Ok(shown)
    }

    async fn show_one(&self, item: Option<KeyValue>) -> Result<Option<KeyValue>, EngineError> {
        let Some(item) = item else {
            return Ok(None);
        };
        let Some(pending) = self.pending(&item)? else {
            return Ok(Some(item));
        };
        let value = self.shown(&[pending], false).await?.pop();
        let value = value.unwrap_or_default();
        Ok(Some(KeyValue { value, ..item }))
    }

    /// Converts the items of a list, except those that a watch has converted.
    async fn show_list(&self, items: &mut [KeyValue]) -> Result<(), EngineError> {
        let mut places = Vec::new();
        let mut missing = Vec::new();
        for (place, item) in items.iter_mut().enumerate() {
            let known = self.0.memo.lock().get(&(item.key.clone(), item.revision));
            if let Some(value) = known {
                item.value = value;
            } else if let Some(pending) = self.pending(item)? {
                missing.push(pending);
                places.push(place);
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

    /// Converts the values of events, and those before them, by one call. Returns `None` if all are
    /// read as they are stored.
    async fn show_events(&self, events: &[Event]) -> Result<Option<Vec<Event>>, EngineError> {
        let _turn = self.0.turn.lock().await;
        let now = Instant::now();
        let conversion = &self.0.conversion;
        let mut known: HashMap<ValueId, Bytes> = HashMap::new();
        let mut asked: HashSet<ValueId> = HashSet::new();
        let (mut ids, mut missing) = (Vec::new(), Vec::new());
        type Found<C> = Result<Option<<C as ValueConversion>::Pending>, DecodeError>;
        for event in events {
            let mut add = |revision, value: &Bytes, pending: &dyn Fn() -> Found<C>| {
                let id = (event.key.clone(), revision);
                if !self.knows(&id, &mut known)
                    && asked.insert(id.clone())
                    && let Some(found) = pending().map_err(unreadable)?
                {
                    ids.push(id);
                    missing.push(Pending {
                        value: found,
                        bytes: value.len(),
                    });
                }
                Ok::<(), EngineError>(())
            };
            if event.kind == EventKind::Put {
                let pending = || conversion.pending_event(event);
                add(event.revision, &event.value, &pending)?;
            }
            if let Some(value) = &event.previous {
                let pending = || conversion.pending(&event.key, event.prev_revision, value);
                add(event.prev_revision, value, &pending)?;
            }
        }
        if !missing.is_empty() {
            if let Some(why) = self.0.memo.lock().failure(now) {
                return Err(EngineError::Refused(why));
            }
            let shown = self.shown(&missing, true).await;
            let mut memo = self.0.memo.lock();
            let shown = shown.inspect_err(|error| memo.fail(&error.to_string(), Instant::now()))?;
            for (id, value) in ids.into_iter().zip(shown) {
                memo.add(id.clone(), value.clone());
                known.insert(id, value);
            }
        }
        if known.is_empty() {
            return Ok(None);
        }
        let converted = |event: &Event, revision| {
            let id = (event.key.clone(), revision);
            known.get(&id).cloned()
        };
        let shown = events.iter().map(|event| {
            let mut shown = event.clone();
            if event.kind == EventKind::Put
                && let Some(value) = converted(event, event.revision)
            {
                shown.value = value;
                shown.prepared = Prepared::default();
            }
            if event.previous.is_some()
                && let Some(value) = converted(event, event.prev_revision)
            {
                shown.previous = Some(value);
            }
            shown
        });
        Ok(Some(shown.collect()))
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

impl<C: ValueConversion> DataEngine for ConvertedEngine<C> {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        async move {
            let GetResponse { revision, item } = self.below().get(key, at).await?;
            let item = self.show_one(item).await?;
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

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        if !C::WRITES {
            let why = "values of a converted version cannot be written".to_owned();
            return ready(Err(EngineError::Refused(why))).boxed();
        }
        async move {
            Ok(match self.below().commit(mutation).await? {
                Outcome::Refused { current, revision } => Outcome::Refused {
                    current: self.show_one(current).await?,
                    revision,
                },
                committed => committed,
            })
        }
        .boxed()
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
            let shown = self.show_events(&events).await?;
            let events = shown.unwrap_or(events);
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
struct ConvertedFeed<C: ValueConversion> {
    engine: ConvertedEngine<C>,
    below: Box<dyn Feed>,
}

impl<C: ValueConversion> Feed for ConvertedFeed<C> {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            Ok(match self.below.next().await? {
                FeedItem::Events(events) => {
                    let shown = self.engine.show_events(&events).await?;
                    FeedItem::Events(shown.map_or(events, Into::into))
                }
                progress @ FeedItem::Progress(_) => progress,
                FeedItem::Reset { events, revision } => {
                    let shown = self.engine.show_events(&events).await?;
                    let events = shown.map_or(events, Into::into);
                    FeedItem::Reset { events, revision }
                }
            })
        }
        .boxed()
    }
}

impl<C: ValueConversion> Drop for ConvertedFeed<C> {
    fn drop(&mut self) {
        self.engine.0.memo.lock().end();
    }
}
