//! The watch cache of one resource, which all threads read: the published snapshot, the ring of
//! recent events, the subscribers, and the readiness. It outlives restarts of its Cacher.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use ::metrics::Counter;
use arc_swap::ArcSwapOption;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use super::cache_content::AppliedUpdate;
use super::interests::{EventSignal, Interests, SubscriberId};
use super::metrics;
use super::readiness::Readiness;
use crate::engine::{Key, Prefix, Revision};
use crate::object::CachedObject;
use crate::ring::{Evict, ObjectChange, Ring, RingBudget, RingEvent, RingShare};
use crate::snapshot::Snapshot;
use crate::watch::Topic;

/// The watch cache of one resource. Only the Cacher writes snapshot, ring and readiness.
pub(crate) struct WatchCache {
    pub(crate) resource: String,
    pub(crate) prefix: Prefix,
    snapshot: ArcSwapOption<Snapshot>,
    buffer: RwLock<EventBuffer>,
    /// Is notified of the bytes that the ring uses.
    share: RingShare,
    /// Notifies of each new snapshot, too. A second channel would take 400 bytes for each resource.
    readiness: watch::Sender<Readiness>,
    /// Held while history is read into the ring.
    pub(super) backfill: tokio::sync::Mutex<BackfillLimit>,
    /// Counts the events from before a fill that were put into the ring.
    pub(super) backfilled: Counter,
    /// Notified when a subscriber has left.
    subscriber_left: Notify,
}

/// The generation of a removed resource. No other generation follows it.
pub(crate) const CLOSED_GENERATION: u64 = u64::MAX;

/// The ring and its subscribers, under one lock (see `interests.rs`). The lock is held for at most
/// a few hundred nanoseconds for each event. Nothing is decoded, rendered or freed under it.
#[derive(Default)]
struct EventBuffer {
    /// The generation of the ring's content; 0 before the first fill.
    generation: u64,
    /// The newest generation that began with a reset of the store; 0 if there was none. Watches of
    /// earlier generations end with an error.
    reset_generation: u64,
    ring: Ring,
    interests: Interests,
}

/// The part of the ring that a subscriber must read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingEvents {
    /// The ring's generation.
    pub(crate) generation: u64,
    /// The newest generation that began with a reset of the store.
    pub(crate) reset_generation: u64,
    /// The first event that may concern the subscriber; `None` if there is none before `next`.
    pub(crate) from: Option<u64>,
    /// The ring's end.
    pub(crate) next: u64,
    /// Everything up to this revision is before `next`.
    pub(crate) newest: Revision,
}

/// The beginning of a ring that older events can be put before.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingBeginning {
    pub(super) generation: u64,
    pub(super) floor: Revision,
    /// Bytes of events that may be put before it.
    pub(super) bytes_max: usize,
}

/// The knowledge about earlier backfills of one resource.
#[derive(Debug, Default)]
pub(super) struct BackfillLimit {
    /// In this generation of the ring, a backfill can't reach this revision.
    pub(super) out_of_reach: Option<(u64, Revision)>,
}

/// The result of [`WatchCache::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingRead {
    /// The events were copied, as many as there are.
    Copied,
    /// The first event asked for is no longer in the ring.
    Evicted,
}

/// The result of [`WatchCache::read_from`].
pub(super) enum FollowedEvents {
    /// The events, and the revision that is reached with them if they are the last ones.
    Read {
        events: Vec<Arc<RingEvent>>,
        reached: Option<Revision>,
    },
    /// The events are no longer in the ring, or the ring was filled again.
    Lost,
}

impl WatchCache {
    pub(crate) fn new(
        resource: String,
        prefix: Prefix,
        budget: &Arc<RingBudget>,
    ) -> Arc<WatchCache> {
        let pending = Readiness::Pending {
            since: Instant::now(),
            last_error: None,
        };
        Arc::new_cyclic(|ring: &Weak<WatchCache>| WatchCache {
            backfilled: metrics::backfilled(&resource),
            resource,
            prefix,
            snapshot: ArcSwapOption::empty(),
            buffer: RwLock::default(),
            share: budget.join(ring.clone()),
            readiness: watch::Sender::new(pending),
            backfill: tokio::sync::Mutex::default(),
            subscriber_left: Notify::new(),
        })
    }

    // Called by readers.

    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// The readiness. It changes with each new snapshot, too.
    pub(crate) fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    pub(crate) fn readiness_now(&self) -> Readiness {
        interleaving_point();
        self.readiness.borrow().clone()
    }

    pub(crate) fn ring_floor(&self) -> Revision {
        interleaving_point();
        self.buffer.read().ring.floor()
    }

