//! Nobody writes roles and bindings that give more than their author has (API-289, AC-59 to AC-64).

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use super::RbacAuthorizer;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::api::user_info::MASTERS;
use crate::auth::rbac::{Grant, Lacking, PolicyRule, absent_roles, covers, quoted, read_rules};
use crate::auth::{Attributes, Authorizer};
use crate::registry::store::{RightsCheck, RightsQuestion};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks the rights of authors of roles and bindings.
pub struct Escalation {
    rbac: Arc<RbacAuthorizer>,
    authorizer: Arc<dyn Authorizer>,
}

impl Escalation {
    /// Creates a check by these roles and bindings, and by the authorizers for the verbs `escalate`
    /// and `bind`.
    pub fn new(rbac: Arc<RbacAuthorizer>, authorizer: Arc<dyn Authorizer>) -> Escalation {
        Escalation { rbac, authorizer }
    }

    async fn checked(&self, question: RightsQuestion<'_>) -> Result<(), Box<Status>> {
        let RightsQuestion {
            definition,
            context,
            object,
            stored,
            ..
        } = question;
        if context.user.is_in(MASTERS) || stored.is_some_and(|stored| collects(stored, object)) {
            return Ok(());
        }
        match definition.plural.as_str() {
            "roles" | "clusterroles" => self.check_role(&question).await,
            _ => self.check_binding(&question).await,
        }
    }

    async fn check_role(&self, question: &RightsQuestion<'_>) -> Result<(), Box<Status>> {
        let resource = &question.definition.plural;
        if self
            .may(question, "escalate", resource, question.name)
            .await
        {
            return Ok(());
        }
        let rules = rules_of(question.object);
        self.confirm(question, &rules)
            .map_err(|why| refused(question, &why))?;
        let is_aggregated = |object: &Object| {
            let rule = object.0.get("aggregationRule");
            rule.is_some_and(|rule| !rule.is_null())
        };
        let is_concerned =
            is_aggregated(question.object) || question.stored.is_some_and(is_aggregated);
        if !question.definition.is_namespaced() && is_concerned {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.confirm(question, &everything())
                .map_err(|_| refused(question, why))?;
        }
        Ok(())
    }

    async fn check_binding(&self, question: &RightsQuestion<'_>) -> Result<(), Box<Status>> {
        let text = |name| {
            question
                .object
                .at(&["roleRef", name])
                .and_then(Value::as_str)
        };
        let role = text("name").unwrap_or_default();
        let namespace = question.namespace.unwrap_or_default();
        let (resource, of) = match text("kind").unwrap_or_default() {
            "ClusterRole" => ("clusterroles", ""),
            "Role" => ("roles", namespace),
            other => {
                let why = format!("unsupported role reference kind: {}", go_quote(other));
                return Err(Box::new(Status::unknown(why)));
            }
        };
        if self.may(question, "bind", resource, role).await {
            return Ok(());
        }
        if resource == "roles" && namespace.is_empty() {
            let why = "Namespace parameter required.";
            return Err(Box::new(Status::bad_request(why)));
        }
        if role.is_empty() {
            return Err(Box::new(Status::bad_request("Name parameter required.")));
        }
        let rules = self.rbac.rules_of(of, role);
        let rules = rules.ok_or_else(|| Box::new(Status::not_found(question.definition, role)))?;
        self.confirm(question, &rules)
            .map_err(|why| refused(question, &why))
    }

    /// Asks for a verb on roles, in the namespace of the request.
    async fn may(
        &self,
        question: &RightsQuestion<'_>,
        verb: &str,
        resource: &str,
        name: &str,
    ) -> bool {
        let attributes = Attributes {
            namespace: question.namespace.unwrap_or_default(),
            name,
            ..Attributes::on_resource(&question.context.user, verb, GROUP, resource)
        };
        self.authorizer.authorize(&attributes).await.is_allowed()
    }

