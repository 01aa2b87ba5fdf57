//! Who may try next on which key. Pure.
//!
//! A key has a queue only while somebody holds or awaits its turn. Turns are given in the order
//! they were asked for. A turn expires after [`TURN_TIME`], but only while others wait; who has
//! lost two keeps the third until the deadline of the request, so that a slow caller among fast
//! ones gets through, too.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::outcomes::Outcomes;
use crate::engine::{Key, KeyValue};

/// How long a turn lasts while others wait: many commits, but not a slow webhook.
pub(super) const TURN_TIME: Duration = Duration::from_millis(100);
/// Who has lost so many turns keeps the next one.
const LOSSES_MAX: u32 = 2;
/// Requests that may wait in one shard. Each is a request of a client that is held open anyway;
/// more than this have no chance of being served within their deadlines.
pub const WAITING_MAX: usize = 16_384;

/// The number of a turn that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TurnId(pub(super) u64);

/// What a caller wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: TurnId,
    /// Turns that this caller has lost before.
    pub(super) losses: u32,
    /// When the caller's request ends.
    pub(super) deadline: Instant,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Give the key's turn, and tell what the one before left.
    Grant {
        id: TurnId,
        key: Key,
        last_outcome: Option<KeyValue>,
    },
    /// Tell the holder that it has lost its turn.
    Expire(TurnId),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Turns {
    keys: HashMap<Key, Queue>,
    outcomes: Outcomes,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Queue {
    holder: Option<Holder>,
    waiting: VecDeque<Asked>,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    id: TurnId,
    expires: Instant,
}

impl Turns {
    /// Whether no more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= WAITING_MAX
    }

    /// Somebody wants the key's turn.
    pub(super) fn ask(&mut self, now: Instant, key: &Key, asked: Asked) -> Vec<Effect> {
        self.keys
            .entry(key.clone())
            .or_default()
            .waiting
            .push_back(asked);
        self.waiting += 1;
        self.move_on(now, key)
    }

    /// Somebody gives the key's turn back, or one that it had lost, and may tell what it left.
    pub(super) fn give_back(
        &mut self,
        now: Instant,
        key: &Key,
        id: TurnId,
        outcome: Option<KeyValue>,
    ) -> Vec<Effect> {
        if let Some(outcome) = outcome {
            self.outcomes.remember(key, outcome);
        }
        if let Some(queue) = self.keys.get_mut(key)
            && queue.holder.is_some_and(|holder| holder.id == id)
        {
            queue.holder = None;
        }
        self.move_on(now, key)
    }

    /// Time has passed: turns may have expired.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Effect> {
        let is_contended = |queue: &Queue| !queue.waiting.is_empty();
        let contended = self.keys.iter().filter(|(_, queue)| is_contended(queue));
        let keys: Vec<Key> = contended.map(|(key, _)| key.clone()).collect();
        let effects = keys.iter().map(|key| self.move_on(now, key));
        effects.collect::<Vec<_>>().concat()
    }

    /// When a turn that others wait for expires next.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let contended = self.keys.values().filter(|queue| !queue.waiting.is_empty());
        let holders = contended.filter_map(|queue| queue.holder);
        holders.map(|holder| holder.expires).min()
    }

    /// Forgets what holders left: the engine doubts what it has committed.
    pub(super) fn forget_outcomes(&mut self) {
        self.outcomes = Outcomes::default();
    }

    /// Expires the holder if it is over time, and gives the turn to the next one.
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
            });
        }
        if queue.holder.is_none() {
            self.keys.remove(key);
        }
        effects
    }
}

fn expiry(now: Instant, asked: Asked) -> Instant {
    if asked.losses >= LOSSES_MAX {
        asked.deadline
    } else {
        now + TURN_TIME
    }
}
