//! All roles and bindings, by those who get them. Pure.
//!
//! A decision looks up the user and each group of the user, so it takes as long with ten bindings
//! as with ten thousand.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use smol_str::SmolStr;

use super::filter::RuleFilter;
use super::objects::{Binding, RoleKind, Subject, SubjectKey};
use super::rule::PolicyRule;
use crate::api::text::quoting::go_quote;
use crate::api::user_info::UserInfo;
use crate::auth::{Attributes, aggregate};

/// The roles and bindings of a cluster.
#[derive(Default)]
pub struct RbacIndex {
    /// The roles by namespace, which is empty for ClusterRoles, and name.
    roles: HashMap<SmolStr, HashMap<SmolStr, Role>>,
    /// All bindings by namespace, which is empty for ClusterRoleBindings, and name.
    bindings: HashMap<SmolStr, HashMap<SmolStr, Arc<Binding>>>,
    /// The bindings of each subject by namespace, and sorted by name.
    by_subject: HashMap<SubjectKey, HashMap<SmolStr, BTreeMap<SmolStr, Arc<Binding>>>>,
}

/// The rules of a role, and the filter of each.
struct Role {
    rules: Arc<[PolicyRule]>,
    filters: Arc<[RuleFilter]>,
}

/// A binding that applies to a user, with the rules of its role.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The binding.
    pub binding: Arc<Binding>,
    /// The rules of the role. `None` if the role is absent.
    pub rules: Option<Arc<[PolicyRule]>>,
    /// Whether a grant before this one has the same role, so that nothing new is granted.
    pub is_repeated: bool,
    /// The filters of the rules.
    filters: Arc<[RuleFilter]>,
    /// The reason of allowances by this grant, once one was given.
    reason: OnceLock<SmolStr>,
}

/// The decision of RBAC about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A rule allows it, for this reason (AC-66).
    Allowed(SmolStr),
    /// No rule allows it. The reason names the roles that bindings of the user lack, and is empty
    /// if they lack none.
    NoOpinion(SmolStr),
}

impl RbacIndex {
    /// Adds or changes a role. `namespace` is empty for a ClusterRole.
    pub fn set_role(&mut self, namespace: &str, name: &str, rules: Arc<[PolicyRule]>) {
        let filters = rules.iter().map(RuleFilter::of_rule).collect();
        let roles = self.roles.entry(namespace.into()).or_default();
        roles.insert(name.into(), Role { rules, filters });
    }

    /// Removes a role.
    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        if let Some(roles) = self.roles.get_mut(namespace) {
            roles.remove(name);
            if roles.is_empty() {
                self.roles.remove(namespace);
            }
        }
    }

    /// Removes all roles, or those of all namespaces.
    pub fn clear_roles(&mut self, kind: RoleKind) {
        self.roles
            .retain(|namespace, _| namespace.is_empty() != (kind == RoleKind::ClusterRole));
    }

    /// Adds or changes a binding.
    pub fn set_binding(&mut self, binding: Binding) {
        self.remove_binding(&binding.namespace.clone(), &binding.name.clone());
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let places = self.by_subject.entry(subject.key()).or_default();
            let here = places.entry(binding.namespace.clone()).or_default();
            here.insert(binding.name.clone(), Arc::clone(&binding));
        }
        let known = self.bindings.entry(binding.namespace.clone()).or_default();
        known.insert(binding.name.clone(), binding);
    }

    /// Removes a binding. `namespace` is empty for a ClusterRoleBinding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(known) = self.bindings.get_mut(namespace) else {
            return;
        };
        let removed = known.remove(name);
        if known.is_empty() {
            self.bindings.remove(namespace);
        }
        for subject in removed.iter().flat_map(|binding| &binding.subjects) {
            let key = subject.key();
            let Some(places) = self.by_subject.get_mut(&key) else {
                continue;
            };
            if let Some(here) = places.get_mut(namespace) {
                here.remove(name);
                if here.is_empty() {
                    places.remove(namespace);
                }
            }
            if places.is_empty() {
                self.by_subject.remove(&key);
            }
        }
    }

    /// Removes all ClusterRoleBindings, or all RoleBindings.
    pub fn clear_bindings(&mut self, of_cluster: bool) {
        let gone = self.bindings.iter();
        let gone = gone.filter(|(namespace, _)| namespace.is_empty() == of_cluster);
        let gone = gone.flat_map(|(namespace, known)| {
            known.keys().map(|name| (namespace.clone(), name.clone()))
        });
        for (namespace, name) in gone.collect::<Vec<_>>() {
            self.remove_binding(&namespace, &name);
        }
    }

    /// Returns the number of bindings.
    pub fn bindings(&self) -> usize {
        self.bindings.values().map(HashMap::len).sum()
    }

    /// Returns whether there are no roles and no bindings.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty() && self.by_subject.is_empty()
    }

    /// Returns all that a user was granted in the whole cluster, and then in a namespace if one is
    /// given. Bindings are sorted by name, and each occurs once.
    pub fn grants(&self, user: &UserInfo, namespace: &str) -> Vec<Grant> {
        let mut grants = self.grants_in(user, "");
        if !namespace.is_empty() {
            grants.extend(self.grants_in(user, namespace));
        }
        let mut roles = HashSet::new();
        for grant in &mut grants {
            let rules = grant.rules.as_ref();
            let is_new = rules.is_none_or(|rules| roles.insert(rules.as_ptr().addr()));
            grant.is_repeated = !is_new;
        }
        grants
    }

    fn grants_in(&self, user: &UserInfo, namespace: &str) -> Vec<Grant> {
        let own = SubjectKey::User(SmolStr::new(&user.name));
        let groups = user
            .groups
            .iter()
            .map(|name| SubjectKey::Group(name.into()));
        let keys = std::iter::once(own).chain(groups);
        let found = keys.filter_map(|key| self.by_subject.get(&key)?.get(namespace));
        let mut all = BTreeMap::new();
        for bindings in found {
            all.extend(bindings);
        }
        let grant = |binding: &Arc<Binding>| {
            let role = self.role_of(binding);
            Grant {
                is_repeated: false,
                rules: role.map(|role| Arc::clone(&role.rules)),
                filters: role.map_or_else(Arc::default, |role| Arc::clone(&role.filters)),
                binding: Arc::clone(binding),
                reason: OnceLock::new(),
            }
        };
        all.into_values().map(grant).collect()
    }

    /// Returns the rules of a role. `namespace` is empty for a ClusterRole.
    pub fn role(&self, namespace: &str, name: &str) -> Option<&Arc<[PolicyRule]>> {
        self.roles.get(namespace)?.get(name).map(|role| &role.rules)
    }

    /// Returns the role that a binding names.
    fn role_of(&self, binding: &Binding) -> Option<&Role> {
        binding.role_kind?;
        let roles = self.roles.get(binding.role_namespace())?;
        roles.get(&binding.role)
    }
}

