//! One resource on one thread: its watchers, their groups, and how far its ring was read.

use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use tokio::time::Instant;

use super::bookmarks;
use super::group::Group;
use super::group_index::{GroupIndex, GroupKey};
use super::member::{Cursor, Ending, Member, NewMember, Progress};
use super::metrics::ResourceMetrics;
use super::schedule::Schedule;
use super::slab::{Slab, SlabKey};
use super::start::WatchStart;
use crate::cacher::{CLOSED_GENERATION, EventSignal, SubscriberId, WatchCache};
use crate::engine::{DataEngine, Revision};
use crate::object::Decode;
use crate::ring::RingEvent;
use crate::watch::WatchInterest;

/// One resource on one thread.
pub(super) struct ResourceDispatcher {
    pub(super) watch_cache: Arc<WatchCache>,
    pub(super) engine: Arc<dyn DataEngine>,
    pub(super) decode: Arc<dyn Decode>,
    pub(super) subscriber: SubscriberId,
    /// The generation of the ring that the watchers here follow.
    pub(super) generation: u64,
    /// The next event to read. Watchers that are up to date share this position.
    pub(super) position: u64,
    /// Everything up to this revision is before the position.
    pub(super) reached: Revision,
    pub(super) group_index: GroupIndex,
    pub(super) groups: Slab<Group>,
    pub(super) members: Slab<Member>,
    pub(super) schedule: Schedule,
    pub(super) is_draining: bool,
    pub(super) metrics: ResourceMetrics,
    /// Bytes of frames added to the logs of groups since the logs were last restarted.
    pub(super) logged_bytes: usize,
    /// Buffers that are kept between uses, to save allocations.
    pub(super) events: Vec<Arc<RingEvent>>,
    pub(super) matching_groups: Vec<u32>,
}

/// How far ahead members are scheduled.
const SCHEDULE_AHEAD: Duration = Duration::from_secs(60);

/// Whether a watcher can follow the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowResult {
    /// It follows.
    Live,
    /// The ring does not reach back so far.
    TooOld,
}

impl ResourceDispatcher {
    /// Subscribes to the resource of this watch; `None` if the resource was removed. There are no
    /// members yet.
    pub(super) fn open(
        start: &WatchStart,
        signal: Arc<dyn EventSignal>,
    ) -> Option<ResourceDispatcher> {
        let watch_cache = Arc::clone(&start.cacher.watch_cache);
        // Metric series are dropped once all Dispatchers have left: join before the first metric.
        let subscriber = watch_cache.join(signal)?;
        let mut resource = ResourceDispatcher {
            metrics: ResourceMetrics::new(&watch_cache.resource),
            watch_cache,
            engine: Arc::clone(&start.engine),
            decode: Arc::clone(&start.decode),
            subscriber,
            generation: 0,
            position: 0,
            reached: Revision::ZERO,
            group_index: GroupIndex::default(),
            groups: Slab::default(),
            members: Slab::default(),
            schedule: Schedule::new(Instant::now().into_std()),
            is_draining: false,
            logged_bytes: 0,
            events: Vec::new(),
            matching_groups: Vec::new(),
        };
        resource.read_ring();
        Some(resource)
    }

    /// Whether the resource was removed, or this thread has left it.
    pub(super) fn is_closed(&self) -> bool {
        self.generation == CLOSED_GENERATION
    }

    /// Ends all streams and leaves the resource for good.
    pub(super) fn close(&mut self) {
        self.generation = CLOSED_GENERATION;
        self.end_all();
        self.watch_cache.leave(self.subscriber);
    }

    /// Adds a member that does not follow the ring yet. Its topic is subscribed from now on, so no
    /// event after a later read of the ring's end is missed.
    pub(super) fn add(&mut self, start: &WatchStart, revision: Revision) -> SlabKey {
        let generation = self.generation;
        let group = self.group_for(&start.interest);
        let index_in_group = self
            .groups
            .get(group)
            .map_or(0, |group| group.members.len());
        let deadline = self.schedule.tick(start.deadline.into_std());
        let slab_key = self.members.insert(Member::new(NewMember {
            group,
            index_in_group: index_in_group as u32,
            start: revision,
            wants_bookmarks: start.bookmarks,
            deadline,
        }));
        if let Some(group) = self.groups.get_mut(group) {
            group.members.push(slab_key.number);
        }
        self.schedule_next(slab_key);
        self.metrics.watchers.increment(1.0);
        // If the cache was refilled meanwhile, only the members added before were ended.
        if self.is_draining || self.generation != generation {
            self.end(slab_key.number);
        }
        slab_key
    }

    fn group_for(&mut self, interest: &WatchInterest) -> u32 {
        let group_key = GroupKey::of(interest);
        if let Some(group) = self.group_index.group_of(&group_key) {
            return group;
        }
        let topic = interest.topic();
        self.watch_cache.subscribe(self.subscriber, &topic);
        // Earlier events were not noted for this topic: the group's log begins after them.
        self.read_ring();
        let group = Group::new(interest.clone(), self.position);
        let group = self.groups.insert(group).number;
        self.group_index.add(group_key, &topic, group);
        group
    }

