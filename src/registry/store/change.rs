//! Changes of an object by the server itself, for a subresource that is not part of the object.

use std::sync::Arc;

use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::RegistryStore;
use super::admit::Request;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::registry::context::{RequestContext, SERVER};
use crate::registry::errors::FailedOperation;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::strategy::Valid;
use crate::storage::{
    Current, NewObject, Preconditions, UpdateFunction, UpdateRequest, VersionUse, WriteDecision,
    WriteOutcome,
};

/// A change, which may refuse the request with a Status. It is called once for each attempt.
pub type Change<'c> = &'c mut (dyn FnMut(&mut Object) -> Result<(), Box<Status>> + Send);

impl RegistryStore {
    /// Changes an object in the hub version, without strategy and admission.
    ///
    /// # Errors
    /// 404 if the object is absent, 409 for failed preconditions, and the Status that the change
    /// returns.
    pub async fn change(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        preconditions: Preconditions,
        dry_run: bool,
        change: Change<'_>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let changing = Changing {
            store: self,
            context,
            is_status: false,
            change,
        };
        self.carry_out(changing, at, preconditions, dry_run).await
    }

    /// Changes the status of an object in the hub version, as [`RegistryStore::change`] does. The
    /// server becomes the field owner of all changes, because kube-apiserver writes such a status
    /// as a client (API-179).
    ///
    /// # Errors
    /// 404 if the object is absent, and the Status that the change returns.
    pub async fn change_status(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        dry_run: bool,
        change: Change<'_>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let anyone = Preconditions::default();
        self.change_status_of(context, at, anyone, dry_run, change)
            .await
    }

    /// Changes the status of an object as [`RegistryStore::change_status`] does, if these
    /// preconditions hold.
    ///
    /// # Errors
    /// 404 if the object is absent, 409 for failed preconditions, and the Status that the change
    /// returns.
    pub async fn change_status_of(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        preconditions: Preconditions,
        dry_run: bool,
        change: Change<'_>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let changing = Changing {
            store: self,
            context,
            is_status: true,
            change,
        };
        self.carry_out(changing, at, preconditions, dry_run).await
    }

    async fn carry_out(
        &self,
        mut changing: Changing<'_>,
        at: NamespacedName<'_>,
        preconditions: Preconditions,
        dry_run: bool,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let request = UpdateRequest {
            key: self.key(at)?,
            ignore_not_found: false,
            version: match preconditions.resource_version {
                Some(_) => VersionUse::Names,
                None => VersionUse::Ignores,
            },
            preconditions,
            suggestion: None,
            origin: changing.context.origin(),
        };
        let outcome = self
            .target(dry_run)
            .guaranteed_update(request, &mut changing);
        match outcome.await {
            Ok(WriteOutcome::Done(object)) => {
                self.obeyed(object.revision).await;
                Ok(object)
            }
            Ok(WriteOutcome::Left) => Err(Box::new(Status::internal(
                "a change did not write its object",
            ))),
            Err(error) => Err(self.fault(error, FailedOperation::Update, at.name)),
        }
    }
}

struct Changing<'c> {
    store: &'c RegistryStore,
    context: &'c RequestContext,
    /// Whether the server becomes the field owner of the changes.
    is_status: bool,
    change: Change<'c>,
}

impl Changing<'_> {
    /// Makes the server the field owner of the changes of the status.
    fn own(&self, live: &Object, object: &mut Object) {
        let request = Request {
            context: self.context,
            namespace: None,
            subresource: self.store.definition().subresource("status"),
        };
        let manager = self.store.field_manager(&request);
        self.store
            .record_owners(&manager, Some(live), object, SERVER);
    }
}

impl UpdateFunction for Changing<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        async move {
            let stored = current.object.ok_or_else(|| {
                Box::new(Status::internal(
                    "an update that never creates was called without an object",
                ))
            })?;
            let mut object = self.store.to_change(&stored).await?;
            let live = self.is_status.then(|| object.clone());
            (self.change)(&mut object)?;
            if let Some(live) = live {
                self.own(&live, &mut object);
            }
            let valid = Valid::of_server(object, self.store.working());
            Ok(WriteDecision::Write(self.store.to_store(valid, true)))
        }
        .boxed()
    }
}
