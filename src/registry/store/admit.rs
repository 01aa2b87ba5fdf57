//! Calls to admission.

use super::RegistryStore;
use super::create::deduplicate;
use crate::admission::{Attributes, Operation};
use crate::api::abandoned;
use crate::api::managed_fields;
use crate::api::metadata::OwnersStage;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::{Scaling, Subresource};
use crate::api::status::Status;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::rest::RestStorage;
use crate::registry::strategy::Form;

/// A write's request, without its content.
#[derive(Clone, Copy)]
pub(super) struct Request<'r> {
    /// The context of the request.
    pub context: &'r RequestContext,
    /// The namespace of the URL.
    pub namespace: Option<&'r str>,
    /// The subresource of the URL.
    pub subresource: Option<&'r Subresource>,
}

impl<'r> Request<'r> {
    /// How the subresource shows objects as Scales, if it does.
    pub(super) fn scaling(&self) -> Option<&'r Scaling> {
        self.subresource.and_then(|part| part.scaling.as_ref())
    }
}

impl RegistryStore {
    /// The first stage of a write that stores an object, perhaps over a stored one. It may change
    /// the object, which has the form of written objects afterwards. What is known of its form then
    /// leaves, of a new one what `form` says unless it was changed.
    pub(super) async fn admit(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        object: &mut Object,
        (stored, mut form): (Option<&Object>, Form),
    ) -> Result<Form, Box<Status>> {
        abandoned::check()?;
        let name = object.name().to_owned();
        let attributes = self.attributes(request, writing(options, stored), &name, stored);
        let admission = &self.options.admission;
        if admission.admit(&attributes, Some(object)).await? {
            form = self.strategy.complete_admitted(object);
            keep_readable(object, request);
        }
        deduplicate(object, OwnersStage::Admitted, request.context);
        Ok(form)
    }

    /// The second stage, which may refuse the write.
    pub(super) async fn validate_admitted(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        object: &Object,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        abandoned::check()?;
        let operation = writing(options, stored);
        let attributes = self.attributes(request, operation, object.name(), stored);
        self.options
            .admission
            .validate(&attributes, Some(object))
            .await
    }

    /// Both stages of a deletion.
    pub(super) async fn admit_deletion(
        &self,
        request: &Request<'_>,
        options: &DeleteOptions,
        stored: &Object,
    ) -> Result<(), Box<Status>> {
        let operation = Operation::Delete(options);
        let attributes = self.attributes(request, operation, stored.name(), Some(stored));
        let admission = &self.options.admission;
        admission.admit(&attributes, None).await?;
        admission.validate(&attributes, None).await
    }

    /// Both stages of a creation that stores nothing at its path, which belongs to this store.
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
        let attributes = Attributes {
            operation: Operation::Create(options),
            definition: path.resource(),
            subresource: path.subresource(),
            namespace: at.namespace,
            name: at.name,
            old_object: None,
            user: &context.user,
            warnings: &context.warnings,
            annotations: context.annotations.as_ref(),
        };
        let admission = &self.options.admission;
        admission.admit(&attributes, Some(object)).await?;
        admission.validate(&attributes, Some(object)).await
    }

    fn attributes<'w>(
        &'w self,
        request: &Request<'w>,
        operation: Operation<'w>,
        name: &'w str,
        old_object: Option<&'w Object>,
    ) -> Attributes<'w> {
        let definition = self.definition();
        Attributes {
            operation,
            definition,
            subresource: request.subresource.map(|part| part.name.as_str()),
            namespace: request.namespace.filter(|_| definition.is_namespaced()),
            name,
            old_object,
            user: &request.context.user,
            warnings: &request.context.warnings,
            annotations: request.context.annotations.as_ref(),
        }
    }
}

/// Restores managedFields that admission has made unreadable, and warns of that (API-189).
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

/// The operation of a write that stores an object over this one.
fn writing<'w>(options: &'w WriteOptions, stored: Option<&Object>) -> Operation<'w> {
    match stored {
        None => Operation::Create(options),
        Some(_) => Operation::Update(options),
    }
}
