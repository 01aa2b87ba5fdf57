//! The relations of objects to nodes (AC-43). Pure.
//!
//! A pod, a volume attachment and a resource slice have a node. The objects that a pod refers to
//! are related to its node, and so are the volume of a claim that it uses and the secrets of that
//! volume. Each object counts the nodes that it is related to, so an answer takes the same time
//! however many pods refer to the object. A volume shares the nodes of its claim.

use std::collections::HashMap;

use super::vertices::{Id, NO_ID, Vertices};
use super::{Kind, Named};

/// The relations of one object.
#[derive(Debug)]
struct Entry {
    /// The object itself.
    own: Id,
    kind: Kind,
    /// The number of the listing in which the object was seen.
    listing: u16,
    /// Those of a pod: its node, and what it refers to, each once. Those of a volume: its claim,
    /// and its secrets. Those of others: the node.
    relations: Box<[Id]>,
}

/// A listing of all objects of one kind in progress.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    kind: Kind,
    number: u16,
}

/// All relations.
pub struct Graph {
    vertices: Vertices,
    /// The entries by number. Numbers are used again.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// The volumes of each claim that has any: usually one.
    volumes: HashMap<Id, Vec<Id>>,
    /// The number of the newest listing of each kind.
    listings: HashMap<Kind, u16>,
}

impl Default for Graph {
    fn default() -> Graph {
        Graph::new()
    }
}

impl Graph {
    /// Creates a graph without relations.
    pub fn new() -> Graph {
        Graph {
            vertices: Vertices::new(),
            entries: Vec::new(),
            free: Vec::new(),
            volumes: HashMap::new(),
            listings: HashMap::new(),
        }
    }

    /// Returns whether an object is related to a node.
    pub fn is_related(&self, object: Named<'_>, node: &str) -> bool {
        let related = || {
            let node = self.vertices.find(of_node(node))?;
            let own = self.vertices.find(object)?;
            let of = match object.kind {
                Kind::Volume => self.entry_of(own)?.relations.first().copied()?,
                _ => own,
            };
            Some(self.vertices.get(of)?.nodes.has(node))
        };
        related().unwrap_or_default()
    }

