use serde_json::{Value, json};

use super::*;
use crate::api::quantity::Quantity;
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

fn charges(
    evaluator: &Evaluator,
    stored: Option<&Object>,
    object: &Object,
    quotas: Vec<Object>,
) -> Result<Vec<Charge>, String> {
    charges_with(evaluator, stored, object, quotas, &[])
}

/// The charges where resources are limited by default.
fn charges_with(
    evaluator: &Evaluator,
    stored: Option<&Object>,
    object: &Object,
    quotas: Vec<Object>,
    limited: &[LimitedResource],
) -> Result<Vec<Charge>, String> {
    let all = built_in();
    let write = Write {
        evaluator,
        definition: all.iter().find(|row| row.plural == "pods").unwrap(),
        stored,
        object,
    };
    let charges = write.charges(quotas, limited);
    charges.map_err(|refused| match refused {
        Refused::Forbidden(why) => why,
        Refused::Unknown(why) => format!("unknown: {why}"),
    })
}

fn limited(resources: Value) -> Vec<LimitedResource> {
    LimitedResource::read(&json!({"limitedResources": resources})).unwrap()
}

#[test]
fn limited_resources_need_a_name_hk_98() {
    let configuration = json!({"limitedResources": [{"resource": "pods"}, {"matchContains": []}]});
    let faults = LimitedResource::read(&configuration).unwrap_err();
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["limitedResources[1].resource: Required value"]);
    assert!(LimitedResource::read(&json!({})).unwrap().is_empty());
}

#[test]
fn what_is_limited_by_default_needs_a_quota_that_counts_it_hk_98() {
    let all = limited(json!([
        {"resource": "pods", "matchContains": ["cpu", "nothing"]},
        {"apiGroup": "apps", "resource": "pods", "matchContains": ["count"]},
    ]));
    let asked = |pod: Value, stored: Option<Value>, quotas: Vec<Object>| {
        let (stored, pod) = (stored.map(object), object(pod));
        let charges = charges_with(&evaluator("pods"), stored.as_ref(), &pod, quotas, &all);
        charges.map(|all| all.len())
    };
    let plain = pod(json!({"requests": {"memory": "1Gi"}}));
    let wants = pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}));
    let refused = "insufficient quota to consume: cpu,limits.cpu,requests.cpu";
    assert_eq!(asked(plain, None, vec![]), Ok(0));
    assert_eq!(asked(wants.clone(), None, vec![]), Err(refused.to_owned()));
    let quota = |names: &[&str]| {
        let numbers = |number: &str| {
            let numbers = names.iter().map(|name| ((*name).to_owned(), number.into()));
            Value::Object(numbers.collect())
        };
        quota(numbers("9"), numbers("0"), json!({}))
    };
    let some = vec![quota(&["requests.cpu"]), quota(&["limits.cpu", "pods"])];
    let refused = "insufficient quota to consume: cpu";
    assert_eq!(asked(wants.clone(), None, some), Err(refused.to_owned()));
    let every = vec![quota(&["requests.cpu", "cpu"]), quota(&["limits.cpu"])];
    assert_eq!(asked(wants.clone(), None, every), Ok(2));
    // A write that uses no more than before needs none.
    assert_eq!(asked(wants.clone(), Some(wants), vec![]), Ok(0));
}

