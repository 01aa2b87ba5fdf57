//! Gives each ClusterRole with an aggregationRule the rules of the roles that it selects (AC-69),
//! as the controller of the same name in kube-controller-manager does. Without it `admin`, `edit`
//! and `view` give no rights.

use actors::tasks::until_stopped;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use tokio::sync::watch;

use super::Caches;
use super::cache_changes::{LooksAtAll, apply_as, at_each_change};
use crate::api::field::Field;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::kinds::validation::selectors;
use crate::registry::{NamespacedName, Registry, decoded};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
/// The field owner of the rules. The name is that of Kubernetes' controller, so both agree.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// The number of roles that aggregate each other in a row, after which their rules are written and
/// looked at again.
const ROUNDS_MAX: usize = 16;

/// The controller of one daemon.
pub(super) struct ClusterRoleAggregationController {
    registry: Registry,
    caches: Caches,
    stopped: watch::Receiver<bool>,
}

impl ClusterRoleAggregationController {
    pub(super) fn new(
        registry: Registry,
        caches: Caches,
        stopped: watch::Receiver<bool>,
    ) -> ClusterRoleAggregationController {
        ClusterRoleAggregationController {
            registry,
            caches,
            stopped,
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(self) {
        until_stopped(self.stopped.clone(), self.follow()).await;
    }

    async fn follow(&self) {
        let Some(cache) = (self.caches)(ROLES) else {
            return;
        };
        let retrying = "filling an aggregated ClusterRole failed, retrying";
        at_each_change(&cache, retrying, self).await;
    }

    async fn aggregate_all(&self) -> Result<(), Box<Status>> {
        let (cache, store) = ((self.caches)(ROLES), self.registry.current().named(ROLES));
        let (Some(cache), Some(store)) = (cache, store) else {
            return Ok(());
        };
        let Some(snapshot) = cache.snapshot() else {
            return Ok(());
        };
        let readable = snapshot.range(cache.prefix(), None).flatten();
        let mut roles = BTreeMap::new();
        for role in readable {
            let role = decoded(role)?;
            roles.insert(role.name().to_owned(), role);
        }
        for (name, rules) in changed_roles(&roles) {
            let Value::Object(members) = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": { "name": name },
                "rules": rules,
            }) else {
                continue;
            };
            let at = NamespacedName::in_cluster(name);
            apply_as(MANAGER, &store, at, None, Object::of(members)).await?;
        }
        Ok(())
    }
}

impl LooksAtAll for ClusterRoleAggregationController {
    fn look_at_all(&self) -> BoxFuture<'_, Result<(), Box<Status>>> {
        self.aggregate_all().boxed()
    }
}

/// Returns the names of the roles whose rules change, and their new rules. A role may aggregate
/// others that aggregate, so rules are computed again until none changes.
///
/// Roles that aggregate each other never settle on an order of their rules. They change only if
/// they lack a rule, or have one too many.
fn changed_roles(roles: &BTreeMap<String, Object>) -> Vec<(&str, Vec<Value>)> {
    let aggregating = roles.iter().filter(|(_, role)| is_aggregating(role));
    let aggregating: Vec<(&String, &Object)> = aggregating.collect();
    let mut changed = BTreeMap::new();
    let mut is_settled = false;
    for _ in 0..ROUNDS_MAX {
        is_settled = true;
        for (name, role) in &aggregating {
            let rules = aggregated(name, role, roles, &changed);
            if rules_of(name, role, &changed) != rules {
                is_settled = false;
                changed.insert(name.as_str(), rules);
            }
        }
        if is_settled {
            break;
        }
    }
    changed.retain(|name, rules| {
        let stored = stored_rules(&roles[*name]);
        match is_settled {
            true => stored != *rules,
            false => as_set(stored) != as_set(rules),
        }
    });
    changed.into_iter().collect()
}

/// Returns whether a role aggregates others. It does not if one of its selectors is invalid.
fn is_aggregating(role: &Object) -> bool {
    let aggregation = Field::of(role, "aggregationRule");
    let selectors = aggregation.member("clusterRoleSelectors");
    selectors.is_set() && selectors.items().all(|one| selectors::is_evaluable(&one))
}

fn stored_rules(role: &Object) -> &[Value] {
    let rules = role.0.get("rules").and_then(Value::as_array);
    rules.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the rules of a role, which may have changed.
fn rules_of<'r>(
    name: &str,
    role: &'r Object,
    changed: &'r BTreeMap<&str, Vec<Value>>,
) -> &'r [Value] {
    match changed.get(name) {
        Some(rules) => rules,
        None => stored_rules(role),
    }
}

fn as_set(rules: &[Value]) -> HashSet<String> {
    rules.iter().map(ToString::to_string).collect()
}

