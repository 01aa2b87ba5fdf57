//! The changes that are durable in the journal and that the database still lacks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::{Changes, Epoch};

/// How long changes wait for others that are applied with them, while nobody reads the database.
const LINGER: Duration = Duration::from_millis(100);
/// Bytes of changes that do not wait longer.
const LINGER_BYTES: usize = 256 * 1024;
/// Bytes of changes that may wait. The writer waits beyond that.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The changes that the database still lacks, in order. Groups are numbered from 1.
#[derive(Debug, Default)]
pub struct ApplyQueue {
    state: Mutex<QueueState>,
    /// Notified when the applier has work.
    work: Condvar,
    /// Notified when changes were applied, or never will be.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Changes>,
    bytes: usize,
    /// When the oldest of them was sent.
    since: Option<Instant>,
    /// The epoch that a checkpoint names, and the number of the last group before that epoch.
    checkpoint: Option<(Epoch, u64)>,
    /// Whether a checkpoint was sent and is not made yet.
    is_checkpointing: bool,
    /// The number of the last group that was sent.
    sent: u64,
    /// The number of the last group that the database has.
    applied: u64,
    /// Somebody waits for groups up to this one.
    wanted: u64,
    failure: Option<Failure>,
    is_closed: bool,
}

/// The applier's next piece of work.
#[derive(Debug)]
pub struct Work {
    /// Changes, in order.
    pub groups: Vec<Changes>,
    /// The number of the last group.
    pub up_to: u64,
    /// The epoch to name in a checkpoint with these changes.
    pub checkpoint: Option<Epoch>,
}

impl ApplyQueue {
    /// Adds the changes of a group that is durable. Returns its number. Waits while too many wait.
    /// After a failure they are dropped, because the database is opened again from the journal.
    pub fn send(&self, changes: Changes) -> u64 {
        let mut state = self.state.lock();
        while state.bytes > BYTES_MAX && state.is_running() {
            self.progress.wait(&mut state);
        }
        state.sent += 1;
        if state.is_running() {
            let before = state.is_due();
            state.bytes += changes.bytes().len();
            state.since.get_or_insert_with(Instant::now);
            state.waiting.push_back(changes);
            // The applier sleeps until there is something, and until it is due.
            if state.waiting.len() == 1 || state.is_due() != before {
                self.work.notify_one();
            }
        }
        state.sent
    }

    /// Asks for a checkpoint that names this epoch, after everything that was sent. Changes that
    /// are sent later are not part of it: recovery applies the groups of that epoch again on top of
    /// the checkpoint, and they must not meet later changes, such as the removal of records.
    pub fn send_checkpoint(&self, epoch: Epoch) {
        let mut state = self.state.lock();
        if state.is_running() {
            state.checkpoint = Some((epoch, state.sent));
            state.is_checkpointing = true;
            self.work.notify_one();
        }
    }

    /// Whether a checkpoint was sent and is not made yet.
    pub fn is_checkpointing(&self) -> bool {
        self.state.lock().is_checkpointing
    }

    /// The number of the last group that the database has.
    pub fn applied(&self) -> u64 {
        self.state.lock().applied
    }

