//! The handle to the Writers that the rest of the daemon uses, and the turns it gets.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Writer;
use super::last_outcomes::{LastOutcome, QueuedObject};
use super::messages::{AskForTurn, ForgetAll, Granted};
use super::turns::LOSSES_MAX;
use crate::actor_ref::{ActorRef, AskError};
use crate::engine::{Key, KeyValue};

/// How many must wait for a key's next turns for a commit to wait for them. With fewer, each of
/// them would wait longer than the shared commit saves.
const FOLLOWERS_MIN: usize = 4;

/// Asks for turns. It knows the shard of each key.
#[derive(Clone)]
pub struct WriterHandle {
    /// A prefix for each key, so that equal keys of different stores differ.
    scope: Vec<u8>,
    shards: Arc<[Arc<ActorRef<Writer>>]>,
    contended: Arc<ContentionCounts>,
}

/// Why no turn was granted. A commit that the caller made before it asked may still have an unknown
/// outcome.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TurnError {
    /// The deadline passed first.
    #[error("no turn to write the key came before the deadline")]
    Deadline,
    /// Too many requests wait.
    #[error("too many updates wait for their turn")]
    Busy,
    /// The Writer ended.
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

/// The right to update one key next. Dropping it gives it back.
#[derive(Debug)]
pub struct Turn {
    writers: WriterHandle,
    /// The key, scoped by its store.
    key: Key,
    deadline: Instant,
    losses: u32,
    granted: Granted,
    claim: Claim,
}

/// The rest of a turn whose mutation was queued. While it lives, the key is contended.
#[derive(Debug)]
pub struct QueuedTurn {
    writers: WriterHandle,
    key: Key,
    deadline: Instant,
    losses: u32,
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

    /// The same Writers for the keys of another store. Equal keys of different stores have nothing
    /// to do with each other.
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

    /// Whether the turn of this key is held or waited for. A write without a turn would then
    /// compete with requests that have waited. Rarely this is true because of another key.
    pub fn is_contended(&self, key: &Key) -> bool {
        self.contended.is_any(&self.scoped(key))
    }

    /// Waits for the key's turn. Turns are granted in the order of the requests.
    ///
    /// # Errors
    /// [`TurnError`]
    pub async fn turn(&self, key: &Key, deadline: Instant) -> Result<Turn, TurnError> {
        self.turn_after(&self.scoped(key), deadline, 0).await
    }

    /// Forgets all remembered values, because the engine does not know what it committed.
    pub async fn forget_all(&self) {
        for shard in self.shards.iter() {
            // A Writer that has ended remembers nothing.
            let _ = shard.ask_patiently(ForgetAll).await;
        }
    }

    /// Waits for the turn of a scoped key.
    async fn turn_after(
        &self,
        key: &Key,
        deadline: Instant,
        losses: u32,
    ) -> Result<Turn, TurnError> {
        let shard = self.shard(key).ok_or(TurnError::Gone)?;
        let claim = Claim::of(&self.contended, key);
        let (grant, granted) = oneshot::channel();
        let ask = AskForTurn {
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
            claim,
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

/// How many turns are held or waited for, by a hash of their key.
#[derive(Debug)]
struct ContentionCounts(Box<[AtomicU32]>);

/// The number of counts. Keys that share a count may wait needlessly, nothing worse.
const COUNTS: usize = 1024;

impl Default for ContentionCounts {
    fn default() -> ContentionCounts {
        ContentionCounts((0..COUNTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl ContentionCounts {
    fn place(key: &Key) -> usize {
        // The lower bits select the shard.
        (hash(key) >> 32) as usize % COUNTS
    }

    fn is_any(&self, key: &Key) -> bool {
        let count = self.0.get(ContentionCounts::place(key));
        count.is_some_and(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// One turn that is held or waited for.
#[derive(Debug)]
struct Claim {
    contended: Arc<ContentionCounts>,
    place: usize,
}

impl Claim {
    fn of(contended: &Arc<ContentionCounts>, key: &Key) -> Claim {
        let place = ContentionCounts::place(key);
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
    /// The newest state of the key that an earlier holder has left, if any. It saves a read. It may
    /// be outdated, so it is only a hint.
    pub fn last_outcome(&self) -> Option<&LastOutcome> {
        self.granted.last_outcome.as_ref()
    }

    /// Whether the turn may start from a state that is not durable, and may end when its mutation
    /// is queued. A caller that has lost two turns takes no further risk.
    pub fn may_chain(&self) -> bool {
        self.losses < LOSSES_MAX && !self.is_lost()
    }

    /// Whether many wait for the key's next turns, so that a commit is worth sharing.
    pub fn has_followers(&self) -> bool {
        self.granted.waiting >= FOLLOWERS_MIN
    }

    /// Whether the turn has expired because it took long and others wait. A commit may still
    /// succeed, and its precondition protects the data. After a refusal use [`Turn::again`].
    pub fn is_lost(&self) -> bool {
        self.granted.is_lost.load(Ordering::Relaxed)
    }

    /// Gives the turn back and reports the value that was committed.
    pub fn committed(self, outcome: KeyValue) {
        // The Writer may have ended.
        let _ = self.granted.give_back.send(LastOutcome::Durable(outcome));
    }

    /// Gives the turn back before its mutation is durable. The next holder may build on it.
    pub fn queued(self, outcome: QueuedObject) -> QueuedTurn {
        // As above.
        let _ = self.granted.give_back.send(LastOutcome::Queued(outcome));
        QueuedTurn {
            writers: self.writers,
            key: self.key,
            deadline: self.deadline,
            losses: self.losses,
            _claim: self.claim,
        }
    }

    /// After a refusal: this turn if it is still held, otherwise the next one. A caller that has
    /// lost two turns keeps the third until its deadline.
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

impl QueuedTurn {
    /// After a refusal: the next turn. The mutation that this one was built on has failed, so this
    /// counts as a lost turn.
    ///
    /// # Errors
    /// [`TurnError`]
    pub async fn again(self) -> Result<Turn, TurnError> {
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
