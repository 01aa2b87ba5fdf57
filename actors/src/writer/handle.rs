//! Turns, as those who write see them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Writer;
use super::messages::{Ask, ForgetAll, Granted};
use crate::actor_ref::{ActorRef, AskError};
use crate::engine::{Key, KeyValue};

/// Where to ask for turns; it knows which shard a key belongs to.
#[derive(Clone)]
pub struct WriterHandle {
    /// Set before each key, so that the same key of another store is another one here.
    scope: Vec<u8>,
    shards: Arc<[Arc<ActorRef<Writer>>]>,
    contended: Arc<Contended>,
}

/// No turn was given. Nothing was written under it; what the caller wrote before it asked may
/// still have an outcome that it must speak of.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TurnError {
    /// The deadline passed first.
    #[error("no turn to write the key came before the deadline")]
    Deadline,
    /// Too many wait already.
    #[error("too many updates wait for their turn")]
    Busy,
    /// The Writer died or stopped meanwhile.
    #[error("the writer of the key went away")]
    Gone,
}

impl From<AskError> for TurnError {
    fn from(error: AskError) -> TurnError {
        match error {
            AskError::Gone => TurnError::Gone,
            AskError::Deadline => TurnError::Deadline,
        }
    }
}

/// The right to try next on one key. It is given back when dropped.
#[derive(Debug)]
pub struct Turn {
    writers: WriterHandle,
    /// The key in the scope of its store.
    key: Key,
    deadline: Instant,
    losses: u32,
    granted: Granted,
    _claim: Claim,
}

impl WriterHandle {
    /// A handle to these shards.
    pub(crate) fn new(shards: impl IntoIterator<Item = Arc<ActorRef<Writer>>>) -> WriterHandle {
        WriterHandle {
            scope: Vec::new(),
            shards: shards.into_iter().collect(),
            contended: Arc::default(),
        }
    }

    /// The same Writers for the keys of the store of this number: what was committed to one store
    /// says nothing about another one, even under the same key.
    pub(crate) fn of_store(&self, number: usize) -> WriterHandle {
        WriterHandle {
            scope: match number {
                0 => Vec::new(),
                number => format!("{number}:").into_bytes(),
            },
            ..self.clone()
        }
    }

    fn scoped(&self, key: &Key) -> Key {
        match self.scope.is_empty() {
            true => key.clone(),
            false => Key::new([&self.scope, key.as_bytes()].concat()),
        }
    }

    /// Whether turns of this key are held or awaited: whoever writes without one now takes part in
    /// a race, and makes a loser of who has waited. Another key may be meant, seldom.
    pub fn is_contended(&self, key: &Key) -> bool {
        self.contended.is_any(&self.scoped(key))
    }

    /// Waits for the key's turn; turns are given in the order they were asked for.
    ///
    /// # Errors
    /// [`TurnError`]
    pub async fn turn(&self, key: &Key, deadline: Instant) -> Result<Turn, TurnError> {
        self.turn_after(&self.scoped(key), deadline, 0).await
    }

    /// Forgets every remembered outcome: the engine is in doubt about what it committed.
    pub async fn forget_all(&self) {
        for shard in self.shards.iter() {
            // A shard that is gone remembers nothing.
            let _ = shard.ask_patiently(ForgetAll).await;
        }
    }

    /// The turn of a key that is scoped already.
    async fn turn_after(
        &self,
        key: &Key,
        deadline: Instant,
        losses: u32,
    ) -> Result<Turn, TurnError> {
        let shard = self.shard(key).ok_or(TurnError::Gone)?;
        let claim = Claim::of(&self.contended, key);
        let (grant, granted) = oneshot::channel();
        let ask = Ask {
            key: key.clone(),
            deadline,
            losses,
            grant,
        };
        shard
            .ask(ask, deadline)
            .await?
            .map_err(|_| TurnError::Busy)?;
        let granted = timeout_at(deadline, granted)
            .await
            .map_err(|_| TurnError::Deadline)?
            .map_err(|_| TurnError::Gone)?;
        Ok(Turn {
            writers: self.clone(),
            key: key.clone(),
            deadline,
            losses,
            granted,
            _claim: claim,
        })
    }

    fn shard(&self, key: &Key) -> Option<&Arc<ActorRef<Writer>>> {
        let shards = self.shards.len().max(1) as u64;
        self.shards.get((hash(key) % shards) as usize)
    }
}

fn hash(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// How many turns are held or awaited, by a hash of their key.
#[derive(Debug)]
struct Contended(Box<[AtomicU32]>);

/// Keys share a count when there are more than this, which costs them a wait and nothing else.
const COUNTS: usize = 1024;

impl Default for Contended {
    fn default() -> Contended {
        Contended((0..COUNTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Contended {
    fn place(key: &Key) -> usize {
        // The lower bits choose the shard.
        (hash(key) >> 32) as usize % COUNTS
    }

    fn is_any(&self, key: &Key) -> bool {
        let count = self.0.get(Contended::place(key));
        count.is_some_and(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// One turn that is held or awaited.
#[derive(Debug)]
struct Claim {
    contended: Arc<Contended>,
    place: usize,
}

impl Claim {
    fn of(contended: &Arc<Contended>, key: &Key) -> Claim {
        let place = Contended::place(key);
        if let Some(count) = contended.0.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Claim {
            contended: Arc::clone(contended),
            place,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(count) = self.contended.0.get(self.place) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Turn {
    /// The key's newest state that a holder before has told, if any: a start for the next attempt
    /// that saves a read. It may be stale, so it is to be treated as a suggestion.
    pub fn last_outcome(&self) -> Option<&KeyValue> {
        self.granted.last_outcome.as_ref()
    }

    /// Whether the turn has expired because it took long and others wait. One may still try to
    /// commit, the precondition protects everybody; after a refusal, ask [`Turn::again`].
    pub fn is_lost(&self) -> bool {
        self.granted.is_lost.load(Ordering::Relaxed)
    }

    /// Gives the turn back and tells the next one what was committed.
    pub fn committed(self, outcome: KeyValue) {
        // A Writer that is gone has nobody to tell.
        let _ = self.granted.give_back.send(outcome);
    }

    /// For who was refused all the same: the turn itself if it is still held, otherwise the next
    /// one. Who has lost two keeps the third to its deadline.
    ///
    /// # Errors
    /// [`TurnError`]
    pub async fn again(self) -> Result<Turn, TurnError> {
        if !self.is_lost() {
            return Ok(self);
        }
        let next = self
            .writers
            .turn_after(&self.key, self.deadline, self.losses + 1);
        next.await
    }
}

impl std::fmt::Debug for WriterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterHandle")
            .field("shards", &self.shards.len())
            .finish()
    }
}
