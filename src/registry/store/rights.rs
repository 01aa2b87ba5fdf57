//! Rights that a write needs in addition to that of its request.

use futures_util::future::BoxFuture;

use super::RegistryStore;
use super::admit::Request;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::auth::{Attributes, authorization};
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::strategy::Admitted;

/// A write whose author may need further rights.
#[derive(Clone, Copy)]
pub struct RightsQuestion<'w> {
    /// The version of the resource.
    pub definition: &'w ResourceDefinition,
    /// The context of the request.
    pub context: &'w RequestContext,
    /// The namespace of the URL.
    pub namespace: Option<&'w str>,
    /// The name in the URL, which a POST does not have.
    pub name: &'w str,
    /// The new object, as mutating admission has left it. It is not validated yet.
    pub object: &'w Object,
    /// The stored object, if there is one.
    pub stored: Option<&'w Object>,
}

/// Decides whether the author of an object may write it, by what the object says.
pub trait RightsCheck: Send + Sync {
    /// Checks a write after mutating admission and before validation, as kube-apiserver's storage
    /// of roles does (AC-59).
    ///
    /// # Errors
    /// 403 for an author who lacks rights, and the error of an object that can't be checked.
    fn check<'a>(&'a self, question: RightsQuestion<'a>) -> BoxFuture<'a, Result<(), Box<Status>>>;
}

impl RegistryStore {
    /// Checks the author's rights, if objects of the resource need any.
    pub(super) async fn check_rights(
        &self,
        request: &Request<'_>,
        name: &str,
        admitted: &Admitted,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let Some(rights) = &self.options.rights else {
            return Ok(());
        };
        let question = RightsQuestion {
            definition: self.definition(),
            context: request.context,
            namespace: request.namespace,
            name,
            object: admitted.object(),
            stored,
        };
        rights.check(question).await
    }

    /// Checks that the author of an update may create the object, because it is absent (AC-31).
    pub(super) async fn may_create(
        &self,
        request: &Request<'_>,
        name: &str,
    ) -> Result<(), Box<Status>> {
        let Some(authorizer) = &self.options.authorizer else {
            return Ok(());
        };
        let definition = self.definition();
        let user = &request.context.user;
        let (group, plural) = (&definition.group, &definition.plural);
        let attributes = Attributes {
            api_version: &definition.version,
            namespace: request.namespace.unwrap_or_default(),
            name,
            ..Attributes::on_resource(user, "create", group, plural)
        };
        authorization::authorize(&**authorizer, &attributes).await
    }

    /// Checks that the user of a connection may create it, because GET opens one, too (CN-47).
    ///
    /// # Errors
    /// 403, which gives the reason of the authorizers alone.
    pub async fn may_connect(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        subresource: &str,
    ) -> Result<(), Box<Status>> {
        let Some(authorizer) = &self.options.authorizer else {
            return Ok(());
        };
        let definition = self.definition();
        let (group, plural) = (&definition.group, &definition.plural);
        let attributes = Attributes {
            api_version: &definition.version,
            namespace: at.namespace.unwrap_or_default(),
            name: at.name,
            subresource,
            ..Attributes::on_resource(&context.user, "create", group, plural)
        };
        let answer = authorizer.authorize(&attributes).await;
        match (answer.is_allowed(), answer.error) {
            (true, _) => Ok(()),
            (false, Some(error)) => Err(Box::new(Status::internal(error))),
            (false, None) => {
                let refused = Status::forbidden(definition, at.name, &answer.reason);
                Err(Box::new(refused))
            }
        }
    }
}
