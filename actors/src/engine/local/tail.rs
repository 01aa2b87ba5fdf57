//! The newest batches of events, shared by all feeds and bounded by bytes.
//!
//! A feed that is up to date has no position. A batch that touches its prefix gives it one and
//! wakes it. Therefore no batch is kept that nobody waits for, and a quiet feed never falls behind
//! a busy store. A feed that is too slow reads the log until it has caught up with the tail.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::{
    EngineError, Event, Feed, FeedItem, HistoryChunk, HistoryRequest, Position, Prefix, Revision,
};

/// Bytes of values that a feed takes from the log at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// Where a feed reads what the tail no longer holds.
pub trait LogReader: Send + Sync + 'static {
    /// Events as [`DataEngine::history`](crate::engine::DataEngine::history) gives them; previous
    /// values may be missing.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] when events after `after` are gone.
    fn read(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>>;
}

/// The tail of the log and the feeds that listen to it.
#[derive(Debug)]
pub struct Tail {
    state: Mutex<TailState>,
    /// Bytes of keys and values held for feeds that have yet to take them.
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct TailState {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// The newest revision published.
    last: Revision,
    subscribers: HashMap<FeedId, Subscriber>,
    next_id: FeedId,
    /// Feeds by their prefix, where it ends in a slash.
    by_directory: HashMap<Box<[u8]>, Vec<FeedId>>,
    /// Feeds of any other prefix.
    others: Vec<FeedId>,
    /// Feeds that have something to take, by the revision they continue at.
    lagging: BTreeSet<(Revision, FeedId)>,
    closed: bool,
}

type FeedId = u64;

#[derive(Debug)]
struct Subscriber {
    prefix: Prefix,
    /// The next revision to read; `None` if the feed is up to date.
    next: Option<Revision>,
    /// Up to here the log must be read, as the tail never had it or dropped it.
    log_until: Revision,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct Batch {
    last: Revision,
    bytes: usize,
    events: Arc<[Event]>,
    /// Whether these events reset the store.
    is_reset: bool,
}

/// Where a feed finds its next item.
enum NextItem {
    Wait,
    Take(Arc<[Event]>),
    TakeReset(Arc<[Event]>, Revision),
    ReadLog { after: Revision, until: Revision },
    Closed,
}

impl Tail {
    /// A tail that begins after this revision and holds at most this many bytes.
    pub fn new(last: Revision, bytes_max: usize) -> Arc<Tail> {
        let state = TailState {
            last,
            ..TailState::default()
        };
        Arc::new(Tail {
            state: Mutex::new(state),
            bytes_max,
        })
    }

    /// Hands durable events to the feeds, in order and each once.
    pub fn publish(&self, events: &Arc<[Event]>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return;
        };
        let mut state = self.state.lock();
        state.last = last.revision;
        if state.touch(events, first.revision) {
            state.push(Batch::new(events, last.revision, false));
            state.shed(self.bytes_max);
        }
    }

    /// Hands the events that have reset the store to all feeds. The log up to the last of them is
    /// compacted.
    pub fn publish_reset(&self, events: &Arc<[Event]>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return;
        };
        let mut state = self.state.lock();
        state.last = last.revision;
        state.touch_all(first.revision);
        state.push(Batch::new(events, last.revision, true));
        state.shed(self.bytes_max);
    }

    /// Opens a feed of the events after this revision; the caller has checked that they are
    /// still there. A revision in the future is fine: nothing up to it is delivered (WA-10).
    ///
    /// The feed reports everything up to the position's revision, by events or by progress: a
    /// reader may wait for the prefix's last revision, which need not be one of its events, and
    /// positions are published before the tail.
    pub fn open(
        self: &Arc<Self>,
        prefix: Prefix,
        after: Revision,
        position: Position,
        log: Arc<dyn LogReader>,
    ) -> Box<dyn Feed> {
        let wake = Arc::new(Notify::new());
        let mut state = self.state.lock();
        let until = state.last.max(position.revision);
        let id = state.add(&prefix, after, until, &wake);
        drop(state);
        Box::new(TailFeed {
            tail: Arc::clone(self),
            id,
            prefix,
            delivered: after,
            progress: None,
            log,
            wake,
        })
    }