    /// Why nothing is applied any more.
    pub fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// Waits until the database has everything that was sent, and until no checkpoint is under way
    /// if asked to.
    ///
    /// # Errors
    /// When it never will.
    pub fn wait(&self, for_checkpoint: bool) -> Result<(), Failure> {
        let mut state = self.state.lock();
        let target = state.sent;
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.applied >= target && !(for_checkpoint && state.is_checkpointing) {
                return Ok(());
            }
            if state.is_closed {
                return Err(Failure::Closed);
            }
            if state.wanted < target {
                state.wanted = target;
                self.work.notify_one();
            }
            self.progress.wait(&mut state);
        }
    }

    /// Waits for work. `None` when the queue was closed.
    pub fn next(&self) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if state.is_due() {
                break;
            }
            match state.since.map(|since| since + LINGER) {
                None => self.work.wait(&mut state),
                Some(due) if due <= Instant::now() => break,
                Some(due) => _ = self.work.wait_until(&mut state, due),
            }
        }
        let checkpoint = state.checkpoint.take();
        let up_to = checkpoint.map_or(state.sent, |(_, last)| last);
        let later = usize::try_from(state.sent - up_to).unwrap_or(usize::MAX);
        let count = state.waiting.len().saturating_sub(later);
        let groups: Vec<Changes> = state.waiting.drain(..count).collect();
        state.bytes -= groups
            .iter()
            .map(|group| group.bytes().len())
            .sum::<usize>();
        state.since = state.since.filter(|_| !state.waiting.is_empty());
        Some(Work {
            groups,
            up_to,
            checkpoint: checkpoint.map(|(epoch, _)| epoch),
        })
    }

    /// The database has everything up to this group.
    pub fn applied_up_to(&self, number: u64, was_checkpoint: bool) {
        let mut state = self.state.lock();
        state.applied = number;
        // Another one is sent only after this one.
        state.is_checkpointing &= !was_checkpoint;
        self.progress.notify_all();
    }

    /// Nothing is applied any more.
    pub fn fail(&self, failure: Failure) {
        self.state.lock().failure = Some(failure);
        self.progress.notify_all();
    }

    /// Ends the applier.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.work.notify_one();
        self.progress.notify_all();
    }
}

impl QueueState {
    fn is_running(&self) -> bool {
        self.failure.is_none() && !self.is_closed
    }

    /// Whether the applier should not wait for more.
    fn is_due(&self) -> bool {
        let is_wanted = self.wanted > self.applied && !self.waiting.is_empty();
        self.checkpoint.is_some() || is_wanted || self.bytes >= LINGER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::embedded::journal::{Change, TableId};

    fn changes(bytes: usize) -> Changes {
        let mut changes = Changes::default();
        changes.push(Change {
            table: TableId::Meta,
            key: b"row",
            value: Some(&vec![0; bytes]),
        });
        changes
    }

    #[test]
    fn groups_that_nobody_waits_for_are_applied_together() {
        let queue = ApplyQueue::default();
        assert_eq!([queue.send(changes(1)), queue.send(changes(1))], [1, 2]);
        let work = queue.next().unwrap();
        assert_eq!((work.groups.len(), work.up_to), (2, 2));
        assert_eq!(queue.applied(), 0);
        queue.applied_up_to(2, false);
        assert_eq!(queue.wait(true), Ok(()));
    }

    #[test]
    fn what_is_sent_after_a_checkpoint_is_applied_after_it() {
        let queue = ApplyQueue::default();
        queue.send(changes(1));
        queue.send_checkpoint(7);
        queue.send(changes(1));
        let first = queue.next().unwrap();
        assert_eq!((first.groups.len(), first.up_to), (1, 1));
        assert_eq!(first.checkpoint, Some(7));
        queue.applied_up_to(first.up_to, true);
        let second = queue.next().unwrap();
        assert_eq!((second.groups.len(), second.up_to), (1, 2));
        assert_eq!(second.checkpoint, None);
        queue.applied_up_to(second.up_to, false);
        assert_eq!(queue.wait(true), Ok(()));
    }

    #[test]
    fn who_waits_is_told_when_everything_is_applied_or_never_will_be() {
        let queue = Arc::new(ApplyQueue::default());
        queue.send(changes(1));
        queue.send_checkpoint(7);
        let waiting = |for_checkpoint| {
            let queue = queue.clone();
            std::thread::spawn(move || queue.wait(for_checkpoint))
        };
        let both = [waiting(false), waiting(true)];
        let work = queue.next().unwrap();
        assert_eq!((work.up_to, work.checkpoint), (1, Some(7)));
        assert!(queue.is_checkpointing());
        queue.applied_up_to(1, true);
        assert!(both.map(|wait| wait.join().unwrap()) == [Ok(()), Ok(())]);
        queue.send(changes(1));
        let waiting = waiting(false);
        queue.fail(Failure::Io("a test requested this failure".to_owned()));
        assert!(waiting.join().unwrap().is_err());
        assert!(queue.failure().is_some());
        // Nobody waits for room that never comes.
        queue.send(changes(2 * BYTES_MAX));
        queue.send(changes(1));
        queue.close();
        assert!(queue.next().is_none());
    }
}
