//! Decides which tasks are due, and never starts a task twice at a time. A pure function of the
//! given time.
//!
//! It follows the rules of client-go's work queues: a task that is added while a worker has it is
//! due again afterwards, and a task that failed waits longer each time. The garbage collector and
//! the namespace controller have one each, and so has that of APIServices.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use actors::backoff::Backoff;
use tokio::time::Instant;

/// How long tasks wait before they are retried. Each wait is about twice the one before.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// The first wait.
    pub first: Duration,
    /// The maximum wait after a failure.
    pub most: Duration,
    /// The maximum wait of a task that something else holds up.
    pub most_held: Duration,
}

/// The capacity that is kept when the queue is empty.
const CAPACITY_KEPT: usize = 1024;

/// The result of the work on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is nothing left to do.
    Done,
    /// It continues at once, after the tasks that are due already.
    GoesOn,
    /// Something else holds it up. It is retried later.
    Held,
    /// It is retried later.
    Failed,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    failed: Backoff,
    held: Backoff,
    /// When it was queued.
    since: Instant,
}

impl Entry {
    fn new(waits: Waits, due: Instant) -> Entry {
        Entry {
            phase: Phase::Waiting(due),
            failed: Backoff::new(waits.first, waits.most),
            held: Backoff::new(waits.first, waits.most_held),
            since: due,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ready,
    /// It is not due before this time.
    Waiting(Instant),
    Busy,
    /// It was added while it was worked on.
    BusyAndAdded,
}

/// The known tasks.
#[derive(Debug)]
pub struct WorkQueue<T> {
    waits: Waits,
    entries: HashMap<T, Entry>,
    ready: VecDeque<T>,
    waiting: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The tasks of `waiting`, so that tasks need no order.
    tickets: HashMap<u64, T>,
    next_ticket: u64,
}

impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// An empty queue.
    pub fn new(waits: Waits) -> WorkQueue<T> {
        WorkQueue {
            waits,
            entries: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BinaryHeap::new(),
            tickets: HashMap::new(),
            next_ticket: 0,
        }
    }

    /// Adds a task, which is due at once. Returns whether it was not due already.
    pub fn add(&mut self, task: T, now: Instant) -> bool {
        let waits = self.waits;
        let entry = self.entries.entry(task.clone());
        let entry = entry.or_insert_with(|| Entry::new(waits, now));
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

    /// Adds a task that is not known yet, which is due at a time. Returns whether it is new.
    pub fn add_at(&mut self, task: &T, due: Instant) -> bool {
        if self.entries.contains_key(task) {
            return false;
        }
        let entry = Entry::new(self.waits, due);
        self.entries.insert(task.clone(), entry);
        self.wait(task, due);
        true
    }

    /// Forgets the tasks that are not wanted any more. A task that a worker has stays until its
    /// work ends.
    pub fn retain(&mut self, is_wanted: impl Fn(&T) -> bool) {
        self.entries.retain(|task, entry| {
            is_wanted(task) || matches!(entry.phase, Phase::Busy | Phase::BusyAndAdded)
        });
        let entries = &self.entries;
        self.ready.retain(|task| entries.contains_key(task));
    }

    /// Takes a task that is due, and the time since when it was due.
    pub fn take(&mut self, now: Instant) -> Option<(T, Instant)> {
        self.wake(now);
        let task = self.ready.pop_front()?;
        let entry = self.entries.get_mut(&task)?;
        entry.phase = Phase::Busy;
        Some((task, entry.since))
    }

    fn wait(&mut self, task: &T, due: Instant) {
        self.next_ticket += 1;
        self.waiting.push(Reverse((due, self.next_ticket)));
        self.tickets.insert(self.next_ticket, task.clone());
    }

    /// Makes tasks due that have waited long enough.
    fn wake(&mut self, now: Instant) {
        while let Some(Reverse((due, ticket))) = self.waiting.peek().copied()
            && due <= now
        {
            self.waiting.pop();
            let Some(task) = self.tickets.remove(&ticket) else {
                continue;
            };
            // A caller may have added the task in the meantime, and it may even wait again.
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
    pub fn ended(&mut self, task: &T, how: Ended, now: Instant, random: f64) {
        let Some(entry) = self.entries.get_mut(task) else {
            return;
        };
        let was_added = entry.phase == Phase::BusyAndAdded;
        let wait = match how {
            Ended::Done | Ended::GoesOn => None,
            Ended::Held => Some(entry.held.failed(random)),
            Ended::Failed => Some(entry.failed.failed(random)),
        };
        if how != Ended::Failed {
            entry.failed.succeeded();
        }
        if let Some(wait) = wait {
            entry.phase = Phase::Waiting(now + wait);
            self.wait(task, now + wait);
            return;
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

    /// Returns the time when the next waiting task is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse((due, _))| *due)
    }

    /// Returns the number of due tasks.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits {
        first: Duration::from_millis(5),
        most: Duration::from_secs(60),
        most_held: Duration::from_secs(2),
    };

    #[test]
    fn a_task_is_worked_on_once_at_a_time_and_again_if_it_was_added_meanwhile() {
        let (mut queue, now) = (WorkQueue::new(WAITS), Instant::now());
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
        let (mut queue, start) = (WorkQueue::new(WAITS), Instant::now());
        queue.add("a", start);
        let mut now = start;
        for round in 0..20 {
            assert!(queue.take(now).is_some(), "{round}");
            queue.ended(&"a", Ended::Failed, now, 1.0);
            assert_eq!(queue.take(now), None);
            let due = queue.next_due().expect("it waits");
            assert_eq!(due - now, (WAITS.first * (1 << round)).min(WAITS.most));
            now = due;
        }
        assert!(queue.take(now).is_some());
        queue.ended(&"a", Ended::Failed, now, 1.0);
        assert!(queue.add("a", now));
        assert!(queue.take(now).is_some());
        queue.ended(&"a", Ended::Done, now, 1.0);
        // The old ticket has no effect.
        assert_eq!(queue.take(now + WAITS.most), None);
        assert!(queue.tickets.is_empty() && queue.waiting.is_empty());
    }

    #[test]
    fn a_task_that_is_held_up_waits_less_than_one_that_fails() {
        let (mut queue, start) = (WorkQueue::new(WAITS), Instant::now());
        assert!(queue.add_at(&"a", start + WAITS.first));
        assert!(!queue.add_at(&"a", start), "it is known");
        assert_eq!(queue.take(start), None);
        let mut now = start + WAITS.first;
        for how in [Ended::Held, Ended::Failed] {
            for _ in 0..20 {
                assert!(queue.take(now).is_some());
                queue.ended(&"a", how, now, 1.0);
                let due = queue.next_due().expect("it waits");
                assert_eq!(queue.take(now), None);
                now = due.max(now);
            }
            let most = if how == Ended::Held {
                WAITS.most_held
            } else {
                WAITS.most
            };
            assert!(queue.take(now).is_some());
            queue.ended(&"a", how, now, 1.0);
            assert_eq!(queue.next_due(), Some(now + most));
            now += most;
        }
    }

    #[test]
    fn a_task_that_is_not_wanted_is_forgotten_unless_a_worker_has_it() {
        let (mut queue, now) = (WorkQueue::new(WAITS), Instant::now());
        for task in ["busy", "ready", "waiting"] {
            queue.add_at(&task, now);
        }
        assert_eq!(queue.take(now).map(|(task, _)| task), Some("busy"));
        assert_eq!(queue.ready(), 2);
        queue.retain(|_| false);
        assert_eq!((queue.take(now), queue.ready()), (None, 0));
        queue.ended(&"busy", Ended::Held, now, 1.0);
        queue.retain(|_| false);
        assert_eq!(queue.take(now + WAITS.most), None);
        assert!(queue.entries.is_empty() && queue.tickets.is_empty());
    }
}
