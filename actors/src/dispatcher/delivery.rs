//! Delivers frames to a watcher that follows the ring, when it is polled.

use super::bookmarks;
use super::caller::{Caller, WatchFrame};
use super::member::{Cursor, Ending, Progress};
use super::resource_dispatcher::ResourceDispatcher;
use crate::cacher::RingRead;
use crate::engine::Revision;

/// The answer to a poll.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The next frame.
    Frame(WatchFrame),
    /// Nothing now. The task will be woken.
    Wait,
    /// Nothing yet. It read many events that were not for it, and other tasks must run.
    Yield,
    /// The next event is no longer in the ring. The watcher must read history after this revision.
    NeedsHistory(Revision),
    /// The stream is over.
    End,
}

/// Events copied from the ring at a time for one watcher.
const RING_READ_EVENTS: usize = 16;
/// Attempts in one poll, before other tasks run.
const ATTEMPTS_MAX: usize = 32;

impl ResourceDispatcher {
    /// The next delivery to a member that follows the ring.
    pub(super) fn next_delivery(&mut self, number: u32, caller: &Caller<'_>) -> Delivery {
        for _ in 0..ATTEMPTS_MAX {
            let Some(member) = self.members.get(number) else {
                return Delivery::End;
            };
            let delivery = match (member.ending, member.progress) {
                (ending, _) if ending.is_due() => Some(Delivery::End),
                (_, Progress::NotFollowing) => Some(Delivery::End),
                (_, Progress::Current) => self.deliver_to_current(number, caller),
                (_, Progress::Lagging(cursor)) => self.deliver_from_log(number, cursor, caller),
            };
            if let Some(delivery) = delivery {
                self.metrics.frames += u64::from(matches!(delivery, Delivery::Frame(_)));
                return delivery;
            }
        }
        Delivery::Yield
    }

    /// A member that is up to date gets a bookmark if one is due. Otherwise it waits.
    fn deliver_to_current(&mut self, number: u32, caller: &Caller<'_>) -> Option<Delivery> {
        let member = self.members.get_mut(number)?;
        if std::mem::take(&mut member.is_bookmark_due) {
            return self.deliver_bookmark(number);
        }
        if member.ending == Ending::OnceCurrent {
            return Some(Delivery::End);
        }
        member.park(caller);
        Some(Delivery::Wait)
    }

    fn deliver_bookmark(&mut self, number: u32) -> Option<Delivery> {
        // In this order, the ring is read at least up to what the engine knew.
        let known = self.engine.known(&self.watch_cache.prefix);
        self.read_ring();
        let member = self.members.get_mut(number)?;
        if member.ending.is_due() {
            // The cache was refilled. The events in between were not sent.
            return None;
        }
        if member.progress != Progress::Current {
            member.is_bookmark_due = true;
            return None;
        }
        let sent = member.after;
        let revision = bookmarks::revision(self.reached, known, member.start)
            .filter(|revision| *revision >= sent)?;
        // The revision may be beyond the ring's, and the next one must not be below it (WA-25).
        member.after = revision;
        let first = !std::mem::replace(&mut member.has_sent, true);
        let group = self.groups.get_mut(member.group)?;
        Some(Delivery::Frame(group.bookmark(revision, first).into()))
    }

    /// A lagging member gets its next frame from its group's log, or from the ring if the log does
    /// not reach back so far.
    fn deliver_from_log(
        &mut self,
        number: u32,
        cursor: Cursor,
        caller: &Caller<'_>,
    ) -> Option<Delivery> {
        let position = self.position;
        let member = self.members.get_mut(number)?;
        let group = self.groups.get_mut(member.group)?;
        if cursor.sequence < group.floor().min(position) {
            return self.deliver_from_ring(number, cursor);
        }
        let Some((entry, is_last)) = group.next_from(cursor.sequence) else {
            group.mark_current(member, position);
            return None;
        };
        member.progress = Progress::Lagging(Cursor {
            sequence: entry.sequence + 1,
            after: entry.revision,
        });
        if entry.revision <= member.after {
            return None;
        }
        let first = !std::mem::replace(&mut member.has_sent, true);
        let own_frame = match &entry.event {
            Some(event) if first => event.first_frame(entry.kind, &*group.interest.projection),
            _ => None,
        };
        let (bytes, since) = (
            own_frame.unwrap_or_else(|| entry.frame.clone()),
            entry.since,
        );
        // The caller learns that nothing follows, which saves a second poll.
        let is_last_for_now = is_last && member.ending == Ending::No && !member.is_bookmark_due;
        if is_last_for_now {
            group.mark_current(member, position);
            member.park(caller);
        }
        Some(Delivery::Frame(WatchFrame {
            bytes,
            is_last_for_now,
            since,
        }))
    }

    fn deliver_from_ring(&mut self, number: u32, mut cursor: Cursor) -> Option<Delivery> {
        let position = self.position;
        let member = self.members.get_mut(number)?;
        let group = self.groups.get_mut(member.group)?;
        let to = group.floor().min(position);
        let mut events = std::mem::take(&mut self.events);
        let read = self
            .watch_cache
            .read(cursor.sequence, to, RING_READ_EVENTS, &mut events);
        if read == RingRead::Evicted || events.is_empty() {
            self.events = events;
            group.uncount_member(member.progress, position);
            member.progress = Progress::NotFollowing;
            return Some(Delivery::NeedsHistory(cursor.after.max(member.after)));
        }
        let mut frame = None;
        for event in &events {
            cursor = Cursor {
                sequence: event.sequence + 1,
                after: event.revision,
            };
            if event.revision <= member.after {
                continue;
            }
            if let Some(entry) = group.evaluate(event) {
                let first = !std::mem::replace(&mut member.has_sent, true);
                let projection = &*group.interest.projection;
                let own_frame = (first && projection.first_differs())
                    .then(|| event.first_frame(entry.kind, projection));
                frame = Some(WatchFrame {
                    bytes: own_frame.flatten().unwrap_or(entry.frame),
                    is_last_for_now: false,
                    // The watch lagged: the age of the event is not its delivery delay.
                    since: None,
                });
                break;
            }
        }
        member.progress = Progress::Lagging(cursor);
        events.clear();
        self.events = events;
        Some(Delivery::Frame(frame?))
    }
}
