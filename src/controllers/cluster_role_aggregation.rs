//! Gives each ClusterRole with an aggregationRule the rules of the roles that it selects (AC-69),
//! as the controller of the same name in kube-controller-manager does. Without it `admin`, `edit`
//! and `view` give no rights.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use actors::cacher::CacheNews;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Caches, until_stopped};
use crate::api::field::Field;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::Status;
use crate::kinds::validation::selectors;
use crate::registry::{NamespacedName, Registry, RequestContext, UpdateSource, decoded};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
/// The field owner of the rules. The name is that of Kubernetes' controller, so both agree.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// The wait before failed writes are retried.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause between looks at the roles, so that a burst of changes is one look.
const PAUSE: Duration = Duration::from_millis(20);
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

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
        let mut follower = cache.follow();
        let mut is_due = false;
        loop {
            loop {
                match follower.read() {
                    CacheNews::Nothing | CacheNews::Filling => break,
                    CacheNews::Stopped => return,
                    CacheNews::State(_) | CacheNews::Events(_) => is_due = true,
                }
            }
            if !is_due {
                follower.changed().await;
                continue;
            }
            match self.aggregate_all().await {
                Ok(()) => is_due = false,
                Err(status) => {
                    tracing::warn!(%status, "filling an aggregated ClusterRole failed, retrying");
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
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
            let source = UpdateSource::Apply {
                object: Object::of(members),
                faults: Vec::new(),
            };
            let options = WriteOptions {
                force: true,
                ..WriteOptions::default()
            };
            let context = RequestContext {
                manager: MANAGER.to_owned(),
                ..RequestContext::internal(MANAGER, Instant::now() + TIME)
            };
            let at = NamespacedName::in_cluster(name);
            store.update(&context, at, None, source, &options).await?;
        }
        Ok(())
    }
}

/// Returns the names of the roles whose rules change, and their new rules.
fn changed_roles(roles: &BTreeMap<String, Object>) -> Vec<(&str, Vec<Value>)> {
    let changed = roles.iter().filter_map(|(name, role)| {
        let rules = aggregated(name, role, roles)?;
        let known = role.0.get("rules").and_then(Value::as_array);
        let is_changed = known.map(Vec::as_slice).unwrap_or_default() != rules;
        is_changed.then_some((name.as_str(), rules))
    });
    changed.collect()
}

/// Returns the rules of all other roles that match a selector of a role: selectors in order, roles
/// by name, equal rules once. `None` if the role aggregates none, or a selector is invalid.
fn aggregated(name: &str, role: &Object, roles: &BTreeMap<String, Object>) -> Option<Vec<Value>> {
    let aggregation = Field::of(role, "aggregationRule");
    let selectors = aggregation.member("clusterRoleSelectors");
    if !selectors.is_set() || !selectors.items().all(|one| selectors::is_evaluable(&one)) {
        return None;
    }
    let mut rules = Vec::new();
    let mut known = HashSet::new();
    for selector in selectors.items() {
        for (other, role) in roles {
            let metadata = Field::of(role, "metadata");
            if other == name || !selectors::selects(&selector, &metadata.member("labels")) {
                continue;
            }
            let of_role = role.0.get("rules").and_then(Value::as_array);
            for rule in of_role.into_iter().flatten() {
                if known.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let rules = aggregated("all", &roles["all"], &roles)?;
            Some(!rules.is_empty())
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
}
