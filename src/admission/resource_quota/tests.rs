use serde_json::{Value, json};

use super::*;
use crate::kinds::definitions::built_in;

fn object(value: Value) -> Object {
    Object::of(value.as_object().unwrap().clone())
}

fn evaluator(plural: &str) -> Evaluator {
    let all = built_in();
    let row = all.iter().find(|row| row.plural == plural);
    Evaluator::of(row.unwrap())
}

fn quota(hard: Value, used: Value, spec: Value) -> Object {
    object(json!({"metadata": {"name": "q"}, "spec": spec,
        "status": {"hard": hard, "used": used}}))
}

/// The new usage of the quota, or its refusal.
fn charged(plural: &str, body: Value, quota: Object) -> Result<Value, String> {
    let mut all = charges(&evaluator(plural), None, &object(body), vec![quota])?;
    let Some(mut charge) = all.pop() else {
        return Ok(Value::Null);
    };
    let used = usage::charged(&charge.quota, &charge.usage)?;
    usage::set_used(&mut charge.quota, &used);
    Ok(charge.quota.at(&["status", "used"]).cloned().unwrap())
}

fn pod(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
}

/// API-265.
#[test]
fn what_exceeds_a_quota_is_refused_with_the_numbers() {
    let full = quota(
        json!({"pods": "5", "requests.cpu": "1"}),
        json!({"pods": "5", "requests.cpu": "900m"}),
        json!({}),
    );
    let refused = charged("pods", pod(json!({"requests": {"cpu": "200m"}})), full);
    assert_eq!(
        refused.unwrap_err(),
        "exceeded quota: q, requested: pods=1,requests.cpu=200m, used: pods=5,requests.cpu=900m, \
         limited: pods=5,requests.cpu=1"
    );
}

/// API-265.
#[test]
fn what_fits_is_added_to_the_usage() {
    let open = quota(
        json!({"pods": "5", "limits.memory": "1Gi", "services": "1"}),
        json!({"pods": "1", "limits.memory": "512Mi", "services": "1"}),
        json!({}),
    );
    let used = charged("pods", pod(json!({"limits": {"memory": "512Mi"}})), open);
    assert_eq!(
        used,
        Ok(json!({"pods": "2", "limits.memory": "1Gi", "services": "1"}))
    );
    let counts = quota(
        json!({"count/deployments.apps": "1"}),
        json!({"count/deployments.apps": "0"}),
        json!({}),
    );
    let used = charged("deployments", json!({}), counts);
    assert_eq!(used, Ok(json!({"count/deployments.apps": "1"})));
}

/// API-265.
#[test]
fn containers_must_say_what_is_counted_of_them() {
    let computes =
        |used: Value| quota(json!({"limits.cpu": "1", "memory": "1Gi"}), used, json!({}));
    let known = computes(json!({"limits.cpu": "0", "memory": "0"}));
    assert_eq!(
        charged("pods", pod(json!({})), known),
        Err("failed quota: q: must specify limits.cpu for: c; memory for: c".to_owned())
    );
    let own = pod(json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Mi"}}));
    assert_eq!(
        charged("pods", own, computes(json!({"memory": "0"}))),
        Err("status unknown for quota: q, resources: limits.cpu,memory".to_owned())
    );
}

/// API-265.
#[test]
fn scopes_decide_which_pods_are_counted() {
    let scoped = |spec: Value| quota(json!({"pods": "1"}), json!({"pods": "0"}), spec);
    let counted = |spec: Value, body: Value| {
        let used = charged("pods", body, scoped(spec));
        used != Ok(Value::Null)
    };
    let best_effort = || pod(json!({}));
    let burstable = || pod(json!({"requests": {"cpu": "1"}}));
    assert!(counted(json!({"scopes": ["BestEffort"]}), best_effort()));
    assert!(!counted(json!({"scopes": ["BestEffort"]}), burstable()));
    assert!(counted(
        json!({"scopes": ["NotBestEffort", "NotTerminating"]}),
        burstable()
    ));
    assert!(!counted(json!({"scopes": ["Terminating"]}), burstable()));
    let of_class = |operator: &str| {
        json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]}})
    };
    let mut high = best_effort();
    high["spec"]["priorityClassName"] = json!("high");
    assert!(counted(of_class("In"), high.clone()));
    assert!(!counted(of_class("NotIn"), high));
    assert!(!counted(of_class("In"), best_effort()));
    let services = charged(
        "services",
        json!({}),
        scoped(json!({"scopes": ["BestEffort"]})),
    );
    assert_eq!(services, Ok(Value::Null));
}

/// API-265.
#[test]
fn services_and_claims_are_counted_by_their_kinds() {
    let service = object(
        json!({"spec": {"type": "LoadBalancer", "ports": [{}, {"nodePort": 3}],
        "allocateLoadBalancerNodePorts": false}}),
    );
    let usage = evaluator("services").usage(&service);
    let shown = |name: &str| usage[name].to_string();
    assert_eq!(shown("services.nodeports"), "1");
    assert_eq!(shown("services.loadbalancers"), "1");
    let claim = object(json!({"spec": {"storageClassName": "fast",
        "resources": {"requests": {"storage": "2Gi"}}}}));
    let usage = evaluator("persistentvolumeclaims").usage(&claim);
    let names: Vec<&str> = usage.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "count/persistentvolumeclaims",
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
            "fast.storageclass.storage.k8s.io/requests.storage",
            "persistentvolumeclaims",
            "requests.storage",
        ]
    );
}

/// API-265: an update is charged what it adds.
#[test]
fn a_claim_that_grows_is_charged_the_difference() {
    let claim =
        |size: &str| object(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
    let quota = quota(
        json!({"requests.storage": "5Gi", "persistentvolumeclaims": "1"}),
        json!({"requests.storage": "2Gi", "persistentvolumeclaims": "1"}),
        json!({}),
    );
    let evaluator = evaluator("persistentvolumeclaims");
    let charges = charges(&evaluator, Some(&claim("2Gi")), &claim("3Gi"), vec![quota]).unwrap();
    let usage = &charges[0].usage;
    assert_eq!(usage.len(), 1);
    assert_eq!(usage["requests.storage"].to_string(), "1Gi");
}