    /// Checks that the author has all rights of these rules.
    fn confirm(&self, question: &RightsQuestion<'_>, rules: &[PolicyRule]) -> Result<(), String> {
        let user = &question.context.user;
        let grants = self
            .rbac
            .grants(user, question.namespace.unwrap_or_default());
        let held = grants.iter().filter(|grant| !grant.is_repeated);
        let held = held.filter_map(|grant| grant.rules.as_deref());
        let lacking = match covers(held.flatten(), rules) {
            Ok(()) => return Ok(()),
            Err(lacking) => lacking,
        };
        let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
        let (name, groups) = (go_quote(&user.name), quoted(&groups));
        let said = match lacking {
            Lacking::Rights(lines) => lines.join("\n"),
            Lacking::TooMany => {
                "the rules name too many rights to compare; split them, or use *".to_owned()
            }
        };
        let absent =
            absent_in_plural(&grants).map(|absent| format!("; resolution errors: [{absent}]"));
        Err(format!(
            "user {name} (groups=[{groups}]) is attempting to grant RBAC permissions not currently \
             held:\n{said}{}",
            absent.unwrap_or_default()
        ))
    }
}

impl RightsCheck for Escalation {
    fn check<'a>(&'a self, question: RightsQuestion<'a>) -> BoxFuture<'a, Result<(), Box<Status>>> {
        self.checked(question).boxed()
    }
}

fn refused(question: &RightsQuestion<'_>, why: &str) -> Box<Status> {
    let name = question.object.name();
    Box::new(Status::forbidden(question.definition, name, why))
}

/// Returns the errors of absent roles with the plural of their resources, as kube-apiserver's
/// storage names them.
fn absent_in_plural(grants: &[Grant]) -> Option<String> {
    let errors = absent_roles(grants)?;
    Some(errors.replace(
        "role.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
    ))
}

/// Returns the rules of a role. Rules that can't be read are refused by validation.
fn rules_of(role: &Object) -> Arc<[PolicyRule]> {
    let rules = role.0.get("rules").cloned().unwrap_or_default();
    let text = serde_json::json!({ "rules": rules }).to_string();
    read_rules(text.as_bytes()).unwrap_or_default()
}

/// Returns the rules of somebody who may do everything.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        },
    ]
}

/// The members of metadata that a garbage collector changes, and those that follow from a write.
const COLLECTED: [&str; 4] = [
    "ownerReferences",
    "finalizers",
    "resourceVersion",
    "managedFields",
];

/// Returns whether an update changes nothing but the members that a garbage collector changes
/// (AC-63).
fn collects(stored: &Object, object: &Object) -> bool {
    let [before, after] = [stored, object].map(Object::metadata);
    let is_same = match (before, after) {
        (Some(before), Some(after)) => are_equal(before, after, &COLLECTED),
        (before, after) => before == after,
    };
    is_same && are_equal(&stored.0, &object.0, &["metadata"])
}

/// Returns whether two objects have the same members, but for some.
fn are_equal(one: &Map<String, Value>, other: &Map<String, Value>, but: &[&str]) -> bool {
    // linear: at most four names.
    let rest = |of: &Map<String, Value>| {
        of.keys()
            .filter(|name| !but.contains(&name.as_str()))
            .count()
    };
    // linear: at most four names.
    let mut members = one.iter().filter(|(name, _)| !but.contains(&name.as_str()));
    rest(one) == rest(other) && members.all(|(name, value)| other.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    #[test]
    fn a_garbage_collector_changes_four_members_ac_63() {
        let stored = json!({
            "metadata": { "name": "r", "finalizers": ["f"], "resourceVersion": "1" },
            "rules": [{ "verbs": ["get"] }],
        });
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut next = stored.clone();
            change(&mut next);
            collects(&object(&stored), &object(&next))
        };
        assert!(changed(&|_| {}));
        for member in COLLECTED {
            assert!(changed(&|next| next["metadata"][member] = json!("x")));
            let without = |next: &mut Value| {
                next["metadata"].as_object_mut().unwrap().remove(member);
            };
            assert!(changed(&without));
        }
        assert!(!changed(&|next| next["metadata"]["labels"] = json!({})));
        assert!(!changed(&|next| next["metadata"]["name"] = json!("s")));
        assert!(!changed(&|next| next["rules"] = json!([])));
        assert!(!changed(&|next| next["more"] = json!(1)));
        assert!(!changed(&|next| {
            next.as_object_mut().unwrap().remove("rules");
        }));
        assert!(!changed(&|next| {
            next.as_object_mut().unwrap().remove("metadata");
        }));
    }
}
