//! GuaranteedUpdate, in the steps of storage.md 1.6.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use actors::writer::Turn;
use bytes::Bytes;
use futures_util::future::FutureExt;
use tokio::time::Instant;

use super::{ObjectState, PutRequest, Underlying};
use crate::storage::preconditions;
use crate::storage::{
    Current, RunToCompletion, StorageError, StorageErrorKind, UpdateFunction, UpdateRequest,
    Updated, WriteDecision, WriteOutcome,
};

/// How long a retry waits for its turn at a hot key before it continues without one.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// The result of one attempt.
enum Attempt {
    /// The update is done, or changed nothing.
    Done(Arc<CachedObject>),
    /// The object stays as it is.
    Left,
    /// Retry from this state.
    Again(ObjectState),
    /// Another write was faster. Retry from this state, in turn.
    Beaten(ObjectState),
}

impl Underlying {
    pub(super) async fn update_object(
        &self,
        request: UpdateRequest,
        update: &mut dyn UpdateFunction,
    ) -> Result<WriteOutcome, StorageError> {
        let key = self.keys.object(&request.key)?;
        self.forget_other_epochs().await;
        let mut state = match &request.suggestion {
            Some(object) => self.suggested(object.clone()),
            None => self.read(&key).await?,
        };
        let mut turn: Option<Turn> = None;
        if request.may_wait
            && let Some(writers) = &self.writers
            && writers.is_contended(&key)
        {
            (turn, state) = self.in_turn(&key, None, state).await;
        }
        loop {
            if state.object.is_none() && !request.ignore_not_found {
                if !state.current {
                    state = self.read(&key).await?;
                    continue;
                }
                return Err(self.fault(&key.to_text(), StorageErrorKind::KeyNotFound));
            }
            match self
                .attempt(&key, &request, update, state, &mut turn)
                .await?
            {
                Attempt::Done(object) => return Ok(WriteOutcome::Done(object)),
                Attempt::Left => return Ok(WriteOutcome::Left),
                Attempt::Again(next) => state = next,
                Attempt::Beaten(next) => {
                    (turn, state) = self.in_turn(&key, turn.take(), next).await
                }
            }
        }
    }

    /// One attempt from a state.
    async fn attempt(
        &self,
        key: &Key,
        request: &UpdateRequest,
        update: &mut dyn UpdateFunction,
        state: ObjectState,
        turn: &mut Option<Turn>,
    ) -> Result<Attempt, StorageError> {
        if let Some(object) = &state.object
            && let Err(kind) = preconditions::check(&request.preconditions, object)
        {
            // A suggestion may be outdated. Only a current state may refuse (PF-19).
            return match state.current {
                true => Err(self.fault(&key.to_text(), kind)),
                false => Ok(Attempt::Again(self.read(key).await?)),
            };
        }
        let current = Current {
            object: state.object.clone(),
        };
        match update.call(current).await {
            Ok(WriteDecision::Write(updated)) => {
                self.store(key, request, state, updated, turn).await
            }
            Ok(WriteDecision::Leave) => self.ended(key, state, Ok(Attempt::Left)).await,
            Err(status) => {
                let refused = self.fault(&key.to_text(), StorageErrorKind::Refused(status));
                self.ended(key, state, Err(refused)).await
            }
        }
    }

    /// The update function wants nothing stored. That is final for a current state, and for a
    /// suggestion that turns out to be current (ST-53).
    async fn ended(
        &self,
        key: &Key,
        state: ObjectState,
        end: Result<Attempt, StorageError>,
    ) -> Result<Attempt, StorageError> {
        if state.current {
            return end;
        }
        let fresh = self.read(key).await?;
        match fresh.revision() == state.revision() {
            true => end,
            false => Ok(Attempt::Again(fresh)),
        }
    }

    /// Encodes the new object, and commits it if it differs.
    async fn store(
        &self,
        key: &Key,
        request: &UpdateRequest,
        mut state: ObjectState,
        updated: Updated,
        turn: &mut Option<Turn>,
    ) -> Result<Attempt, StorageError> {
        let plain = Bytes::from(self.decoder.codec.encode(&updated.object));
        if !state.stale && state.object.is_some() && plain == state.plain {
            if !state.current {
                state = self.read(key).await?;
                if plain != state.plain {
                    return Ok(Attempt::Again(state));
                }
            }
            if let (false, Some(object)) = (state.stale, &state.object) {
                return Ok(Attempt::Done(object.clone()));
            }
        }
        let put = PutRequest {
            expect: state.expectation(),
            plain: plain.to_vec(),
            ttl: updated.ttl,
        };
        let answer = match updated.hold {
            None => self.put("update", key, put, &request.origin).await?,
            Some(hold) => {
                let (store, key) = (self.clone(), key.clone());
                let origin = request.origin.clone();
                let put = async move {
                    let answer = store.put("update", &key, put, &origin).await;
                    drop(hold);
                    answer
                };
                RunToCompletion::new(put.boxed()).await?
            }
        };
        match self.in_the_way(answer)? {
            Ok(event) => {
                let object = self.written(key, event.revision, plain)?;
                if let Some(turn) = turn.take() {
                    turn.committed(event.key_value());
                }
                Ok(Attempt::Done(object))
            }
            Err(current) => Ok(Attempt::Beaten(current)),
        }
    }

    /// Waits for the key's turn, and starts from the state that the previous turn left, if that is
    /// newer. A turn that was beaten waits once more. Without a Writer, or when it does not answer
    /// in time, the caller continues without a turn. Turns affect only speed.
    async fn in_turn(
        &self,
        key: &Key,
        held: Option<Turn>,
        state: ObjectState,
    ) -> (Option<Turn>, ObjectState) {
        let granted = match (held, &self.writers) {
            (Some(turn), _) => turn.again().await,
            (None, Some(writers)) => writers.turn(key, Instant::now() + TURN_WAIT).await,
            (None, None) => return (None, state),
        };
        let Ok(turn) = granted else {
            return (None, state);
        };
        // Compared with the store's revision, not with the object's. For a key that was deleted
        // since, an older outcome would be tried and refused for ever.
        let newest = turn
            .last_outcome()
            .filter(|item| item.revision > state.seen);
        let state = match newest.map(|item| self.state_of(item, item.revision)) {
            Some(Ok(newest)) => ObjectState {
                current: false,
                ..newest
            },
            _ => state,
        };
        (Some(turn), state)
    }
}

/// The revision of the state's object, for tests and logs.
impl std::fmt::Debug for ObjectState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let revision: Revision = self.revision();
        write!(f, "ObjectState({revision}, current: {})", self.current)
    }
}