/// Returns the first subject that is the user.
fn first_subject<'b>(binding: &'b Binding, user: &UserInfo) -> Option<&'b Subject> {
    let groups: HashSet<&str> = user.groups.iter().map(String::as_str).collect();
    let is = |subject: &&Subject| match subject {
        Subject::User(name) => *name == user.name,
        Subject::ServiceAccount { user: name, .. } => *name == user.name,
        Subject::Group(name) => groups.contains(name.as_str()),
    };
    // linear: once for the binding that allows; its author wrote the subjects.
    binding.subjects.iter().find(is)
}

/// Decides about a request, by all that its user was granted.
pub fn decide(grants: &[Grant], request: &Attributes<'_>) -> Verdict {
    let filter = RuleFilter::of_request(request);
    // linear: the rules of one user, each role once.
    let allowing = grants
        .iter()
        .find(|grant| !grant.is_repeated && grant.allows(request, filter));
    match allowing {
        Some(grant) => {
            let reason = grant.reason.get_or_init(|| grant.reason(request.user));
            Verdict::Allowed(reason.clone())
        }
        None => Verdict::NoOpinion(lacking(grants)),
    }
}

impl Grant {
    fn allows(&self, request: &Attributes<'_>, filter: RuleFilter) -> bool {
        let rules = self.rules.as_deref().unwrap_or_default();
        let mut rules = self.filters.iter().zip(rules);
        // linear: the rules of one role.
        rules.any(|(of_rule, rule)| of_rule.may_allow(filter) && rule.allows(request))
    }

    /// Returns the reason of an allowance (AC-66).
    fn reason(&self, user: &UserInfo) -> SmolStr {
        let Binding {
            namespace,
            name,
            role,
            ..
        } = &*self.binding;
        let kind = self.binding.role_kind.unwrap_or(RoleKind::ClusterRole);
        let mut reason = match namespace.is_empty() {
            true => format!("RBAC: allowed by ClusterRoleBinding {}", go_quote(name)),
            false => {
                let binding = go_quote(&format!("{name}/{namespace}"));
                format!("RBAC: allowed by RoleBinding {binding}")
            }
        };
        let _ = write!(reason, " of {kind} {}", go_quote(role));
        if let Some(subject) = first_subject(&self.binding, user) {
            let _ = write!(reason, " to {subject}");
        }
        reason.into()
    }

    /// Returns why the role of the binding grants nothing, if it is absent.
    pub fn error(&self) -> Option<String> {
        if self.rules.is_some() {
            return None;
        }
        let role = go_quote(&self.binding.role);
        Some(match self.binding.role_kind {
            Some(RoleKind::ClusterRole) => {
                format!("clusterrole.rbac.authorization.k8s.io {role} not found")
            }
            Some(RoleKind::Role) => format!("role.rbac.authorization.k8s.io {role} not found"),
            None => format!("unsupported role reference kind: {role}"),
        })
    }
}

/// The number of absent roles that a reason names. A user may have thousands of bindings to such
/// roles, and each refusal would name all of them.
const ABSENT_ROLES_MAX: usize = 64;

/// Returns the reason of a request that no rule allows.
fn lacking(grants: &[Grant]) -> SmolStr {
    match absent_roles(grants) {
        Some(errors) => format!("RBAC: {errors}").into(),
        None => SmolStr::default(),
    }
}

/// Returns the errors of bindings that name absent roles, in Kubernetes' words. `None` if all roles
/// are there.
pub fn absent_roles(grants: &[Grant]) -> Option<String> {
    let absent = grants.iter().filter(|grant| grant.rules.is_none());
    let more = absent.clone().count().saturating_sub(ABSENT_ROLES_MAX);
    let absent = absent.take(ABSENT_ROLES_MAX);
    let mut errors: Vec<String> = absent.filter_map(Grant::error).collect();
    if more > 0 {
        errors.push(format!("and {more} more"));
    }
    aggregate(&errors)
}
