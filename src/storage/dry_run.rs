//! The storage of `dryRun=All`: makes every check and stores nothing (ST-80 to ST-83).

use std::sync::Arc;

use actors::engine::{Origin, Revision};
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};

use super::codec::Codec;
use super::keys::Keys;
use super::{
    Asked, Current, DeleteRequest, GetRequest, HistoryRequest, ListRequest, NewObject,
    ObjectHistory, ObjectList, RunningWatch, Stats, Storage, StorageError, StorageErrorKind,
    UpdateFunction, UpdateRequest, ValidateDeletion, WatchRequest, WriteDecision, WriteOutcome,
    preconditions,
};
use crate::api::object::Object;

/// Answers writes as the wrapped storage would, without writing.
#[derive(Clone)]
pub struct DryRun {
    storage: Arc<dyn Storage>,
    codec: Codec,
    keys: Keys,
}

impl DryRun {
    /// Wraps a storage.
    pub fn new(storage: Arc<dyn Storage>, codec: Codec, keys: Keys) -> DryRun {
        DryRun {
            storage,
            codec,
            keys,
        }
    }

    fn fault(&self, key: &str, kind: StorageErrorKind) -> StorageError {
        StorageError {
            key: key.to_owned(),
            kind,
        }
    }

    async fn found(&self, key: &str) -> Result<Option<Arc<CachedObject>>, StorageError> {
        self.storage
            .get(GetRequest {
                key: key.to_owned(),
                asked: Asked::Unset,
            })
            .await
    }

    /// Returns the object that a write would return, encoded and decoded like a stored one.
    fn shown(
        &self,
        key: &str,
        object: &Object,
        revision: Revision,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let physical = self.keys.object(key)?;
        self.codec
            .wire(&physical, object, revision)
            .map(Arc::new)
            .map_err(|error| self.fault(key, StorageErrorKind::Internal(error.to_string())))
    }
}

impl Storage for DryRun {
    fn create<'s>(
        &'s self,
        key: &'s str,
        new: NewObject,
        _origin: Origin,
    ) -> BoxFuture<'s, Result<Arc<CachedObject>, StorageError>> {
        async move {
            match self.found(key).await {
                Ok(Some(existing)) => {
                    let physical = String::from_utf8_lossy(existing.key()).into_owned();
                    Err(self.fault(&physical, StorageErrorKind::KeyExists))
                }
                Err(error) if matches!(error.kind, StorageErrorKind::Unreadable(_)) => {
                    Err(self.fault(&error.key, StorageErrorKind::KeyExists))
                }
                // A key that cannot be read for other reasons counts as absent (ST-80).
                Ok(None) | Err(_) => {
                    // A version that the client has set is returned unchanged.
                    let set = new.object.resource_version().parse();
                    self.shown(key, &new.object, set.map_or(Revision::ZERO, Revision))
                }
            }
        }
        .boxed()
    }

    fn delete<'s>(
        &'s self,
        request: DeleteRequest,
        validate: &'s mut dyn ValidateDeletion,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        async move {
            let Some(object) = self.found(&request.key).await? else {
                return Err(self.fault(&request.key, StorageErrorKind::KeyNotFound));
            };
            preconditions::check(&request.preconditions, &object)
                .map_err(|kind| self.fault(&String::from_utf8_lossy(object.key()), kind))?;
            let decided = validate.call(&object).await.map_err(|status| {
                self.fault(
                    &String::from_utf8_lossy(object.key()),
                    StorageErrorKind::Refused(status),
                )
            })?;
            Ok(match decided {
                WriteDecision::Write(()) => WriteOutcome::Done(object),
                WriteDecision::Leave => WriteOutcome::Left,
            })
        }
        .boxed()
    }

    fn delete_unreadable<'s>(
        &'s self,
        key: &'s str,
        _origin: Origin,
    ) -> BoxFuture<'s, Result<bool, StorageError>> {
        async move {
            match self.found(key).await {
                Err(error) if matches!(error.kind, StorageErrorKind::Unreadable(_)) => Ok(true),
                found => found.map(|_| false),
            }
        }
        .boxed()
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.storage.get(request)
    }

    fn get_at(
        &self,
        key: String,
        revision: Revision,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.storage.get_at(key, revision)
    }

    fn history(
        &self,
        request: HistoryRequest,
    ) -> BoxFuture<'_, Result<ObjectHistory, StorageError>> {
        self.storage.history(request)
    }

    fn get_list(&self, request: ListRequest) -> BoxFuture<'_, Result<ObjectList, StorageError>> {
        self.storage.get_list(request)
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> LocalBoxFuture<'_, Result<RunningWatch, StorageError>> {
        self.storage.watch(request)
    }

    fn guaranteed_update<'s>(
        &'s self,
        request: UpdateRequest,
        update: &'s mut dyn UpdateFunction,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        async move {
            let object = self.found(&request.key).await?;
            let key = request.key.as_str();
            if object.is_none() && !request.ignore_not_found {
                return Err(self.fault(key, StorageErrorKind::KeyNotFound));
            }
            if let Some(object) = &object {
                preconditions::check(&request.preconditions, object)
                    .map_err(|kind| self.fault(&String::from_utf8_lossy(object.key()), kind))?;
            }
            let revision = object
                .as_ref()
                .map_or(Revision::ZERO, |object| object.revision);
            let decided = update
                .call(Current { object })
                .await
                .map_err(|status| self.fault(key, StorageErrorKind::Refused(status)))?;
            match decided {
                WriteDecision::Write(updated) => {
                    let shown = self.shown(key, &updated.object, revision)?;
                    Ok(WriteOutcome::Done(shown))
                }
                WriteDecision::Leave => Ok(WriteOutcome::Left),
            }
        }
        .boxed()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, StorageError>> {
        self.storage.stats()
    }

    fn readiness_check(&self) -> Result<(), StorageError> {
        self.storage.readiness_check()
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.storage.current_revision()
    }
}
