//! Empties one namespace (API-225). Its objects are deleted as by a client, with finalizers and
//! grace periods: the pods first, and the others when no pod is left. The conditions of the
//! namespace show what remains. When nothing remains, neither here nor at extensions, the namespace
//! is released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::extensions::{ExtensionContent, Extensions};
use super::namespace_conditions::{RemainingContent, RemainingObjects};
use crate::api::deep::Roomy;
use crate::api::object::{Object, whole_seconds};
use crate::api::options::{DeleteOptions, ListOptions, Propagation, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::clock;
use crate::kinds::strategies::{CONTENT_FINALIZER, has_ended};
use crate::registry::{
    Catalog, NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource,
};
use crate::storage::Preconditions;
use crate::storage::codec::{metadata_object_of, object_of};

/// The number of concurrent deletions. Concurrent commits share disk syncs.
const CONCURRENT_DELETIONS: usize = 16;

/// The number of objects on one page of a collection.
const PAGE: usize = 500;

/// The number of namespaces whose objects are deleted concurrently. Those that wait for extensions
/// do not count.
const TURNS: usize = 4;

/// The time limit for one namespace, after which other namespaces get their turn.
const TIME: Duration = Duration::from_secs(60);

/// The progress on a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No work is left here.
    Done,
    /// Objects remain, because of finalizers or grace periods.
    Held(RemainingContent),
    /// Objects remain at extensions alone, or these have failed.
    HeldByExtensions(RemainingContent),
    /// The time limit was reached. The rest is done next time.
    Unfinished,
}

/// The result of one round over the contents.
#[derive(Debug, Default)]
struct DeletionRound {
    removed: usize,
    remaining: RemainingContent,
    /// Whether no pod remained, so that all else was deleted.
    is_beyond_pods: bool,
    /// The first refusal.
    refusal: Option<Box<Status>>,
}

/// The result of one round over a collection.
#[derive(Debug, Default)]
struct DeletedCollection {
    removed: usize,
    remaining: usize,
    /// The number of remaining objects that have a finalizer, by the finalizer.
    finalizers: BTreeMap<String, usize>,
    /// The longest grace period of the remaining pods that have not ended, in seconds.
    grace: i64,
}

/// Empties namespaces.
#[derive(Clone)]
pub(super) struct NamespacedResourcesDeleter {
    registry: Registry,
    extensions: Option<Arc<dyn Extensions>>,
    /// Turns to delete objects of a namespace.
    turns: Arc<Semaphore>,
}

impl NamespacedResourcesDeleter {
    /// Deletes objects in the registry, and at extensions if there can be any.
    pub(super) fn new(
        registry: Registry,
        extensions: Option<Arc<dyn Extensions>>,
    ) -> NamespacedResourcesDeleter {
        NamespacedResourcesDeleter {
            registry,
            extensions,
            turns: Arc::new(Semaphore::new(TURNS)),
        }
    }

    /// Works on a namespace that the caches show as terminating, up to the time limit, and then
    /// waits for extensions, which have a limit of their own. May be cancelled at any point.
    ///
    /// # Errors
    /// The first refusal, unless it only says that an object is gone or has changed.
    pub(super) async fn empty(
        &self,
        namespace: &CachedObject,
        elsewhere: &mut ExtensionContent,
    ) -> Result<Progress, Box<Status>> {
        let namespace = object_of(namespace).map_err(Status::internal)?;
        if !has_content_finalizer(&namespace) {
            return Ok(Progress::Done);
        }
        let turn = self.turns.acquire().await;
        let emptying = tokio::time::timeout(TIME, self.empty_here(&namespace)).await;
        drop(turn);
        let Ok(emptied) = emptying else {
            return Ok(Progress::Unfinished);
        };
        let Some(DeletionRound {
            mut remaining,
            is_beyond_pods,
            refusal,
            ..
        }) = emptied?
        else {
            return Ok(Progress::Done);
        };
        let is_held_here = !remaining.is_empty();
        if let Some(extensions) = &self.extensions {
            match is_beyond_pods {
                true => {
                    let emptying = elsewhere.emptied(&**extensions, namespace.name(), is_held_here);
                    remaining.extend(emptying.await);
                }
                false => remaining.undiscovered = extensions.undiscovered().await,
            }
        }
        // It may have changed meanwhile.
        let Some(terminating) = self.terminating(&namespace).await? else {
            return Ok(Progress::Done);
        };
        self.write_conditions(terminating, &remaining).await;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if remaining.is_empty() {
            self.release(&namespace).await?;
            return Ok(Progress::Done);
        }
        Ok(match is_held_here || !remaining.undiscovered.is_empty() {
            true => Progress::Held(remaining),
            false => Progress::HeldByExtensions(remaining),
        })
    }

