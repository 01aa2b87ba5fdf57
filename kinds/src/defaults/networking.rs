//! Defaults of NetworkPolicies and IngressClasses (API-252).

use api::object::Object;
use serde_json::Value;

use super::{Members, items, member, set_absent};

/// Sets the defaults of a NetworkPolicy.
pub fn networkpolicy(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    for rules in ["ingress", "egress"] {
        for rule in items(spec, rules) {
            for port in items(rule, "ports") {
                set_absent(port, "protocol", "TCP");
            }
        }
    }
    policy_types(spec);
}

/// Sets the default policy types: Ingress, and Egress if there are egress rules.
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

/// Sets the defaults of an IngressClass, whose parameters are cluster-scoped.
pub fn ingressclass(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(parameters) = spec.and_then(|spec| member(spec, "parameters")) {
        set_absent(parameters, "scope", "Cluster");
    }
}
