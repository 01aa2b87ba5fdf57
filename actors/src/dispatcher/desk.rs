//! One resource on one thread: its watchers there, and how far the thread has read its ring.

use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use tokio::time::Instant;

use super::bookmarks;
use super::group::Group;
use super::member::{Cursor, Ending, Member, Standing, Wishes};
use super::metrics::DeskMetrics;
use super::schedule::Schedule;
use super::slab::{Slab, Ticket};
use super::start::WatchStart;
use super::topics::{Topics, Wish};
use crate::cacher::{Bell, CLOSED, DeskId, Shared};
use crate::engine::{DataEngine, Revision};
use crate::object::Decode;
use crate::ring::RingEvent;
use crate::watch::WatchInterest;

/// See the module's documentation.
pub(super) struct Desk {
    pub(super) cacher: Arc<Shared>,
    pub(super) engine: Arc<dyn DataEngine>,
    pub(super) decode: Arc<dyn Decode>,
    pub(super) place: DeskId,
    /// The generation of the ring that the watchers here follow.
    pub(super) generation: u64,
    /// The next event to look at: where watchers stand that are up to date.
    pub(super) position: u64,
    /// Everything up to this revision lies before the position.
    pub(super) reached: Revision,
    pub(super) topics: Topics,
    pub(super) groups: Slab<Group>,
    pub(super) members: Slab<Member>,
    pub(super) schedule: Schedule,
    pub(super) is_draining: bool,
    pub(super) metrics: DeskMetrics,
    /// Bytes of frames put into logs of groups since those were last cut.
    pub(super) logged_bytes: usize,
    /// Room for events on their way through, kept between uses.
    pub(super) events: Vec<Arc<RingEvent>>,
    pub(super) touched: Vec<u32>,
}

/// How far ahead tickets are filed.
const AHEAD: Duration = Duration::from_secs(60);

/// What became of a watcher that wanted to follow the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// It follows.
    Live,
    /// The ring does not reach back so far.
    TooOld,
}

impl Desk {
    /// A desk for the resource of this watch, without watchers; `None` once it was removed.
    pub(super) fn open(start: &WatchStart, bell: Arc<dyn Bell>) -> Option<Desk> {
        let cacher = Arc::clone(&start.cacher.shared);
        // The series of metrics go once all Dispatchers have left: first joined, then counted.
        let place = cacher.join(bell)?;
        let mut desk = Desk {
            metrics: DeskMetrics::new(&cacher.resource),
            cacher,
            engine: Arc::clone(&start.engine),
            decode: Arc::clone(&start.decode),
            place,
            generation: 0,
            position: 0,
            reached: Revision::ZERO,
            topics: Topics::default(),
            groups: Slab::default(),
            members: Slab::default(),
            schedule: Schedule::new(Instant::now().into_std()),
            is_draining: false,
            logged_bytes: 0,
            events: Vec::new(),
            touched: Vec::new(),
        };
        desk.look();
        Some(desk)
    }

    /// Whether the resource was removed: the desk has left it, and ends with its last watcher.
    pub(super) fn is_closed(&self) -> bool {
        self.generation == CLOSED
    }

    /// Ends all streams and leaves the resource for good.
    pub(super) fn close(&mut self) {
        self.generation = CLOSED;
        self.end_all();
        self.cacher.leave(self.place);
    }

    /// A new member, not following anything yet. Its topic is wanted from here on, so whatever
    /// it reads of the ring's end afterwards, no later event is missed.
    pub(super) fn add(&mut self, start: &WatchStart, revision: Revision) -> Ticket {
        let generation = self.generation;
        let group = self.group_for(&start.interest);
        let seat = self
            .groups
            .get(group)
            .map_or(0, |group| group.members.len());
        let deadline = start.deadline.into_std();
        let ticket = self.members.insert(Member::new(Wishes {
            group,
            seat: seat as u32,
            start: revision,
            wants_bookmarks: start.bookmarks,
            deadline,
        }));
        if let Some(group) = self.groups.get_mut(group) {
            group.members.push(ticket.number);
        }
        self.schedule_next(ticket);
        self.metrics.watchers.increment(1.0);
        // A new life that was met on the way has ended only those who were here before.
        if self.is_draining || self.generation != generation {
            self.end(ticket.number);
        }
        ticket
    }

