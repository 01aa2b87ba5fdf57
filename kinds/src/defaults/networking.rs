//! What is filled in of NetworkPolicies, IngressClasses and EndpointSlices (API-252).

use api::object::Object;
use serde_json::Value;

use super::{Members, items, member};

fn set_if_absent(members: &mut Members, name: &str, value: &str) {
    let slot = members.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// Fills in a NetworkPolicy. It is for incoming traffic, and for outgoing if it has rules for it.
pub fn networkpolicy(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    for rules in ["ingress", "egress"] {
        for rule in items(spec, rules) {
            for port in items(rule, "ports") {
                set_if_absent(port, "protocol", "TCP");
            }
        }
    }
    policy_types(spec);
}

/// Fills in the directions that a policy is for.
pub(crate) fn policy_types(spec: &mut Members) {
    let has = |name: &str| {
        let list = spec.get(name).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    if has("policyTypes") {
        return;
    }
    let mut types = vec![Value::from("Ingress")];
    if has("egress") {
        types.push("Egress".into());
    }
    spec.insert("policyTypes".to_owned(), types.into());
}

/// Fills in an IngressClass: its parameters are of the whole cluster.
pub fn ingressclass(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(parameters) = spec.and_then(|spec| member(spec, "parameters")) {
        set_if_absent(parameters, "scope", "Cluster");
    }
}

/// Fills in an EndpointSlice. What an older version knew of topology is dropped.
pub fn endpointslice(object: &mut Object) {
    for endpoint in items(&mut object.0, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
    for port in items(&mut object.0, "ports") {
        set_if_absent(port, "name", "");
        set_if_absent(port, "protocol", "TCP");
    }
}
