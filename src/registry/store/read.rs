//! Get, list and watch (http.md 3.6, 3.7).

use std::sync::Arc;
use std::task::Poll;

use actors::dispatcher::{Caller, LocalDispatcher, WatchFrame};
use actors::engine::Revision;
use actors::object::CachedObject;
use actors::watch::{Projection, Scope, WatchInterest};
use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{RegistryStore, bad_key};
use crate::api::object::Object;
use crate::api::options::{ListOptions, VersionMatchText, list_version, read_version};
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::registry::errors::{FailedOperation, decoded_with_room, goes_in_stream};
use crate::registry::keys::{ReadScope, read_scope};
use crate::registry::namespaced_name::NamespacedName;
use crate::storage::{
    Asked, GetRequest, HistoryRequest, HistorySpan, ListRequest, ObjectHistory, ObjectList,
    RunningWatch, Stats, WatchRequest, WatchStream,
};

/// The refusal of a watch, by the way in which it is reported (WA-6).
#[derive(Clone, Debug)]
pub enum WatchRefusal {
    /// The refusal is the response.
    Http(Box<Status>),
    /// The refusal is one ERROR event in a 200 response, which then ends.
    InStream(Box<Status>),
}

impl WatchRefusal {
    /// Returns the refusal, however it is reported.
    pub fn into_status(self) -> Box<Status> {
        match self {
            WatchRefusal::Http(status) | WatchRefusal::InStream(status) => status,
        }
    }
}

/// The receiver of a watch.
pub struct Audience {
    /// The encoding of its events.
    pub projection: Arc<dyn Projection>,
    /// The time at which the watch ends (WA-2).
    pub deadline: Instant,
    /// The Dispatcher of the calling thread.
    pub dispatcher: LocalDispatcher,
}

impl RegistryStore {
    /// Returns one object, not older than the requested version (API-121).
    ///
    /// # Errors
    /// 404 if it is absent, 504 for a version in the future, a plain 500 for an invalid version
    /// (ST-17).
    pub async fn get(
        &self,
        at: NamespacedName<'_>,
        resource_version: &str,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let (key, name) = (self.key(at)?, at.name);
        let asked = read_version(resource_version)?;
        let found = self.storage().get(GetRequest { key, asked }).await;
        match found.map_err(|error| self.fault(error, FailedOperation::Get, name))? {
            Some(object) => self.unconvertible().map_or(Ok(object), Err),
            None => Err(Box::new(Status::not_found(self.definition(), name))),
        }
    }

    /// Returns one object as [`RegistryStore::get`] does, decoded.
    ///
    /// # Errors
    /// Those of `get`, and 500 for an object that cannot be decoded.
    pub async fn read(
        &self,
        at: NamespacedName<'_>,
        resource_version: &str,
    ) -> Result<Object, Box<Status>> {
        let found = self.get(at, resource_version).await?;
        decoded_with_room(&found).await
    }

    /// Returns one object as it was at a revision.
    ///
    /// # Errors
    /// 404 if it was absent then, 410 for a compacted revision, 504 for one in the future.
    pub async fn get_at(
        &self,
        at: NamespacedName<'_>,
        revision: Revision,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let (key, name) = (self.key(at)?, at.name);
        let found = self.storage().get_at(key, revision).await;
        match found.map_err(|error| self.fault(error, FailedOperation::Get, name))? {
            Some(object) => self.unconvertible().map_or(Ok(object), Err),
            None => Err(Box::new(Status::not_found(self.definition(), name))),
        }
    }

    /// Returns a part of the history of one object.
    ///
    /// # Errors
    /// 410 if the history was compacted while it was read.
    pub async fn history(
        &self,
        at: NamespacedName<'_>,
        span: Option<HistorySpan>,
    ) -> Result<ObjectHistory, Box<Status>> {
        let (key, name) = (self.key(at)?, at.name);
        if let Some(refusal) = self.unconvertible() {
            return Err(refusal);
        }
        let history = self.storage().history(HistoryRequest { key, span }).await;
        history.map_err(|error| self.fault(error, FailedOperation::Get, name))
    }

    /// Returns a page of objects (storage.md 2).
    ///
    /// # Errors
    /// 400 for an invalid version or token, 410 for compacted state, 504 for a version in the
    /// future, 429 while the cache fills.
    pub async fn list(
        &self,
        namespace: Option<&str>,
        options: &ListOptions,
        selection: Arc<Selection>,
    ) -> Result<ObjectList, Box<Status>> {
        let paging = options.continue_token.is_some();
        let asked = match list_version(&options.resource_version) {
            // A version other than 0 is refused together with a token, but an invalid token is
            // reported first (LI-2). Any valid version serves to get there.
            Err(_) if paging => Asked::At(Revision::ZERO),
            asked => asked?,
        };
        let ReadScope { key, recursive } = self.scope(namespace, &selection, !paging)?;
        let request = ListRequest {
            key,
            recursive,
            asked,
            version_match: options
                .version_match
                .as_ref()
                .and_then(VersionMatchText::known),
            limit: options.limit,
            continue_token: options.continue_token.clone(),
            predicate: selection,
        };
        let list = self.storage().get_list(request).await;
        let list = list.map_err(|error| self.fault(error, FailedOperation::List, ""))?;
        match self.unconvertible() {
            Some(refusal) if !list.items.is_empty() => Err(refusal),
            _ => Ok(list),
        }
    }