    fn group_for(&mut self, interest: &WatchInterest) -> u32 {
        let wish = Wish::of(interest);
        if let Some(group) = self.topics.group_of(&wish) {
            return group;
        }
        let topic = interest.topic();
        self.cacher.want(self.place, &topic);
        // Events that came before this were not noted for the topic: the group's log begins
        // behind them.
        self.look();
        let group = Group::new(interest.clone(), self.position);
        let group = self.groups.insert(group).number;
        self.topics.add(wish, &topic, group);
        group
    }

    /// The member follows the ring from here on, after this revision.
    pub(super) fn follow(&mut self, number: u32, after: Revision) -> Joined {
        self.look();
        let Some(sequence) = self.cacher.locate(after) else {
            return Joined::TooOld;
        };
        let position = self.position;
        let Some(member) = self.members.get_mut(number) else {
            return Joined::Live;
        };
        member.after = member.after.max(after);
        member.standing = if sequence >= position {
            Standing::Current
        } else {
            Standing::Lagging(Cursor { sequence, after })
        };
        if let Some(group) = self.groups.get_mut(member.group) {
            group.arrives(member.standing);
        }
        Joined::Live
    }

    /// The member leaves; with its last member a group goes, and the topic of the last group.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(member) = self.members.remove(number) else {
            return;
        };
        self.metrics.watchers.decrement(1.0);
        let position = self.position;
        let Some(group) = self.groups.get_mut(member.group) else {
            return;
        };
        group.departs(member.standing, position);
        group.members.swap_remove(member.seat as usize);
        if let Some(moved) = group.members.get(member.seat as usize)
            && let Some(moved) = self.members.get_mut(*moved)
        {
            moved.seat = member.seat;
        }
        if group.members.is_empty()
            && let Some(group) = self.groups.remove(member.group)
        {
            let wish = Wish::of(&group.interest);
            let topic = group.interest.topic();
            self.topics.remove(&wish, &topic, member.group);
            self.cacher.unwant(self.place, &topic);
        }
    }

    /// What the member wants.
    pub(super) fn interest(&self, number: u32) -> Option<WatchInterest> {
        let group = self.members.get(number)?.group;
        Some(self.groups.get(group)?.interest.clone())
    }

    /// The member's stream ends at its next poll.
    pub(super) fn end(&mut self, number: u32) {
        if let Some(member) = self.members.get_mut(number) {
            member.end_now();
        }
    }

    /// All streams end at their next poll, silently (WA-37).
    pub(super) fn end_all(&mut self) {
        for member in self.members.iter_mut() {
            member.end_now();
        }
    }

    /// All streams end once they are up to date, with a last bookmark.
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

    /// Serves those whose time has come.
    pub(super) fn tick(&mut self, now: Instant) {
        let now = now.into_std();
        for ticket in self.schedule.due(now) {
            let Some(member) = self.members.find_mut(ticket) else {
                continue;
            };
            if now < member.due {
                self.file(ticket, now);
                continue;
            }
            if now >= member.deadline {
                member.ending = match (member.ending, member.standing) {
                    // It has no stream to catch up with any more.
                    (Ending::Now, _) => Ending::Now,
                    (_, Standing::Current) => Ending::OnceCurrent,
                    (_, Standing::Lagging(_) | Standing::Elsewhere) => Ending::Now,
                };
            } else {
                member.is_bookmark_due = true;
            }
            member.wake();
            self.schedule_next(ticket);
        }
        self.metrics.flush();
    }

    /// Slow members must not keep logs alive.
    pub(super) fn age_logs(&mut self) {
        let position = self.position;
        for group in self.groups.iter_mut() {
            group.age(position);
            group.forget_bookmark();
        }
    }

    /// Notes when the member is due next: a bookmark, or its deadline.
    fn schedule_next(&mut self, ticket: Ticket) {
        let Some(member) = self.members.find_mut(ticket) else {
            return;
        };
        let now = Instant::now().into_std();
        if now >= member.deadline && member.ending != Ending::No {
            return;
        }
        // Watches that began together are spread over ten seconds.
        let spread = Duration::from_secs(u64::from(ticket.number % 11));
        let bookmark = member
            .wants_bookmarks
            .then(|| bookmarks::next_due(now, member.deadline, spread));
        member.due = bookmark.flatten().unwrap_or(member.deadline);
        self.file(ticket, now);
    }

    /// Files a ticket, at most a little ahead: what is filed stays until its time has come, and a
    /// watch may last for years without its client staying for a second.
    fn file(&mut self, ticket: Ticket, now: StdInstant) {
        if let Some(member) = self.members.find_mut(ticket) {
            self.schedule.add(member.due.min(now + AHEAD), ticket);
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.cacher.leave(self.place);
    }
}
