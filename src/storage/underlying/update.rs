//! GuaranteedUpdate, in the steps of storage.md 1.6.

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::future::FutureExt;

use super::turns::HeldTurn;
use super::{ObjectState, PutRequest, Underlying};
use crate::storage::preconditions;
use crate::storage::{
    Current, NewObject, RunToCompletion, StorageError, StorageErrorKind, UpdateFunction,
    UpdateRequest, VersionUse, WriteDecision, WriteOutcome,
};

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
            // Another server is asked about each attempt, so none begins with what a cache has.
            Some(object) if request.version != VersionUse::Awaits => self.suggested(object.clone()),
            _ => self.read(&key).await?,
        };
        let mut turn;
        (turn, state) = self.first_turn(&key, &request, state).await;
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
                    (turn, state) = self.in_turn(&key, &request, turn.take(), next).await;
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
        turn: &mut Option<HeldTurn>,
    ) -> Result<Attempt, StorageError> {
        if let Some(object) = &state.object
            && let Err(kind) = preconditions::check(&request.preconditions, object)
        {
            // A suggestion may be outdated. Only a current state may refuse (PF-19).
            return match state.current {
                true => Err(self.fault(&key.to_text(), kind)),
                false => Ok(Attempt::Again(self.durable(key, &state).await?)),
            };
        }
        let current = Current {
            object: state.object.clone(),
        };
        match update.call(current).await {
            Ok(WriteDecision::Write(new)) => self.store(key, request, state, new, turn).await,
            Ok(WriteDecision::Leave) => self.ended(key, state, Ok(Attempt::Left)).await,
            Err(status) => {
                let refused = self.fault(&key.to_text(), StorageErrorKind::Refused(status));
                self.ended(key, state, Err(refused)).await
            }
        }
    }

    /// Ends an update whose function wants nothing stored. That is final for a current state, and
    /// for a suggestion that turns out to be current (ST-53). A result from a state that was not
    /// durable yet is computed again.
    async fn ended(
        &self,
        key: &Key,
        state: ObjectState,
        end: Result<Attempt, StorageError>,
    ) -> Result<Attempt, StorageError> {
        if state.current {
            return end;
        }
        let fresh = self.durable(key, &state).await?;
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
        mut new: NewObject,
        turn: &mut Option<HeldTurn>,
    ) -> Result<Attempt, StorageError> {
        let mut plain = Bytes::from(self.decoder.codec.encode(&new.object));
        if !state.stale && self.may_be_stored_as(key, &state, &new, &plain) {
            if !state.current {
                state = self.durable(key, &state).await?;
                if !self.may_be_stored_as(key, &state, &new, &plain) {
                    return Ok(Attempt::Again(state));
                }
            }
            if let (false, Some(object)) = (state.stale, &state.object) {
                return Ok(Attempt::Done(object.clone()));
            }
        }
        loop {
            match self
                .commit_new(key, request, &state, &new, plain, turn)
                .await
            {
                Err(error) if error.is_too_large() && new.lighten() => {
                    plain = Bytes::from(self.decoder.codec.encode(&new.object));
                }
                attempt => return attempt,
            }
        }
    }

    /// Commits the new object, encoded as these bytes.
    async fn commit_new(
        &self,
        key: &Key,
        request: &UpdateRequest,
        state: &ObjectState,
        new: &NewObject,
        plain: Bytes,
        turn: &mut Option<HeldTurn>,
    ) -> Result<Attempt, StorageError> {
        let is_forever = new.ttl.is_none_or(|seconds| seconds == 0);
        let prepared = self.prepare(key, &new.object, &plain)?;
        let put = PutRequest {
            expect: state.expectation(),
            plain,
            prepared: prepared.clone(),
            ttl: new.ttl,
        };
        let origin = &request.origin;
        let may_chain = request.version == VersionUse::Ignores
            && is_forever
            && turn.as_ref().is_some_and(HeldTurn::may_chain);
        let outcome = match new.hold.clone() {
            None if may_chain => self.put_in_turn(key, &put, origin, turn).await?,
            None => self.put("update", key, put, origin).await?,
            Some(hold) => {
                let (store, key) = (self.clone(), key.clone());
                let origin = origin.clone();
                let put = async move {
                    let answer = store.put("update", &key, put, &origin).await;
                    drop(hold);
                    answer
                };
                RunToCompletion::new(put.boxed()).await?
            }
        };
        match self.in_the_way(outcome)? {
            Ok(event) => {
                if let Some(HeldTurn::Held(turn)) = turn.take() {
                    turn.committed(event.key_value());
                }
                Ok(Attempt::Done(prepared.stored_at(event.revision)))
            }
            Err(current) => Ok(Attempt::Beaten(current)),
        }
    }
}

impl Underlying {
    /// Returns whether an object may be stored as these plain bytes. The text in a cache may
    /// differ from the stored one if values are completed when they are read.
    fn may_be_stored_as(
        &self,
        key: &Key,
        state: &ObjectState,
        new: &NewObject,
        plain: &Bytes,
    ) -> bool {
        let codec = &self.decoder.codec;
        let is_completed = codec.definition().behaviour.completes_stored();
        match (&state.object, &state.plain) {
            (Some(object), None) if is_completed => {
                let shown = codec.cached_form(&new.object, key, object.revision, plain);
                shown.is_ok_and(|shown| shown.wire() == object.wire())
            }
            _ => self.is_stored_as(state, plain),
        }
    }

    /// Returns whether an object is stored as these plain bytes.
    fn is_stored_as(&self, state: &ObjectState, plain: &Bytes) -> bool {
        match (&state.object, &state.plain) {
            (None, _) => false,
            (Some(_), Some(stored)) => stored == plain,
            (Some(object), None) => self.decoder.codec.is_stored_as(object, plain),
        }
    }
}

/// The revision of the state's object, for tests and logs.
impl std::fmt::Debug for ObjectState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let revision: Revision = self.revision();
        write!(f, "ObjectState({revision}, current: {})", self.current)
    }
}