#[test]
fn a_limited_scope_needs_a_quota_with_that_scope_hk_98() {
    let scope =
        |values: Value| json!({"scopeName": "PriorityClass", "operator": "In", "values": values});
    let exists = json!({"scopeName": "BestEffort", "operator": "Exists"});
    let all = limited(json!([
        {"resource": "pods", "matchScopes": [scope(json!(["high", "higher"])), exists]},
    ]));
    let asked = |class: &str, resources: Value, quotas: Vec<Object>| {
        let mut pod = pod(resources);
        pod["spec"]["priorityClassName"] = class.into();
        let pod = object(pod);
        let charges = charges_with(&evaluator("pods"), None, &pod, quotas, &all);
        charges.map(|all| all.len())
    };
    let some = json!({"requests": {"cpu": "1"}});
    assert_eq!(asked("low", some.clone(), vec![]), Ok(0));
    let refused = "unknown: insufficient quota to match these scopes: [{PriorityClass In [high \
                   higher]}]";
    assert_eq!(asked("high", some.clone(), vec![]), Err(refused.to_owned()));
    let refused = "unknown: insufficient quota to match these scopes: [{PriorityClass In [high \
                   higher]} {BestEffort Exists []}]";
    assert_eq!(asked("high", json!({}), vec![]), Err(refused.to_owned()));
    let covers = |values: Value| {
        let selector = json!({"scopeSelector": {"matchExpressions": [scope(values)]}});
        vec![quota(json!({"pods": "5"}), json!({"pods": "1"}), selector)]
    };
    assert_eq!(asked("high", some.clone(), covers(json!(["high"]))), Ok(1));
    assert!(asked("high", some, covers(json!(["other"]))).is_err());
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

/// API-265: a claim of devices gets what it names, all that an allocation can hold, or the largest
/// of several alternatives.
#[test]
fn devices_are_counted_by_their_classes() {
    let exactly = |class: &str, mode: &str, count: i64| {
        let mut request = json!({"deviceClassName": class, "allocationMode": mode});
        request["count"] = count.into();
        request
    };
    let claim = json!({"spec": {"devices": {"requests": [
        {"name": "a", "exactly": exactly("gpu", "ExactCount", 2)},
        {"name": "b", "exactly": exactly("nic", "All", 0)},
        {"name": "c", "firstAvailable": [exactly("gpu", "ExactCount", 3),
            exactly("gpu", "ExactCount", 1), exactly("nic", "ExactCount", 1)]},
        {"name": "d", "exactly": exactly("other", "Unknown", 9)},
    ]}}});
    let of = |class: &str| format!("{class}.deviceclass.resource.k8s.io/devices");
    let counted = |hard: &str, devices: i64| {
        let open = quota(
            json!({of("gpu"): hard, of("nic"): "40", "count/resourceclaims.resource.k8s.io": "1"}),
            json!({of("gpu"): "0", of("nic"): "1", "count/resourceclaims.resource.k8s.io": "0"}),
            json!({}),
        );
        let mut claim = claim.clone();
        claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = json!(devices);
        charged("resourceclaims", claim, open)
    };
    assert_eq!(
        counted("5", 2),
        Ok(json!({of("gpu"): "5", of("nic"): "34", "count/resourceclaims.resource.k8s.io": "1"}))
    );
    assert_eq!(
        counted("5", 3),
        Err(format!(
            "exceeded quota: q, requested: {0}=6, used: {0}=0, limited: {0}=5",
            of("gpu")
        ))
    );
}

/// API-265: an update that needs less gives nothing back, and one that comes into a scope is
/// charged as a whole.
#[test]
fn an_update_is_charged_what_is_new_to_a_quota() {
    let service = |kind: &str| object(json!({"spec": {"type": kind, "ports": [{"port": 1}]}}));
    let open = quota(
        json!({"services": "5", "services.nodeports": "5"}),
        json!({"services": "1", "services.nodeports": "1"}),
        json!({}),
    );
    let evaluator_of_services = evaluator("services");
    let (plain, with_port) = (service("ClusterIP"), service("NodePort"));
    let less = charges(
        &evaluator_of_services,
        Some(&with_port),
        &plain,
        vec![open.clone()],
    );
    assert!(less.unwrap().is_empty());
    let more = charges(&evaluator_of_services, Some(&plain), &with_port, vec![open]);
    let more = more.unwrap();
    assert_eq!(
        more[0].usage.keys().collect::<Vec<_>>(),
        ["services.nodeports"]
    );

    let claim = |class: Value| {
        object(json!({"spec": {"volumeAttributesClassName": class,
            "resources": {"requests": {"storage": "1500m"}}}}))
    };
    let scope = json!({"scopeSelector": {"matchExpressions": [
        {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}]}});
    let scoped = quota(
        json!({"persistentvolumeclaims": "1", "requests.storage": "9"}),
        json!({"persistentvolumeclaims": "0", "requests.storage": "0"}),
        scope,
    );
    let evaluator_of_claims = evaluator("persistentvolumeclaims");
    let (gold, silver) = (claim(json!("gold")), claim(json!("silver")));
    let charged = |stored: &Object, new: &Object| {
        let charges = charges(
            &evaluator_of_claims,
            Some(stored),
            new,
            vec![scoped.clone()],
        );
        let charges = charges.unwrap().into_iter();
        let usage = charges.flat_map(|charge| charge.usage);
        usage
            .map(|(name, quantity)| format!("{name}={quantity}"))
            .collect::<Vec<_>>()
    };
    let all = ["persistentvolumeclaims=1", "requests.storage=2"];
    assert_eq!(charged(&silver, &gold), all);
    assert!(charged(&gold, &gold).is_empty() && charged(&gold, &silver).is_empty());
    // A claim that is on its way to a class, or has it still, counts.
    let mut leaving = silver.clone();
    leaving.0.insert(
        "status".to_owned(),
        json!({"currentVolumeAttributesClassName": "gold"}),
    );
    assert_eq!(charged(&silver, &leaving), all);
}

/// API-265: what is said of the pod as a whole need not be said of its containers.
#[test]
fn containers_need_not_repeat_what_is_said_of_their_pod() {
    let computes = quota(
        json!({"requests.cpu": "1", "limits.memory": "1Gi"}),
        json!({"requests.cpu": "0", "limits.memory": "0"}),
        json!({}),
    );
    let mut whole = pod(json!({}));
    whole["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    let used = charged("pods", whole, computes);
    assert_eq!(used, Ok(json!({"requests.cpu": "1", "limits.memory": "0"})));
}

/// API-265: devices that containers can ask for as resources count as such, less what the pod that
/// a claim is for is charged already.
#[test]
fn devices_of_named_classes_are_resources_too() {
    let known = |of_pod: &str| Devices {
        extended: [("gpu".to_owned(), "a.b/gpu".to_owned())].into(),
        of_pod: [("requests.a.b/gpu".to_owned(), of_pod.parse().unwrap())].into(),
    };
    let request = |class: &str| {
        let three = json!({"allocationMode": "ExactCount", "count": 3, "deviceClassName": class});
        json!({ "exactly": three })
    };
    let claim = object(json!({"spec": {"devices": {"requests": [request("gpu"), request("x")]}}}));
    let implicit = |class: &str| format!("requests.deviceclass.resource.kubernetes.io/{class}");
    for (of_pod, left) in [("0", Some("3")), ("1", Some("2")), ("4", None)] {
        let evaluator = evaluator("resourceclaims").with_devices(known(of_pod));
        let usage = evaluator.usage(&claim);
        let shown = |name: &str| usage.get(name).map(Quantity::to_string);
        assert_eq!(shown("requests.a.b/gpu").as_deref(), left);
        assert_eq!(shown(&implicit("gpu")).as_deref(), Some("3"));
        let limited = [
            "requests.a.b/gpu",
            "requests.a.b/x",
            &implicit("gpu"),
            &implicit("x"),
        ];
        let hard = limited.map(|name| (name.to_owned(), Quantity::whole(1)));
        let counted = evaluator.counted(&hard.into());
        assert_eq!(counted, ["requests.a.b/gpu".to_owned(), implicit("gpu")]);
    }
}

#[test]
fn the_pod_of_a_claim_is_its_controller() {
    let claim = |annotation: &str, controller: bool| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
            "controller": controller});
        object(json!({"metadata": {"annotations": {EXTENDED: annotation},
            "ownerReferences": [owner]}}))
    };
    assert_eq!(pod_of(&claim("true", true)), Some(("p", "u")));
    assert_eq!(pod_of(&claim("true", false)), None);
    assert_eq!(pod_of(&claim("false", true)), None);
}
