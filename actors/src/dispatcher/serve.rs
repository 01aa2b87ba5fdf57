//! What a watcher that follows the ring gets when it is polled.

use super::bookmarks;
use super::caller::{Caller, WatchFrame};
use super::desk::Desk;
use super::member::{Cursor, Ending, Standing};
use crate::cacher::Read;
use crate::engine::Revision;

/// The answer to a poll.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The next frame.
    Frame(WatchFrame),
    /// Nothing now; the task will be woken.
    Parked,
    /// Nothing yet; it looked at many events that were not for it and others want their turn.
    Again,
    /// What comes next is no longer in the ring: only history after this revision has it.
    Behind(Revision),
    /// The stream is over.
    End,
}

/// Events that one look into the ring copies out for one watcher.
const READ_ALONE: usize = 16;
/// Looks of one poll, before others get their turn.
const ROUNDS: usize = 32;

impl Desk {
    /// The next thing for a member that follows the ring.
    pub(super) fn serve(&mut self, number: u32, caller: &Caller<'_>) -> Served {
        for _ in 0..ROUNDS {
            let Some(member) = self.members.get(number) else {
                return Served::End;
            };
            let served = match (member.ending, member.standing) {
                (Ending::Now, _) | (_, Standing::Elsewhere) => Some(Served::End),
                (_, Standing::Current) => self.serve_current(number, caller),
                (_, Standing::Lagging(cursor)) => self.serve_lagging(number, cursor, caller),
            };
            if let Some(served) = served {
                self.metrics.frames += u64::from(matches!(served, Served::Frame(_)));
                return served;
            }
        }
        Served::Again
    }

    /// An up-to-date member gets a bookmark if it is due one, or waits.
    fn serve_current(&mut self, number: u32, caller: &Caller<'_>) -> Option<Served> {
        let member = self.members.get_mut(number)?;
        if std::mem::take(&mut member.is_bookmark_due) {
            return self.serve_bookmark(number);
        }
        if member.ending == Ending::OnceCurrent {
            return Some(Served::End);
        }
        member.park(caller);
        Some(Served::Parked)
    }

    fn serve_bookmark(&mut self, number: u32) -> Option<Served> {
        // In this order: what is known first, then everything that was known is looked at.
        let known = self.engine.known(&self.cacher.prefix);
        self.look();
        let member = self.members.get_mut(number)?;
        if member.ending == Ending::Now {
            // The cache was refilled: what lies between was not sent.
            return None;
        }
        if member.standing != Standing::Current {
            member.is_bookmark_due = true;
            return None;
        }
        let sent = member.after;
        let revision = bookmarks::revision(self.reached, known, member.start)
            .filter(|revision| *revision >= sent)?;
        let first = !std::mem::replace(&mut member.has_sent, true);
        let group = self.groups.get_mut(member.group)?;
        Some(Served::Frame(group.bookmark(revision, first).into()))
    }

    /// A lagging member gets its next frame from its group's log, or, where that does not reach,
    /// from the ring.
    fn serve_lagging(
        &mut self,
        number: u32,
        cursor: Cursor,
        caller: &Caller<'_>,
    ) -> Option<Served> {
        let position = self.position;
        let member = self.members.get_mut(number)?;
        let group = self.groups.get_mut(member.group)?;
        if cursor.sequence < group.floor().min(position) {
            return self.serve_alone(number, cursor);
        }
        let Some((entry, is_last)) = group.next_from(cursor.sequence) else {
            group.catches_up(member, position);
            return None;
        };
        member.standing = Standing::Lagging(Cursor {
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
        let bytes = own_frame.unwrap_or_else(|| entry.frame.clone());
        // One poll for a delivery, where the second one would find nothing.
        let rests = is_last && member.ending == Ending::No && !member.is_bookmark_due;
        if rests {
            group.catches_up(member, position);
            member.park(caller);
        }
        Some(Served::Frame(WatchFrame { bytes, rests }))
    }

    fn serve_alone(&mut self, number: u32, mut cursor: Cursor) -> Option<Served> {
        let position = self.position;
        let member = self.members.get_mut(number)?;
        let group = self.groups.get_mut(member.group)?;
        let to = group.floor().min(position);
        let mut events = std::mem::take(&mut self.events);
        let read = self
            .cacher
            .read(cursor.sequence, to, READ_ALONE, &mut events);
        if read == Read::Evicted || events.is_empty() {
            self.events = events;
            group.departs(member.standing, position);
            member.standing = Standing::Elsewhere;
            return Some(Served::Behind(cursor.after.max(member.after)));
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
            if let Some(entry) = group.judge(event) {
                let first = !std::mem::replace(&mut member.has_sent, true);
                let projection = &*group.interest.projection;
                let own_frame = (first && projection.first_differs())
                    .then(|| event.first_frame(entry.kind, projection));
                frame = Some(own_frame.flatten().unwrap_or(entry.frame));
                break;
            }
        }
        member.standing = Standing::Lagging(cursor);
        events.clear();
        self.events = events;
        Some(Served::Frame(frame?.into()))
    }
}
