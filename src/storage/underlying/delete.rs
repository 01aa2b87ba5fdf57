//! Delete (ST-40..46).

use std::sync::Arc;

use actors::engine::{At, Change, Expect, Key, Mutation, Origin, Outcome};
use actors::object::CachedObject;

use super::{ObjectState, Underlying};
use crate::storage::preconditions;
use crate::storage::{DeleteRequest, StorageError, StorageErrorKind, ValidateDeletion};

impl Underlying {
    pub(super) async fn delete_object(
        &self,
        request: DeleteRequest,
        validate: &mut dyn ValidateDeletion,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let key = self.keys.object(&request.key)?;
        let mut state = match &request.suggestion {
            Some(object) => self.suggested(object.clone()),
            None => self.read(&key).await?,
        };
        loop {
            let Some(object) = state.object.clone() else {
                return Err(self.fault(&key.to_text(), StorageErrorKind::KeyNotFound));
            };
            if let Err(refused) = self.may_delete(&key, &request, &object, validate).await {
                state = self.recheck(&key, state, refused).await?;
                continue;
            }
            let mutation = Mutation {
                key: key.clone(),
                expect: Expect::Unchanged(object.revision),
                change: Change::Delete,
                origin: request.origin.clone(),
            };
            match self.commit("delete", mutation).await? {
                // The last content at the deletion's own revision (ST-42, PF-1).
                Ok(event) => return Ok(Arc::new(object.at(event.revision))),
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

    async fn may_delete(
        &self,
        key: &Key,
        request: &DeleteRequest,
        object: &Arc<CachedObject>,
        validate: &mut dyn ValidateDeletion,
    ) -> Result<(), StorageError> {
        preconditions::check(&request.preconditions, object)
            .map_err(|kind| self.fault(&key.to_text(), kind))?;
        validate
            .call(object)
            .await
            .map_err(|status| self.fault(&key.to_text(), StorageErrorKind::Refused(status)))
    }

    /// Handles a refusal. It is final for a current state. After a suggestion the state is read,
    /// and the refusal stands if the suggestion was current (ST-41, ST-45).
    async fn recheck(
        &self,
        key: &Key,
        state: ObjectState,
        refused: StorageError,
    ) -> Result<ObjectState, StorageError> {
        if state.current {
            return Err(refused);
        }
        let fresh = self.read(key).await?;
        match fresh.revision() == state.revision() {
            true => Err(refused),
            false => Ok(fresh),
        }
    }
}
