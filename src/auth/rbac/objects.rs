//! Roles and bindings, as they are read from cached objects. Pure.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

use super::rule::{PolicyRule, list};
use crate::api::text::quoting::go_quote;

/// The kind of role that a binding refers to, or of a role itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleKind {
    /// A role of the whole cluster.
    ClusterRole,
    /// A role of one namespace.
    Role,
}

impl fmt::Display for RoleKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RoleKind::ClusterRole => "ClusterRole",
            RoleKind::Role => "Role",
        })
    }
}

/// A ClusterRoleBinding, or a RoleBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The namespace, empty for a ClusterRoleBinding.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
    /// The kind of the role that it grants. `None` for a kind that RBAC does not know, which
    /// grants nothing.
    pub role_kind: Option<RoleKind>,
    /// The name of the role.
    pub role: SmolStr,
    /// Those who get the role.
    pub subjects: Vec<Subject>,
}

/// One who gets a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A user.
    User(SmolStr),
    /// The members of a group.
    Group(SmolStr),
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: SmolStr,
        /// Its name.
        name: SmolStr,
        /// The name of its user.
        user: SmolStr,
    },
}

impl fmt::Display for Subject {
    /// As the reason of a decision names it (AC-66).
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::User(name) => write!(out, "User {}", go_quote(name)),
            Subject::Group(name) => write!(out, "Group {}", go_quote(name)),
            Subject::ServiceAccount {
                namespace, name, ..
            } => {
                let account = go_quote(&format!("{name}/{namespace}"));
                write!(out, "ServiceAccount {account}")
            }
        }
    }
}

/// A key of the subjects that a binding applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectKey {
    /// The name of a user.
    User(SmolStr),
    /// The name of a group.
    Group(SmolStr),
}

impl Subject {
    /// Returns the key by which the subject is found.
    pub fn key(&self) -> SubjectKey {
        match self {
            Subject::User(name) => SubjectKey::User(name.clone()),
            Subject::Group(name) => SubjectKey::Group(name.clone()),
            Subject::ServiceAccount { user, .. } => SubjectKey::User(user.clone()),
        }
    }
}

#[derive(Deserialize)]
struct BindingText {
    #[serde(default, rename = "roleRef")]
    role: RoleRefText,
    #[serde(default, deserialize_with = "list")]
    subjects: Vec<SubjectText>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RoleRefText {
    kind: String,
    name: SmolStr,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SubjectText {
    kind: String,
    name: SmolStr,
    namespace: SmolStr,
}

#[derive(Deserialize)]
struct RoleText {
    #[serde(default, deserialize_with = "list")]
    rules: Vec<PolicyRule>,
}

impl Binding {
    /// Reads a binding from its JSON. `namespace` is empty for a ClusterRoleBinding. Subjects of
    /// unknown kinds are left out, because they match nobody.
    ///
    /// # Errors
    /// The text is not that of a binding.
    pub fn read(namespace: &str, name: &str, json: &[u8]) -> Result<Binding, serde_json::Error> {
        let text: BindingText = serde_json::from_slice(json)?;
        let role_kind = match text.role.kind.as_str() {
            "ClusterRole" => Some(RoleKind::ClusterRole),
            "Role" if !namespace.is_empty() => Some(RoleKind::Role),
            _ => None,
        };
        let subject = |text: SubjectText| match text.kind.as_str() {
            "User" => Some(Subject::User(text.name)),
            "Group" => Some(Subject::Group(text.name)),
            "ServiceAccount" => {
                let of = match text.namespace.is_empty() {
                    true => SmolStr::new(namespace),
                    false => text.namespace,
                };
                // An account without a namespace is that of no user.
                let user = format_smolstr!("system:serviceaccount:{of}:{}", text.name);
                (!of.is_empty()).then_some(Subject::ServiceAccount {
                    user,
                    namespace: of,
                    name: text.name,
                })
            }
            _ => None,
        };
        Ok(Binding {
            namespace: namespace.into(),
            name: name.into(),
            role_kind,
            role: text.role.name,
            subjects: text.subjects.into_iter().filter_map(subject).collect(),
        })
    }

    /// Returns the namespace of the role, empty for a ClusterRole.
    pub fn role_namespace(&self) -> &str {
        match self.role_kind {
            Some(RoleKind::Role) => &self.namespace,
            Some(RoleKind::ClusterRole) | None => "",
        }
    }
}

/// Reads the rules of a Role or ClusterRole from its JSON.
///
/// # Errors
/// The text is not that of a role.
pub fn read_rules(json: &[u8]) -> Result<Arc<[PolicyRule]>, serde_json::Error> {
    let text: RoleText = serde_json::from_slice(json)?;
    Ok(text.rules.into())
}