/// Returns the rules of all other roles that match a selector of a role: selectors in order, roles
/// by name, equal rules once.
fn aggregated(
    name: &str,
    role: &Object,
    roles: &BTreeMap<String, Object>,
    changed: &BTreeMap<&str, Vec<Value>>,
) -> Vec<Value> {
    let aggregation = Field::of(role, "aggregationRule");
    let mut rules = Vec::new();
    let mut known = HashSet::new();
    for selector in aggregation.member("clusterRoleSelectors").items() {
        for (other, role) in roles {
            let metadata = Field::of(role, "metadata");
            if other == name || !selectors::selects(&selector, &metadata.member("labels")) {
                continue;
            }
            for rule in rules_of(other, role, changed) {
                if known.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;
    use crate::api::user_info::UserInfo;
    use crate::auth::Attributes;
    use crate::auth::rbac::{Binding, RbacIndex, Verdict, decide, read_rules};

    fn roles(list: Value) -> BTreeMap<String, Object> {
        let mut roles = BTreeMap::new();
        for role in list.as_array().unwrap() {
            let object = Object::of(role.as_object().unwrap().clone());
            roles.insert(object.name().to_owned(), object);
        }
        roles
    }

    fn role(name: &str, labels: &Value, verbs: &[&str]) -> Value {
        let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
        json!({"metadata": {"name": name, "labels": labels}, "rules": rules})
    }

    #[test]
    fn rules_come_by_selector_and_name_and_once_ac_69() {
        let mut aggregated = role("a", &json!({"to": "x"}), &["own"]);
        aggregated["aggregationRule"] = json!({"clusterRoleSelectors": [
            {"matchExpressions": [{"key": "to", "operator": "In", "values": ["y"]}]},
            {"matchLabels": {"to": "x"}},
        ]});
        let list = json!([
            aggregated,
            role("c", &json!({"to": "x"}), &["get", "list"]),
            role("b", &json!({"to": "x"}), &["list", "watch"]),
            role("d", &json!({"to": "y"}), &["put"]),
            role("e", &json!({}), &["no"]),
        ]);
        let roles = roles(list);
        let changed = changed_roles(&roles);
        let expected = ["put", "list", "watch", "get"].map(|verb| json!({"verbs": [verb]}));
        assert_eq!(changed, [("a", expected.to_vec())]);
        let mut filled = roles.clone();
        let rules = changed.into_iter().next().unwrap().1;
        filled
            .get_mut("a")
            .unwrap()
            .0
            .insert("rules".to_owned(), rules.into());
        assert!(changed_roles(&filled).is_empty());
    }

    #[test]
    fn selectors_have_kubernetes_operators_ac_69() {
        // Whether an expression selects a role with the label `a=1`; `None` if it is invalid.
        let is = |expression: Value| {
            let mut all = role("all", &json!({}), &[]);
            all["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchExpressions": [expression]}]});
            let roles = roles(json!([all, role("r", &json!({"a": "1"}), &["get"])]));
            let all = &roles["all"];
            let rules = aggregated("all", all, &roles, &BTreeMap::new());
            is_aggregating(all).then_some(!rules.is_empty())
        };
        assert_eq!(is(json!({"key": "a", "operator": "Exists"})), Some(true));
        assert_eq!(
            is(json!({"key": "b", "operator": "DoesNotExist"})),
            Some(true)
        );
        assert_eq!(
            is(json!({"key": "a", "operator": "NotIn", "values": ["1"]})),
            Some(false)
        );
        assert_eq!(
            is(json!({"key": "b", "operator": "NotIn", "values": ["1"]})),
            Some(true)
        );
        assert_eq!(
            is(json!({"key": "b", "operator": "Gt", "values": ["1"]})),
            None
        );
    }

    /// Writes what changes until nothing does.
    fn settle(roles: &mut BTreeMap<String, Object>) {
        // Further looks than the longest chain of roles takes.
        for _ in 0..20 {
            let changed = changed_roles(roles);
            let changed: Vec<(String, Vec<Value>)> = changed
                .into_iter()
                .map(|(name, rules)| (name.to_owned(), rules))
                .collect();
            if changed.is_empty() {
                return;
            }
            for (name, rules) in changed {
                let role = roles.get_mut(&name).unwrap();
                role.0.insert("rules".to_owned(), rules.into());
            }
        }
        panic!("the rules change for ever: {roles:?}");
    }

    /// Returns a role that aggregates those with a label of this value.
    fn aggregating(name: &str, labels: &Value, values: &[&str]) -> Value {
        let selectors: Vec<Value> = values
            .iter()
            .map(|value| match *value {
                // Everything.
                "" => json!({}),
                value => json!({ "matchLabels": { (value): "1" } }),
            })
            .collect();
        let mut role = role(name, labels, &[]);
        role["aggregationRule"] = json!({ "clusterRoleSelectors": selectors });
        role
    }

    #[test]
    fn roles_that_aggregate_each_other_come_to_rest_ac_69() {
        let (x, y) = (json!({"x": "1"}), json!({"y": "1"}));
        let mut roles = roles(json!([
            aggregating("a", &x, &["y"]),
            aggregating("b", &y, &["x"]),
            role("c", &y, &["get"]),
            role("d", &x, &["list"]),
        ]));
        settle(&mut roles);
        for name in ["a", "b"] {
            let rules = as_set(stored_rules(&roles[name]));
            assert_eq!(
                rules,
                as_set(&[json!({"verbs": ["get"]}), json!({"verbs": ["list"]})])
            );
        }
    }

    #[test]
    fn roles_in_a_row_are_one_look_ac_69() {
        let label = |name: &str| json!({ (name): "1" });
        let mut roles = roles(json!([
            aggregating("a", &json!({}), &["x"]),
            aggregating("b", &label("x"), &["y"]),
            aggregating("c", &label("y"), &["z"]),
            role("d", &label("z"), &["get"]),
        ]));
        let names: Vec<&str> = changed_roles(&roles)
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        settle(&mut roles);
        assert_eq!(stored_rules(&roles["a"]), [json!({"verbs": ["get"]})]);
    }

    const LABELS: [&str; 3] = ["x", "y", "z"];

    /// A role by its labels, with the verbs of its rules or the labels that it aggregates.
    type Sketch = (
        Vec<&'static str>,
        Result<Vec<&'static str>, Vec<&'static str>>,
    );

    fn sketch() -> impl Strategy<Value = Sketch> {
        let verbs = subsequence(&["get", "list", "watch", "create"][..], 0..3);
        let selected = prop::collection::vec(select(&["x", "y", "z", "x", "y", ""][..]), 1..3);
        let what = prop_oneof![verbs.prop_map(Ok), selected.prop_map(Err)];
        (subsequence(&LABELS[..], 0..3), what)
    }

    /// Returns whether a role allows a verb by its own rules or by those that it selects, directly
    /// or through others.
    fn allows(at: usize, verb: &str, all: &[Sketch], seen: &mut BTreeSet<usize>) -> bool {
        if !seen.insert(at) {
            return false;
        }
        match &all[at].1 {
            Ok(verbs) => verbs.contains(&verb),
            Err(selected) => (0..all.len()).any(|other| {
                let is = |label: &&str| label.is_empty() || all[other].0.contains(label);
                other != at && selected.iter().any(is) && allows(other, verb, all, seen)
            }),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// AC-69, API-288: decisions by aggregated roles are those of a search through all roles.
        #[test]
        fn aggregated_roles_allow_what_a_search_finds_ac_69(
            all in prop::collection::vec(sketch(), 1..8)
        ) {
            let list = all.iter().enumerate().map(|(at, (labels, what))| {
                let labels: BTreeMap<&str, &str> =
                    labels.iter().map(|label| (*label, "1")).collect();
                let name = format!("r{at}");
                match what {
                    Ok(verbs) => {
                        let mut role = role(&name, &json!(labels), verbs);
                        for rule in role["rules"].as_array_mut().unwrap() {
                            rule["apiGroups"] = json!([""]);
                            rule["resources"] = json!(["pods"]);
                        }
                        role
                    }
                    Err(selected) => aggregating(&name, &json!(labels), selected),
                }
            });
            let mut roles = roles(list.collect());
            settle(&mut roles);
            for at in 0..all.len() {
                let mut index = RbacIndex::default();
                for (name, role) in &roles {
                    let text = serde_json::to_vec(&role.0).unwrap();
                    index.set_role("", name, read_rules(&text).unwrap());
                }
                let bound = json!({
                    "roleRef": { "kind": "ClusterRole", "name": format!("r{at}") },
                    "subjects": [{ "kind": "User", "name": "u" }],
                });
                let bound = Binding::read("", "b", bound.to_string().as_bytes()).unwrap();
                index.set_binding(bound);
                let user = UserInfo { name: "u".to_owned(), ..UserInfo::default() };
                for verb in ["get", "list", "watch", "create"] {
                    let request = Attributes::on_resource(&user, verb, "", "pods");
                    let verdict = decide(&index.grants(&user, ""), &request);
                    let is_allowed = matches!(verdict, Verdict::Allowed(_));
                    let expected = allows(at, verb, &all, &mut BTreeSet::new());
                    prop_assert_eq!(is_allowed, expected, "{} {}", at, verb);
                }
            }
        }
    }
}
