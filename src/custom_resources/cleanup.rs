//! Deletes the objects of a definition that is being deleted, and then releases it (CRD-69 to
//! CRD-71).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;

use super::definition::Definition;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::kinds::strategies::apiextensions::CLEANUP;
use crate::kinds::strategies::definition_conditions::{Condition, set_condition};
use crate::registry::errors::decoded_with_room;
use crate::registry::{NamespacedName, RegistryStore, RequestContext, UpdateSource};
use crate::storage::Preconditions;

/// How long one attempt waits for objects that something keeps.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first and the longest pause between two looks at the remaining objects.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The number of objects that are deleted at a time.
pub(super) const AT_A_TIME: usize = 64;
/// The limit on one attempt.
pub(super) const TIME: Duration = Duration::from_secs(600);

/// Resources that are built in, whose stored data belongs to others (CRD-71).
const BUILT_IN: [(&str, &str); 2] = [
    ("apiregistration.k8s.io", "apiservices"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
];

/// The deletion of a definition's objects.
pub(super) struct Cleanup {
    /// The store of definitions.
    pub definitions: Arc<RegistryStore>,
    /// The store of its objects.
    pub instances: Option<Arc<RegistryStore>>,
    pub definition: Definition,
    pub context: RequestContext,
}

/// A condition, and whether the definition can be released.
struct Outcome {
    condition: Condition,
    is_done: bool,
}

fn terminating(status: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition::new("Terminating", status, reason, message)
}

impl Cleanup {
    /// Returns a deletion on behalf of the server.
    pub fn new(
        definitions: Arc<RegistryStore>,
        instances: Option<Arc<RegistryStore>>,
        definition: Definition,
    ) -> Cleanup {
        Cleanup {
            definitions,
            instances,
            definition,
            context: RequestContext::internal("definitions", Instant::now() + TIME),
        }
    }

    /// Carries it out. Returns whether the definition was released.
    ///
    /// # Errors
    /// The status could not be written, for example because it has changed meanwhile.
    pub async fn run(self) -> Result<bool, Box<Status>> {
        let begun = terminating(
            true,
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        );
        let object = self.write(&begun).await?;
        let outcome = self.delete_instances().await;
        if outcome.is_done {
            return self
                .release(object, &outcome.condition)
                .await
                .map(|()| true);
        }
        self.write(&outcome.condition).await?;
        Ok(false)
    }

    async fn delete_instances(&self) -> Outcome {
        let done = |reason: &str, message: &str| Outcome {
            condition: terminating(false, reason, message),
            is_done: true,
        };
        let spec = &self.definition.spec;
        let resource = (spec.group.as_str(), spec.names.plural.as_str());
        if BUILT_IN.contains(&resource) {
            return done(
                "OverlappingBuiltInResource",
                "instances overlap with built-in resources in storage",
            );
        }
        if !self.definition.is("Established") {
            return done("NeverEstablished", "resource was never established");
        }
        match self.delete_all().await {
            Ok(()) => done("InstanceDeletionCompleted", "removed all instances"),
            Err(condition) => Outcome {
                condition,
                is_done: false,
            },
        }
    }

    /// Deletes all objects, and waits until they are gone.
    async fn delete_all(&self) -> Result<(), Condition> {
        let failed = |message: String| terminating(true, "InstanceDeletionFailed", message);
        let Some(store) = &self.instances else {
            return Err(failed(
                "could not list instances: storage is (re)initializing".to_owned(),
            ));
        };
        // No create that began before the definition was marked may still store an object.
        store.pending_creates().settle().await;
        // Most definitions that are deleted have no objects, and nobody uses their caches.
        if self
            .objects(store, 1)
            .await
            .is_ok_and(|objects| objects.is_empty())
        {
            return Ok(());
        }
        let objects = self
            .objects(store, 0)
            .await
            .map_err(|status| failed(format!("could not list instances: {}", status.message)))?;
        let deleting = objects.iter().map(|at| self.delete(store, at).boxed());
        let deleting: Vec<_> = deleting.collect();
        let failures: Vec<String> = stream::iter(deleting)
            .buffer_unordered(AT_A_TIME)
            .filter_map(|refusal| async { refusal })
            .take(1)
            .collect()
            .await;
        if let Some(why) = failures.first() {
            return Err(failed(format!("could not issue all deletes: {why}")));
        }
        self.all_gone(store).await.map_err(|why| {
            let message = format!("could not confirm zero CustomResources remaining: {why}");
            terminating(true, "InstanceDeletionCheck", message)
        })
    }

    /// Returns the namespaces and names of objects, from the store: at most `limit`, or all if it
    /// is 0.
    async fn objects(
        &self,
        store: &RegistryStore,
        limit: usize,
    ) -> Result<Vec<(String, String)>, Box<Status>> {
        let options = ListOptions {
            limit,
            ..ListOptions::default()
        };
        let everything = Arc::new(Selection::default());
        let list = store.list(None, &options, everything).await?;
        let objects = list.items.iter().map(|object| {
            let attributes = object.attributes();
            let (namespace, name) = (attributes.namespace(), attributes.name());
            (namespace.to_owned(), name.to_owned())
        });
        Ok(objects.collect())
    }

    /// Deletes an object. Returns why that failed.
    async fn delete(&self, store: &RegistryStore, at: &(String, String)) -> Option<String> {
        let (namespace, name) = at;
        let at = NamespacedName::of(namespace, name);
        let options = DeleteOptions::default();
        match store.delete(&self.context, at, &options).await {
            Err(status) if status.reason != StatusReason::NOT_FOUND => Some(status.message.clone()),
            _ => None,
        }
    }

    async fn all_gone(&self, store: &RegistryStore) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.objects(store, 1).await {
                Ok(objects) if objects.is_empty() => return Ok(()),
                Ok(_) => {}
                Err(status) => return Err(status.message.clone()),
            }
            if Instant::now() >= deadline {
                return Err("timed out waiting for the condition".to_owned());
            }
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    fn at(&self) -> NamespacedName<'_> {
        NamespacedName::in_cluster(&self.definition.name)
    }

    /// Writes a condition into the status. Returns the definition as it is stored then.
    async fn write(&self, condition: &Condition) -> Result<Object, Box<Status>> {
        let preconditions = Preconditions {
            uid: Some(self.definition.uid.clone()),
            resource_version: None,
        };
        let mut change = |object: &mut Object| {
            set_condition(object, condition, clock::now());
            Ok(())
        };
        let written = self
            .definitions
            .change_status_of(&self.context, self.at(), preconditions, false, &mut change)
            .await?;
        decoded_with_room(&written).await
    }

    /// Removes the finalizer, after which nothing of the server keeps the definition.
    async fn release(&self, mut object: Object, condition: &Condition) -> Result<(), Box<Status>> {
        set_condition(&mut object, condition, clock::now());
        let finalizers = object.finalizers().into_iter();
        let kept = finalizers.filter(|name| *name != CLEANUP);
        let kept: Vec<String> = kept.map(str::to_owned).collect();
        object.set_finalizers(kept);
        let definition = self.definitions.definition();
        let Some(part) = definition.subresource("status") else {
            return Err(Box::new(Status::internal("definitions have no status")));
        };
        let source = UpdateSource::Replace(object.into());
        let options = WriteOptions::default();
        let store = &self.definitions;
        let releasing = store.update(&self.context, self.at(), Some(part), source, &options);
        releasing.await.map(drop)
    }
}
