//! Reads all changes of one resource in order, for parts of the daemon that have no watch.
//!
//! A follower holds a position in the ring and no reference into it. It belongs to no thread, is
//! not signalled for each event, and costs the Cacher nothing. A follower that falls behind the
//! ring, or whose cache was filled again, gets the whole state again.

use std::sync::Arc;

use tokio::sync::watch;

use super::readiness::Readiness;
use super::watch_cache::{FollowedEvents, WatchCache};
use crate::engine::Revision;
use crate::ring::RingEvent;
use crate::snapshot::Snapshot;

/// Events read at a time.
const BATCH: usize = 256;

/// A reader of all changes of one resource.
pub struct CacheFollower {
    watch_cache: Arc<WatchCache>,
    position: Option<Position>,
    news: watch::Receiver<Readiness>,
}

/// The position up to which the follower has read.
#[derive(Clone, Copy)]
struct Position {
    generation: u64,
    /// The sequence number of the next event.
    next: u64,
    /// The state that was read shows everything up to this revision. A snapshot is published a
    /// moment before its events, so the first events may be older.
    shown: Revision,
    /// Everything up to this revision was read.
    reached: Revision,
}

/// The news since the last read.
#[derive(Debug)]
pub enum CacheNews {
    /// Nothing new.
    Nothing,
    /// The whole state. Everything read before is void.
    State(Arc<Snapshot>),
    /// The next events. More may follow.
    Events(Vec<Arc<RingEvent>>),
    /// The cache is being filled. The state that was read before stays valid until then.
    Filling,
    /// The resource was removed, or the daemon stops.
    Stopped,
}

impl CacheFollower {
    pub(super) fn new(watch_cache: Arc<WatchCache>) -> CacheFollower {
        CacheFollower {
            position: None,
            news: watch_cache.readiness(),
            watch_cache,
        }
    }

    /// The news since the last call. It never waits.
    pub fn read(&mut self) -> CacheNews {
        self.news.mark_unchanged();
        let Some(position) = &mut self.position else {
            return self.begin();
        };
        match self
            .watch_cache
            .read_from(position.generation, position.next, BATCH)
        {
            FollowedEvents::Lost => {
                self.position = None;
                self.begin()
            }
            FollowedEvents::Read { events, reached } => {
                position.next += events.len() as u64;
                position.reached = reached.map_or(position.reached, |r| r.max(position.reached));
                if events.is_empty() {
                    return CacheNews::Nothing;
                }
                let events = events.into_iter();
                let new = events.filter(|event| event.revision > position.shown);
                CacheNews::Events(new.collect())
            }
        }
    }

    fn begin(&mut self) -> CacheNews {
        let generation = match self.watch_cache.readiness_now() {
            Readiness::Ready { generation } => generation,
            Readiness::Pending { .. } => return CacheNews::Filling,
            Readiness::Stopped => return CacheNews::Stopped,
        };
        let Some(snapshot) = self.watch_cache.snapshot() else {
            return CacheNews::Filling;
        };
        let located = self.watch_cache.locate_in(generation, snapshot.revision);
        let Some(next) = located else {
            // The cache was filled again in between, and the next read will return the new state.
            return CacheNews::Filling;
        };
        self.position = Some(Position {
            generation,
            next,
            shown: snapshot.revision,
            reached: snapshot.revision,
        });
        CacheNews::State(snapshot)
    }

    /// Whether [`CacheFollower::read`] would return a state or events now. It costs no more than a
    /// lock that nobody holds for long, so a request may ask each time.
    pub fn has_news(&self) -> bool {
        match &self.position {
            Some(position) => self
                .watch_cache
                .has_events_from(position.generation, position.next),
            None => matches!(self.watch_cache.readiness_now(), Readiness::Ready { .. }),
        }
    }

    /// Everything up to this revision was read; `None` before the first state.
    pub fn reached(&self) -> Option<Revision> {
        self.position.map(|position| position.reached)
    }

    /// Waits until something may have happened since the last [`CacheFollower::read`].
    pub fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut news = self.news.clone();
        async move {
            // The sender lives as long as the cache.
            let _ = news.changed().await;
        }
    }
}
