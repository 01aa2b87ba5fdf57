//! Decisions about the eviction of a pod (API-220), from the pod and the PodDisruptionBudget that
//! selects it.

use api::field::Field;
use api::object::{Object, put, whole_seconds};
use api::resource::ResourceDefinition;
use api::status::{Status, StatusCause};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{PodCondition, has_ended, set_condition};
use crate::strategies::conditions::put_condition;
use crate::validation::selectors;

/// The most disrupted pods that a budget may record before its controller confirms them. Kubernetes
/// has the same limit.
const MAX_DISRUPTED_PODS: usize = 2_000;
const DISRUPTED: [&str; 2] = ["status", "disruptedPods"];
const ALLOWED: [&str; 2] = ["status", "disruptionsAllowed"];
const CONDITIONS: [&str; 2] = ["status", "conditions"];
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Reports whether a pod is evicted without asking a budget, because it does not run.
pub fn needs_no_budget(pod: &Object) -> bool {
    let is_pending = pod.text(&["status", "phase"]) == "Pending";
    pod.is_being_deleted() || has_ended(pod) || is_pending
}

/// Reports whether a pod that needs no budget now may need one later.
pub fn may_need_a_budget(pod: &Object) -> bool {
    !pod.is_being_deleted() && !has_ended(pod)
}

/// Reports whether a budget selects a pod. An invalid selector selects nothing.
pub fn selects(budget: &Object, pod: &Object) -> bool {
    let (spec, metadata) = (Field::of(budget, "spec"), Field::of(pod, "metadata"));
    let (selector, labels) = (spec.member("selector"), metadata.member("labels"));
    selectors::is_evaluable(&selector) && selectors::selects(&selector, &labels)
}

/// Reports whether a pod is evicted without using up its budget: it is not ready, and the budget's
/// policy allows that.
pub fn is_uncounted(budget: &Object, pod: &Object) -> bool {
    let conditions = pod.at(&CONDITIONS).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
    let policy = budget.text(&["spec", "unhealthyPodEvictionPolicy"]);
    let (current, desired) = healthy(budget);
    !is_ready && (policy == "AlwaysAllow" || (current >= desired && desired > 0))
}

/// Uses up one allowed disruption of a budget for this pod. `definition` is that of
/// PodDisruptionBudgets.
///
/// # Errors
/// 429 if none is left or the budget's controller lags behind; 403 if the status is inconsistent.
pub fn take_disruption(
    budget: &mut Object,
    pod: &str,
    now: Timestamp,
    definition: &ResourceDefinition,
) -> Result<(), Box<Status>> {
    let generation = number(budget, &["metadata", "generation"]);
    let observed = number(budget, &["status", "observedGeneration"]);
    if observed < generation {
        return Err(Box::new(is_behind(budget.name())));
    }
    let allowed = number(budget, &ALLOWED);
    let forbidden = |why| {
        let resource = ResourceDefinition {
            plural: "poddisruptionbudget".to_owned(),
            ..definition.clone()
        };
        Box::new(Status::forbidden(&resource, budget.name(), why))
    };
    let disrupted = budget.at(&DISRUPTED).and_then(Value::as_object);
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if disrupted.map_or(0, Map::len) > MAX_DISRUPTED_PODS {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(Box::new(refusal(0, exhaustion_message(budget))));
    }
    put(budget, &ALLOWED, (allowed - 1).into());
    if allowed == 1 {
        set_exhausted(budget, observed, now);
    }
    let [status, pods] = DISRUPTED;
    put(budget, &[status, pods, pod], whole_seconds(now).into());
    Ok(())
}

/// Adds the condition for an eviction to a pod.
pub fn mark_evicted(pod: &mut Object, now: Timestamp) {
    let condition = PodCondition {
        kind: "DisruptionTarget",
        reason: "EvictionByEvictionAPI",
        message: "Eviction API: evicting",
    };
    set_condition(pod, &condition, now);
}

/// Returns the 429 for a budget whose controller lags behind. Clients retry it.
pub fn is_behind(budget: &str) -> Status {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    refusal(10, why)
}

fn refusal(retry_after_seconds: u32, why: String) -> Status {
    Status::too_many_requests(REFUSAL, retry_after_seconds).because(StatusCause {
        reason: "DisruptionBudget".to_owned(),
        message: why,
        ..StatusCause::default()
    })
}