    /// Events and bytes in the ring, for metrics.
    pub(crate) fn ring_size(&self) -> (usize, usize) {
        let buffer = self.buffer.read();
        (buffer.ring.len(), buffer.ring.bytes())
    }

    // Called by Dispatchers.

    /// Adds a subscriber; `None` if the resource was removed.
    pub(crate) fn join(&self, signal: Arc<dyn EventSignal>) -> Option<SubscriberId> {
        interleaving_point();
        let mut buffer = self.buffer.write();
        (buffer.generation != CLOSED_GENERATION).then(|| buffer.interests.join(signal))
    }

    /// Removes a subscriber.
    pub(crate) fn leave(&self, subscriber: SubscriberId) {
        self.buffer.write().interests.leave(subscriber);
        self.subscriber_left.notify_one();
    }

    /// One more group of the subscriber watches the topic.
    pub(crate) fn subscribe(&self, subscriber: SubscriberId, topic: &Topic) {
        interleaving_point();
        self.buffer.write().interests.subscribe(subscriber, topic);
    }

    /// One group fewer of the subscriber watches the topic.
    pub(crate) fn unsubscribe(&self, subscriber: SubscriberId, topic: &Topic) {
        interleaving_point();
        self.buffer.write().interests.unsubscribe(subscriber, topic);
    }

    /// Takes what is noted for the subscriber, together with the ring's end.
    pub(crate) fn take_pending(&self, subscriber: SubscriberId) -> PendingEvents {
        interleaving_point();
        let mut buffer = self.buffer.write();
        PendingEvents {
            from: buffer.interests.take_pending(subscriber),
            generation: buffer.generation,
            reset_generation: buffer.reset_generation,
            next: buffer.ring.next(),
            newest: buffer.ring.newest(),
        }
    }

    /// Copies out references to the events in `from..to`, at most `limit` of them.
    pub(crate) fn read(
        &self,
        from: u64,
        to: u64,
        limit: usize,
        into: &mut Vec<Arc<RingEvent>>,
    ) -> RingRead {
        interleaving_point();
        let buffer = self.buffer.read();
        if from < buffer.ring.first() {
            return RingRead::Evicted;
        }
        let wanted = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        into.extend(buffer.ring.from(from).take(limit.min(wanted)).cloned());
        RingRead::Copied
    }

    /// References to the events from a sequence number on, at most `limit` of them, if the ring is
    /// still of this generation.
    pub(super) fn read_from(&self, generation: u64, from: u64, limit: usize) -> FollowedEvents {
        interleaving_point();
        let buffer = self.buffer.read();
        if buffer.generation != generation || from < buffer.ring.first() {
            return FollowedEvents::Lost;
        }
        let events: Vec<_> = buffer.ring.from(from).take(limit).cloned().collect();
        let is_end = from + events.len() as u64 == buffer.ring.next();
        FollowedEvents::Read {
            reached: is_end.then(|| buffer.ring.newest()),
            events,
        }
    }

    /// Whether the ring has an event with this sequence number or a later one, or is of another
    /// generation.
    pub(super) fn has_events_from(&self, generation: u64, from: u64) -> bool {
        interleaving_point();
        let buffer = self.buffer.read();
        buffer.generation != generation || buffer.ring.next() > from
    }

    /// The sequence number at which a reader of a snapshot continues, if the snapshot belongs to
    /// this generation of the ring.
    pub(super) fn locate_in(&self, generation: u64, after: Revision) -> Option<u64> {
        interleaving_point();
        let buffer = self.buffer.read();
        (buffer.generation == generation).then(|| buffer.ring.after(after))?
    }

    /// Everything up to this revision is in the cache.
    pub(crate) fn newest(&self) -> Revision {
        interleaving_point();
        self.buffer.read().ring.newest()
    }

    /// The sequence number at which a watch after this revision continues, if the ring reaches back
    /// so far.
    pub(crate) fn locate(&self, after: Revision) -> Option<u64> {
        interleaving_point();
        self.buffer.read().ring.after(after)
    }