    /// Returns the count and sizes of the objects that a list reads, if they are known without
    /// waiting (RG-14).
    pub fn known_stats(&self, namespace: Option<&str>, selection: &Selection) -> Option<Stats> {
        let ReadScope { key, recursive } = self.scope(namespace, selection, true).ok()?;
        recursive.then(|| self.storage().known_stats(&key))?
    }

    /// Returns whether a namespace, or the whole resource, certainly has no objects. This costs
    /// much less than a list.
    pub fn is_known_empty(&self, namespace: Option<&str>) -> bool {
        let scope = self.scope(namespace, &Selection::default(), true);
        scope.is_ok_and(|scope| scope.recursive && self.storage().is_known_empty(&scope.key))
    }

    /// Opens a watch on the calling thread. Call [`ListOptions::default_watch`] on the options
    /// first.
    ///
    /// # Errors
    /// A [`WatchRefusal`].
    pub async fn watch(
        &self,
        namespace: Option<&str>,
        options: &ListOptions,
        selection: Arc<Selection>,
        audience: Audience,
    ) -> Result<RunningWatch, WatchRefusal> {
        let asked = read_version(&options.resource_version)
            .map_err(|error| WatchRefusal::Http(error.into()))?;
        // No event could be shown.
        if let Some(refusal) = self.unconvertible() {
            return Err(WatchRefusal::Http(refusal));
        }
        let Audience {
            projection,
            deadline,
            dispatcher,
        } = audience;
        let scope = self
            .scope(namespace, &selection, true)
            .map_err(WatchRefusal::Http)?;
        let request = WatchRequest {
            key: scope.key,
            recursive: scope.recursive,
            asked,
            send_initial_events: options.send_initial_events,
            bookmarks: options.bookmarks,
            // The storage sets the scope from the key.
            interest: WatchInterest {
                scope: Scope::All,
                predicate: selection,
                projection,
            },
            deadline,
            dispatcher,
        };
        let opened = self.storage().watch(request).await.map_err(|error| {
            let refuse = match goes_in_stream(&error.kind) {
                true => WatchRefusal::InStream,
                false => WatchRefusal::Http,
            };
            refuse(self.fault(error, FailedOperation::Watch, ""))
        })?;
        // The resource may have been removed while this watch opened, when it did not get the
        // signal yet.
        if self.removed.get().is_some_and(|removed| *removed.borrow()) {
            return Err(WatchRefusal::Http(Box::new(Status::route_not_found())));
        }
        Ok(match opened {
            // The cache ends it when the resource is removed.
            RunningWatch::Dispatched(watcher) => RunningWatch::Dispatched(watcher),
            RunningWatch::Other(stream) => RunningWatch::other(UntilRemoved {
                stream,
                removed: self.until_removed().boxed_local(),
            }),
        })
    }

    /// Ends the watches that bypass the cache, because the resource is no longer served.
    pub fn remove(&self) {
        self.removed().send_replace(true);
    }

    fn removed(&self) -> &watch::Sender<bool> {
        self.removed.get_or_init(|| watch::Sender::new(false))
    }

    fn until_removed(&self) -> impl Future<Output = ()> + use<> {
        let mut removed = self.removed().subscribe();
        async move {
            // An error means that the store was dropped, so the resource is not served either.
            let _ = removed.wait_for(|is_removed| *is_removed).await;
        }
    }

    /// Returns the scope of a list or watch (RG-2). Later pages have the scope of the first page.
    fn scope(
        &self,
        namespace: Option<&str>,
        selection: &Selection,
        may_be_single: bool,
    ) -> Result<ReadScope, Box<Status>> {
        let name = selection.exact_name().filter(|_| may_be_single);
        read_scope(
            self.definition(),
            namespace,
            selection.exact_namespace(),
            name,
        )
        .map_err(bad_key)
    }
}

/// A watch that bypasses the cache. It ends when its resource is removed.
struct UntilRemoved {
    stream: Box<dyn WatchStream>,
    removed: LocalBoxFuture<'static, ()>,
}

impl WatchStream for UntilRemoved {
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        match self.removed.poll_unpin(&mut caller.context()) {
            Poll::Ready(()) => {
                self.removed = std::future::ready(()).boxed_local();
                Poll::Ready(None)
            }
            Poll::Pending => self.stream.poll_next(caller),
        }
    }
}
