//! A storage with hooks, which lets tests interrupt its operations.

use std::sync::Arc;

use actors::engine::{Origin, Revision};
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};

use crate::storage::{
    DeleteRequest, GetRequest, HistoryRequest, ListRequest, NewObject, ObjectHistory, ObjectList,
    RunningWatch, Stats, Storage, StorageError, UpdateFunction, UpdateRequest, ValidateDeletion,
    WatchRequest, WriteOutcome,
};

type Hook<T> = Box<dyn Fn(&str) -> BoxFuture<'static, T> + Send + Sync>;

/// Calls a hook before some operations, with the key of the operation.
pub(crate) struct Hooked {
    inner: Arc<dyn Storage>,
    pub(crate) before_create: Hook<Result<(), StorageError>>,
    pub(crate) before_list: Hook<()>,
}

impl Hooked {
    /// A storage that forwards everything to `inner`.
    pub(crate) fn new(inner: Arc<dyn Storage>) -> Hooked {
        Hooked {
            inner,
            before_create: Box::new(|_| std::future::ready(Ok(())).boxed()),
            before_list: Box::new(|_| std::future::ready(()).boxed()),
        }
    }
}

impl Storage for Hooked {
    fn create<'s>(
        &'s self,
        key: &'s str,
        new: NewObject,
        origin: Origin,
    ) -> BoxFuture<'s, Result<Arc<CachedObject>, StorageError>> {
        async move {
            (self.before_create)(key).await?;
            self.inner.create(key, new, origin).await
        }
        .boxed()
    }

    fn delete<'s>(
        &'s self,
        request: DeleteRequest,
        validate: &'s mut dyn ValidateDeletion,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        self.inner.delete(request, validate)
    }

    fn delete_unreadable<'s>(
        &'s self,
        key: &'s str,
        origin: Origin,
    ) -> BoxFuture<'s, Result<bool, StorageError>> {
        self.inner.delete_unreadable(key, origin)
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.inner.get(request)
    }

    fn get_at(
        &self,
        key: String,
        revision: Revision,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.inner.get_at(key, revision)
    }

    fn history(
        &self,
        request: HistoryRequest,
    ) -> BoxFuture<'_, Result<ObjectHistory, StorageError>> {
        self.inner.history(request)
    }

    fn get_list(&self, request: ListRequest) -> BoxFuture<'_, Result<ObjectList, StorageError>> {
        async move {
            (self.before_list)(&request.key).await;
            self.inner.get_list(request).await
        }
        .boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> LocalBoxFuture<'_, Result<RunningWatch, StorageError>> {
        self.inner.watch(request)
    }

    fn guaranteed_update<'s>(
        &'s self,
        request: UpdateRequest,
        update: &'s mut dyn UpdateFunction,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        self.inner.guaranteed_update(request, update)
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, StorageError>> {
        self.inner.stats()
    }

    fn readiness_check(&self) -> Result<(), StorageError> {
        self.inner.readiness_check()
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.inner.current_revision()
    }
}
