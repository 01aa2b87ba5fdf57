//! The right of authors of policies and bindings to read the parameters (HK-64).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Value as Json;

use super::definition::ParamKind;
use super::{Parameters, Policy};
use crate::admission::hooks::{HOOKS_GROUP, HookSource};
use crate::admission::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::field_error::FieldError;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::user_info::{MASTERS, UserInfo};
use crate::auth;

/// Checks that authors may read the parameters to which their policies and bindings refer.
pub struct ParameterRights {
    /// The validating policies.
    pub validating: Arc<dyn HookSource<Policy>>,
    /// The mutating policies.
    pub mutating: Arc<dyn HookSource<Policy>>,
    /// Finds kinds of parameters.
    pub parameters: Arc<dyn Parameters>,
    /// Decides what authors may do.
    pub authorizer: Arc<dyn auth::Authorizer>,
}

/// A namespace and the name of an object.
#[derive(Clone, Copy)]
struct At<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// All objects in all namespaces.
const EVERYWHERE: At<'static> = At {
    namespace: "*",
    name: "*",
};

/// A resource with its version. Unknown parts are `*`.
struct Resource {
    group: String,
    version: String,
    plural: String,
}

impl Default for Resource {
    fn default() -> Resource {
        Resource {
            group: "*".to_owned(),
            version: "*".to_owned(),
            plural: "*".to_owned(),
        }
    }
}

impl ParameterRights {
    /// Returns what is known about a kind of parameters, and whether it is served.
    fn resource(&self, kind: &ParamKind) -> (Resource, bool) {
        let (group, version) = kind.parts();
        let found = self.parameters.find(group, version, &kind.kind);
        let is_served = found.is_some();
        let resource = Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: found.map_or_else(|| "*".to_owned(), |found| found.plural),
        };
        (resource, is_served)
    }

    async fn may(
        &self,
        attributes: &Attributes<'_>,
        resource: &Resource,
        verb: &str,
        at: At<'_>,
    ) -> bool {
        let question = auth::Attributes {
            api_version: &resource.version,
            namespace: at.namespace,
            name: at.name,
            ..auth::Attributes::on_resource(
                attributes.user,
                verb,
                &resource.group,
                &resource.plural,
            )
        };
        self.authorizer.authorize(&question).await.is_allowed()
    }

    async fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Box<Status>> {
        let (member, refusal) = match &*attributes.definition.plural {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
                ("paramKind", self.of_policy(attributes, object).await)
            }
            "validatingadmissionpolicybindings" => {
                let policies = &*self.validating;
                let refusal = self.of_binding(attributes, object, policies).await;
                ("paramRef", refusal)
            }
            _ => {
                let policies = &*self.mutating;
                let refusal = self.of_binding(attributes, object, policies).await;
                ("paramRef", refusal)
            }
        };
        let Some(why) = refusal else {
            return Ok(());
        };
        let errors = [FieldError::forbidden(format!("spec.{member}"), why)];
        Err(Box::new(Status::invalid_object(
            attributes.definition,
            object.name(),
            &errors,
        )))
    }

    async fn of_policy(&self, attributes: &Attributes<'_>, object: &Object) -> Option<String> {
        let path = ["spec", "paramKind"];
        let given = object.at(&path).filter(|given| !given.is_null())?;
        let old = attributes.old_object.and_then(|old| old.at(&path));
        if old == Some(given) {
            return None;
        }
        let kind = ParamKind::of(given);
        let (resource, _) = self.resource(&kind);
        if self.may(attributes, &resource, "get", EVERYWHERE).await {
            return None;
        }
        let (user, ParamKind { api_version, kind }) = (GoUser(attributes.user), kind);
        Some(format!(
            "user {user} must have \"get\" permission on all objects of the referenced paramKind \
             (kind={kind}, apiVersion={api_version})"
        ))
    }

    async fn of_binding(
        &self,
        attributes: &Attributes<'_>,
        object: &Object,
        policies: &dyn HookSource<Policy>,
    ) -> Option<String> {
        let path = ["spec", "paramRef"];
        let given = object.at(&path).filter(|given| !given.is_null())?;
        let policy_name = object.text(&["spec", "policyName"]);
        let is_same = |old: &Object| {
            old.at(&path) == Some(given) && old.text(&["spec", "policyName"]) == policy_name
        };
        if attributes.old_object.is_some_and(is_same) {
            return None;
        }
        let known = policies.newest();
        let policy = known.as_ref().and_then(|all| all.by_name.get(policy_name));
        let kind = policy.and_then(|policy| policy.spec.param_kind.as_ref());
        let (resource, is_served) = match kind {
            Some(kind) => self.resource(kind),
            None => (Resource::default(), true),
        };
        let text = |name: &str| given.get(name).and_then(Json::as_str).unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let verb = if name.is_empty() { "list" } else { "get" };
        if self
            .may(attributes, &resource, verb, At { namespace, name })
            .await
        {
            return None;
        }
        let user = GoUser(attributes.user);
        let everything = format!(
            "to determine minimum required permissions and user {user} does not have \"{verb}\" \
             permission for all groups, versions and resources"
        );
        Some(match (policy, kind) {
            (None, _) => format!("unable to get policy {policy_name} {everything}"),
            (_, Some(kind)) if !is_served => format!(
                "unable to resolve paramKind &ParamKind{{APIVersion:{},Kind:{},}} {everything}",
                kind.api_version, kind.kind
            ),
            _ => format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by \
                 paramRef"
            ),
        })
    }
}

/// A user as Go prints it.
struct GoUser<'u>(&'u UserInfo);

impl fmt::Display for GoUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserInfo {
            name,
            uid,
            groups,
            extra,
        } = self.0;
        write!(f, "&{{{name} {uid} [{}] map[", groups.join(" "))?;
        let extra: &BTreeMap<String, Vec<String>> = extra;
        for (place, (key, values)) in extra.iter().enumerate() {
            let separator = if place == 0 { "" } else { " " };
            write!(f, "{separator}{key}:[{}]", values.join(" "))?;
        }
        f.write_str("]}")
    }
}

impl Plugin for ParameterRights {
    fn name(&self) -> &'static str {
        "ParameterRights"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let definition = attributes.definition;
        let is_written = matches!(
            attributes.operation,
            Operation::Create(_) | Operation::Update(_)
        );
        is_written
            && definition.group == HOOKS_GROUP
            && definition.plural.contains("admissionpolic")
            && attributes.subresource.is_none()
            && !attributes.user.is_in(MASTERS)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for ParameterRights {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(object) => self.check(attributes, object).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}
