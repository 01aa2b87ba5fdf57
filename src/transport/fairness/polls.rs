//! Shares the threads for large requests among users: each poll of a request's work is a turn.
//!
//! Nothing can interrupt a poll that computes, so other users wait for it. At most as many polls
//! run at a time as there are processors, and the time of each is charged to its user. The user
//! with the smallest charge gets the next turn, so a newcomer comes before users who have already
//! used much. Work that waits for a store or for another request occupies no turn, and a user gets
//! all turns while no other user waits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;

use super::turns::Turns;

/// The turns of all requests that share some threads.
pub struct FairPolls(Mutex<State>);

struct State {
    /// The number of further polls that may run now.
    free: usize,
    turns: Turns<Arc<str>, Arc<Place>>,
}

/// Work that waits for a turn.
struct Place(Mutex<Turn>);

enum Turn {
    Awaited(Waker),
    Granted,
}

impl FairPolls {
    /// Creates turns of which at most `at_once` are in use at a time.
    pub fn new(at_once: usize) -> Arc<FairPolls> {
        Arc::new(FairPolls(Mutex::new(State {
            free: at_once,
            turns: Turns::default(),
        })))
    }

    /// Wraps `work` so that it is polled only in a turn of its user.
    pub fn in_turn<F: Future>(self: &Arc<FairPolls>, user: &str, work: F) -> InTurn<F> {
        InTurn {
            share: Share {
                polls: Arc::clone(self),
                user: Arc::from(user),
                place: None,
                has_begun: false,
            },
            work: Box::pin(work),
        }
    }
}

/// Work that takes turns.
pub struct InTurn<F> {
    share: Share,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if !self.share.take(context.waker()) {
            return Poll::Pending;
        }
        self.share.has_begun = true;
        let polls = Arc::clone(&self.share.polls);
        let running = Running {
            polls: &polls,
            user: Arc::clone(&self.share.user),
            began: Instant::now(),
        };
        let polled = self.work.as_mut().poll(context);
        drop(running);
        polled
    }
}

struct Share {
    polls: Arc<FairPolls>,
    user: Arc<str>,
    /// `Some` while the work waits for a turn.
    place: Option<Arc<Place>>,
    has_begun: bool,
}

impl Share {
    /// Takes a turn, or queues for one. Work that has begun holds memory and perhaps the turn at a
    /// key, so it comes before work of the same user that has not begun.
    fn take(&mut self, waker: &Waker) -> bool {
        let mut state = self.polls.0.lock();
        if let Some(place) = &self.place {
            if let Turn::Awaited(before) = &mut *place.0.lock() {
                before.clone_from(waker);
                return false;
            }
            self.place = None;
            return true;
        }
        if let Some(free) = state.free.checked_sub(1) {
            state.free = free;
            return true;
        }
        let place = Arc::new(Place(Mutex::new(Turn::Awaited(waker.clone()))));
        self.place = Some(Arc::clone(&place));
        match self.has_begun {
            true => state.turns.wait_first(&self.user, place),
            false => state.turns.wait(&self.user, place),
        }
        false
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else {
            return;
        };
        let mut state = self.polls.0.lock();
        let is_granted = matches!(*place.0.lock(), Turn::Granted);
        if is_granted {
            let next = state.pass_on();
            drop(state);
            if let Some(next) = next {
                next.wake();
            }
        } else {
            let is_this = |other: &Arc<Place>| Arc::ptr_eq(other, &place);
            state.turns.leave(&self.user, is_this);
        }
    }
}

impl State {
    /// Passes a turn that has ended to the next in line. Returns the waker to call once the lock is
    /// released.
    #[must_use]
    fn pass_on(&mut self) -> Option<Waker> {
        let Some(place) = self.turns.next() else {
            self.free += 1;
            return None;
        };
        match std::mem::replace(&mut *place.0.lock(), Turn::Granted) {
            Turn::Awaited(waker) => Some(waker),
            Turn::Granted => None,
        }
    }
}