    /// All events after one revision and up to another; `None` if the ring does not hold all of
    /// them, or there are more than `limit`.
    pub(super) fn between(
        &self,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Option<Vec<Arc<RingEvent>>> {
        let buffer = self.buffer.read();
        // A snapshot is published a moment before its events.
        if buffer.ring.newest() < until {
            return None;
        }
        let first = buffer.ring.after(after)?;
        let events = buffer.ring.from(first);
        let events: Vec<_> = events
            .take_while(|event| event.revision <= until)
            .take(limit + 1)
            .cloned()
            .collect();
        (events.len() <= limit).then_some(events)
    }

    // Called by a backfill.

    /// The beginning of the ring, if older events can be put before it.
    pub(super) fn ring_beginning(&self) -> Option<RingBeginning> {
        let buffer = self.buffer.read();
        buffer.ring.can_prepend().then(|| RingBeginning {
            generation: buffer.generation,
            floor: buffer.ring.floor(),
            bytes_max: self.share.budget().limits().per_resource_bytes / BACKFILL_SHARE,
        })
    }

    /// The objects at the ring's beginning that its events have replaced.
    pub(super) fn replaced_since(&self, floor: Revision) -> HashMap<Key, Arc<CachedObject>> {
        let buffer = self.buffer.read();
        let replaced = buffer.ring.from(0).filter_map(|event| {
            let previous = event.previous.as_ref()?;
            (previous.revision <= floor).then(|| (Key::new(event.key()), Arc::clone(previous)))
        });
        replaced.collect()
    }

    /// Puts all events between a revision and the ring's beginning before it, in pieces, newest
    /// first. Returns whether the ring took all of them. After each piece the ring is complete and
    /// reaches back further.
    pub(super) fn prepend(
        &self,
        beginning: RingBeginning,
        floor: Revision,
        mut changes: Vec<(Revision, ObjectChange)>,
    ) -> bool {
        let limit = self.share.budget().limits().per_resource_bytes;
        let mut expected = beginning.floor;
        let taken = loop {
            let piece = split_off_newest(&mut changes);
            let reaches = changes.last().map_or(floor, |(revision, _)| *revision);
            let mut buffer = self.buffer.write();
            let is_same =
                buffer.generation == beginning.generation && buffer.ring.floor() == expected;
            let taken = is_same && buffer.ring.prepend(reaches, piece, limit);
            self.share.set(buffer.ring.bytes());
            if !taken || changes.is_empty() {
                break taken;
            }
            expected = reaches;
        };
        self.share.budget().settle();
        taken
    }

    // Called by the Cacher and by the Supervisor.

    /// Makes the cache not ready. Nothing is served until the next [`WatchCache::replace`].
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
    }

    /// Notes that the first fill begins now, for the waits of clients.
    pub(crate) fn begin_filling(&self) {
        self.readiness.send_if_modified(|readiness| {
            if let Readiness::Pending { since, .. } = readiness {
                *since = Instant::now();
            }
            false
        });
    }

    /// Stops the cache for good. Returns the last snapshot, which may take long to free.
    pub(crate) fn set_stopped(&self) -> Option<Arc<Snapshot>> {
        let before = self.snapshot.swap(None);
        self.readiness.send_replace(Readiness::Stopped);
        before
    }

    /// Begins a new generation with this snapshot. The watchers of the old one end without an
    /// error, and learn whether they can go on when they resume (WA-37).
    ///
    /// Returns the generation, and the last snapshot, which may take long to free.
    pub(crate) fn replace(&self, snapshot: Snapshot) -> (u64, Option<Arc<Snapshot>>) {
        self.begin_generation(snapshot, false)
    }

    /// As [`WatchCache::replace`], after the store was reset. The watchers end with an ERROR event
    /// of a Status 410, because none can resume.
    pub(crate) fn reset(&self, snapshot: Snapshot) -> (u64, Option<Arc<Snapshot>>) {
        self.begin_generation(snapshot, true)
    }

    fn begin_generation(&self, snapshot: Snapshot, is_reset: bool) -> (u64, Option<Arc<Snapshot>>) {
        let revision = snapshot.revision;
        let (generation, dropped, due_signals) = {
            let mut buffer = self.buffer.write();
            buffer.generation = buffer.generation.saturating_add(1);
            if is_reset {
                buffer.reset_generation = buffer.generation;
            }
            let dropped = buffer.ring.reset(revision);
            self.share.set(0);
            (
                buffer.generation,
                dropped,
                buffer.interests.due_signals(true),
            )
        };
        drop(dropped);
        let before = self.snapshot.swap(Some(Arc::new(snapshot)));
        self.readiness.send_replace(Readiness::Ready { generation });
        send_all(due_signals);
        (generation, before)
    }

    /// Begins a new generation with the same content, which ends all watchers. They can resume
    /// from the ring.
    pub(crate) fn end_watchers(&self) {
        let (generation, due_signals) = {
            let mut buffer = self.buffer.write();
            if buffer.generation == CLOSED_GENERATION {
                return;
            }
            buffer.generation = buffer.generation.saturating_add(1);
            (buffer.generation, buffer.interests.due_signals(true))
        };
        self.readiness
            .send_if_modified(|readiness| match readiness {
                // Another generation may have begun meanwhile.
                Readiness::Ready { generation: known } if *known < generation => {
                    *known = generation;
                    true
                }
                _ => false,
            });
        send_all(due_signals);
    }

