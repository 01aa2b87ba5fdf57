//! Which groups an event may matter to: each is filed under its scope. Pure.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::cacher::namespace_of;
use crate::engine::{Key, Prefix};
use crate::watch::{Scope, WatchInterest};

/// Numbers of groups.
type Groups = SmallVec<[u32; 2]>;

/// See the module's documentation. A topic exists only while a group is filed under it.
#[derive(Debug, Default)]
pub(super) struct Topics {
    all: Vec<u32>,
    namespaces: HashMap<Prefix, Groups>,
    objects: HashMap<Key, Groups>,
    by_wish: HashMap<Wish, u32>,
}

/// What makes two watchers members of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    scope: Scope,
    predicate: Box<str>,
    projection: Box<str>,
}

impl Wish {
    pub(super) fn of(interest: &WatchInterest) -> Wish {
        Wish {
            scope: interest.scope.clone(),
            predicate: interest.predicate.identity().into(),
            projection: interest.projection.identity().into(),
        }
    }
}

impl Topics {
    /// The group of watchers that want this.
    pub(super) fn group_of(&self, wish: &Wish) -> Option<u32> {
        self.by_wish.get(wish).copied()
    }

    /// Files a group.
    pub(super) fn add(&mut self, wish: Wish, group: u32) {
        match &wish.scope {
            Scope::All => self.all.push(group),
            Scope::Namespace(prefix) => {
                self.namespaces
                    .entry(prefix.clone())
                    .or_default()
                    .push(group);
            }
            Scope::Object(key) => self.objects.entry(key.clone()).or_default().push(group),
        }
        self.by_wish.insert(wish, group);
    }

    /// Takes a group out.
    pub(super) fn remove(&mut self, wish: &Wish, group: u32) {
        self.by_wish.remove(wish);
        match &wish.scope {
            Scope::All => self.all.retain(|filed| *filed != group),
            Scope::Namespace(prefix) => take_out(&mut self.namespaces, prefix, group),
            Scope::Object(key) => take_out(&mut self.objects, key, group),
        }
    }

    /// The groups that a change of this object may matter to.
    pub(super) fn touched(&self, key: &Key, into: &mut Vec<u32>) {
        into.extend_from_slice(&self.all);
        if let Some(groups) = self.namespaces.get(namespace_of(key)) {
            into.extend_from_slice(groups);
        }
        if let Some(groups) = self.objects.get(key) {
            into.extend_from_slice(groups);
        }
    }
}

fn take_out<K: std::hash::Hash + Eq>(topics: &mut HashMap<K, Groups>, topic: &K, group: u32) {
    if let Some(groups) = topics.get_mut(topic) {
        groups.retain(|filed| *filed != group);
        if groups.is_empty() {
            topics.remove(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{interest, key};

    fn touched(topics: &Topics, name: &str) -> Vec<u32> {
        let mut groups = Vec::new();
        topics.touched(&key(name), &mut groups);
        groups
    }

    #[test]
    fn an_event_touches_the_groups_of_all_of_its_namespace_and_of_its_object_wa_50() {
        let mut topics = Topics::default();
        let namespace = Scope::Namespace(Prefix::new("/registry/things/ns/"));
        let scopes = [Scope::All, namespace, Scope::Object(key("ns/a"))];
        let wishes = scopes.map(|scope| Wish::of(&interest(scope)));
        for (wish, group) in wishes.iter().zip(0..) {
            topics.add(wish.clone(), group);
        }
        assert_eq!(touched(&topics, "ns/a"), [0, 1, 2]);
        assert_eq!(touched(&topics, "ns/b"), [0, 1]);
        // A prefix ends at a slash (WA-24, PF-18).
        assert_eq!(touched(&topics, "ns-bad/a"), [0]);
        assert_eq!(topics.group_of(&wishes[1]), Some(1));
        for (wish, group) in wishes.iter().zip(0..) {
            topics.remove(wish, group);
        }
        assert_eq!(touched(&topics, "ns/a"), [0; 0]);
        assert!(topics.namespaces.is_empty() && topics.by_wish.is_empty());
    }
}