/// A turn in use. Dropping it ends the turn.
struct Running<'p> {
    polls: &'p FairPolls,
    user: Arc<str>,
    began: Instant,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.polls.0.lock();
        // At least one, so that a coarse clock does not make turns free.
        state.turns.charge(&self.user, took.max(1));
        let next = state.pass_on();
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::FutureExt;
    use futures_util::future::LocalBoxFuture;

    use super::*;

    type Seen = RefCell<Vec<&'static str>>;

    /// Work that records its user when it runs.
    fn noting<'s>(
        polls: &Arc<FairPolls>,
        user: &'static str,
        seen: &'s Seen,
    ) -> LocalBoxFuture<'s, ()> {
        let work = async move { seen.borrow_mut().push(user) };
        polls.in_turn(user, work).boxed_local()
    }

    /// Polls all work that has a turn until none is left.
    fn run(mut waiting: Vec<LocalBoxFuture<'_, ()>>) {
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain_mut(|work| work.now_or_never().is_none());
            assert!(waiting.len() < before, "nobody has a turn");
        }
    }

    #[test]
    fn a_newcomer_is_next_however_many_requests_of_another_user_wait() {
        let (polls, seen) = (FairPolls::new(1), Seen::default());
        let mut waiting: Vec<_> = (0..64).map(|_| noting(&polls, "abuser", &seen)).collect();
        waiting.push(noting(&polls, "newcomer", &seen));
        // All others arrive while one poll of the abuser runs.
        let running = polls.in_turn("abuser", async {
            for work in &mut waiting {
                assert!(work.now_or_never().is_none());
            }
        });
        assert!(running.now_or_never().is_some());
        run(waiting);
        let seen = seen.into_inner();
        assert_eq!((seen[0], seen.len()), ("newcomer", 65));
    }

    #[test]
    fn one_user_alone_has_all_threads_and_others_share_them() {
        let (polls, seen) = (FairPolls::new(3), Seen::default());
        let mut third = noting(&polls, "ann", &seen);
        let nested = polls.in_turn("ann", async {
            let nested = polls.in_turn("ann", async {
                let mut fourth = noting(&polls, "bob", &seen);
                let all = polls.in_turn("ann", async { (&mut fourth).now_or_never() });
                assert_eq!(
                    all.now_or_never(),
                    Some(None),
                    "three run, the fourth waits"
                );
                assert_eq!(fourth.now_or_never(), Some(()), "and has the next turn");
                (&mut third).now_or_never()
            });
            nested.now_or_never()
        });
        assert_eq!(nested.now_or_never(), Some(Some(Some(()))));
        assert_eq!(seen.take(), ["bob", "ann"]);
        assert_eq!(polls.0.lock().free, 3);
    }

    #[test]
    fn what_has_begun_goes_on_before_what_its_user_has_not_begun() {
        let (polls, seen) = (FairPolls::new(1), Seen::default());
        let begun = async {
            tokio::task::yield_now().await;
            seen.borrow_mut().push("begun");
        };
        let mut begun = polls.in_turn("ann", begun).boxed_local();
        assert!((&mut begun).now_or_never().is_none());
        let mut waiting = vec![noting(&polls, "ann", &seen), begun];
        let running = polls.in_turn("ann", async {
            for work in &mut waiting {
                assert!(work.now_or_never().is_none());
            }
        });
        assert!(running.now_or_never().is_some());
        run(waiting);
        assert_eq!(seen.into_inner(), ["begun", "ann"]);
    }

    #[test]
    fn who_goes_away_leaves_turn_and_place_to_others() {
        let (polls, seen) = (FairPolls::new(1), Seen::default());
        let mut waiting: Vec<_> = (0..3).map(|_| noting(&polls, "ann", &seen)).collect();
        let running = polls.in_turn("bob", async {
            for work in &mut waiting {
                assert!(work.now_or_never().is_none());
            }
            // The second leaves before it has a turn.
            drop(waiting.remove(1));
        });
        assert!(running.now_or_never().is_some());
        // The first leaves when it has one.
        drop(waiting.remove(0));
        run(waiting);
        assert_eq!(seen.into_inner().len(), 1);
        assert_eq!(polls.0.lock().free, 1);
    }

    #[test]
    fn work_that_waits_or_panics_has_no_turn() {
        let polls = FairPolls::new(1);
        let mut waits = Box::pin(polls.in_turn("ann", std::future::pending::<()>()));
        assert!((&mut waits).now_or_never().is_none());
        let panics = polls.in_turn("ann", async {
            std::panic::resume_unwind(Box::new("gone"));
        });
        let panicked = std::panic::AssertUnwindSafe(panics).catch_unwind();
        assert!(panicked.now_or_never().is_some_and(|end| end.is_err()));
        assert!(polls.in_turn("bob", async {}).now_or_never().is_some());
    }
}
