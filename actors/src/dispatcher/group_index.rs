//! Finds the groups that an event may concern, by topic. Pure.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::cacher::TopicMap;
use crate::ring::RingEvent;
use crate::watch::{Scope, Topic, WatchInterest};

/// Numbers of groups.
type Groups = SmallVec<[u32; 2]>;

/// The groups of a resource on one thread, by topic and by interest.
#[derive(Debug, Default)]
pub(super) struct GroupIndex {
    groups: TopicMap<Groups>,
    by_key: HashMap<GroupKey, u32>,
}

/// The identity of an interest. Watchers with equal keys are members of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    scope: Scope,
    predicate: Box<str>,
    projection: Box<str>,
}

impl GroupKey {
    pub(super) fn of(interest: &WatchInterest) -> GroupKey {
        GroupKey {
            scope: interest.scope.clone(),
            predicate: interest.predicate.identity().into(),
            projection: interest.projection.identity().into(),
        }
    }
}

impl GroupIndex {
    /// The group with this key.
    pub(super) fn group_of(&self, group_key: &GroupKey) -> Option<u32> {
        self.by_key.get(group_key).copied()
    }

    /// Adds a group.
    pub(super) fn add(&mut self, group_key: GroupKey, topic: &Topic, group: u32) {
        self.groups.entry(topic).push(group);
        self.by_key.insert(group_key, group);
    }

    /// Removes a group.
    pub(super) fn remove(&mut self, group_key: &GroupKey, topic: &Topic, group: u32) {
        self.by_key.remove(group_key);
        self.groups.shrink(topic, |groups| {
            groups.retain(|other| *other != group);
            groups.is_empty()
        });
    }

    /// Appends the groups that an event may concern to `into`.
    pub(super) fn matching(&self, event: &RingEvent, into: &mut Vec<u32>) {
        self.groups
            .matching(event, |groups| into.extend_from_slice(groups));
    }
}
