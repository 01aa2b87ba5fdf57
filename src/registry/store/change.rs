//! Changes that the server itself makes of an object, for a subresource that is not a part of it.

use std::sync::Arc;

use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::RegistryStore;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::registry::context::RequestContext;
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
        let request = UpdateRequest {
            key: self.key(at)?,
            ignore_not_found: false,
            version: match preconditions.resource_version {
                Some(_) => VersionUse::Names,
                None => VersionUse::Ignores,
            },
            preconditions,
            suggestion: None,
            origin: context.origin(),
        };
        let mut changing = Changing {
            store: self,
            change,
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
    change: Change<'c>,
}

impl UpdateFunction for Changing<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<Updated>, Box<Status>>> {
        let changed = (|| {
            let stored = current.object.ok_or_else(|| {
                Box::new(Status::internal(
                    "an update that creates nothing has no object",
                ))
            })?;
            let mut object = self.store.to_change(&stored)?;
            (self.change)(&mut object)?;
            self.store.hub().canonicalize(&mut object);
            Ok(WriteDecision::Write(Updated {
                object,
                ttl: self.store.time_to_live(),
                hold: None,
            }))
        })();
        std::future::ready(changed).boxed()
    }
}
