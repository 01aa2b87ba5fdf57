//! Watches served by the engine itself: for resources without a watch cache.
//!
//! A feed of the engine signals that something happened. The events are then read from the engine's
//! history, which has the previous values that selectors need (WA-20, WA-21).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use actors::dispatcher::{Caller, WatchFrame};
use actors::engine::{EngineError, Event, EventKind, FeedItem, HistoryRequest, Prefix, Revision};
use actors::object::{CachedObject, Decode};
use actors::watch::{Scope, WatchEventKind, WatchInterest, transition};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream};

use super::Underlying;
use crate::storage::{
    Asked, Expired, ListRequest, RunningWatch, StorageError, StorageErrorKind, WatchRequest,
    WatchStream,
};

/// The bytes of values of one read of history.
const HISTORY_BYTES: usize = 256 * 1024;

/// The seconds after which a client may retry a future version (WA-17: 1 to 3).
const TOO_LARGE_RETRY: u32 = 1;

/// A watch over the engine.
struct EngineWatch {
    frames: LocalBoxStream<'static, Bytes>,
}

impl WatchStream for EngineWatch {
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        let polled = self.frames.poll_next_unpin(&mut caller.context());
        polled.map(|frame| frame.map(WatchFrame::from))
    }
}

/// The parts of a running watch.
struct Follower {
    store: Underlying,
    prefix: Prefix,
    interest: WatchInterest,
    /// Everything up to this revision was read.
    after: Revision,
    first: bool,
    ready: VecDeque<Bytes>,
    feed: Option<Box<dyn actors::engine::Feed>>,
}

impl Underlying {
    pub(super) async fn open_watch(
        &self,
        request: WatchRequest,
    ) -> Result<RunningWatch, StorageError> {
        let (prefix, scope) = self.scope(&request)?;
        let interest = WatchInterest {
            scope,
            ..request.interest.clone()
        };
        let initial = request
            .send_initial_events
            .unwrap_or(matches!(request.asked, Asked::Unset | Asked::Any));
        let mut ready = VecDeque::new();
        let epoch = self.engine.epoch();
        let after = if initial {
            self.initial_events(&request, &interest, &mut ready).await?
        } else {
            self.start_after(&request).await?
        };
        let feed = self
            .engine
            .feed(prefix.clone(), after)
            .await
            .map_err(|error| self.too_old(&prefix, after, error))?;
        if self.engine.epoch() != epoch {
            // The events belong to a store that was lost.
            let gone = EngineError::Compacted {
                requested: after,
                compacted: self.engine.known(&prefix).revision,
            };
            return Err(self.too_old(&prefix, after, gone));
        }
        let follower = Follower {
            store: self.clone(),
            prefix,
            interest,
            after,
            first: ready.is_empty(),
            ready,
            feed: Some(feed),
        };
        let frames = stream::unfold(follower, |mut follower| async move {
            follower.next().await.map(|frame| (frame, follower))
        });
        let deadline = tokio::time::sleep_until(request.deadline);
        let drained = request.dispatcher.drained();
        let end = async move {
            tokio::select! {
                () = deadline => {}
                () = drained => {}
            }
        };
        Ok(RunningWatch::other(EngineWatch {
            frames: frames.take_until(end).boxed_local(),
        }))
    }

    /// The keys of a watch.
    pub(in crate::storage) fn scope(
        &self,
        request: &WatchRequest,
    ) -> Result<(Prefix, Scope), StorageError> {
        if !request.recursive {
            let key = self.keys.object(&request.key)?;
            return Ok((Prefix::new(key.as_bytes()), Scope::Object(key)));
        }
        let prefix = self.keys.below(&request.key)?;
        let scope = match prefix == *self.keys.resource_prefix() {
            true => Scope::All,
            false => Scope::Namespace(prefix.clone()),
        };
        Ok((prefix, scope))
    }

    /// The state as ADDED events, and the bookmark after it (WA-18, WA-19).
    async fn initial_events(
        &self,
        request: &WatchRequest,
        interest: &WatchInterest,
        ready: &mut VecDeque<Bytes>,
    ) -> Result<Revision, StorageError> {
        let list = self
            .list(ListRequest {
                key: request.key.clone(),
                recursive: request.recursive,
                asked: Asked::Unset,
                version_match: None,
                limit: 0,
                continue_token: None,
                predicate: interest.predicate.clone(),
            })
            .await?;
        if let Asked::At(wanted) = request.asked {
            self.check_reached(&request.key, wanted, list.revision, TOO_LARGE_RETRY)?;
        }
        for object in &list.items {
            let first = ready.is_empty();
            let frame =
                interest
                    .projection
                    .frame(WatchEventKind::Added, object, object.revision, first);
            ready.push_back(frame);
        }
        if request.bookmarks && request.send_initial_events == Some(true) {
            let first = ready.is_empty();
            ready.push_back(interest.projection.bookmark(list.revision, true, first));
        }
        Ok(list.revision)
    }

    async fn start_after(&self, request: &WatchRequest) -> Result<Revision, StorageError> {
        match request.asked {
            Asked::At(revision) => Ok(revision),
            Asked::Unset | Asked::Any => {
                let prefix = self.keys.resource_prefix();
                Ok(self.position(prefix).await?.revision)
            }
        }
    }