    /// Deletes the objects of this server. Returns the last round. `None` if the namespace is gone
    /// or already released.
    async fn empty_here(&self, namespace: &Object) -> Result<Option<DeletionRound>, Box<Status>> {
        let Some(namespaces) = self.registry.current().named("namespaces") else {
            return Ok(None);
        };
        // From here on no new object is admitted, and all earlier creates have ended.
        namespaces.pending_creates().settle().await;
        let Some(terminating) = self.terminating(namespace).await? else {
            return Ok(None);
        };
        loop {
            let catalog = self.registry.complete().await?;
            let round = self.delete_contents(&catalog, &terminating).await;
            // A round that removed something needs another round to check that nothing is left.
            if round.removed == 0 || !round.remaining.is_empty() {
                return Ok(Some(round));
            }
        }
    }

    /// Deletes the pods, and all other objects when no pod remains. Objects that protect pods, such
    /// as network policies, stay as long as the pods (D-70).
    async fn delete_contents(&self, catalog: &Catalog, namespace: &Object) -> DeletionRound {
        let mut round = DeletionRound::default();
        let stores = catalog.stored_resources();
        let (pods, others): (Vec<_>, Vec<_>) = stores
            .filter(|store| store.definition().is_namespaced())
            .partition(|store| is_pods(store));
        for (stores, is_beyond_pods) in [(pods, false), (others, true)] {
            round.is_beyond_pods = is_beyond_pods;
            for store in stores {
                let deleted = self.delete_collection(store, namespace.name()).await;
                round.add(deleted, catalog, store, namespace);
            }
            if !round.remaining.is_empty() {
                break;
            }
        }
        round
    }

    /// Deletes the objects of a collection. Continues after a refused deletion.
    ///
    /// # Errors
    /// The first refusal, unless it only says that an object is gone or has changed.
    async fn delete_collection(
        &self,
        store: &Arc<RegistryStore>,
        namespace: &str,
    ) -> Result<DeletedCollection, Box<Status>> {
        let (mut deleted, mut refusal) = (DeletedCollection::default(), None);
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
                match outcome {
                    Ok(None) => deleted.removed += 1,
                    Ok(Some(object)) => deleted.keep(&object, is_pods(store)),
                    Err(status) => _ = refusal.get_or_insert(status),
                }
            }
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => return refusal.map_or(Ok(deleted), Err),
            }
        }
    }

    /// Deletes one object. Returns it if it still exists.
    fn deletion(
        &self,
        store: &Arc<RegistryStore>,
        namespace: &str,
        item: Arc<CachedObject>,
    ) -> BoxFuture<'static, Result<Option<Object>, Box<Status>>> {
        let (store, context) = (store.clone(), context());
        let namespace = namespace.to_owned();
        let deleting = async move {
            let object = metadata_object_of(&item).map_err(Status::internal)?;
            let options = DeleteOptions {
                propagation_policy: Some(Propagation::Background),
                // The object must be deleted in any state, so any version will do.
                preconditions: Preconditions {
                    uid: Some(object.uid().to_owned()),
                    resource_version: None,
                },
                ..DeleteOptions::default()
            };
            let name = NamespacedName::in_namespace(&namespace, item.attributes().name());
            match store.delete(&context, name, &options).await {
                Ok(deletion) if deletion.removed => Ok(None),
                Ok(deletion) => {
                    let of = if is_pods(&store) {
                        object_of
                    } else {
                        metadata_object_of
                    };
                    Ok(Some(of(&deletion.object).map_err(Status::internal)?))
                }
                // The object is gone, and a new one may have its name. The next round sees that
                // one.
                Err(status) if matches!(status.code, 404 | 409) => Ok(None),
                Err(status) => Err(status),
            }
        };
        Roomy::new(deleting).boxed()
    }

    /// Returns the namespace as it is now, if its contents must still be deleted.
    async fn terminating(&self, namespace: &Object) -> Result<Option<Object>, Box<Status>> {
        let catalog = self.registry.current();
        let namespaces = catalog.endpoint("", "v1", "namespaces", "");
        let Some(getter) = namespaces.and_then(|namespaces| namespaces.getter()) else {
            return Ok(None);
        };
        let found = getter.get(NamespacedName::in_cluster(namespace.name()), "");
        let found = match found.await {
            Ok(found) => object_of(&found).map_err(Status::internal)?,
            Err(status) if status.code == 404 => return Ok(None),
            Err(status) => return Err(status),
        };
        let is_same = found.uid() == namespace.uid() && found.is_being_deleted();
        Ok((is_same && has_content_finalizer(&found)).then_some(found))
    }

    /// Updates the conditions of the namespace with the remaining content, if that changes them. A
    /// failure does no harm: the contents are deleted anyway, and the next pass retries. A
    /// controller manager writes the same conditions, and may have been first.
    async fn write_conditions(&self, mut namespace: Object, remaining: &RemainingContent) {
        let name = namespace.name().to_owned();
        if !remaining.write_to(&mut namespace, &whole_seconds(clock::now())) {
            return;
        }
        match self.update(&name, "status", namespace).await {
            Ok(()) => {}
            Err(status) if status.code == 409 => {
                tracing::debug!(namespace = name, %status, "a namespace has changed meanwhile");
            }
            Err(status) => {
                tracing::warn!(
                    namespace = name,
                    %status,
                    "updating the conditions of a namespace failed"
                );
            }
        }
    }

    /// Removes the content finalizer. The namespace is then deleted unless it has other finalizers.
    async fn release(&self, namespace: &Object) -> Result<(), Box<Status>> {
        match self.terminating(namespace).await? {
            Some(current) => {
                let released = without_content_finalizer(current);
                self.update(namespace.name(), "finalize", released).await
            }
            None => Ok(()),
        }
    }

    /// Updates a subresource of a namespace, unless the namespace is gone.
    async fn update(
        &self,
        name: &str,
        subresource: &str,
        namespace: Object,
    ) -> Result<(), Box<Status>> {
        let catalog = self.registry.current();
        let storage = catalog.endpoint("", "v1", "namespaces", subresource);
        let Some(updater) = storage.and_then(|storage| storage.updater()) else {
            return Ok(());
        };
        let (at, options) = (NamespacedName::in_cluster(name), WriteOptions::default());
        let source = UpdateSource::Replace(namespace.into());
        match updater.update(&context(), at, source, &options).await {
            Ok(_) => Ok(()),
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
        }
    }
}

