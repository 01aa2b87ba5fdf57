//! One watch, as the stream that serves it sees it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

use super::caller::{Caller, WatchFrame};
use super::delivery::Delivery;
use super::history::{HistoryAccess, HistoryReplay, HistorySource, HistoryStep};
use super::initial_events::{InitialEvents, InitialStep, prefix_of};
use super::member::Ending;
use super::resource_dispatcher::{FollowResult, ResourceDispatcher};
use super::start::{StartPoint, WatchStart};
use crate::engine::Revision;
use crate::watch::WatchInterest;

/// A registered watch. It belongs to the thread that opened it. Dropping it unregisters it.
///
/// It has no queue and no task of its own. A frame is rendered, or taken from the ring, when it is
/// polled.
pub struct Watcher {
    /// `None` once it has ended.
    registration: Option<Registration>,
}

/// A watcher's membership in its ResourceDispatcher, and where it is in its stream.
struct Registration {
    history: Rc<HistoryAccess>,
    resource: Rc<RefCell<ResourceDispatcher>>,
    /// The number of its [`Member`](super::member::Member).
    number: u32,
    phase: Phase,
}

/// Where the next frame comes from.
enum Phase {
    /// The state that the watch starts with.
    Initial(Box<InitialEvents>),
    /// The engine's history.
    History(Box<HistoryReplay>),
    /// The ring.
    Live,
    /// Nowhere: the last frame has been sent.
    Over,
}

/// The result of one attempt to find a frame.
enum Attempt {
    Frame(WatchFrame),
    Wait,
    /// Let other tasks run, then try again.
    Yield,
    /// Try again at once.
    Retry,
    End,
}

/// Attempts without a frame in one poll, before other tasks run.
const ATTEMPTS_MAX: usize = 16;

impl Watcher {
    /// A watch that ends at its first poll.
    pub(super) fn ended() -> Watcher {
        Watcher { registration: None }
    }

    /// Opens a watch of this resource.
    pub(super) fn open(
        history: Rc<HistoryAccess>,
        resource: Rc<RefCell<ResourceDispatcher>>,
        start: WatchStart,
    ) -> Watcher {
        let first_revision = match &start.from {
            StartPoint::After(revision) => *revision,
            StartPoint::Initial {
                snapshot,
                end_bookmark,
            } => end_bookmark.map_or(snapshot.revision, |end| end.max(snapshot.revision)),
        };
        let number = resource.borrow_mut().add(&start, first_revision).number;
        let mut registration = Registration {
            history,
            resource,
            number,
            phase: Phase::Live,
        };
        match start.from {
            StartPoint::After(revision) => registration.follow(revision, &start.interest),
            StartPoint::Initial {
                snapshot,
                end_bookmark,
            } => {
                let prefix = registration.resource.borrow().watch_cache.prefix.clone();
                let initial = InitialEvents::new(start.interest, &prefix, snapshot, end_bookmark);
                registration.phase = Phase::Initial(Box::new(initial));
            }
        }
        Watcher {
            registration: Some(registration),
        }
    }

    /// The next frame. `None` is the end of the stream, which is not an error.
    pub fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(registration) = &mut self.registration else {
                return Poll::Ready(None);
            };
            match registration.attempt(caller) {
                Attempt::Frame(frame) => return Poll::Ready(Some(frame)),
                Attempt::Wait => return Poll::Pending,
                Attempt::Yield => break,
                Attempt::Retry => {}
                Attempt::End => self.registration = None,
            }
        }
        caller.wake();
        Poll::Pending
    }
}

impl Registration {
    fn attempt(&mut self, caller: &Caller<'_>) -> Attempt {
        match &mut self.phase {
            Phase::Live => self.poll_live(caller),
            Phase::Initial(_) => self.poll_initial(),
            Phase::History(_) => self.poll_history(caller),
            Phase::Over => Attempt::End,
        }
    }

    fn poll_live(&mut self, caller: &Caller<'_>) -> Attempt {
        let mut resource = self.resource.borrow_mut();
        match resource.next_delivery(self.number, caller) {
            Delivery::Frame(frame) => Attempt::Frame(frame),
            Delivery::Wait => Attempt::Wait,
            Delivery::Yield => Attempt::Yield,
            Delivery::End => {
                drop(resource);
                self.end()
            }
            Delivery::NeedsHistory(after) => {
                let interest = resource.interest(self.number);
                drop(resource);
                match interest {
                    Some(interest) => self.read_history(after, interest),
                    None => return Attempt::End,
                }
                Attempt::Retry
            }
        }
    }

