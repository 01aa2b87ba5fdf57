//! A policy: its line, and the requests that it allows. Pure.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::Attributes;
use crate::api::user_info::AUTHENTICATED;
use crate::documents::{KindAndVersion, Tree, types};
use crate::schema::ObjectType;

const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
/// The version whose lines are flat, also called by its name.
const FLAT_VERSION: &str = "abac.authorization.kubernetes.io/v0";
const KIND: &str = "Policy";

/// Matches every value.
const ANY: &str = "*";

pub(super) struct Types {
    pub(super) policy: ObjectType,
    pub(super) flat: ObjectType,
}

pub(super) static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let schema = types(include_str!("policies.txt"));
    Types {
        policy: schema.object_type("abac.Policy"),
        flat: schema.object_type("abac.Flat"),
    }
});

/// A policy. Empty texts are values that the line does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) user: String,
    pub(super) group: String,
    pub(super) is_read_only: bool,
    pub(super) api_group: String,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) path: String,
}

impl Policy {
    /// Reads a line.
    ///
    /// # Errors
    /// The fault in the line.
    pub(super) fn parse(line: &[u8]) -> Result<Policy, String> {
        let unknown = |why: String| format!("couldn't get version/kind; json parse error: {why}");
        let tree = Tree::read(line).map_err(unknown)?;
        let KindAndVersion { kind, api_version } = tree.kind_and_version().map_err(unknown)?;
        match (&*api_version, &*kind) {
            (VERSION, KIND) => {
                let document = tree.typed(&TYPES.policy)?;
                Ok(Policy::of_spec(document.value.get("spec")).with_any_group())
            }
            ("", _) | (_, "") | (FLAT_VERSION, KIND) => {
                Ok(Policy::of_flat(&tree.typed(&TYPES.flat)?.value))
            }
            _ => Err(format!(
                "no kind {kind:?} is registered for version {api_version:?}"
            )),
        }
    }

    fn of_spec(spec: Option<&Value>) -> Policy {
        let member = |name| spec.and_then(|spec| spec.get(name));
        let text = |name| member(name).and_then(Value::as_str).unwrap_or_default();
        Policy {
            user: text("user").to_owned(),
            group: text("group").to_owned(),
            is_read_only: member("readonly").and_then(Value::as_bool) == Some(true),
            api_group: text("apiGroup").to_owned(),
            resource: text("resource").to_owned(),
            namespace: text("namespace").to_owned(),
            path: text("nonResourcePath").to_owned(),
        }
    }

    /// A flat line allows more than one with a version: what it does not name is everything.
    fn of_flat(line: &Value) -> Policy {
        let mut policy = Policy::of_spec(Some(line)).with_any_group();
        if policy.user.is_empty() && policy.group.is_empty() {
            policy.group = AUTHENTICATED.to_owned();
        }
        if policy.namespace.is_empty() && policy.resource.is_empty() {
            policy.path = ANY.to_owned();
        }
        for part in [&mut policy.namespace, &mut policy.resource] {
            if part.is_empty() {
                *part = ANY.to_owned();
            }
        }
        policy.api_group = ANY.to_owned();
        policy
    }

    fn with_any_group(mut self) -> Policy {
        if self.user == ANY || self.group == ANY {
            self.group = AUTHENTICATED.to_owned();
        }
        self
    }

    /// Whether the user must have the name that the policy gives.
    pub(super) fn names_a_user(&self) -> bool {
        !self.user.is_empty() && self.user != ANY
    }

    /// Whether the policy allows a request of a user whom it is for.
    pub(super) fn allows(&self, request: &Attributes<'_>) -> bool {
        (!self.is_read_only || is_read(request))
            && match request.is_resource_request {
                true => {
                    matches(&self.namespace, request.namespace)
                        && matches(&self.resource, request.resource)
                        && matches(&self.api_group, request.api_group)
                }
                false => self.allows_path(request.path),
            }
    }

    fn allows_path(&self, path: &str) -> bool {
        let prefix = self.path.trim_end_matches('*');
        self.path == path || prefix.len() < self.path.len() && path.starts_with(prefix)
    }

    /// Whether the policy is for requests in this namespace.
    pub(super) fn is_for_namespace(&self, namespace: &str) -> bool {
        matches(&self.namespace, namespace)
    }

    /// The verbs that the policy allows.
    pub(super) fn verbs(&self) -> &'static [&'static str] {
        match self.is_read_only {
            true => &["get", "list", "watch"],
            false => &[ANY],
        }
    }
}

fn matches(wanted: &str, given: &str) -> bool {
    wanted == ANY || wanted == given
}

/// Whether a request only reads.
fn is_read(request: &Attributes<'_>) -> bool {
    match request.is_resource_request {
        true => matches!(request.verb, "get" | "list" | "watch"),
        false => request.verb == "get",
    }
}
