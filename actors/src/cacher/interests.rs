//! Which Dispatchers want which topics of one resource, and the first event that each of them must
//! read. Pure.
//!
//! It is under the same lock as the ring. An event is appended and noted in one step, so a
//! Dispatcher that finds nothing noted may skip to the ring's end without reading.

use std::sync::Arc;

use super::topic_map::TopicMap;
use crate::ring::RingEvent;
use crate::watch::Topic;

/// Notifies a Dispatcher that one of its resources has events to read.
pub trait EventSignal: Send + Sync {
    /// There are events to read. This must not block.
    fn signal(&self);
}

/// A Dispatcher's subscription to one resource. Ids are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(pub u64);

/// The subscriptions to one resource.
#[derive(Default)]
pub(crate) struct Interests {
    subscribers: Vec<Subscriber>,
    last_id: u64,
}

struct Subscriber {
    id: SubscriberId,
    signal: Arc<dyn EventSignal>,
    /// The number of groups that watch each topic.
    wanted: TopicMap<u32>,
    /// The first event of a wanted topic that was not taken yet.
    pending_from: Option<u64>,
    /// Set when the signal was sent, until the Dispatcher reads the ring: one signal at most.
    is_signalled: bool,
}

impl Interests {
    /// Adds a subscriber that wants nothing yet.
    pub(crate) fn join(&mut self, signal: Arc<dyn EventSignal>) -> SubscriberId {
        self.last_id += 1;
        let id = SubscriberId(self.last_id);
        self.subscribers.push(Subscriber {
            id,
            signal,
            wanted: TopicMap::default(),
            pending_from: None,
            is_signalled: false,
        });
        id
    }

    /// Removes a subscriber.
    pub(crate) fn leave(&mut self, id: SubscriberId) {
        self.subscribers.retain(|subscriber| subscriber.id != id);
    }

    /// Whether there is no subscriber.
    pub(crate) fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }

    /// One more group of this subscriber watches the topic.
    pub(crate) fn subscribe(&mut self, id: SubscriberId, topic: &Topic) {
        if let Some(subscriber) = self.find(id) {
            *subscriber.wanted.entry(topic) += 1;
        }
    }

    /// One group fewer of this subscriber watches the topic.
    pub(crate) fn unsubscribe(&mut self, id: SubscriberId, topic: &Topic) {
        if let Some(subscriber) = self.find(id) {
            subscriber.wanted.shrink(topic, |groups| {
                *groups = groups.saturating_sub(1);
                *groups == 0
            });
        }
    }

    /// Notes an event for the subscribers that want it.
    pub(crate) fn note(&mut self, event: &RingEvent) {
        for subscriber in &mut self.subscribers {
            if subscriber.pending_from.is_none() {
                let pending_from = &mut subscriber.pending_from;
                subscriber
                    .wanted
                    .matching(event, |_| *pending_from = Some(event.sequence));
            }
        }
    }

    /// Notes that no subscriber may skip events from this sequence number on.
    pub(crate) fn note_for_all(&mut self, sequence: u64) {
        for subscriber in &mut self.subscribers {
            subscriber.pending_from.get_or_insert(sequence);
        }
    }

    /// The signals to send: to the subscribers with pending events, or to all. Those that were
    /// signalled already are left out.
    pub(crate) fn due_signals(&mut self, everybody: bool) -> Vec<Arc<dyn EventSignal>> {
        let is_due = |subscriber: &&mut Subscriber| {
            !subscriber.is_signalled && (everybody || subscriber.pending_from.is_some())
        };
        let due = self.subscribers.iter_mut().filter(is_due);
        let signals = due.map(|subscriber| {
            subscriber.is_signalled = true;
            Arc::clone(&subscriber.signal)
        });
        signals.collect()
    }

    /// Takes the first event that the subscriber must read; `None` if it may skip to the ring's
    /// end. From now on it can be signalled again.
    pub(crate) fn take_pending(&mut self, id: SubscriberId) -> Option<u64> {
        let subscriber = self.find(id)?;
        subscriber.is_signalled = false;
        subscriber.pending_from.take()
    }

    fn find(&mut self, id: SubscriberId) -> Option<&mut Subscriber> {
        let mut subscribers = self.subscribers.iter_mut();
        subscribers.find(|subscriber| subscriber.id == id)
    }
}