    /// Bytes held for feeds that have yet to take them.
    pub fn held_bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Ends all feeds, for good.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.batches.clear();
        for subscriber in state.subscribers.values() {
            subscriber.wake.notify_one();
        }
    }
}

impl Subscriber {
    /// Notes that the feed has something to take from this revision on, if it was up to date.
    fn lag(&mut self, id: FeedId, first: Revision, lagging: &mut BTreeSet<(Revision, FeedId)>) {
        if self.next.is_none() {
            self.next = Some(first);
            lagging.insert((first, id));
            self.wake.notify_one();
        }
    }
}

impl Batch {
    fn new(events: &Arc<[Event]>, last: Revision, is_reset: bool) -> Batch {
        Batch {
            last,
            bytes: events.iter().map(event_bytes).sum(),
            events: Arc::clone(events),
            is_reset,
        }
    }
}

impl TailState {
    fn push(&mut self, batch: Batch) {
        self.bytes += batch.bytes;
        self.batches.push_back(batch);
    }

    fn add(
        &mut self,
        prefix: &Prefix,
        after: Revision,
        until: Revision,
        wake: &Arc<Notify>,
    ) -> FeedId {
        let id = self.next_id;
        self.next_id += 1;
        let behind = after < until;
        let subscriber = Subscriber {
            prefix: prefix.clone(),
            next: behind.then(|| after.next()),
            log_until: if behind { until } else { Revision::ZERO },
            wake: Arc::clone(wake),
        };
        if let Some(next) = subscriber.next {
            self.lagging.insert((next, id));
        }
        if prefix.as_bytes().ends_with(b"/") {
            let key = prefix.as_bytes().into();
            self.by_directory.entry(key).or_default().push(id);
        } else {
            self.others.push(id);
        }
        self.subscribers.insert(id, subscriber);
        id
    }

    fn remove(&mut self, id: FeedId) {
        let Some(subscriber) = self.subscribers.remove(&id) else {
            return;
        };
        if let Some(next) = subscriber.next {
            self.lagging.remove(&(next, id));
        }
        if let Some(ids) = self.by_directory.get_mut(subscriber.prefix.as_bytes()) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_directory.remove(subscriber.prefix.as_bytes());
            }
        }
        self.others.retain(|other| *other != id);
        self.trim();
    }

    /// Gives a position to the feeds that these events concern, and wakes those that waited. The
    /// answer is whether there are any.
    fn touch(&mut self, events: &[Event], first: Revision) -> bool {
        let mut touched: Vec<FeedId> = Vec::new();
        for event in events {
            for directory in event.key.directories() {
                for id in self.by_directory.get(directory).into_iter().flatten() {
                    if !touched.contains(id) {
                        touched.push(*id);
                    }
                }
            }
            for id in &self.others {
                let covers = self
                    .subscribers
                    .get(id)
                    .is_some_and(|s| s.prefix.covers(&event.key));
                if covers && !touched.contains(id) {
                    touched.push(*id);
                }
            }
        }
        for id in &touched {
            if let Some(subscriber) = self.subscribers.get_mut(id) {
                subscriber.lag(*id, first, &mut self.lagging);
            }
        }
        !touched.is_empty()
    }

    /// Gives a position to all feeds, and wakes those that waited.
    fn touch_all(&mut self, first: Revision) {
        for (id, subscriber) in &mut self.subscribers {
            subscriber.lag(*id, first, &mut self.lagging);
        }
    }

    /// Drops the oldest batches beyond the bound, never the newest. A feed that still wanted them
    /// reads the log.
    fn shed(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.batches.len() > 1 {
            let Some(batch) = self.batches.pop_front() else {
                return;
            };
            self.bytes -= batch.bytes;
            for (_, id) in self.lagging.range(..=(batch.last, FeedId::MAX)) {
                if let Some(subscriber) = self.subscribers.get_mut(id) {
                    subscriber.log_until = subscriber.log_until.max(batch.last);
                }
            }
        }
    }

    /// Drops the batches that every feed has taken.
    fn trim(&mut self) {
        let wanted = self
            .lagging
            .first()
            .map_or(Revision::MAX, |(next, _)| *next);
        while self
            .batches
            .front()
            .is_some_and(|batch| batch.last < wanted)
        {
            if let Some(batch) = self.batches.pop_front() {
                self.bytes -= batch.bytes;
            }
        }
    }

    fn advance(&mut self, id: FeedId, next: Option<Revision>) {
        if let Some(subscriber) = self.subscribers.get_mut(&id) {
            if let Some(before) = subscriber.next {
                self.lagging.remove(&(before, id));
            }
            subscriber.next = next;
            if let Some(next) = next {
                self.lagging.insert((next, id));
            }
        }
        self.trim();
    }

    fn next_item(&mut self, id: FeedId) -> NextItem {
        if self.closed {
            return NextItem::Closed;
        }
        let Some((next, log_until)) = self
            .subscribers
            .get(&id)
            .and_then(|subscriber| Some((subscriber.next?, subscriber.log_until)))
        else {
            return NextItem::Wait;
        };
        if next <= log_until {
            return NextItem::ReadLog {
                after: Revision(next.0.saturating_sub(1)),
                until: log_until,
            };
        }
        let at = self.batches.partition_point(|batch| batch.last < next);
        let taken = self
            .batches
            .get(at)
            .map(|batch| (batch.last, batch.is_reset, Arc::clone(&batch.events)));
        match taken {
            Some((last, is_reset, events)) => {
                self.advance(id, (last < self.last).then(|| last.next()));
                match is_reset {
                    true => NextItem::TakeReset(events, last),
                    false => NextItem::Take(events),
                }
            }
            None => {
                self.advance(id, None);
                NextItem::Wait
            }
        }
    }
}

