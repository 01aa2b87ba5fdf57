//! Which Dispatchers want which topics of one resource, and from which event on each of them has
//! something to look at.
//!
//! Pure. It lies beside the ring under one lock: an event is appended and noted in one step, so
//! that a Dispatcher which finds nothing noted may skip to the ring's end without reading.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{Key, Prefix};
use crate::ring::RingEvent;
use crate::watch::Scope;

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
    wanted: Topics,
    /// The first event of a wanted topic that has not been fetched yet.
    pending_from: Option<u64>,
    /// Set once the bell was rung and until the desk is looked after: one hint at most.
    rung: bool,
}

/// The topics somebody watches, each with the number of groups that do.
#[derive(Default)]
struct Topics {
    all: u32,
    namespaces: HashMap<Prefix, u32>,
    objects: HashMap<Key, u32>,
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
            wanted: Topics::default(),
            pending_from: None,
            rung: false,
        });
        id
    }

    /// The Dispatcher is gone.
    pub(crate) fn leave(&mut self, id: DeskId) {
        self.desks.retain(|desk| desk.id != id);
    }

    /// One more group of this desk watches the scope.
    pub(crate) fn want(&mut self, id: DeskId, scope: &Scope) {
        if let Some(desk) = self.desks.iter_mut().find(|desk| desk.id == id) {
            desk.wanted.add(scope);
        }
    }

    /// One group fewer does.
    pub(crate) fn unwant(&mut self, id: DeskId, scope: &Scope) {
        if let Some(desk) = self.desks.iter_mut().find(|desk| desk.id == id) {
            desk.wanted.remove(scope);
        }
    }

    /// Notes an event for the desks that want it.
    pub(crate) fn note(&mut self, event: &RingEvent) {
        for desk in &mut self.desks {
            if desk.pending_from.is_none() && desk.wanted.contains(&event.key) {
                desk.pending_from = Some(event.sequence);
            }
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

impl Topics {
    fn add(&mut self, scope: &Scope) {
        let count = match scope {
            Scope::All => &mut self.all,
            Scope::Namespace(prefix) => self.namespaces.entry(prefix.clone()).or_default(),
            Scope::Object(key) => self.objects.entry(key.clone()).or_default(),
        };
        *count += 1;
    }

    fn remove(&mut self, scope: &Scope) {
        match scope {
            Scope::All => self.all = self.all.saturating_sub(1),
            Scope::Namespace(prefix) => release(&mut self.namespaces, prefix),
            Scope::Object(key) => release(&mut self.objects, key),
        }
    }

    fn contains(&self, key: &Key) -> bool {
        self.all > 0
            || (!self.namespaces.is_empty() && self.namespaces.contains_key(namespace_of(key)))
            || (!self.objects.is_empty() && self.objects.contains_key(key))
    }
}

fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, topic: &K) {
    if let Some(count) = counts.get_mut(topic) {
        *count -= 1;
        if *count == 0 {
            counts.remove(topic);
        }
    }
}

/// The part of a key up to its last slash: the prefix of the namespace it lies in.
pub(crate) fn namespace_of(key: &Key) -> &[u8] {
    let bytes = key.as_bytes();
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}
