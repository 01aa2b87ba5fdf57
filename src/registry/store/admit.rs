//! Calls to admission.

use super::RegistryStore;
use super::create::deduplicate;
use super::reconcile_namespace;
use crate::admission::{Attributes, Operation, Rounds};
use crate::api::metadata::OwnersStage;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::{Phase, Subresource};
use crate::api::status::Status;
use crate::api::{abandoned, managed_fields};
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::rest::RestStorage;
use crate::registry::strategy::{Admitted, Defaulted, Valid};
use crate::storage::VersionUse;

/// The request of a write, without its object.
#[derive(Clone, Copy)]
pub(super) struct Request<'r> {
    /// The context of the request.
    pub context: &'r RequestContext,
    /// The namespace of the URL.
    pub namespace: Option<&'r str>,
    /// The subresource of the URL.
    pub subresource: Option<&'r Subresource>,
}

impl RegistryStore {
    /// Runs mutating admission for a write, over `stored` if the object exists. If a plugin may
    /// have changed the object, it is defaulted again.
    pub(super) async fn admit(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        mut defaulted: Defaulted,
        stored: Option<&Object>,
    ) -> Result<Admitted, Box<Status>> {
        abandoned::check()?;
        let name = defaulted.object().name().to_owned();
        let definition = self.definition();
        // Requests that have begun have the phase of their beginning, the behaviour knows the end.
        let is_closing =
            definition.phase == Phase::Terminating || !definition.behaviour.accepts_objects();
        if stored.is_none() && is_closing {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Box::new(Status::forbidden(self.definition(), &name, why)));
        }
        let attributes = self.attributes(request, writing(options, stored), &name, stored);
        let admission = &self.options.admission;
        let admitting = admission.admit(&attributes, Some(defaulted.for_admission()));
        let may_have_changed = admitting.await?;
        let mut admitted = defaulted.admitted(may_have_changed, self.working());
        if may_have_changed {
            // A hook may not move the object to another namespace (HK-27).
            reconcile_namespace(admitted.for_metadata(), definition, request.namespace)?;
            keep_readable(admitted.for_metadata(), request);
        }
        let stage = OwnersStage::Admitted;
        deduplicate(admitted.for_metadata(), stage, request.context);
        Ok(admitted)
    }

    /// Runs validating admission for a write.
    pub(super) async fn validate_admitted(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        valid: &Valid,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        abandoned::check()?;
        let (operation, object) = (writing(options, stored), valid.object());
        let attributes = self.attributes(request, operation, object.name(), stored);
        let admission = &self.options.admission;
        admission.validate(&attributes, Some(object)).await
    }

    /// Runs both stages of admission for a deletion.
    pub(super) async fn admit_deletion(
        &self,
        request: &Request<'_>,
        options: &DeleteOptions,
        stored: &Object,
    ) -> Result<(), Box<Status>> {
        if request.context.is_eviction {
            return Ok(());
        }
        let operation = Operation::Delete(options);
        let attributes = self.attributes(request, operation, stored.name(), Some(stored));
        let admission = &self.options.admission;
        admission.admit(&attributes, None).await?;
        admission.validate(&attributes, None).await
    }

    /// Runs mutating admission for a create at a path that stores no object of its own, such as a
    /// binding. `path` belongs to this store.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit_unstored(
        &self,
        path: &dyn RestStorage,
        context: &RequestContext,
        at: NamespacedName<'_>,
        object: &mut Object,
        options: &WriteOptions,
    ) -> Result<(), Box<Status>> {
        let attributes = unstored(path, context, at, Operation::Create(options));
        let admission = &self.options.admission;
        admission.admit(&attributes, Some(object)).await?;
        Ok(())
    }

    /// Runs validating admission for such a create, whose object has passed all other checks
    /// (HK-1).
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate_unstored(
        &self,
        path: &dyn RestStorage,
        context: &RequestContext,
        at: NamespacedName<'_>,
        object: &Object,
        options: &WriteOptions,
    ) -> Result<(), Box<Status>> {
        let attributes = unstored(path, context, at, Operation::Create(options));
        let admission = &self.options.admission;
        admission.validate(&attributes, Some(object)).await
    }

    /// Runs both stages of admission for a connection to what an object of this store represents,
    /// such as a pod's logs. `options` are those of the connection, from the query.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit_connection(
        &self,
        path: &dyn RestStorage,
        context: &RequestContext,
        at: NamespacedName<'_>,
        options: &mut Object,
    ) -> Result<(), Box<Status>> {
        let attributes = unstored(path, context, at, Operation::Connect);
        let admission = &self.options.admission;
        admission.admit(&attributes, Some(options)).await?;
        admission.validate(&attributes, Some(options)).await
    }

    /// Returns how an update uses the `resourceVersion` of the object that it starts from. It is
    /// read if a plugin must not see an object that is not durable yet. An update about which
    /// another server is asked takes no turn.
    pub(super) fn version_use(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        name: &str,
        own: VersionUse,
    ) -> VersionUse {
        if own == VersionUse::Names {
            return own;
        }
        let attributes = self.attributes(request, Operation::Update(options), name, None);
        let admission = &self.options.admission;
        if admission.waits(&attributes) {
            return VersionUse::Awaits;
        }
        match own == VersionUse::Ignores && admission.needs_durable(&attributes) {
            true => VersionUse::Reads,
            false => own,
        }
    }

    /// Returns how the mark of a deletion uses the version of the object.
    pub(super) fn version_use_of_deletion(
        &self,
        request: &Request<'_>,
        options: &DeleteOptions,
        name: &str,
    ) -> VersionUse {
        let operation = Operation::Delete(options);
        let attributes = self.attributes(request, operation, name, None);
        let is_asked = !request.context.is_eviction;
        match is_asked && self.options.admission.waits(&attributes) {
            true => VersionUse::Awaits,
            false => VersionUse::Reads,
        }
    }

    fn attributes<'w>(
        &'w self,
        request: &Request<'w>,
        operation: Operation<'w>,
        name: &'w str,
        old_object: Option<&'w Object>,
    ) -> Attributes<'w> {
        let definition = self.definition();
        let part = request.subresource;
        Attributes {
            operation,
            definition,
            kind: part.map_or(definition, |part| part.kind(definition)),
            stored: self.working(),
            subresource: request.subresource.map(|part| part.name.as_str()),
            namespace: request.namespace.filter(|_| definition.is_namespaced()),
            name: match request.context.is_for_collection {
                true => "",
                false => name,
            },
            old_object,
            user: &request.context.user,
            warnings: &request.context.warnings,
            annotations: request.context.annotations.as_ref(),
            versions: &self.stored_resource().versions,
            converter: self.converter(),
            deadline: request.context.deadline,
            rounds: Rounds::default(),
        }
    }
}

