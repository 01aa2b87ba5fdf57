//! Reads the ring, and wakes the watchers that have something to fetch.

use std::sync::Arc;

use super::member::{Cursor, Progress};
use super::resource_dispatcher::ResourceDispatcher;
use crate::cacher::{CLOSED_GENERATION, PendingEvents, RingRead};
use crate::ring::RingEvent;

/// Events copied under one lock of the ring.
const BATCH: usize = 256;
/// Bytes of frames in the logs of all groups of a resource. Beyond it the logs are restarted, and
/// members that have not fetched the frames read the ring.
const LOGGED_BYTES_MAX: usize = 4 << 20;

impl ResourceDispatcher {
    /// Reads the ring from the position to its end. Events that no group wants are skipped without
    /// reading, so a quiet watcher of a busy resource stays up to date.
    pub(super) fn read_ring(&mut self) {
        if self.logged_bytes > LOGGED_BYTES_MAX {
            self.restart_logs(self.position);
        }
        let pending = self.watch_cache.take_pending(self.subscriber);
        if pending.generation != self.generation {
            if pending.generation == CLOSED_GENERATION || self.is_closed() {
                self.close();
                return;
            }
            match pending.reset_generation > self.generation {
                true => self.expire_all(pending.newest),
                false => self.end_all(),
            }
            self.generation = pending.generation;
            // The events in between are skipped, so the logs of groups would have a gap there.
            self.restart_logs(pending.next);
        } else if let Some(from) = pending.from {
            self.read_events(from.max(self.position), pending);
        }
        self.position = pending.next;
        self.reached = pending.newest;
    }

    fn read_events(&mut self, mut from: u64, pending: PendingEvents) {
        let mut events = std::mem::take(&mut self.events);
        while from < pending.next {
            let read = self
                .watch_cache
                .read(from, pending.next, BATCH, &mut events);
            if read == RingRead::Evicted || events.is_empty() {
                self.fall_behind(from, pending.next);
                break;
            }
            from += events.len() as u64;
            for event in events.drain(..) {
                self.dispatch(&event);
            }
        }
        events.clear();
        self.events = events;
    }

    /// Passes an event to the groups that it may concern.
    fn dispatch(&mut self, event: &Arc<RingEvent>) {
        let mut groups = std::mem::take(&mut self.matching_groups);
        self.group_index.matching(event, &mut groups);
        for group in groups.drain(..) {
            self.dispatch_to(group, event);
        }
        self.matching_groups = groups;
    }

    /// Evaluates the event once for the group, and wakes the members that were up to date.
    fn dispatch_to(&mut self, number: u32, event: &Arc<RingEvent>) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        if !group.is_worth_evaluating() {
            group.restart_log(event.sequence + 1);
            return;
        }
        let Some(entry) = group.evaluate(event) else {
            return;
        };
        if group.has_current() {
            let mut lagging = 0;
            for member in &group.members {
                if let Some(member) = self.members.get_mut(*member)
                    && member.mark_lagging(event.sequence, event.revision)
                {
                    lagging += 1;
                    member.wake();
                }
            }
            group.move_to_lagging(lagging);
        }
        if group.has_lagging() {
            self.logged_bytes += entry.frame.len();
            group.log(entry);
        } else {
            group.restart_log(event.sequence + 1);
        }
    }

    /// Restarts the logs of all groups at this position.
    fn restart_logs(&mut self, position: u64) {
        self.logged_bytes = 0;
        for group in self.groups.iter_mut() {
            group.restart_log(position);
        }
    }

    /// The ring dropped events before this thread read them. Each member that was up to date reads
    /// them from history.
    fn fall_behind(&mut self, from: u64, position: u64) {
        let cursor = Cursor {
            sequence: from,
            after: self.reached,
        };
        for group in self.groups.iter_mut() {
            group.restart_log(position);
            let mut lagging = 0;
            for member in &group.members {
                if let Some(member) = self.members.get_mut(*member)
                    && member.progress == Progress::Current
                {
                    member.progress = Progress::Lagging(cursor);
                    member.wake();
                    lagging += 1;
                }
            }
            group.move_to_lagging(lagging);
        }
    }
}
