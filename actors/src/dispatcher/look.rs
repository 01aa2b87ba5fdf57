//! How a Dispatcher reads the ring, and tells its watchers that there is something to fetch.

use std::sync::Arc;

use super::desk::Desk;
use super::member::{Cursor, Standing};
use crate::cacher::{CLOSED, Horizon, Read};
use crate::ring::RingEvent;

/// Events taken over under one lock of the ring.
const BATCH: usize = 256;
/// Bytes of frames that the logs of all groups may take here; beyond it they begin anew, and who
/// has not fetched them yet reads the ring.
const LOGGED_BYTES_MAX: usize = 4 << 20;

impl Desk {
    /// Reads the ring from the position to its end. What nobody here wants is skipped without
    /// reading, so a quiet watcher stays up to date beside a busy ring.
    pub(super) fn look(&mut self) {
        if self.logged_bytes > LOGGED_BYTES_MAX {
            self.cut_logs(self.position);
        }
        let horizon = self.cacher.fetch(self.place);
        if horizon.generation != self.generation {
            if horizon.generation == CLOSED || self.is_closed() {
                self.close();
                return;
            }
            self.generation = horizon.generation;
            self.end_all();
            // What lies between is skipped, so the logs of groups have a hole there.
            self.cut_logs(horizon.next);
        } else if let Some(from) = horizon.pending_from {
            self.read(from.max(self.position), horizon);
        }
        self.position = horizon.next;
        self.reached = horizon.newest;
    }

    fn read(&mut self, mut from: u64, horizon: Horizon) {
        let mut events = std::mem::take(&mut self.events);
        while from < horizon.next {
            let read = self.cacher.read(from, horizon.next, BATCH, &mut events);
            if read == Read::Evicted || events.is_empty() {
                self.lose_track(from, horizon.next);
                break;
            }
            from += events.len() as u64;
            for event in events.drain(..) {
                self.take(&event);
            }
        }
        events.clear();
        self.events = events;
    }

    /// An event, in its turn.
    fn take(&mut self, event: &Arc<RingEvent>) {
        let mut touched = std::mem::take(&mut self.touched);
        self.topics.touched(event, &mut touched);
        for group in touched.drain(..) {
            self.offer(group, event);
        }
        self.touched = touched;
    }

    /// Judges the event once for the group and marks the members that are up to date.
    fn offer(&mut self, number: u32, event: &Arc<RingEvent>) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        if !group.is_worth_judging() {
            group.restart_log(event.sequence + 1);
            return;
        }
        let Some(entry) = group.judge(event) else {
            return;
        };
        if group.has_current() {
            let mut touched = 0;
            for member in &group.members {
                if let Some(member) = self.members.get_mut(*member)
                    && member.touch(event.sequence, event.revision)
                {
                    touched += 1;
                    member.wake();
                }
            }
            group.touched(touched);
        }
        if group.has_lagging() {
            self.logged_bytes += entry.frame.len();
            group.log(entry);
        } else {
            group.restart_log(event.sequence + 1);
        }
    }

    /// The logs of all groups begin anew at this position.
    fn cut_logs(&mut self, position: u64) {
        self.logged_bytes = 0;
        for group in self.groups.iter_mut() {
            group.restart_log(position);
        }
    }

    /// The ring has dropped events before this thread got to see them: whoever was up to date
    /// goes on from the store's history, each for himself.
    fn lose_track(&mut self, from: u64, position: u64) {
        let cursor = Cursor {
            sequence: from,
            after: self.reached,
        };
        for group in self.groups.iter_mut() {
            group.restart_log(position);
            let mut touched = 0;
            for member in &group.members {
                if let Some(member) = self.members.get_mut(*member)
                    && member.standing == Standing::Current
                {
                    member.standing = Standing::Lagging(cursor);
                    member.wake();
                    touched += 1;
                }
            }
            group.touched(touched);
        }
    }
}
