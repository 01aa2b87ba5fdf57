//! Changes that the server itself makes of an object, for a subresource that is not a part of it.

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
use crate::storage::{
    Current, Preconditions, UpdateFunction, UpdateRequest, Updated, VersionUse, WriteDecision,
    WriteOutcome,
};

/// A change, or the refusal for the client. It is called once for each attempt.
pub type Change<'c> = &'c mut (dyn FnMut(&mut Object) -> Result<(), Box<Status>> + Send);

impl RegistryStore {
    /// Changes an object, in the version of the hub, without strategy and admission.
    ///
    /// # Errors
    /// 404 when it is absent, 409 for preconditions that don't hold, and what the change refuses.
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

    /// Changes the status of an object of the hub's version, as [`RegistryStore::change`] does. The
    /// server owns what differs then: kube-apiserver writes such a status as a client (API-179).
    ///
    /// # Errors
    /// 404 when it is absent, and what the change refuses.
    pub async fn change_status(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        dry_run: bool,
        change: Change<'_>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let changing = Changing {
            store: self,
            context,
            is_status: true,
            change,
        };
        let anyone = Preconditions::default();
        self.carry_out(changing, at, anyone, dry_run).await
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
            Ok(WriteOutcome::Done(object)) => Ok(object),
            Ok(WriteOutcome::Left) => {
                Err(Box::new(Status::internal("a change has left its object")))
            }
            Err(error) => Err(self.fault(error, FailedOperation::Update, at.name)),
        }
    }
}

struct Changing<'c> {
    store: &'c RegistryStore,
    context: &'c RequestContext,
    /// Whether the server owns what changes.
    is_status: bool,
    change: Change<'c>,
}

impl Changing<'_> {
    /// Says in a changed object that the server owns what differs in its status.
    fn own(&self, live: &Object, object: &mut Object) {
        let request = Request {
            context: self.context,
            namespace: None,
            subresource: self.store.definition().subresource("status"),
        };
        let manager = self.store.field_manager(&request);
        self.store.tell_owners(&manager, Some(live), object, SERVER);
    }
}

impl UpdateFunction for Changing<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<Updated>, Box<Status>>> {
        async move {
            let stored = current.object.ok_or_else(|| {
                Box::new(Status::internal(
                    "an update that creates nothing has no object",
                ))
            })?;
            let mut object = self.store.to_change(&stored).await?;
            let live = self.is_status.then(|| object.clone());
            (self.change)(&mut object)?;
            if let Some(live) = live {
                self.own(&live, &mut object);
            }
            self.store.hub().canonicalize(&mut object);
            Ok(WriteDecision::Write(Updated {
                object,
                ttl: self.store.time_to_live(),
                hold: None,
            }))
        }
        .boxed()
    }
}
