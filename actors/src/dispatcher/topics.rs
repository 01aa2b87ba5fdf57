//! Which groups an event may matter to: each is filed under its topic. Pure.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::cacher::{Left, TopicMap};
use crate::ring::RingEvent;
use crate::watch::{Scope, Topic, WatchInterest};

/// Numbers of groups.
type Groups = SmallVec<[u32; 2]>;

/// See the module's documentation. A topic exists only while a group is filed under it.
#[derive(Debug, Default)]
pub(super) struct Topics {
    groups: TopicMap<Groups>,
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
    pub(super) fn add(&mut self, wish: Wish, topic: &Topic, group: u32) {
        self.groups.entry(topic).push(group);
        self.by_wish.insert(wish, group);
    }

    /// Takes a group out.
    pub(super) fn remove(&mut self, wish: &Wish, topic: &Topic, group: u32) {
        self.by_wish.remove(wish);
        self.groups.shrink(topic, |groups| {
            groups.retain(|filed| *filed != group);
            Left::nothing_if(groups.is_empty())
        });
    }

    /// The groups that an event may matter to.
    pub(super) fn touched(&self, event: &RingEvent, into: &mut Vec<u32>) {
        self.groups
            .touched(event, |groups| into.extend_from_slice(groups));
    }
}