fn exhaustion_message(budget: &Object) -> String {
    let name = budget.name();
    let conditions = budget.at(&CONDITIONS).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let failed = conditions.find(|one| {
        one["type"] == DISRUPTION_ALLOWED
            && one["status"] == "False"
            && one["reason"] == "SyncFailed"
    });
    let (current, desired) = healthy(budget);
    match failed {
        Some(failed) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it \
             failed sync: {}",
            failed["message"].as_str().unwrap_or_default()
        ),
        None if current <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// Sets the condition of a budget that allows no more disruptions.
fn set_exhausted(budget: &mut Object, observed: i64, now: Timestamp) {
    let found = budget.at(&CONDITIONS).and_then(Value::as_array);
    let mut conditions = found.cloned().unwrap_or_default();
    let new = json!({
        "type": DISRUPTION_ALLOWED,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": observed,
        "lastTransitionTime": whole_seconds(now),
    });
    put_condition(&mut conditions, new);
    put(budget, &CONDITIONS, Value::Array(conditions));
}

/// Returns the current and the desired number of healthy pods.
fn healthy(budget: &Object) -> (i64, i64) {
    let current = number(budget, &["status", "currentHealthy"]);
    (current, number(budget, &["status", "desiredHealthy"]))
}

fn number(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    fn taken(status: Value) -> Result<Value, Box<Status>> {
        let metadata = json!({"name": "b", "generation": 2});
        let mut budget = object(json!({"metadata": metadata, "status": status}));
        let definition = crate::definitions::policy::poddisruptionbudgets();
        take_disruption(&mut budget, "p", Timestamp::UNIX_EPOCH, &definition)?;
        Ok(budget.0.remove("status").unwrap())
    }

    #[test]
    fn a_budget_is_used_up_api_220() {
        let two = taken(json!({"observedGeneration": 2, "disruptionsAllowed": 2})).unwrap();
        assert_eq!(two["disruptionsAllowed"], 1);
        assert_eq!(two["disruptedPods"], json!({"p": "1970-01-01T00:00:00Z"}));
        assert_eq!(two.get("conditions"), None);
        let one = taken(json!({"observedGeneration": 2, "disruptionsAllowed": 1})).unwrap();
        assert_eq!(one["conditions"][0]["reason"], "InsufficientPods");
        let why = |status: Value| {
            let refused = taken(status).unwrap_err();
            let details = refused.details.clone().unwrap_or_default();
            let cause = details.causes.first().map(|cause| cause.message.clone());
            (
                refused.code,
                details.retry_after_seconds,
                cause.unwrap_or(refused.message),
            )
        };
        let behind = why(json!({"observedGeneration": 1, "disruptionsAllowed": 1}));
        assert_eq!((behind.0, behind.1), (429, 10));
        let none = why(json!({"observedGeneration": 2, "currentHealthy": 1, "desiredHealthy": 2}));
        let text = "The disruption budget b needs 2 healthy pods and has 1 currently";
        assert_eq!(none, (429, 0, text.to_owned()));
        let negative = why(json!({"observedGeneration": 2, "disruptionsAllowed": -1}));
        let text = "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is \
                    negative";
        assert_eq!(negative, (403, 0, text.to_owned()));
    }

    #[test]
    fn pods_that_are_not_ready_go_as_the_budget_says_api_220() {
        let budget = |policy: &str, current: i64| {
            object(json!({
                "spec": {"unhealthyPodEvictionPolicy": policy},
                "status": {"currentHealthy": current, "desiredHealthy": 2},
            }))
        };
        let ready =
            object(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        let unready = object(json!({}));
        assert!(is_uncounted(&budget("AlwaysAllow", 0), &unready));
        assert!(is_uncounted(&budget("", 2), &unready));
        assert!(!is_uncounted(&budget("", 1), &unready));
        assert!(!is_uncounted(&budget("AlwaysAllow", 2), &ready));
    }

    #[test]
    fn a_pod_is_selected_by_its_labels_api_220() {
        let budget = object(json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}));
        let pod = |label: &str| object(json!({"metadata": {"labels": {"a": label}}}));
        assert!(selects(&budget, &pod("b")) && !selects(&budget, &pod("c")));
        let everything = object(json!({"spec": {"selector": {}}}));
        assert!(selects(&everything, &pod("c")) && !selects(&object(json!({})), &pod("c")));
    }
}
