//! The part of a Cacher that outlives its restarts and that other threads read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ::metrics::Counter;
use arc_swap::ArcSwapOption;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use super::backfill::{Backfill, Beginning};
use super::interests::{Bell, DeskId, Interests};
use super::metrics;
use super::readiness::Readiness;
use super::store::Applied;
use crate::engine::{Key, Prefix, Revision};
use crate::object::CachedObject;
use crate::ring::{Change, Evict, Ring, RingBudget, RingEvent};
use crate::snapshot::Snapshot;
use crate::watch::Topic;

/// See the module's documentation. The Cacher alone writes snapshot, ring and readiness; a new
/// life of it begins by emptying them.
pub(crate) struct Shared {
    pub(crate) resource: String,
    pub(crate) prefix: Prefix,
    snapshot: ArcSwapOption<Snapshot>,
    live: RwLock<Live>,
    ring_bytes: AtomicUsize,
    budget: Arc<RingBudget>,
    revision: watch::Sender<Revision>,
    readiness: watch::Sender<Readiness>,
    /// Held by who reads history into the ring.
    pub(super) backfill: tokio::sync::Mutex<Backfill>,
    /// Events of before a fill that were put into the ring.
    pub(super) backfilled: Counter,
    /// A Dispatcher has left.
    left: Notify,
}

/// The generation of the ring of a resource that was removed: no other follows.
pub(crate) const CLOSED: u64 = u64::MAX;

/// Ring and interests, under one lock (see `interests.rs`). It is held for a few hundred
/// nanoseconds per event at most; nothing is decoded, rendered or freed under it.
#[derive(Default)]
struct Live {
    /// The generation of the ring's content; 0 before the first fill.
    generation: u64,
    ring: Ring,
    interests: Interests,
}

/// How far a desk may read and has read when it has looked after itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// The ring's generation.
    pub(crate) generation: u64,
    /// The first event that may matter to the desk; `None`: none before `next`.
    pub(crate) pending_from: Option<u64>,
    /// The ring's end.
    pub(crate) next: u64,
    /// Everything up to this revision lies before `next`.
    pub(crate) newest: Revision,
}

/// The answer to [`Shared::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The events asked for, as many as there are.
    Served,
    /// The first event asked for is no longer in the ring.
    Evicted,
}

impl Shared {
    pub(crate) fn new(resource: String, prefix: Prefix, budget: Arc<RingBudget>) -> Arc<Shared> {
        let pending = Readiness::Pending {
            since: Instant::now(),
            last_error: None,
        };
        let shared = Arc::new(Shared {
            backfilled: metrics::backfilled(&resource),
            resource,
            prefix,
            snapshot: ArcSwapOption::empty(),
            live: RwLock::default(),
            ring_bytes: AtomicUsize::new(0),
            budget: Arc::clone(&budget),
            revision: watch::Sender::new(Revision::ZERO),
            readiness: watch::Sender::new(pending),
            backfill: tokio::sync::Mutex::default(),
            left: Notify::new(),
        });
        let ring: Arc<dyn Evict> = Arc::clone(&shared) as Arc<dyn Evict>;
        budget.join(Arc::downgrade(&ring));
        shared
    }

    // What readers use.

    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    pub(crate) fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    pub(crate) fn readiness_now(&self) -> Readiness {
        others_may_act();
        self.readiness.borrow().clone()
    }

