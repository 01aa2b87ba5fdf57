//! Which work is due, with no piece twice at a time. A function of the time that it is told.
//!
//! It has the rules of client-go's work queues: what is added while it is worked on is due again
//! afterwards, and what failed waits longer each time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use actors::backoff::Backoff;
use tokio::time::Instant;

const FIRST_WAIT: Duration = Duration::from_millis(5);
/// The maximum wait after a failure. Kubernetes' is a thousand seconds.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// The room that is kept for tasks when there are none.
const CAPACITY_KEPT: usize = 1024;

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// There is nothing left to do.
    Done,
    /// It goes on at once.
    GoesOn,
    /// It is tried again later.
    Failed,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    failed: Backoff,
    /// When it was queued.
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ready,
    /// It is not due before this time.
    Waiting(Instant),
    Busy,
    /// It was added while it is worked on.
    BusyAndAdded,
}

/// The work that is known.
#[derive(Debug)]
pub(super) struct Queue<T> {
    entries: HashMap<T, Entry>,
    ready: VecDeque<T>,
    waiting: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The tasks of `waiting`, so that tasks need no order.
    tickets: HashMap<u64, T>,
    next_ticket: u64,
}

impl<T: Clone + Eq + Hash> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BinaryHeap::new(),
            tickets: HashMap::new(),
            next_ticket: 0,
        }
    }

    /// Adds a piece of work, which is due at once. Returns whether it was not due already.
    pub(super) fn add(&mut self, task: T, now: Instant) -> bool {
        let entry = self.entries.entry(task.clone()).or_insert_with(|| Entry {
            phase: Phase::Waiting(now),
            failed: Backoff::new(FIRST_WAIT, MOST_WAIT),
            since: now,
        });
        match entry.phase {
            Phase::Waiting(_) => {
                entry.phase = Phase::Ready;
                entry.since = now;
                self.ready.push_back(task);
                true
            }
            Phase::Busy => {
                entry.phase = Phase::BusyAndAdded;
                true
            }
            Phase::Ready | Phase::BusyAndAdded => false,
        }
    }

    /// Takes a piece of work that is due, with the time since when it was.
    pub(super) fn take(&mut self, now: Instant) -> Option<(T, Instant)> {
        self.wake(now);
        let task = self.ready.pop_front()?;
        let entry = self.entries.get_mut(&task)?;
        entry.phase = Phase::Busy;
        Some((task, entry.since))
    }

    /// Makes due what has waited long enough.
    fn wake(&mut self, now: Instant) {
        while let Some(Reverse((due, ticket))) = self.waiting.peek().copied()
            && due <= now
        {
            self.waiting.pop();
            let Some(task) = self.tickets.remove(&ticket) else {
                continue;
            };
            // It may have been added in the meantime, and may even wait anew.
            if let Some(entry) = self.entries.get_mut(&task)
                && entry.phase == Phase::Waiting(due)
            {
                entry.phase = Phase::Ready;
                entry.since = now;
                self.ready.push_back(task);
            }
        }
    }

    /// Records how the work on a task ended. `random`, from 0 to 1, spreads the waits.
    pub(super) fn ended(&mut self, task: &T, how: Ended, now: Instant, random: f64) {
        let Some(entry) = self.entries.get_mut(task) else {
            return;
        };
        let was_added = entry.phase == Phase::BusyAndAdded;
        match how {
            Ended::Done | Ended::GoesOn => entry.failed.succeeded(),
            Ended::Failed => {
                let due = now + entry.failed.failed(random);
                entry.phase = Phase::Waiting(due);
                self.next_ticket += 1;
                self.waiting.push(Reverse((due, self.next_ticket)));
                self.tickets.insert(self.next_ticket, task.clone());
                return;
            }
        }
        if was_added || how == Ended::GoesOn {
            entry.phase = Phase::Ready;
            entry.since = now;
            self.ready.push_back(task.clone());
        } else {
            self.entries.remove(task);
            if self.entries.is_empty() {
                // The start has a task for each owner.
                self.entries.shrink_to(CAPACITY_KEPT);
                self.ready.shrink_to(CAPACITY_KEPT);
            }
        }
    }

    /// When the next waiting piece of work is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse((due, _))| *due)
    }

    /// The number of pieces that are due.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_worked_on_once_at_a_time_and_again_if_it_was_added_meanwhile() {
        let (mut queue, now) = (Queue::new(), Instant::now());
        assert!(queue.add("a", now));
        assert!(!queue.add("a", now));
        assert_eq!(queue.take(now), Some(("a", now)));
        assert_eq!(queue.take(now), None);
        assert!(queue.add("a", now));
        assert_eq!(queue.take(now), None);
        queue.ended(&"a", Ended::Done, now, 0.0);
        assert_eq!(queue.take(now), Some(("a", now)));
        queue.ended(&"a", Ended::Done, now, 0.0);
        assert_eq!(queue.take(now), None);
        assert!(queue.entries.is_empty());
    }

    #[test]
    fn failures_wait_longer_each_time_and_news_do_not_wait() {
        let (mut queue, start) = (Queue::new(), Instant::now());
        queue.add("a", start);
        let mut now = start;
        for round in 0..20 {
            assert!(queue.take(now).is_some(), "{round}");
            queue.ended(&"a", Ended::Failed, now, 1.0);
            assert_eq!(queue.take(now), None);
            let due = queue.next_due().expect("it waits");
            assert_eq!(due - now, (FIRST_WAIT * (1 << round)).min(MOST_WAIT));
            now = due;
        }
        assert!(queue.take(now).is_some());
        queue.ended(&"a", Ended::Failed, now, 1.0);
        assert!(queue.add("a", now));
        assert!(queue.take(now).is_some());
        queue.ended(&"a", Ended::Done, now, 1.0);
        // The old ticket wakes nothing.
        assert_eq!(queue.take(now + MOST_WAIT), None);
        assert!(queue.tickets.is_empty() && queue.waiting.is_empty());
    }
}