/// The approximate memory of an event.
fn event_bytes(event: &Event) -> usize {
    event.key.as_bytes().len() + event.value.len() + 256
}

struct TailFeed {
    tail: Arc<Tail>,
    id: FeedId,
    prefix: Prefix,
    /// Nothing up to here is delivered again.
    delivered: Revision,
    /// The log was read up to here, past the last event delivered. The reader is notified next.
    progress: Option<Revision>,
    log: Arc<dyn LogReader>,
    wake: Arc<Notify>,
}

impl TailFeed {
    async fn next_item(&mut self) -> Result<FeedItem, EngineError> {
        if let Some(reached) = self.progress.take() {
            return Ok(FeedItem::Progress(reached));
        }
        loop {
            let next = self.tail.state.lock().next_item(self.id);
            match next {
                NextItem::Wait => self.wake.notified().await,
                NextItem::Closed => return Err(EngineError::Closed),
                NextItem::Take(events) => {
                    if let Some(events) = self.select(events) {
                        return Ok(FeedItem::Events(events));
                    }
                }
                NextItem::TakeReset(events, revision) => {
                    let events = self.select(events).unwrap_or_default();
                    self.delivered = self.delivered.max(revision);
                    return Ok(FeedItem::Reset { events, revision });
                }
                NextItem::ReadLog { after, until } => {
                    let request = HistoryRequest {
                        prefix: self.prefix.clone(),
                        after,
                        until,
                        bytes_max: CHUNK_BYTES,
                    };
                    let chunk = self.log.read(request).await?;
                    let next = Some(chunk.reached.next());
                    self.tail.state.lock().advance(self.id, next);
                    let Some(events) = self.select(chunk.events.into()) else {
                        return Ok(FeedItem::Progress(chunk.reached));
                    };
                    // Readers may wait for a revision after the last of these events.
                    self.progress = Some(chunk.reached).filter(|r| *r > self.delivered);
                    return Ok(FeedItem::Events(events));
                }
            }
        }
    }

    /// The events of this feed among those, sharing the batch when that is all of them.
    fn select(&mut self, events: Arc<[Event]>) -> Option<Arc<[Event]>> {
        let delivered = self.delivered;
        let wanted = |event: &&Event| event.revision > delivered && self.prefix.covers(&event.key);
        let matching = events.iter().filter(wanted).count();
        if matching == 0 {
            return None;
        }
        let chosen = if matching == events.len() {
            events
        } else {
            events.iter().filter(wanted).cloned().collect()
        };
        self.delivered = chosen.last().map_or(delivered, |event| event.revision);
        Some(chosen)
    }
}

impl Feed for TailFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        self.next_item().boxed()
    }
}

impl Drop for TailFeed {
    fn drop(&mut self) {
        self.tail.state.lock().remove(self.id);
    }
}
