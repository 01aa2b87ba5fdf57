//! Create (http.md 3.2, RG-3).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actors::object::CachedObject;
use futures_util::future::FutureExt;

use super::RegistryStore;
use super::admit::Request;
use super::allocation::{Allocated, settle};
use super::reconcile_namespace;
use crate::api::metadata::{OwnersStage, deduplicate_owners};
use crate::api::names::generate_name;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::registry::context::RequestContext;
use crate::registry::errors::FailedOperation;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::pending_creates::PendingCreate;
use crate::registry::strategy::{Admitted, Decoded, Valid};
use crate::storage::codec::metadata_object_of;
use crate::storage::{Asked, GetRequest, RunToCompletion, StorageErrorKind};

/// The number of attempts with generated names (API-199).
const NAME_ATTEMPTS: usize = 8;

/// The warning for a create of a kind whose objects have no effect yet (D-92).
pub const WITHOUT_EFFECT: &str =
    "Taffrail stores this object, but nothing enforces or serves what it says yet";

/// The fields of a body that the server ignores on create (API-91).
pub(super) const SYSTEM_FIELDS: [&str; 5] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "selfLink",
];

impl RegistryStore {
    /// Stores a new object.
    ///
    /// # Errors
    /// 409 for an existing name, 422 for an invalid object, and refusals of admission (http.md
    /// 3.2).
    pub async fn create(
        &self,
        context: &RequestContext,
        namespace: Option<&str>,
        mut object: Object,
        options: &WriteOptions,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        for field in SYSTEM_FIELDS {
            object.metadata_mut().remove(field);
        }
        reconcile_namespace(&mut object, self.definition(), namespace)?;
        let creation = Arc::new(self.options.pending_creates.begin());
        let request = Request {
            context,
            namespace,
            subresource: None,
        };
        deduplicate(&mut object, OwnersStage::Read, context);
        let defaulted = self.default_new(Decoded(object), &request);
        let admitted = self.admit(&request, options, defaulted, None).await?;
        self.check_rights(&request, "", &admitted, None).await?;
        let base = admitted.object().meta("generateName").to_owned();
        let is_generated = admitted.object().name().is_empty() && !base.is_empty();
        if !is_generated {
            let creating = self.create_named(&request, options, admitted, creation);
            return creating.await;
        }
        let mut last = Box::new(Status::generate_name_exhausted(self.definition(), &base));
        for _ in 0..NAME_ATTEMPTS {
            let mut candidate = admitted.clone();
            let name = generate_name(&base);
            candidate.for_metadata().set_meta("name", &name);
            let creation = creation.clone();
            let creating = self.create_named(&request, options, candidate, creation);
            match creating.await {
                Err(status) if status.reason == StatusReason::ALREADY_EXISTS => last = status,
                other => return other,
            }
        }
        Err(last)
    }

    /// Makes one attempt to create the object under a name, from validation on.
    async fn create_named(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        admitted: Admitted,
        creation: Arc<PendingCreate>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let (valid, allocated) = self.make_valid(request, options, admitted, None).await?;
        let name = valid.object().name().to_owned();
        let has_base = !valid.object().meta("generateName").is_empty();
        let key = self.key(NamespacedName {
            namespace: request.namespace,
            name: &name,
        })?;
        let (target, origin) = (
            self.target(options.dry_run).clone(),
            request.context.origin(),
        );
        let (at, new) = (key.clone(), self.to_store(valid, false));
        // The write may still happen after the client has disconnected, so the create stays pending
        // until its outcome is known.
        let storing = async move {
            let outcome = target.create(&at, new, origin).await;
            settle(allocated, outcome.is_ok()).await;
            drop(creation);
            outcome
        };
        match RunToCompletion::new(storing.boxed()).await {
            Ok(created) => {
                self.obeyed(created.revision).await;
                Ok(created)
            }
            Err(error) if matches!(error.kind, StorageErrorKind::KeyExists) => {
                Err(Box::new(self.taken(key, &name, has_base).await))
            }
            Err(error) => Err(self.fault(error, FailedOperation::Create, &name)),
        }
    }

    /// Returns the Status for an existing name. It says whether the existing object is being
    /// deleted (API-97). An object with a generateName gets the message for exhausted attempts,
    /// even if it also has a name (API-199).
    async fn taken(&self, key: String, name: &str, has_base: bool) -> Status {
        let found = self
            .storage()
            .get(GetRequest {
                key,
                asked: Asked::Unset,
            })
            .await;
        let is_deleting = match found {
            Ok(Some(existing)) => metadata_object_of(&existing).is_ok_and(|o| o.is_being_deleted()),
            _ => false,
        };
        let status = match has_base {
            true => Status::generate_name_exhausted(self.definition(), name),
            false => Status::already_exists(self.definition(), name),
        };
        match is_deleting {
            true => status.of_deleted(),
            false => status,
        }
    }

    /// Takes an admitted object through the remaining stages (API-94): it is prepared, validated,
    /// passed to validating admission, and gets its addresses and ports. Warns the client. A
    /// further attempt repeats the warnings, but the client gets each once. `created_as` is the
    /// name in the URL of an update, which needs the right to create the object.
    pub(super) async fn make_valid(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        mut admitted: Admitted,
        created_as: Option<&str>,
    ) -> Result<(Valid, Option<Box<dyn Allocated>>), Box<Status>> {
        let (context, strategy) = (request.context, &self.strategy);
        strategy.set_requester(&mut admitted, &context.user);
        self.prepare_allocation(&mut admitted, None)?;
        let behaviour = &self.definition().behaviour;
        context.warn(behaviour.warnings_before_create(admitted.object()));
        let uid = uuid::Uuid::new_v4().to_string();
        let prepared = strategy.prepare_create(admitted, &uid, clock::now());
        let (mut valid, warnings) = strategy.validate_create(prepared)?;
        context.warn(warnings);
        if let Some(refusal) = self.unconvertible() {
            return Err(refusal);
        }
        if behaviour.rules().lacks_effect() {
            self.warn_of_no_effect(context);
        }
        if let Some(name) = created_as {
            self.may_create(request, name).await?;
        }
        self.validate_admitted(request, options, &valid, None)
            .await?;
        let allocated = self.allocate(&mut valid, None, options.dry_run).await?;
        Ok((valid, allocated))
    }

    /// Warns the creator of an object that nothing acts on yet. The log says so once for each kind
    /// (D-92).
    fn warn_of_no_effect(&self, context: &RequestContext) {
        context.warn([WITHOUT_EFFECT.to_owned()]);
        if !self.has_told_of_no_effect.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                resource = %self.definition().qualified(),
                "objects are stored but have no effect yet: nothing enforces or serves them"
            );
        }
    }
}

/// Removes duplicate owner references, and warns the client (API-207).
pub(super) fn deduplicate(object: &mut Object, stage: OwnersStage, context: &RequestContext) {
    context.warn(deduplicate_owners(object, stage));
}