    /// Returns the number of objects in the graph.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Whether the graph has no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the relations of a pod, a volume attachment or a resource slice: its node, and what it
    /// refers to. Without a node it has none.
    pub fn put<'n>(
        &mut self,
        object: Named<'n>,
        node: &str,
        referred: impl IntoIterator<Item = Named<'n>>,
    ) {
        if node.is_empty() {
            self.remove(object);
            return;
        }
        self.set(object, of_node(node), referred);
    }

    /// Sets the relations of a volume: its claim, and its secrets. Without a claim it has none.
    pub fn put_volume<'n>(
        &mut self,
        volume: Named<'n>,
        claim: Option<Named<'n>>,
        secrets: impl IntoIterator<Item = Named<'n>>,
    ) {
        match claim {
            Some(claim) => self.set(volume, claim, secrets),
            None => self.remove(volume),
        }
    }

    /// Removes an object, and with it its relations.
    pub fn remove(&mut self, object: Named<'_>) {
        let Some(own) = self.vertices.find(object) else {
            return;
        };
        let number = self.vertices.get(own).map_or(NO_ID, |vertex| vertex.entry);
        self.drop_entry(number);
    }

    /// Begins to list all objects of a kind, which are then put.
    pub fn begin_listing(&mut self, kind: Kind) -> Listing {
        let newest = self.listings.entry(kind).or_default();
        *newest = newest.wrapping_add(1);
        Listing {
            kind,
            number: *newest,
        }
    }

    /// Removes all objects of the kind that were not put since the listing began.
    pub fn end_listing(&mut self, listing: Listing) {
        for number in 0..self.entries.len() {
            let entry = self.entries.get(number).and_then(Option::as_ref);
            let is_gone =
                |entry: &Entry| entry.kind == listing.kind && entry.listing != listing.number;
            if entry.is_some_and(is_gone) {
                self.drop_entry(number as u32);
            }
        }
    }

    fn entry_of(&self, own: Id) -> Option<&Entry> {
        let number = self.vertices.get(own)?.entry;
        self.entries.get(number as usize)?.as_ref()
    }

    /// Sets the relations of an object, of which the first one is its node or claim.
    fn set<'n>(
        &mut self,
        object: Named<'n>,
        first: Named<'_>,
        others: impl IntoIterator<Item = Named<'n>>,
    ) {
        let own = self.vertices.hold(object);
        let mut relations = vec![self.vertices.hold(first)];
        for named in others {
            relations.push(self.vertices.hold(named));
        }
        self.release_repeated(&mut relations);
        let listing = self.listings.get(&object.kind).copied().unwrap_or_default();
        let number = self.vertices.get(own).map_or(NO_ID, |vertex| vertex.entry);
        let known = self
            .entries
            .get_mut(number as usize)
            .and_then(Option::as_mut);
        if let Some(known) = known
            && *known.relations == *relations
        {
            known.listing = listing;
            relations.push(own);
            relations.iter().for_each(|id| self.vertices.release(*id));
            return;
        }
        self.drop_entry(number);
        let entry = Entry {
            own,
            kind: object.kind,
            listing,
            relations: relations.into(),
        };
        self.relate(&entry);
        self.add_entry(entry);
    }

    /// Sorts the relations after the first one, and keeps each of them once.
    fn release_repeated(&mut self, relations: &mut Vec<Id>) {
        let Some((_, others)) = relations.split_first_mut() else {
            return;
        };
        others.sort_unstable();
        let mut last = NO_ID;
        let vertices = &mut self.vertices;
        let mut is_first = true;
        relations.retain(|id| {
            if std::mem::take(&mut is_first) {
                return true;
            }
            let is_new = last != *id;
            last = *id;
            if !is_new {
                vertices.release(*id);
            }
            is_new
        });
    }

    fn add_entry(&mut self, entry: Entry) {
        let own = entry.own;
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                // Doubling would leave up to half of the memory unused.
                if self.entries.len() == self.entries.capacity() {
                    self.entries.reserve_exact(self.entries.len() / 8 + 16);
                }
                self.entries.push(None);
                (self.entries.len() - 1) as u32
            }
        };
        if let Some(slot) = self.entries.get_mut(number as usize) {
            *slot = Some(entry);
        }
        if let Some(vertex) = self.vertices.get_mut(own) {
            vertex.entry = number;
        }
    }

    fn drop_entry(&mut self, number: u32) {
        let slot = self.entries.get_mut(number as usize);
        let Some(entry) = slot.and_then(Option::take) else {
            return;
        };
        self.free.push(number);
        self.unrelate(&entry);
        if let Some(vertex) = self.vertices.get_mut(entry.own) {
            vertex.entry = NO_ID;
        }
        entry
            .relations
            .iter()
            .for_each(|id| self.vertices.release(*id));
        self.vertices.release(entry.own);
    }

    fn relate(&mut self, entry: &Entry) {
        let Some((first, others)) = entry.relations.split_first() else {
            return;
        };
        if entry.kind != Kind::Volume {
            self.count(entry.own, *first, true);
            others.iter().for_each(|id| self.count(*id, *first, true));
            return;
        }
        self.volumes.entry(*first).or_default().push(entry.own);
        self.count_secrets(*first, others, true);
    }

    fn unrelate(&mut self, entry: &Entry) {
        let Some((first, others)) = entry.relations.split_first() else {
            return;
        };
        if entry.kind != Kind::Volume {
            self.count(entry.own, *first, false);
            others.iter().for_each(|id| self.count(*id, *first, false));
            return;
        }
        if let Some(volumes) = self.volumes.get_mut(first) {
            volumes.retain(|id| *id != entry.own);
            if volumes.is_empty() {
                self.volumes.remove(first);
            }
        }
        self.count_secrets(*first, others, false);
    }

    /// Counts the nodes of a claim as those of the secrets of its volume.
    fn count_secrets(&mut self, claim: Id, secrets: &[Id], adds: bool) {
        let nodes = self.vertices.get(claim).map(|claim| claim.nodes.nodes());
        for node in nodes.unwrap_or_default() {
            for secret in secrets {
                self.count_one(*secret, node, adds);
            }
        }
    }

    /// Adds a use of an object by a node, or removes one. If the node is new to a claim, or gone
    /// from it, the secrets of its volumes learn of it.
    fn count(&mut self, object: Id, node: Id, adds: bool) {
        if !self.count_one(object, node, adds) || !self.volumes.contains_key(&object) {
            return;
        }
        let volumes = self.volumes.get(&object).cloned().unwrap_or_default();
        for volume in volumes {
            let secrets = self
                .entry_of(volume)
                .and_then(|entry| entry.relations.get(1..));
            for secret in secrets.map(<[Id]>::to_vec).unwrap_or_default() {
                self.count_one(secret, node, adds);
            }
        }
    }

    fn count_one(&mut self, object: Id, node: Id, adds: bool) -> bool {
        let Some(vertex) = self.vertices.get_mut(object) else {
            return false;
        };
        match adds {
            true => vertex.nodes.add(node),
            false => vertex.nodes.remove(node),
        }
    }
}

fn of_node(name: &str) -> Named<'_> {
    Named {
        kind: Kind::Node,
        namespace: "",
        name,
    }
}