    pub(crate) fn revision(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    pub(crate) fn ring_floor(&self) -> Revision {
        others_may_act();
        self.live.read().ring.floor()
    }

    /// Events and bytes in the ring, for metrics.
    pub(crate) fn ring_size(&self) -> (usize, usize) {
        let live = self.live.read();
        (live.ring.len(), live.ring.bytes())
    }

    // What Dispatchers use.

    /// A place for a Dispatcher; `None` once the resource was removed.
    pub(crate) fn join(&self, bell: Arc<dyn Bell>) -> Option<DeskId> {
        others_may_act();
        let mut live = self.live.write();
        (live.generation != CLOSED).then(|| live.interests.join(bell))
    }

    pub(crate) fn leave(&self, desk: DeskId) {
        self.live.write().interests.leave(desk);
        self.left.notify_one();
    }

    pub(crate) fn want(&self, desk: DeskId, topic: &Topic) {
        others_may_act();
        self.live.write().interests.want(desk, topic);
    }

    pub(crate) fn unwant(&self, desk: DeskId, topic: &Topic) {
        others_may_act();
        self.live.write().interests.unwant(desk, topic);
    }

    /// Takes what is noted for the desk, in one step with the ring's end.
    pub(crate) fn fetch(&self, desk: DeskId) -> Horizon {
        others_may_act();
        let mut live = self.live.write();
        Horizon {
            pending_from: live.interests.fetch(desk).pending_from,
            generation: live.generation,
            next: live.ring.next(),
            newest: live.ring.newest(),
        }
    }

    /// Copies out references to the events in `from..to`, at most `limit` of them.
    pub(crate) fn read(
        &self,
        from: u64,
        to: u64,
        limit: usize,
        into: &mut Vec<Arc<RingEvent>>,
    ) -> Read {
        others_may_act();
        let live = self.live.read();
        if from < live.ring.first() {
            return Read::Evicted;
        }
        let wanted = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        into.extend(live.ring.from(from).take(limit.min(wanted)).cloned());
        Read::Served
    }

    /// Everything up to here has been taken in.
    pub(crate) fn newest(&self) -> Revision {
        others_may_act();
        self.live.read().ring.newest()
    }

    /// Where a watch after this revision goes on in the ring, if the ring reaches back so far.
    pub(crate) fn locate(&self, after: Revision) -> Option<u64> {
        others_may_act();
        self.live.read().ring.after(after)
    }

    /// All events after one revision and up to another; `None` when the ring does not hold them
    /// all, or they are more than `limit`.
    pub(super) fn between(
        &self,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Option<Vec<Arc<RingEvent>>> {
        let live = self.live.read();
        // A picture is published a moment before its events.
        if live.ring.newest() < until {
            return None;
        }
        let first = live.ring.after(after)?;
        let events = live.ring.from(first);
        let events: Vec<_> = events
            .take_while(|event| event.revision <= until)
            .take(limit + 1)
            .cloned()
            .collect();
        (events.len() <= limit).then_some(events)
    }

    // What a backfill uses.

    /// The ring's beginning, if older events may be put before it.
    pub(super) fn beginning(&self) -> Option<Beginning> {
        let live = self.live.read();
        live.ring.can_prepend().then(|| Beginning {
            generation: live.generation,
            floor: live.ring.floor(),
            bytes_max: self.budget.limits().per_resource_bytes / BACKFILL_SHARE,
        })
    }

    /// The objects of the state at the ring's beginning that its events replaced.
    pub(super) fn replaced_since(&self, floor: Revision) -> HashMap<Key, Arc<CachedObject>> {
        let live = self.live.read();
        let replaced = live.ring.from(0).filter_map(|event| {
            let previous = event.previous.as_ref()?;
            (previous.revision <= floor).then(|| (event.key.clone(), Arc::clone(previous)))
        });
        replaced.collect()
    }

    /// Puts all events between a revision and the ring's beginning before it, newest first and
    /// piece by piece; answers whether the ring took them all. After each piece the ring reaches
    /// back a little further and is complete.
    pub(super) fn prepend(
        &self,
        beginning: Beginning,
        floor: Revision,
        mut changes: Vec<(Revision, Change)>,
    ) -> bool {
        let limit = self.budget.limits().per_resource_bytes;
        let mut expected = beginning.floor;
        let taken = loop {
            let piece = split_off_newest(&mut changes);
            let reaches = changes.last().map_or(floor, |(revision, _)| *revision);
            let mut live = self.live.write();
            let is_same = live.generation == beginning.generation && live.ring.floor() == expected;
            let taken = is_same && live.ring.prepend(reaches, piece, limit);
            self.ring_bytes.store(live.ring.bytes(), Ordering::Relaxed);
            if !taken || changes.is_empty() {
                break taken;
            }
            expected = reaches;
        };
        self.budget.settle();
        taken
    }

    // What the Cacher uses.

    /// Not ready from here on: nothing is served until the next [`Shared::replace`].
    pub(crate) fn set_pending(&self, last_error: Option<String>) {
        self.snapshot.store(None);
        self.readiness.send_modify(|readiness| {
            let since = match readiness {
                Readiness::Stopped => return,
                Readiness::Pending { since, .. } => *since,
                Readiness::Ready { .. } => Instant::now(),
            };
            *readiness = Readiness::Pending { since, last_error };
        });
        self.revision.send_modify(|_| ());
    }

    /// Not ready, for good. Answers with the content that was, whose end may take a while.
    pub(crate) fn set_stopped(&self) -> Option<Arc<Snapshot>> {
        let before = self.snapshot.swap(None);
        self.readiness.send_replace(Readiness::Stopped);
        self.revision.send_modify(|_| ());
        before
    }

    /// A new generation begins with this content; every watcher of the old one ends (WA-37).
    ///
    /// Answers with the generation and with the content that was, whose end may take a while.
    pub(crate) fn replace(&self, snapshot: Snapshot) -> (u64, Option<Arc<Snapshot>>) {
        let revision = snapshot.revision;
        let (generation, dropped, bells) = {
            let mut live = self.live.write();
            live.generation = live.generation.saturating_add(1);
            let dropped = live.ring.reset(revision);
            self.ring_bytes.store(0, Ordering::Relaxed);
            (live.generation, dropped, live.interests.bells(true))
        };
        drop(dropped);
        let before = self.snapshot.swap(Some(Arc::new(snapshot)));
        self.readiness.send_replace(Readiness::Ready { generation });
        self.revision.send_replace(revision);
        ring_all(bells);
        (generation, before)
    }

    /// Ends the watchers of the generation that was: its Cacher is dead.
    pub(crate) fn abandon(&self, last_error: Option<String>) {
        self.set_pending(last_error);
        let (dropped, bells) = {
            let mut live = self.live.write();
            live.generation = live.generation.saturating_add(1);
            self.ring_bytes.store(0, Ordering::Relaxed);
            (live.ring.close(), live.interests.bells(true))
        };
        drop(dropped);
        ring_all(bells);
    }

    /// The resource was removed and its Cacher has ended: all watches end, nothing is held any
    /// more, and whoever still has a handle finds the cache stopped.
    pub(crate) fn close(self: &Arc<Shared>) {
        self.set_stopped();
        let (dropped, bells) = {
            let mut live = self.live.write();
            live.generation = CLOSED;
            self.ring_bytes.store(0, Ordering::Relaxed);
            (live.ring.close(), live.interests.bells(true))
        };
        drop(dropped);
        ring_all(bells);
        let ring: Arc<dyn Evict> = Arc::clone(self) as Arc<dyn Evict>;
        self.budget.leave(&ring);
    }

    /// Waits until every Dispatcher has noticed that the resource was removed.
    pub(crate) async fn all_left(&self) {
        while !self.live.read().interests.is_empty() {
            self.left.notified().await;
        }
    }

    /// A batch of events up to the snapshot's revision.
    pub(crate) fn publish(&self, changes: Vec<Applied>, snapshot: Snapshot) {
        let newest = snapshot.revision;
        self.snapshot.store(Some(Arc::new(snapshot)));
        let mut changes = changes.into_iter().peekable();
        loop {
            let piece = changes.by_ref().take(PIECE).collect();
            let is_last = changes.peek().is_none();
            let (bells, dropped) = self.append(piece, is_last.then_some(newest));
            drop(dropped);
            ring_all(bells);
            if is_last {
                break;
            }
        }
        self.revision.send_replace(newest);
        self.shrink_to(self.budget.limits().per_resource_bytes);
        self.budget.settle();
    }

    /// Appends events, notes who wants them, and says whose bell is to be rung. Where an event
    /// can't be shown the ring begins anew behind it, and everybody is to find out, from the
    /// store's history, whether it was for them.
    fn append(
        &self,
        changes: Vec<Applied>,
        newest: Option<Revision>,
    ) -> (Vec<Arc<dyn Bell>>, Dropped) {
        let mut dropped = Vec::new();
        let mut live = self.live.write();
        let Live {
            ring, interests, ..
        } = &mut *live;
        for applied in changes {
            match applied {
                Applied::Change(revision, change) => {
                    let sequence = ring.push(revision, change);
                    if let Some(event) = ring.get(sequence) {
                        interests.note(event);
                    }
                }
                Applied::Break(revision) => {
                    interests.note_for_all(ring.next());
                    dropped.append(&mut ring.cut(revision));
                }
            }
        }
        if let Some(newest) = newest {
            ring.progress(newest);
        }
        (interests.bells(false), dropped)
    }
}

/// Events that are freed outside of locks.
type Dropped = Vec<Arc<RingEvent>>;

/// Readers lock, unlock and lock again: between any two of their steps the Cacher may take one of
/// its own, and tests let it.
fn others_may_act() {
    #[cfg(test)]
    crate::testing::others_act();
}

fn ring_all(bells: Vec<Arc<dyn Bell>>) {
    for bell in bells {
        bell.ring();
    }
}

/// Events that are appended or dropped under one lock, so that nobody waits for it for long.
const PIECE: usize = 256;

/// The newest [`PIECE`] changes, and those of the same revision as the first of them.
fn split_off_newest(changes: &mut Vec<(Revision, Change)>) -> Vec<(Revision, Change)> {
    let start = changes.len().saturating_sub(PIECE);
    let begins_at = changes.get(start).map(|(revision, _)| *revision);
    let before = |(revision, _): &(Revision, Change)| Some(*revision) < begins_at;
    changes.split_off(changes.partition_point(before))
}

/// What is read from history may take this part of a ring's bytes: most of it is for what comes.
const BACKFILL_SHARE: usize = 4;

/// Frames may take this part of a ring's bytes: enough for the newest events, which everybody
/// wants at the same time.
const FRAMES_SHARE: usize = 4;

impl Evict for Shared {
    fn ring_bytes(&self) -> usize {
        self.ring_bytes.load(Ordering::Relaxed)
    }

    fn shrink_to(&self, bytes: usize) {
        loop {
            let mut dropped = Vec::new();
            {
                let mut live = self.live.write();
                live.ring.trim_frames(bytes / FRAMES_SHARE);
                while live.ring.bytes() > bytes && !live.ring.is_empty() && dropped.len() < PIECE {
                    dropped.append(&mut live.ring.evict());
                }
                self.ring_bytes.store(live.ring.bytes(), Ordering::Relaxed);
            }
            if dropped.len() < PIECE {
                return;
            }
        }
    }
}
