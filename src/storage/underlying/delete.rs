//! Delete (ST-40 to ST-46).

use std::sync::Arc;

use actors::engine::{At, Change, Expect, Key, Mutation, Origin, Outcome, Prepared};
use actors::object::CachedObject;

use super::{ObjectState, Underlying};
use crate::storage::preconditions;
use crate::storage::{
    DeleteRequest, StorageError, StorageErrorKind, ValidateDeletion, WriteDecision, WriteOutcome,
};

impl Underlying {
    pub(super) async fn delete_object(
        &self,
        request: DeleteRequest,
        validate: &mut dyn ValidateDeletion,
    ) -> Result<WriteOutcome, StorageError> {
        let key = self.keys.object(&request.key)?;
        let mut state = match &request.suggestion {
            Some(object) => self.suggested(object.clone()),
            None => self.read(&key).await?,
        };
        loop {
            let Some(object) = state.object.clone() else {
                return Err(self.fault(&key.to_text(), StorageErrorKind::KeyNotFound));
            };
            let end = match self.decision(&key, &request, &object, validate).await {
                Ok(WriteDecision::Write(())) => None,
                Ok(WriteDecision::Leave) => Some(Ok(WriteOutcome::Left)),
                Err(refused) => Some(Err(refused)),
            };
            if let Some(end) = end {
                match self.newer(&key, &state).await? {
                    None => return end,
                    Some(newer) => state = newer,
                }
                continue;
            }
            let mutation = Mutation {
                key: key.clone(),
                expect: Expect::Unchanged(object.revision),
                change: Change::Delete,
                origin: request.origin.clone(),
                prepared: Prepared::default(),
            };
            match self.commit("delete", mutation).await? {
                // The last content at the deletion's own revision (ST-42, PF-1).
                Ok(event) => {
                    let deleted = Arc::new(object.at(event.revision));
                    return Ok(WriteOutcome::Done(deleted));
                }
                Err(current) => state = current,
            }
        }
    }

    /// Deletes a value that cannot be decoded, as long as it does not change (ST-46, RG-15).
    pub(super) async fn delete_unread(
        &self,
        key: &str,
        origin: Origin,
    ) -> Result<bool, StorageError> {
        let key = self.keys.object(key)?;
        loop {
            let answer = self.fetch(&key, At::Latest).await?;
            let Some(item) = answer.item else {
                return Ok(false);
            };
            match self.object_of(&item) {
                Ok(_) => return Ok(false),
                Err(error) if matches!(error.kind, StorageErrorKind::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
            let mutation = Mutation {
                key: key.clone(),
                expect: Expect::Unchanged(item.revision),
                change: Change::Delete,
                origin: origin.clone(),
                prepared: Prepared::default(),
            };
            if let Outcome::Committed(event) = self.outcome("delete", mutation).await? {
                let revision = event.revision.0;
                tracing::warn!(
                    key = key.to_string(),
                    revision,
                    "deleted a value that could not be decoded"
                );
                return Ok(true);
            }
        }
    }

    async fn decision(
        &self,
        key: &Key,
        request: &DeleteRequest,
        object: &Arc<CachedObject>,
        validate: &mut dyn ValidateDeletion,
    ) -> Result<WriteDecision<()>, StorageError> {
        preconditions::check(&request.preconditions, object)
            .map_err(|kind| self.fault(&key.to_text(), kind))?;
        validate
            .call(object)
            .await
            .map_err(|status| self.fault(&key.to_text(), StorageErrorKind::Refused(status)))
    }

    /// Returns the current state, if it differs from a suggestion: only a current state ends a
    /// deletion (ST-41, ST-45).
    async fn newer(
        &self,
        key: &Key,
        state: &ObjectState,
    ) -> Result<Option<ObjectState>, StorageError> {
        if state.current {
            return Ok(None);
        }
        let fresh = self.read(key).await?;
        Ok((fresh.revision() != state.revision()).then_some(fresh))
    }
}
