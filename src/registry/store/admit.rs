//! Calls to admission.

use super::RegistryStore;
use crate::admission::{Attributes, Operation};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::Subresource;
use crate::api::status::Status;
use crate::registry::context::RequestContext;

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

impl RegistryStore {
    /// The first stage of a write that stores an object, perhaps over a stored one. It may change
    /// the object, which is clean afterwards.
    pub(super) async fn admit(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        object: &mut Object,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let name = object.name().to_owned();
        let attributes = self.attributes(request, writing(options, stored), &name, stored);
        let admission = &self.options.admission;
        admission.admit(&attributes, Some(object)).await?;
        if admission.may_change() {
            self.clean(object, request.context);
        }
        Ok(())
    }

    /// The second stage, which may refuse the write.
    pub(super) async fn validate_admitted(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        object: &Object,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
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
        }
    }
}

/// The operation of a write that stores an object over this one.
fn writing<'w>(options: &'w WriteOptions, stored: Option<&Object>) -> Operation<'w> {
    match stored {
        None => Operation::Create(options),
        Some(_) => Operation::Update(options),
    }
}
