//! The objects of the graph, each with the nodes that use it. Pure.
//!
//! No name is stored: an object is found by a hash of its kind, namespace and name, which has 128
//! bits. Its two keys are random and stay in the process, so nobody can look for two objects with
//! one hash, and for a billion objects the chance of such a pair is below one in 10^20.

use std::hash::{BuildHasher, RandomState};

use super::Named;
use super::node_counts::NodeCounts;

/// The number of an object.
pub(super) type Id = u32;

/// The number of no object.
pub(super) const NO_ID: Id = Id::MAX;

/// An object.
#[derive(Debug, Default)]
pub(super) struct Vertex {
    key: [u64; 2],
    /// The nodes that it is related to.
    pub(super) nodes: NodeCounts,
    /// The number of objects that refer to it, or that it is itself.
    holders: u32,
    /// The number of its entry in the graph, if it has relations of its own.
    pub(super) entry: u32,
}

/// All objects. Those that nobody holds are forgotten.
pub(super) struct Vertices {
    hashers: [RandomState; 2],
    /// The objects by number. Numbers are used again.
    list: Vec<Vertex>,
    free: Vec<Id>,
    /// A hash table of numbers, with a power of two of places and linear probing.
    table: Vec<Id>,
}

impl Vertices {
    pub(super) fn new() -> Vertices {
        Vertices {
            hashers: [RandomState::new(), RandomState::new()],
            list: Vec::new(),
            free: Vec::new(),
            table: vec![NO_ID; 16],
        }
    }

    pub(super) fn get(&self, id: Id) -> Option<&Vertex> {
        self.list.get(id as usize)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Vertex> {
        self.list.get_mut(id as usize)
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// Returns the number of an object, if somebody holds it.
    pub(super) fn find(&self, named: Named<'_>) -> Option<Id> {
        self.table
            .get(self.place_of(self.key(named)))
            .copied()
            .filter(|id| *id != NO_ID)
    }

    /// Returns the number of an object. Its caller holds it from now on.
    pub(super) fn hold(&mut self, named: Named<'_>) -> Id {
        let key = self.key(named);
        let place = self.place_of(key);
        let known = self.table.get(place).copied().unwrap_or(NO_ID);
        if let Some(vertex) = self.get_mut(known) {
            vertex.holders += 1;
            return known;
        }
        let vertex = Vertex {
            key,
            nodes: NodeCounts::None,
            holders: 1,
            entry: NO_ID,
        };
        let id = self.insert(vertex);
        if let Some(slot) = self.table.get_mut(place) {
            *slot = id;
        }
        // At most three quarters are used, so that searches stay short.
        if self.len() * 4 > self.table.len() * 3 {
            self.rebuild(self.table.len() * 2);
        }
        id
    }

    /// Ends one hold of an object. Nobody who ends the last one may use the number any more.
    pub(super) fn release(&mut self, id: Id) {
        let Some(vertex) = self.get_mut(id) else {
            return;
        };
        vertex.holders -= 1;
        if vertex.holders > 0 {
            return;
        }
        let key = vertex.key;
        self.forget(self.place_of(key));
        if let Some(vertex) = self.get_mut(id) {
            *vertex = Vertex::default();
        }
        self.free.push(id);
        if self.table.len() > 64 && self.len() * 8 < self.table.len() {
            self.rebuild(self.table.len() / 2);
        }
    }

    fn insert(&mut self, vertex: Vertex) -> Id {
        if let Some(id) = self.free.pop()
            && let Some(slot) = self.list.get_mut(id as usize)
        {
            *slot = vertex;
            return id;
        }
        // Doubling would leave up to half of the memory unused.
        if self.list.len() == self.list.capacity() {
            self.list.reserve_exact(self.list.len() / 8 + 16);
        }
        self.list.push(vertex);
        (self.list.len() - 1) as Id
    }

    fn key(&self, named: Named<'_>) -> [u64; 2] {
        [
            self.hashers[0].hash_one(named),
            self.hashers[1].hash_one(named),
        ]
    }

    /// Returns the place of a key in the table: its own, or the free one where it would be.
    fn place_of(&self, key: [u64; 2]) -> usize {
        let mask = self.table.len() - 1;
        let mut place = key[0] as usize & mask;
        while let Some(vertex) = self.table.get(place).and_then(|id| self.get(*id)) {
            if vertex.key == key {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }

    /// Frees a place, and moves those after it that would no longer be found.
    fn forget(&mut self, mut free: usize) {
        let mask = self.table.len() - 1;
        let mut place = free;
        loop {
            place = (place + 1) & mask;
            let id = self.table.get(place).copied().unwrap_or(NO_ID);
            let Some(vertex) = self.get(id) else {
                break;
            };
            let wanted = vertex.key[0] as usize & mask;
            // It may move if its search begins at the free place or before it.
            if (place.wrapping_sub(wanted) & mask) >= (place.wrapping_sub(free) & mask) {
                self.set(free, id);
                free = place;
            }
        }
        self.set(free, NO_ID);
    }

    fn set(&mut self, place: usize, id: Id) {
        if let Some(slot) = self.table.get_mut(place) {
            *slot = id;
        }
    }

    fn rebuild(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.table, vec![NO_ID; places]);
        for id in old.into_iter().filter(|id| *id != NO_ID) {
            if let Some(key) = self.get(id).map(|vertex| vertex.key) {
                let place = self.place_of(key);
                self.set(place, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::Kind;
    use super::*;

    proptest! {
        /// Whatever is held and released in whatever order, the held objects are found.
        #[test]
        fn held_objects_are_found(
            changes in prop::collection::vec((any::<bool>(), 0_u32..300), 0..900),
        ) {
            let mut vertices = Vertices::new();
            let mut naive: HashMap<u32, (Id, u32)> = HashMap::new();
            for (holds, number) in changes {
                let name = number.to_string();
                let named = Named { kind: Kind::Pod, namespace: "d", name: &name };
                match (holds, naive.get(&number).copied()) {
                    (true, None) => {
                        naive.insert(number, (vertices.hold(named), 1));
                    }
                    (true, Some((id, holders))) => {
                        prop_assert_eq!(vertices.hold(named), id);
                        naive.insert(number, (id, holders + 1));
                    }
                    (false, Some((id, holders))) => {
                        vertices.release(id);
                        match holders {
                            1 => naive.remove(&number),
                            _ => naive.insert(number, (id, holders - 1)),
                        };
                    }
                    (false, None) => prop_assert_eq!(vertices.find(named), None),
                }
            }
            prop_assert_eq!(vertices.len(), naive.len());
            for (number, (id, _)) in naive {
                let name = number.to_string();
                let named = Named { kind: Kind::Pod, namespace: "d", name: &name };
                prop_assert_eq!(vertices.find(named), Some(id));
            }
        }
    }

    #[test]
    fn kind_and_namespace_are_part_of_the_name() {
        let mut vertices = Vertices::new();
        let named = |kind, namespace, name| Named {
            kind,
            namespace,
            name,
        };
        let id = vertices.hold(named(Kind::Secret, "a", "bc"));
        assert_eq!(vertices.find(named(Kind::Secret, "a", "bc")), Some(id));
        assert_eq!(vertices.find(named(Kind::ConfigMap, "a", "bc")), None);
        assert_eq!(vertices.find(named(Kind::Secret, "ab", "c")), None);
    }
}
