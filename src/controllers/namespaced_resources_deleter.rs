//! Empties one namespace (API-225). Its objects are deleted as by a client, with finalizers and
//! grace periods. When nothing is left, the namespace is released.

use std::sync::Arc;
use std::time::Duration;

use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, Propagation, WriteOptions};
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::kinds::special::CONTENT_FINALIZER;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};
use crate::storage::Preconditions;
use crate::storage::codec::object_of;

/// The number of concurrent deletions. Concurrent commits share disk syncs.
const CONCURRENT_DELETIONS: usize = 16;

/// The number of objects on one page of a collection.
const PAGE: usize = 500;

/// The time limit for one namespace, after which other namespaces get their turn.
const TIME: Duration = Duration::from_secs(60);

/// The progress on a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No work is left here.
    Done,
    /// Objects remain, because of finalizers or grace periods.
    Held {
        /// The number of remaining objects.
        remaining: usize,
        /// The name of one of them.
        example: String,
    },
    /// The time limit was reached. The rest is done next time.
    Unfinished,
}

/// The result of one round over the contents.
#[derive(Debug, Default)]
struct DeletionRound {
    removed: usize,
    remaining: usize,
    example: String,
}

/// Empties namespaces.
#[derive(Clone)]
pub(super) struct NamespacedResourcesDeleter {
    registry: Registry,
    context: RequestContext,
}

impl NamespacedResourcesDeleter {
    pub(super) fn new(registry: Registry) -> NamespacedResourcesDeleter {
        let context = RequestContext::internal("namespaces", Instant::now() + TIME);
        NamespacedResourcesDeleter { registry, context }
    }

    /// Works on a namespace that the caches show as terminating, up to the time limit. It may be
    /// cancelled at any point.
    ///
    /// # Errors
    /// The first refusal that is not about an object that is gone or changed already.
    pub(super) async fn empty(&self, namespace: &CachedObject) -> Result<Progress, Box<Status>> {
        tokio::time::timeout(TIME, self.empty_all(namespace))
            .await
            .unwrap_or(Ok(Progress::Unfinished))
    }

    async fn empty_all(&self, namespace: &CachedObject) -> Result<Progress, Box<Status>> {
        let name = namespace.attributes().name();
        let terminating = object_of(namespace).map_err(Status::internal)?;
        if !has_content_finalizer(&terminating) {
            return Ok(Progress::Done);
        }
        let Some(namespaces) = self.registry.current().named("namespaces") else {
            return Ok(Progress::Done);
        };
        // From here on no new object is admitted, and all earlier creates have ended.
        namespaces.pending_creates().settle().await;
        loop {
            let round = self.delete_contents(name).await?;
            if round.remaining > 0 {
                let DeletionRound {
                    remaining, example, ..
                } = round;
                return Ok(Progress::Held { remaining, example });
            }
            // A round that removed something needs another round to check that nothing is left.
            if round.removed == 0 {
                break;
            }
        }
        self.release(name, terminating.uid()).await?;
        Ok(Progress::Done)
    }

    async fn delete_contents(&self, namespace: &str) -> Result<DeletionRound, Box<Status>> {
        let mut round = DeletionRound::default();
        let catalog = self.registry.current();
        let stores = catalog.stored_resources();
        for store in stores.filter(|store| store.definition().is_namespaced()) {
            self.delete_collection(store, namespace, &mut round).await?;
        }
        Ok(round)
    }

    async fn delete_collection(
        &self,
        store: &Arc<RegistryStore>,
        namespace: &str,
        round: &mut DeletionRound,
    ) -> Result<(), Box<Status>> {
        let mut options = ListOptions {
            limit: PAGE,
            ..ListOptions::default()
        };
        loop {
            let everything = Arc::new(Selection::default());
            let page = store.list(Some(namespace), &options, everything).await?;
            let deletions: Vec<_> = page
                .items
                .into_iter()
                .map(|item| self.deletion(store, namespace, item))
                .collect();
            let mut outcomes = stream::iter(deletions).buffer_unordered(CONCURRENT_DELETIONS);
            while let Some(outcome) = outcomes.next().await {
                match outcome? {
                    None => round.removed += 1,
                    Some(name) => {
                        round.remaining += 1;
                        round.example = format!("{} {name}", store.definition().qualified());
                    }
                }
            }
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => return Ok(()),
            }
        }
    }

    /// Deletes one object. Returns its name when it still exists.
    fn deletion(
        &self,
        store: &Arc<RegistryStore>,
        namespace: &str,
        item: Arc<CachedObject>,
    ) -> BoxFuture<'static, Result<Option<String>, Box<Status>>> {
        let (store, context) = (store.clone(), self.context.clone());
        let namespace = namespace.to_owned();
        async move {
            let name = item.attributes().name();
            let object = object_of(&item).map_err(Status::internal)?;
            let options = DeleteOptions {
                propagation_policy: Some(Propagation::Background),
                preconditions: Preconditions {
                    uid: Some(object.uid().to_owned()),
                    resource_version: None,
                },
                ..DeleteOptions::default()
            };
            let object = NamespacedName::in_namespace(&namespace, name);
            match store.delete(&context, object, &options).await {
                Ok(deletion) => Ok((!deletion.removed).then(|| name.to_owned())),
                // The object is gone, and a new one may have its name. The next round sees that
                // one.
                Err(status) if matches!(status.code, 404 | 409) => Ok(None),
                Err(status) => Err(status),
            }
        }
        .boxed()
    }

    /// Removes the content finalizer. The namespace then goes unless it has other finalizers.
    async fn release(&self, name: &str, uid: &str) -> Result<(), Box<Status>> {
        let catalog = self.registry.current();
        let finalize = catalog.endpoint("", "v1", "namespaces", "finalize");
        let namespaces = catalog.endpoint("", "v1", "namespaces", "");
        let getter = namespaces.and_then(|namespaces| namespaces.getter());
        let updater = finalize.and_then(|finalize| finalize.updater());
        let (Some(getter), Some(updater)) = (getter, updater) else {
            return Ok(());
        };
        let object = NamespacedName::in_cluster(name);
        let current = match getter.get(object, "").await {
            Ok(current) => object_of(&current).map_err(Status::internal)?,
            Err(status) if status.code == 404 => return Ok(()),
            Err(status) => return Err(status),
        };
        if current.uid() != uid || !current.is_being_deleted() {
            return Ok(());
        }
        let released = UpdateSource::Replace(without_content_finalizer(current));
        let options = WriteOptions::default();
        let updating = updater.update(&self.context, object, released, &options);
        match updating.await {
            Ok(_) => Ok(()),
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
        }
    }
}

/// Whether the contents of a namespace must still be deleted.
fn has_content_finalizer(namespace: &Object) -> bool {
    let finalizers = namespace
        .at(&["spec", "finalizers"])
        .and_then(Value::as_array);
    finalizers.is_some_and(|list| list.iter().any(|f| f == CONTENT_FINALIZER))
}

fn without_content_finalizer(mut namespace: Object) -> Object {
    if let Some(Value::Object(spec)) = namespace.0.get_mut("spec")
        && let Some(Value::Array(finalizers)) = spec.get_mut("finalizers")
    {
        finalizers.retain(|finalizer| finalizer != CONTENT_FINALIZER);
    }
    namespace
}
