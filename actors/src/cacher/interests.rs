//! Which Dispatchers want which topics of one resource, and from which event on each of them has
//! something to look at.
//!
//! Pure. It lies beside the ring under one lock: an event is appended and noted in one step, so
//! that a Dispatcher which finds nothing noted may skip to the ring's end without reading.

use std::sync::Arc;

use super::topics::{Left, TopicMap};
use crate::ring::RingEvent;
use crate::watch::Topic;

/// Wakes a Dispatcher to look after one of its desks; must not block.
pub trait Bell: Send + Sync {
    /// Something happened there.
    fn ring(&self);
}

/// A Dispatcher's place at one resource. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeskId(pub u64);

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Interests {
    desks: Vec<Desk>,
    joined: u64,
}

struct Desk {
    id: DeskId,
    bell: Arc<dyn Bell>,
    /// The number of groups that watch each topic.
    wanted: TopicMap<u32>,
    /// The first event of a wanted topic that has not been fetched yet.
    pending_from: Option<u64>,
    /// Set once the bell was rung and until the desk is looked after: one hint at most.
    rung: bool,
}

/// What a desk finds when it is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The first event that may matter; `None`: nothing before the ring's end does.
    pub(crate) pending_from: Option<u64>,
}

impl Interests {
    /// A place for a Dispatcher that wants nothing yet.
    pub(crate) fn join(&mut self, bell: Arc<dyn Bell>) -> DeskId {
        self.joined += 1;
        let id = DeskId(self.joined);
        self.desks.push(Desk {
            id,
            bell,
            wanted: TopicMap::default(),
            pending_from: None,
            rung: false,
        });
        id
    }

    /// The Dispatcher is gone.
    pub(crate) fn leave(&mut self, id: DeskId) {
        self.desks.retain(|desk| desk.id != id);
    }

    /// Whether no Dispatcher has a place here.
    pub(crate) fn is_empty(&self) -> bool {
        self.desks.is_empty()
    }

    /// One more group of this desk watches the topic.
    pub(crate) fn want(&mut self, id: DeskId, topic: &Topic) {
        if let Some(desk) = self.desks.iter_mut().find(|desk| desk.id == id) {
            *desk.wanted.entry(topic) += 1;
        }
    }

    /// One group fewer does.
    pub(crate) fn unwant(&mut self, id: DeskId, topic: &Topic) {
        if let Some(desk) = self.desks.iter_mut().find(|desk| desk.id == id) {
            desk.wanted.shrink(topic, |groups| {
                *groups = groups.saturating_sub(1);
                Left::nothing_if(*groups == 0)
            });
        }
    }

    /// Notes an event for the desks that want it.
    pub(crate) fn note(&mut self, event: &RingEvent) {
        for desk in &mut self.desks {
            if desk.pending_from.is_none() {
                let pending_from = &mut desk.pending_from;
                desk.wanted
                    .touched(event, |_| *pending_from = Some(event.sequence));
            }
        }
    }

    /// Notes that from this place on nobody may skip what he does not want.
    pub(crate) fn note_for_all(&mut self, sequence: u64) {
        for desk in &mut self.desks {
            desk.pending_from.get_or_insert(sequence);
        }
    }

    /// The bells to ring: of desks with something to fetch that don't know of it yet, or of all.
    pub(crate) fn bells(&mut self, everybody: bool) -> Vec<Arc<dyn Bell>> {
        let due = |desk: &&mut Desk| !desk.rung && (everybody || desk.pending_from.is_some());
        let rung = self.desks.iter_mut().filter(due).map(|desk| {
            desk.rung = true;
            Arc::clone(&desk.bell)
        });
        rung.collect()
    }

    /// The desk is looked after up to the ring's end.
    pub(crate) fn fetch(&mut self, id: DeskId) -> Fetched {
        let desk = self.desks.iter_mut().find(|desk| desk.id == id);
        Fetched {
            pending_from: desk.and_then(|desk| {
                desk.rung = false;
                desk.pending_from.take()
            }),
        }
    }
}
