//! Decides who may update which key next. Pure.
//!
//! A key has a queue only while its turn is held or waited for. Turns are granted in the order of
//! the requests. A turn expires after [`TURN_TIME`], but only while others wait. A caller that has
//! lost two turns keeps the third until the deadline of its request, so a slow caller succeeds
//! among fast ones.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::last_outcomes::{LastOutcome, LastOutcomes};
use crate::engine::Key;

/// How long a turn lasts while others wait: many commits, but not a slow webhook.
pub(super) const TURN_TIME: Duration = Duration::from_millis(100);
/// A caller that has lost this many turns keeps the next one.
pub(super) const LOSSES_MAX: u32 = 2;
/// The most requests that wait in one shard. Each is an open request of a client. More than this
/// could not be served before their deadlines.
pub const WAITING_MAX: usize = 16_384;

/// The number of a request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TurnId(pub(super) u64);

/// A request for a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnRequest {
    pub(super) id: TurnId,
    /// How many turns this caller has lost before.
    pub(super) losses: u32,
    /// When the caller's request ends.
    pub(super) deadline: Instant,
}

/// An action for the Writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Grant the key's turn, with the newest state known of the key.
    Grant {
        id: TurnId,
        key: Key,
        last_outcome: Option<LastOutcome>,
        /// How many requests wait for the key's next turns.
        waiting: usize,
    },
    /// Notify the holder that its turn has expired.
    Expire(TurnId),
}

/// The turns of all contended keys of one shard.
#[derive(Debug, Default)]
pub(super) struct Turns {
    keys: HashMap<Key, Queue>,
    outcomes: LastOutcomes,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Queue {
    holder: Option<Holder>,
    waiting: VecDeque<TurnRequest>,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    id: TurnId,
    expires: Instant,
}

impl Turns {
    /// Whether no further request may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= WAITING_MAX
    }

    /// Queues a request for the key's turn.
    pub(super) fn ask(&mut self, now: Instant, key: &Key, asked: TurnRequest) -> Vec<Effect> {
        self.keys
            .entry(key.clone())
            .or_default()
            .waiting
            .push_back(asked);
        self.waiting += 1;
        self.move_on(now, key)
    }

    /// Takes back a turn, which may have expired, and the state that its holder has left, if any. A
    /// mutation that a holder queued after its turn had expired is queued after the work of others,
    /// and will probably be refused.
    pub(super) fn give_back(
        &mut self,
        now: Instant,
        key: &Key,
        id: TurnId,
        outcome: Option<LastOutcome>,
    ) -> Vec<Effect> {
        let queue = self.keys.get_mut(key);
        let held = queue.filter(|queue| queue.holder.is_some_and(|holder| holder.id == id));
        if let Some(outcome) = outcome
            && (held.is_some() || matches!(outcome, LastOutcome::Durable(_)))
        {
            self.outcomes.remember(key, outcome);
        }
        if let Some(queue) = held {
            queue.holder = None;
        }
        self.move_on(now, key)
    }

    /// Expires turns that are over time.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Effect> {
        let is_contended = |queue: &Queue| !queue.waiting.is_empty();
        let contended = self.keys.iter().filter(|(_, queue)| is_contended(queue));
        let keys: Vec<Key> = contended.map(|(key, _)| key.clone()).collect();
        let effects = keys.iter().map(|key| self.move_on(now, key));
        effects.collect::<Vec<_>>().concat()
    }

    /// When the next turn expires that others wait for.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let contended = self.keys.values().filter(|queue| !queue.waiting.is_empty());
        let holders = contended.filter_map(|queue| queue.holder);
        holders.map(|holder| holder.expires).min()
    }

    /// Forgets the remembered values, because the engine does not know what it committed.
    pub(super) fn forget_outcomes(&mut self) {
        self.outcomes = LastOutcomes::default();
    }

    /// Expires the holder if it is over time, and grants the turn to the next request.
    fn move_on(&mut self, now: Instant, key: &Key) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(queue) = self.keys.get_mut(key) else {
            return effects;
        };
        if let Some(holder) = queue.holder
            && holder.expires <= now
            && !queue.waiting.is_empty()
        {
            queue.holder = None;
            effects.push(Effect::Expire(holder.id));
        }
        if queue.holder.is_none()
            && let Some(next) = queue.waiting.pop_front()
        {
            self.waiting -= 1;
            queue.holder = Some(Holder {
                id: next.id,
                expires: expiry(now, next),
            });
            effects.push(Effect::Grant {
                id: next.id,
                key: key.clone(),
                last_outcome: self.outcomes.of(key),
                waiting: queue.waiting.len(),
            });
        }
        if queue.holder.is_none() {
            self.keys.remove(key);
        }
        effects
    }
}

fn expiry(now: Instant, asked: TurnRequest) -> Instant {
    if asked.losses >= LOSSES_MAX {
        asked.deadline
    } else {
        now + TURN_TIME
    }
}
