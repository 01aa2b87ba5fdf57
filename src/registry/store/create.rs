//! Create (http.md 3.2, RG-3).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actors::object::CachedObject;
use futures_util::future::FutureExt;

use super::admit::Request;
use super::allocation::settle;
use super::{RegistryStore, reconcile_namespace};
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
use crate::registry::strategy::Form;
use crate::storage::codec::metadata_object_of;
use crate::storage::{Asked, GetRequest, RunToCompletion, StorageErrorKind};

/// The number of attempts with generated names (API-199).
const NAME_ATTEMPTS: usize = 8;

/// The warning to who creates an object of a kind that has no effect yet (D-92).
pub const WITHOUT_EFFECT: &str =
    "Taffrail stores this object, but nothing enforces or serves what it says yet";

/// The server ignores these fields of a body (API-91).
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
    /// 409 for an existing name, 422 for an invalid object, refusals of admission (http.md 3.2).
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
        let form = self.take_in(&mut object, &request);
        let admitting = self.admit(&request, options, &mut object, (None, form));
        let form = admitting.await?;
        let base = object.meta("generateName").to_owned();
        let is_generated = object.name().is_empty() && !base.is_empty();
        if !is_generated {
            let creating = self.create_named(&request, options, (object, form), creation);
            return creating.await;
        }
        let mut last = Box::new(Status::generate_name_exhausted(self.definition(), &base));
        for _ in 0..NAME_ATTEMPTS {
            let mut candidate = object.clone();
            candidate.set_meta("name", &generate_name(&base));
            let creation = creation.clone();
            let creating = self.create_named(&request, options, (candidate, form), creation);
            match creating.await {
                Err(status) if status.reason == StatusReason::ALREADY_EXISTS => last = status,
                other => return other,
            }
        }
        Err(last)
    }

    /// One attempt with a name, from validation on.
    async fn create_named(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        (mut object, form): (Object, Form),
        creation: Arc<PendingCreate>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        self.prepare_new(&mut object, form, request.context)?;
        self.validate_admitted(request, options, &object, None)
            .await?;
        let allocated = self.allocate(&mut object, None, options.dry_run).await?;
        let name = object.name().to_owned();
        let has_base = !object.meta("generateName").is_empty();
        let key = self.key(NamespacedName {
            namespace: request.namespace,
            name: &name,
        })?;
        let (target, origin) = (
            self.target(options.dry_run).clone(),
            request.context.origin(),
        );
        let (at, ttl) = (key.clone(), self.time_to_live());
        // When the client disconnects, the write may still happen. The create stays pending until
        // its outcome is known.
        let storing = async move {
            let outcome = target.create(&at, object, ttl, origin).await;
            settle(allocated, outcome.is_ok()).await;
            drop(creation);
            outcome
        };
        match RunToCompletion::new(storing.boxed()).await {
            Ok(created) => Ok(created),
            Err(error) if matches!(error.kind, StorageErrorKind::KeyExists) => {
                Err(Box::new(self.taken(key, &name, has_base).await))
            }
            Err(error) => Err(self.fault(error, FailedOperation::Create, &name)),
        }
    }

    /// The refusal for an existing name. It says whether the object is being deleted (API-97), and
    /// of an object that says what generated names begin with that none was found (API-199), even
    /// if it says its name, too.
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

    /// Fills in and validates a new object (API-94), and warns the client. Another attempt repeats
    /// the warnings, and the client gets each once.
    pub(super) fn prepare_new(
        &self,
        object: &mut Object,
        mut form: Form,
        context: &RequestContext,
    ) -> Result<(), Box<Status>> {
        let create = &self.definition().create;
        if create.requester.is_some() || self.options.allocation.is_some() {
            form = Form::Unknown;
        }
        self.strategy.set_requester(object, &context.user);
        self.prepare_allocation(object, None)?;
        let uid = uuid::Uuid::new_v4().to_string();
        let now = clock::now();
        context.warn(self.strategy.warnings_before(object));
        let warnings = self.strategy.prepare_create(object, &uid, now, form)?;
        context.warn(warnings);
        if self.definition().lacks_effect(object) {
            self.warn_of_no_effect(context);
        }
        Ok(())
    }

    /// Tells who creates an object that nothing follows from it yet, and says so in the log once
    /// for each kind (D-92).
    fn warn_of_no_effect(&self, context: &RequestContext) {
        context.warn([WITHOUT_EFFECT.to_owned()]);
        if !self.has_told_of_no_effect.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                resource = %self.definition().qualified(),
                "objects are stored, and have no effect yet: nothing enforces or serves what they say"
            );
        }
    }
}

/// Removes duplicate owners, and tells the client (API-207).
pub(super) fn deduplicate(object: &mut Object, stage: OwnersStage, context: &RequestContext) {
    context.warn(deduplicate_owners(object, stage));
}