impl DeletionRound {
    /// Adds a collection of a namespace, once for each group that serves it.
    fn add(
        &mut self,
        outcome: Result<DeletedCollection, Box<Status>>,
        catalog: &Catalog,
        store: &RegistryStore,
        namespace: &Object,
    ) {
        let mut groups = BTreeSet::new();
        let versions = catalog.versions_stored_as(&store.stored_resource().name);
        let names = versions.iter().map(|store| store.definition());
        for name in names.filter(|name| groups.insert(name.group.as_str())) {
            match &outcome {
                Ok(deleted) => deleted.count_in(&mut self.remaining, name, namespace),
                Err(refusal) => self.remaining.failures.push(refusal.message.clone()),
            }
        }
        match outcome {
            Ok(deleted) => self.removed += deleted.removed,
            Err(refusal) => _ = self.refusal.get_or_insert(refusal),
        }
    }
}

impl DeletedCollection {
    /// Adds an object that still exists.
    fn keep(&mut self, object: &Object, is_pod: bool) {
        self.remaining += 1;
        for finalizer in object.finalizers() {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
        if is_pod && !has_ended(object) {
            let grace = object.at(&["spec", "terminationGracePeriodSeconds"]);
            let grace = grace.and_then(Value::as_i64).unwrap_or_default();
            self.grace = self.grace.max(grace);
        }
    }

    /// Adds what remains in this collection to the content of the namespace, under the name of a
    /// resource.
    fn count_in(
        &self,
        left: &mut RemainingContent,
        resource: &ResourceDefinition,
        namespace: &Object,
    ) {
        let deleted = namespace.meta("deletionTimestamp").parse::<Timestamp>();
        let is_within_grace = deleted.is_ok_and(|deleted| {
            clock::now().duration_since(deleted) < SignedDuration::from_secs(self.grace)
        });
        let remaining = RemainingObjects {
            group: &resource.group,
            version: &resource.version,
            plural: &resource.plural,
            count: self.remaining,
            finalizers: &self.finalizers,
            is_expected: is_within_grace,
        };
        left.add(namespace.name(), &remaining);
    }
}

/// As whom objects are deleted.
fn context() -> RequestContext {
    RequestContext::controller("namespaces", Instant::now() + TIME)
}

fn is_pods(store: &RegistryStore) -> bool {
    store.definition().qualified() == "pods"
}

/// Whether the contents of a namespace must still be deleted.
fn has_content_finalizer(namespace: &Object) -> bool {
    let mut finalizers = namespace.items(&["spec", "finalizers"]).iter();
    finalizers.any(|finalizer| finalizer == CONTENT_FINALIZER)
}

fn without_content_finalizer(mut namespace: Object) -> Object {
    if let Some(Value::Object(spec)) = namespace.0.get_mut("spec")
        && let Some(Value::Array(finalizers)) = spec.get_mut("finalizers")
    {
        finalizers.retain(|finalizer| finalizer != CONTENT_FINALIZER);
    }
    namespace
}

#[cfg(test)]
mod tests;