    /// Ends the watchers of the current generation, because its Cacher has ended or failed.
    pub(crate) fn abandon(&self, last_error: Option<String>) {
        self.set_pending(last_error);
        let (dropped, due_signals) = {
            let mut buffer = self.buffer.write();
            buffer.generation = buffer.generation.saturating_add(1);
            self.share.set(0);
            (buffer.ring.close(), buffer.interests.due_signals(true))
        };
        drop(dropped);
        send_all(due_signals);
    }

    /// Closes the cache of a removed resource, after its Cacher has ended. All watches end,
    /// everything is freed, and handles find the cache stopped.
    pub(crate) fn close(&self) {
        self.set_stopped();
        let (dropped, due_signals) = {
            let mut buffer = self.buffer.write();
            buffer.generation = CLOSED_GENERATION;
            self.share.set(0);
            (buffer.ring.close(), buffer.interests.due_signals(true))
        };
        drop(dropped);
        send_all(due_signals);
        self.share.leave();
    }

    /// Waits until all subscribers have left.
    pub(crate) async fn all_left(&self) {
        while !self.buffer.read().interests.is_empty() {
            self.subscriber_left.notified().await;
        }
    }

    /// Publishes a snapshot and the changes that lead to it.
    pub(crate) fn publish(&self, changes: Vec<AppliedUpdate>, snapshot: Snapshot) {
        let newest = snapshot.revision;
        self.snapshot.store(Some(Arc::new(snapshot)));
        let mut changes = changes.into_iter().peekable();
        loop {
            let piece = changes.by_ref().take(PIECE).collect();
            let is_last = changes.peek().is_none();
            let (due_signals, dropped) = self.append(piece, is_last.then_some(newest));
            drop(dropped);
            send_all(due_signals);
            if is_last {
                break;
            }
        }
        self.readiness.send_modify(|_| ());
        self.shrink_to(self.share.budget().limits().per_resource_bytes);
        self.share.budget().settle();
    }

    /// Appends events and notes them for their subscribers. Returns the signals to send and the
    /// events to free. At a gap the ring begins again after the event, and all watchers read
    /// history to get past it.
    fn append(
        &self,
        changes: Vec<AppliedUpdate>,
        newest: Option<Revision>,
    ) -> (Vec<Arc<dyn EventSignal>>, Dropped) {
        let mut dropped = Vec::new();
        let mut buffer = self.buffer.write();
        let EventBuffer {
            ring, interests, ..
        } = &mut *buffer;
        for applied in changes {
            match applied {
                AppliedUpdate::Change(revision, change) => {
                    let sequence = ring.push(revision, change);
                    if let Some(event) = ring.get(sequence) {
                        interests.note(event);
                    }
                }
                AppliedUpdate::Gap(revision) => {
                    interests.note_for_all(ring.next());
                    dropped.append(&mut ring.push_gap(revision));
                }
            }
        }
        if let Some(newest) = newest {
            ring.progress(newest);
        }
        (interests.due_signals(false), dropped)
    }
}

/// Events to be freed outside the lock.
type Dropped = Vec<Arc<RingEvent>>;

/// Marks a point between two locked steps of a reader, where the Cacher may run. Tests let it run
/// here.
fn interleaving_point() {
    #[cfg(test)]
    crate::testing::interleave();
}

fn send_all(due_signals: Vec<Arc<dyn EventSignal>>) {
    for signal in due_signals {
        signal.signal();
    }
}

/// Events that are appended or dropped under one lock, so that nobody waits long.
const PIECE: usize = 256;

/// Splits off the newest [`PIECE`] changes, and those of the same revision as the first of them.
fn split_off_newest(changes: &mut Vec<(Revision, ObjectChange)>) -> Vec<(Revision, ObjectChange)> {
    let start = changes.len().saturating_sub(PIECE);
    let begins_at = changes.get(start).map(|(revision, _)| *revision);
    let before = |(revision, _): &(Revision, ObjectChange)| Some(*revision) < begins_at;
    changes.split_off(changes.partition_point(before))
}

/// A backfill may take a quarter of a ring's bytes. Most of the ring is for new events.
const BACKFILL_SHARE: usize = 4;

/// Frames may take a quarter of a ring's bytes. That is enough for the newest events, which many
/// watchers fetch at the same time.
const FRAMES_SHARE: usize = 4;

impl Evict for WatchCache {
    fn shrink_to(&self, bytes: usize) {
        loop {
            let mut dropped = Vec::new();
            {
                let mut buffer = self.buffer.write();
                buffer.ring.trim_frames(bytes / FRAMES_SHARE);
                while buffer.ring.bytes() > bytes
                    && !buffer.ring.is_empty()
                    && dropped.len() < PIECE
                {
                    dropped.append(&mut buffer.ring.evict());
                }
                self.share.set(buffer.ring.bytes());
            }
            if dropped.len() < PIECE {
                return;
            }
        }
    }
}