    pub(in crate::storage) fn too_old(
        &self,
        prefix: &Prefix,
        requested: Revision,
        error: actors::engine::EngineError,
    ) -> StorageError {
        match error {
            actors::engine::EngineError::Compacted { compacted, .. } => {
                let what = Expired::Watch {
                    requested,
                    oldest: compacted,
                };
                self.fault(&prefix.to_string(), StorageErrorKind::Expired { what })
            }
            error => self.engine_fault(&prefix.to_string(), error),
        }
    }
}

impl Follower {
    /// The next frame. If the engine fails, the stream ends and the client resumes. An event that
    /// is unreadable, or cannot be shown in the version of the watch, ends it with an ERROR.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let events = match self.feed.as_mut()?.next().await {
                Ok(FeedItem::Events(events)) => events,
                Ok(FeedItem::Progress(revision)) => {
                    self.after = self.after.max(revision);
                    continue;
                }
                Ok(FeedItem::Reset { revision, .. }) => {
                    let projection = &self.interest.projection;
                    self.ready
                        .push_back(projection.expired(self.after, revision));
                    self.feed = None;
                    continue;
                }
                Err(EngineError::Refused(why)) => {
                    self.end_with(&why);
                    continue;
                }
                Err(_) => return None,
            };
            let until = events.last()?.revision;
            if events.iter().all(knows_what_was_before) {
                self.take(events.iter());
                self.after = self.after.max(until);
            }
            while self.after < until && self.feed.is_some() {
                self.read_history(until).await?;
            }
        }
    }

    /// Ends the watch with an ERROR.
    fn end_with(&mut self, why: &str) {
        self.ready.push_back(self.interest.projection.error(why));
        self.feed = None;
    }

    /// Renders events, up to one that cannot be read.
    fn take<'e>(&mut self, events: impl Iterator<Item = &'e Event>) {
        for event in events {
            if event.revision <= self.after || !self.prefix.covers(&event.key) {
                continue;
            }
            match self.frame(event) {
                Ok(frame) => self.ready.extend(frame),
                Err(reason) => {
                    // No event after an unreadable one may be delivered (WA-33).
                    self.end_with(&reason);
                    return;
                }
            }
        }
    }

    async fn read_history(&mut self, until: Revision) -> Option<()> {
        let request = HistoryRequest {
            prefix: self.prefix.clone(),
            after: self.after,
            until,
            bytes_max: HISTORY_BYTES,
        };
        let chunk = match self.store.engine.history(request).await {
            Ok(chunk) => chunk,
            // The previous values are compacted (WA-32), or cannot be shown.
            Err(error @ (EngineError::Compacted { .. } | EngineError::Refused(_))) => {
                self.end_with(&error.to_string());
                return Some(());
            }
            Err(_) => return None,
        };
        self.take(chunk.events.iter());
        let before = self.after;
        self.after = chunk.reached.max(before);
        // A store that makes no progress was rolled back. The client learns this when it resumes.
        (self.after > before || self.feed.is_none()).then_some(())
    }

    /// The frame of an event, if this watcher wants it.
    fn frame(&mut self, event: &Event) -> Result<Option<Bytes>, String> {
        let decode = |revision: Revision, value: &Bytes| -> Result<Arc<CachedObject>, String> {
            let decoded = self.store.decoder.decode(&event.key, revision, value);
            decoded.map(Arc::new).map_err(|error| error.to_string())
        };
        let current = match event.kind {
            EventKind::Put => Some(decode(event.revision, &event.value)?),
            EventKind::Delete => None,
        };
        let selects_all = self.interest.predicate.identity().is_empty();
        if selects_all && let Some(object) = &current {
            // Only whether it matched before counts (WA-21).
            let kind = match event.prev_revision {
                Revision::ZERO => WatchEventKind::Added,
                _ => WatchEventKind::Modified,
            };
            let covers = self.interest.scope.covers(event.key.as_bytes());
            return Ok(covers.then(|| self.show(kind, object, event.revision)));
        }
        let previous = match (&event.previous, event.prev_revision) {
            (Some(value), revision) => Some(decode(revision, value)?),
            (None, Revision::ZERO) => None,
            (None, _) => {
                // Without the previous value, ADDED and MODIFIED cannot be distinguished (WA-32,
                // PF-29).
                return Err(format!(
                    "the value of {} before revision {} is gone",
                    event.key, event.revision
                ));
            }
        };
        let found = transition(
            &self.interest.scope,
            &*self.interest.predicate,
            current.as_deref(),
            previous.as_deref(),
        );
        Ok(found.map(|(kind, object)| self.show(kind, object, event.revision)))
    }

    fn show(&mut self, kind: WatchEventKind, object: &CachedObject, revision: Revision) -> Bytes {
        let first = std::mem::take(&mut self.first);
        let projection = &self.interest.projection;
        projection.frame(kind, object, revision, first)
    }
}

/// Whether an event has its previous value, if there was one.
fn knows_what_was_before(event: &Event) -> bool {
    event.previous.is_some() || event.prev_revision == Revision::ZERO
}
