//! One watch, as the stream that serves it sees it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

use super::caller::{Caller, WatchFrame};
use super::desk::{Desk, Joined};
use super::hall::Hall;
use super::history::{self, Archive, History};
use super::initial::{self, Initial, prefix_of};
use super::member::Ending;
use super::serve::Served;
use super::start::{StartPoint, WatchStart};
use crate::engine::Revision;
use crate::watch::WatchInterest;

/// A registered watch. It belongs to the thread that opened it; dropping it unregisters it.
///
/// It has no queue and no task of its own: a frame comes into being, or is taken from the ring,
/// when it is asked for.
pub struct Watcher {
    /// `None` once it has ended.
    seat: Option<Seat>,
}

struct Seat {
    hall: Rc<Hall>,
    desk: Rc<RefCell<Desk>>,
    number: u32,
    phase: Phase,
}

/// Where the next frame comes from.
enum Phase {
    /// The state that the watch starts with.
    Initial(Box<Initial>),
    /// The store's history.
    History(Box<History>),
    /// The ring.
    Live,
    /// Nowhere: the last frame has been sent.
    Over,
}

/// The outcome of one turn.
enum Turn {
    Frame(WatchFrame),
    Wait,
    /// Let others run, then go on.
    Yield,
    /// Go on at once.
    On,
    End,
}

/// Turns without a frame in one poll, before others get theirs.
const TURNS: usize = 16;

impl Watcher {
    /// A watch that ends at its first poll.
    pub(super) fn ended() -> Watcher {
        Watcher { seat: None }
    }

    /// A watch at this desk.
    pub(super) fn open(hall: Rc<Hall>, desk: Rc<RefCell<Desk>>, start: WatchStart) -> Watcher {
        let first_revision = match &start.from {
            StartPoint::After(revision) => *revision,
            StartPoint::Initial {
                snapshot,
                end_bookmark,
            } => end_bookmark.map_or(snapshot.revision, |end| end.max(snapshot.revision)),
        };
        let number = desk.borrow_mut().add(&start, first_revision).number;
        let mut seat = Seat {
            hall,
            desk,
            number,
            phase: Phase::Live,
        };
        match start.from {
            StartPoint::After(revision) => seat.follow(revision, &start.interest),
            StartPoint::Initial {
                snapshot,
                end_bookmark,
            } => {
                let resource = seat.desk.borrow().cacher.prefix.clone();
                let initial = Initial::new(start.interest, &resource, snapshot, end_bookmark);
                seat.phase = Phase::Initial(Box::new(initial));
            }
        }
        Watcher { seat: Some(seat) }
    }

    /// The next frame; `None` is the end, of which nothing needs to be said.
    pub fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        for _ in 0..TURNS {
            let Some(seat) = &mut self.seat else {
                return Poll::Ready(None);
            };
            match seat.turn(caller) {
                Turn::Frame(frame) => return Poll::Ready(Some(frame)),
                Turn::Wait => return Poll::Pending,
                Turn::Yield => break,
                Turn::On => {}
                Turn::End => self.seat = None,
            }
        }
        caller.wake();
        Poll::Pending
    }
}

impl Seat {
    fn turn(&mut self, caller: &Caller<'_>) -> Turn {
        match &mut self.phase {
            Phase::Live => self.live_turn(caller),
            Phase::Initial(_) => self.initial_turn(),
            Phase::History(_) => self.history_turn(caller),
            Phase::Over => Turn::End,
        }
    }

    fn live_turn(&mut self, caller: &Caller<'_>) -> Turn {
        let mut desk = self.desk.borrow_mut();
        match desk.serve(self.number, caller) {
            Served::Frame(frame) => Turn::Frame(frame),
            Served::Parked => Turn::Wait,
            Served::Again => Turn::Yield,
            Served::End => Turn::End,
            Served::Behind(after) => {
                let interest = desk.interest(self.number);
                drop(desk);
                match interest {
                    Some(interest) => self.read_history(after, interest),
                    None => return Turn::End,
                }
                Turn::On
            }
        }
    }

    fn initial_turn(&mut self) -> Turn {
        let Phase::Initial(initial) = &mut self.phase else {
            return Turn::On;
        };
        let mut desk = self.desk.borrow_mut();
        let Some(member) = desk.members.get_mut(self.number) else {
            return Turn::End;
        };
        if member.ending == Ending::Now {
            return Turn::End;
        }
        match initial.step(!member.has_sent) {
            initial::Step::Frame(frame) => {
                member.has_sent = true;
                desk.metrics.frames += 1;
                desk.metrics.initial_frames += 1;
                Turn::Frame(frame.into())
            }
            initial::Step::End(bookmark) => {
                member.has_sent = true;
                desk.metrics.frames += 1;
                Turn::Frame(bookmark.into())
            }
            initial::Step::LookedOn => Turn::On,
            initial::Step::Over(revision) => {
                let interest = initial.interest().clone();
                drop(desk);
                self.follow(revision, &interest);
                Turn::On
            }
        }
    }

    fn history_turn(&mut self, caller: &Caller<'_>) -> Turn {
        let Phase::History(history) = &mut self.phase else {
            return Turn::On;
        };
        let mut desk = self.desk.borrow_mut();
        let until = desk.cacher.newest();
        let Some(member) = desk.members.get_mut(self.number) else {
            return Turn::End;
        };
        if member.ending == Ending::Now {
            return Turn::End;
        }
        // A selector may pass over all that a short watch gets to see of history: its client
        // resumes where this bookmark says, not at the beginning again and again.
        if member.is_bookmark_due
            && let Some(reached) = history.reached()
        {
            member.is_bookmark_due = false;
            if reached > member.start {
                let projection = &history.interest().projection;
                let bookmark = projection.bookmark(reached, false, !member.has_sent);
                member.has_sent = true;
                desk.metrics.frames += 1;
                return Turn::Frame(bookmark.into());
            }
        }
        match history.step(until, !member.has_sent, &mut caller.context()) {
            history::Step::Frame(frame) => {
                member.has_sent = true;
                desk.metrics.frames += 1;
                desk.metrics.initial_frames += 1;
                Turn::Frame(frame.into())
            }
            history::Step::Failed(frame) => {
                drop(desk);
                self.phase = Phase::Over;
                Turn::Frame(frame.into())
            }
            history::Step::Waits => {
                member.park(caller);
                Turn::Wait
            }
            history::Step::Reached(revision) => {
                let interest = history.interest().clone();
                drop(desk);
                self.follow(revision, &interest);
                Turn::On
            }
            history::Step::Gone => Turn::End,
        }
    }

    /// Goes on after this revision: in the ring if it reaches back so far, else in history.
    fn follow(&mut self, after: Revision, interest: &WatchInterest) {
        let joined = self.desk.borrow_mut().follow(self.number, after);
        match joined {
            Joined::Live => self.phase = Phase::Live,
            Joined::TooOld => self.read_history(after, interest.clone()),
        }
    }

    fn read_history(&mut self, after: Revision, interest: WatchInterest) {
        let desk = self.desk.borrow();
        desk.metrics.history_reads.increment(1);
        let archive = Archive {
            engine: desk.engine.clone(),
            decode: desk.decode.clone(),
            pool: self.hall.config.history.clone(),
            chunk_bytes: self.hall.config.history_chunk_bytes,
            shelf: Rc::clone(&self.hall.shelf),
        };
        let prefix = prefix_of(&interest.scope, &desk.cacher.prefix);
        self.phase = Phase::History(Box::new(History::new(archive, interest, prefix, after)));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.borrow_mut().remove(self.number);
    }
}
