//! Asking admission about a write.

use super::RegistryStore;
use crate::admission::{Attributes, Operation};
use crate::api::object::Object;
use crate::api::resource::Subresource;
use crate::api::status::Status;
use crate::registry::context::RequestContext;

/// A write's request, without its content.
#[derive(Clone, Copy)]
pub(super) struct Request<'r> {
    /// Who asks.
    pub context: &'r RequestContext,
    /// The namespace of the URL.
    pub namespace: Option<&'r str>,
    /// The subresource of the URL.
    pub subresource: Option<&'r Subresource>,
    /// Whether anything is to be stored.
    pub dry_run: bool,
}

/// When admission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before validation: the object may be changed.
    Change,
    /// After it: the write may only be refused.
    Check,
}

impl RegistryStore {
    /// Asks admission about a write that stores an object, over the stored one if there is one.
    pub(super) async fn review(
        &self,
        stage: Stage,
        request: &Request<'_>,
        object: &mut Object,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let name = object.name().to_owned();
        let operation = match stored {
            None => Operation::Create,
            Some(_) => Operation::Update,
        };
        let attributes = self.attributes(operation, request, &name);
        self.ask(
            stage,
            request,
            Attributes {
                object: Some(object),
                stored,
                ..attributes
            },
        )
        .await
    }

    /// Asks admission about a deletion.
    pub(super) async fn review_deletion(
        &self,
        request: &Request<'_>,
        stored: &Object,
    ) -> Result<(), Box<Status>> {
        for stage in [Stage::Change, Stage::Check] {
            let attributes = self.attributes(Operation::Delete, request, stored.name());
            self.ask(
                stage,
                request,
                Attributes {
                    stored: Some(stored),
                    ..attributes
                },
            )
            .await?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        stage: Stage,
        request: &Request<'_>,
        mut attributes: Attributes<'_>,
    ) -> Result<(), Box<Status>> {
        let admission = &self.options.admission;
        let answer = match stage {
            Stage::Change => admission.admit(&mut attributes).await,
            Stage::Check => admission.validate(&mut attributes).await,
        };
        for warning in attributes.warnings {
            request.context.warnings.add(warning);
        }
        answer
    }

    fn attributes<'w>(
        &'w self,
        operation: Operation,
        request: &Request<'w>,
        name: &'w str,
    ) -> Attributes<'w> {
        Attributes {
            operation,
            definition: self.definition(),
            subresource: request.subresource.map(|part| part.name.as_str()),
            namespace: request
                .namespace
                .filter(|_| self.definition().is_namespaced()),
            name,
            object: None,
            stored: None,
            dry_run: request.dry_run,
            user: &request.context.user,
            warnings: Vec::new(),
        }
    }
}