    /// Lets the member follow the ring after this revision.
    pub(super) fn follow(&mut self, number: u32, after: Revision) -> FollowResult {
        self.read_ring();
        let Some(sequence) = self.watch_cache.locate(after) else {
            return FollowResult::TooOld;
        };
        let position = self.position;
        let Some(member) = self.members.get_mut(number) else {
            return FollowResult::Live;
        };
        member.after = member.after.max(after);
        member.progress = if sequence >= position {
            Progress::Current
        } else {
            Progress::Lagging(Cursor { sequence, after })
        };
        if let Some(group) = self.groups.get_mut(member.group) {
            group.count_member(member.progress);
        }
        FollowResult::Live
    }

    /// Removes a member, its group if it was the last member, and the topic if no group is left.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(member) = self.members.remove(number) else {
            return;
        };
        self.metrics.watchers.decrement(1.0);
        let position = self.position;
        let Some(group) = self.groups.get_mut(member.group) else {
            return;
        };
        group.uncount_member(member.progress, position);
        group.members.swap_remove(member.index_in_group as usize);
        if let Some(moved) = group.members.get(member.index_in_group as usize)
            && let Some(moved) = self.members.get_mut(*moved)
        {
            moved.index_in_group = member.index_in_group;
        }
        if group.members.is_empty()
            && let Some(group) = self.groups.remove(member.group)
        {
            let group_key = GroupKey::of(&group.interest);
            let topic = group.interest.topic();
            self.group_index.remove(&group_key, &topic, member.group);
            self.watch_cache.unsubscribe(self.subscriber, &topic);
        }
    }

    /// The interest of a member.
    pub(super) fn interest(&self, number: u32) -> Option<WatchInterest> {
        let group = self.members.get(number)?.group;
        Some(self.groups.get(group)?.interest.clone())
    }

    /// Ends a member's stream at its next poll.
    pub(super) fn end(&mut self, number: u32) {
        if let Some(member) = self.members.get_mut(number) {
            member.end_now();
        }
    }

    /// Ends all streams at their next poll, without an error (WA-37).
    pub(super) fn end_all(&mut self) {
        for member in self.members.iter_mut() {
            member.end_now();
        }
    }

    /// Ends all streams at their next poll, because the store was reset and begins at this
    /// revision.
    pub(super) fn expire_all(&mut self, oldest: Revision) {
        for member in self.members.iter_mut() {
            member.expire(oldest);
        }
    }

    /// Ends all streams once they are up to date, with a last bookmark.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        for member in self.members.iter_mut() {
            member.is_bookmark_due = member.wants_bookmarks;
            if member.ending == Ending::No {
                member.ending = Ending::OnceCurrent;
            }
            member.wake();
        }
    }

    /// Handles the bookmarks and deadlines that are due.
    pub(super) fn tick(&mut self, now: Instant) {
        let now = now.into_std();
        let passed = self.schedule.passed(now);
        for slab_key in self.schedule.due(now) {
            let Some(member) = self.members.find_mut(slab_key) else {
                continue;
            };
            if passed < member.due {
                self.schedule_at(slab_key, now);
                continue;
            }
            if passed >= member.deadline {
                member.ending = match (member.ending, member.progress) {
                    (due @ (Ending::Now | Ending::Expired(_)), _) => due,
                    (_, Progress::Current) => Ending::OnceCurrent,
                    (_, Progress::Lagging(_) | Progress::NotFollowing) => Ending::Now,
                };
            } else {
                member.is_bookmark_due = true;
            }
            member.wake();
            self.schedule_next(slab_key);
        }
        self.metrics.flush();
    }

    /// Trims the logs of groups, so that slow members do not keep them.
    pub(super) fn age_logs(&mut self) {
        let position = self.position;
        for group in self.groups.iter_mut() {
            group.age(position);
            group.forget_bookmark();
        }
    }

    /// Schedules the member's next bookmark, or its deadline.
    fn schedule_next(&mut self, slab_key: SlabKey) {
        let Some(member) = self.members.find_mut(slab_key) else {
            return;
        };
        let now = Instant::now().into_std();
        let deadline = self.schedule.time(member.deadline);
        if now >= deadline && member.ending != Ending::No {
            return;
        }
        // Bookmarks of watches that began together are spread over ten seconds.
        let spread = Duration::from_secs(u64::from(slab_key.number % 11));
        let bookmark = member
            .wants_bookmarks
            .then(|| bookmarks::next_due(now, deadline, spread));
        let due = bookmark.flatten();
        member.due = due.map_or(member.deadline, |due| self.schedule.tick(due));
        self.schedule_at(slab_key, now);
    }

    /// Adds the member to the schedule, at most a minute ahead. An entry stays until its time has
    /// come, and a watch may end long before its deadline.
    fn schedule_at(&mut self, slab_key: SlabKey, now: StdInstant) {
        if let Some(member) = self.members.find_mut(slab_key) {
            let ahead = self.schedule.tick(now + SCHEDULE_AHEAD);
            self.schedule.add(member.due.min(ahead), slab_key);
        }
    }
}

impl Drop for ResourceDispatcher {
    fn drop(&mut self) {
        self.watch_cache.leave(self.subscriber);
    }
}