    fn poll_initial(&mut self) -> Attempt {
        let Phase::Initial(initial) = &mut self.phase else {
            return Attempt::Retry;
        };
        let mut resource = self.resource.borrow_mut();
        let Some(member) = resource.members.get_mut(self.number) else {
            return Attempt::End;
        };
        if member.ending.is_due() {
            drop(resource);
            return self.end();
        }
        match initial.step(!member.has_sent) {
            InitialStep::Frame(frame) => {
                member.has_sent = true;
                resource.metrics.frames += 1;
                resource.metrics.initial_frames += 1;
                Attempt::Frame(frame.into())
            }
            InitialStep::End(bookmark) => {
                member.has_sent = true;
                resource.metrics.frames += 1;
                Attempt::Frame(bookmark.into())
            }
            InitialStep::PieceEvaluated => Attempt::Retry,
            InitialStep::Finished(revision) => {
                let interest = initial.interest().clone();
                drop(resource);
                self.follow(revision, &interest);
                Attempt::Retry
            }
        }
    }

    fn poll_history(&mut self, caller: &Caller<'_>) -> Attempt {
        let Phase::History(history) = &mut self.phase else {
            return Attempt::Retry;
        };
        let mut resource = self.resource.borrow_mut();
        let until = resource.watch_cache.newest();
        let Some(member) = resource.members.get_mut(self.number) else {
            return Attempt::End;
        };
        if member.ending.is_due() {
            drop(resource);
            return self.end();
        }
        // The selector may match nothing that a short watch reads of history. With this bookmark
        // the client resumes from there, and not from the same revision again and again.
        if member.is_bookmark_due
            && let Some(reached) = history.reached()
        {
            member.is_bookmark_due = false;
            if reached > member.start {
                let projection = &history.interest().projection;
                let bookmark = projection.bookmark(reached, false, !member.has_sent);
                member.has_sent = true;
                resource.metrics.frames += 1;
                return Attempt::Frame(bookmark.into());
            }
        }
        match history.step(until, !member.has_sent, &mut caller.context()) {
            HistoryStep::Frame(frame) => {
                member.has_sent = true;
                resource.metrics.frames += 1;
                resource.metrics.initial_frames += 1;
                Attempt::Frame(frame.into())
            }
            HistoryStep::Failed(frame) => {
                drop(resource);
                self.phase = Phase::Over;
                Attempt::Frame(frame.into())
            }
            HistoryStep::Wait => {
                member.park(caller);
                Attempt::Wait
            }
            HistoryStep::Reached(revision) => {
                let interest = history.interest().clone();
                drop(resource);
                self.follow(revision, &interest);
                Attempt::Retry
            }
            HistoryStep::Gone => Attempt::End,
        }
    }

    /// Ends the stream, with an ERROR event first if the store was reset.
    fn end(&mut self) -> Attempt {
        let mut resource = self.resource.borrow_mut();
        let ending = resource
            .members
            .get(self.number)
            .map(|member| (member.ending, member.after.max(member.start)));
        let Some((Ending::Expired(oldest), reached)) = ending else {
            return Attempt::End;
        };
        let Some(interest) = resource.interest(self.number) else {
            return Attempt::End;
        };
        resource.metrics.frames += 1;
        drop(resource);
        self.phase = Phase::Over;
        Attempt::Frame(interest.projection.expired(reached, oldest).into())
    }

    /// Continues after this revision: from the ring if it reaches back so far, else from history.
    fn follow(&mut self, after: Revision, interest: &WatchInterest) {
        let result = self.resource.borrow_mut().follow(self.number, after);
        match result {
            FollowResult::Live => self.phase = Phase::Live,
            FollowResult::TooOld => self.read_history(after, interest.clone()),
        }
    }

    fn read_history(&mut self, after: Revision, interest: WatchInterest) {
        let resource = self.resource.borrow();
        resource.metrics.history_reads.increment(1);
        let source = HistorySource {
            engine: resource.engine.clone(),
            decode: resource.decode.clone(),
            access: Rc::clone(&self.history),
        };
        let prefix = prefix_of(&interest.scope, &resource.watch_cache.prefix);
        self.phase = Phase::History(Box::new(HistoryReplay::new(
            source, interest, prefix, after,
        )));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.resource.borrow_mut().remove(self.number);
    }
}
