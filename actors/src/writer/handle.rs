//! Turns, as those who write see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::{Key, KeyValue};

/// Where to ask for turns.
#[derive(Clone, Default)]
pub struct WriterHandle {
    pub(super) _shards: Arc<[()]>,
}

/// No turn was given. Nothing was written under it; what the caller wrote before it asked may
/// still have an outcome that it must speak of.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TurnError {
    /// The deadline passed first.
    #[error("no turn to write the key came before the deadline")]
    Deadline,
    /// Too many wait already.
    #[error("too many updates of one store wait for their turn")]
    Busy,
    /// The Writer died or stopped meanwhile.
    #[error("the writer of the key went away")]
    Gone,
}

/// The right to try next on one key. It is given back when dropped.
#[derive(Debug)]
pub struct Turn {
    pub(super) writer: WriterHandleRef,
    pub(super) key: Key,
    pub(super) deadline: Instant,
    pub(super) losses: u32,
    pub(super) lost: Arc<AtomicBool>,
    pub(super) last_outcome: Option<KeyValue>,
    pub(super) give_back: Option<oneshot::Sender<KeyValue>>,
}

/// The handle a turn came from.
#[derive(Clone)]
pub(super) struct WriterHandleRef(pub(super) WriterHandle);

impl std::fmt::Debug for WriterHandleRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WriterHandle")
    }
}

impl WriterHandle {
    /// Waits for the key's turn; turns are given in the order they were asked for.
    ///
    /// # Errors
    /// [`TurnError`]
    pub async fn turn(&self, key: &Key, deadline: Instant) -> Result<Turn, TurnError> {
        Ok(Turn {
            writer: WriterHandleRef(self.clone()),
            key: key.clone(),
            deadline,
            losses: 0,
            lost: Arc::default(),
            last_outcome: None,
            give_back: None,
        })
    }

    /// Forgets every remembered outcome: the engine is in doubt about what it committed.
    pub async fn forget_all(&self) {}
}

impl Turn {
    /// The key's newest state that a holder of the turn before has told, if any: a start for the
    /// next attempt that saves a read. It may be stale, so it is to be treated as a suggestion.
    pub fn last_outcome(&self) -> Option<&KeyValue> {
        self.last_outcome.as_ref()
    }

    /// Whether the turn has expired because it took long and others wait. One may still try to
    /// commit, the precondition protects everybody; after a refusal, ask [`Turn::again`].
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Gives the turn back and tells the next one what was committed.
    pub fn committed(mut self, outcome: KeyValue) {
        if let Some(give_back) = self.give_back.take() {
            // A Writer that is gone has nobody to tell.
            let _ = give_back.send(outcome);
        }
    }

    /// Queues anew for a turn that was lost; who has lost two keeps the third to its deadline.
    ///
    /// # Errors
    /// [`TurnError`]
    pub async fn again(self) -> Result<Turn, TurnError> {
        let losses = self.losses + u32::from(self.is_lost());
        let mut turn = self.writer.0.turn(&self.key, self.deadline).await?;
        turn.losses = losses;
        Ok(turn)
    }
}