/// Returns the attributes of a request that stores nothing at its path.
pub fn unstored<'w>(
    path: &'w dyn RestStorage,
    context: &'w RequestContext,
    at: NamespacedName<'w>,
    operation: Operation<'w>,
) -> Attributes<'w> {
    Attributes {
        operation,
        definition: path.resource(),
        kind: path.request_kind(),
        stored: path.request_kind(),
        subresource: path.subresource(),
        namespace: at.namespace,
        name: at.name,
        old_object: None,
        user: &context.user,
        warnings: &context.warnings,
        annotations: context.annotations.as_ref(),
        versions: &[],
        converter: None,
        deadline: context.deadline,
        rounds: Rounds::default(),
    }
}

/// Restores managedFields that admission plugins have made unreadable, and warns the client
/// (API-189).
fn keep_readable(object: &mut Object, request: &Request<'_>) {
    let Err(error) = managed_fields::adopt(object) else {
        return;
    };
    object.metadata_mut().remove("managedFields");
    request.context.warnings.add(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by \
         an outdated mutating admission controller; please fix your requests: {error}"
    ));
}

/// Returns the operation of a write: an update if there is a stored object, else a create.
fn writing<'w>(options: &'w WriteOptions, stored: Option<&Object>) -> Operation<'w> {
    match stored {
        None => Operation::Create(options),
        Some(_) => Operation::Update(options),
    }
}
