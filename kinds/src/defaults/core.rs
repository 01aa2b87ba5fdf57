//! What is filled in of Services, Endpoints, Secrets and Nodes (API-247, API-254).

use api::object::Object;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::pods::resources::resource_list;
use super::{Members, items, member, set_default};

/// How long the affinity to a client lasts: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

fn text<'m>(members: &'m Members, name: &str) -> &'m str {
    members
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_empty_list(members: &Members, name: &str) -> bool {
    let list = members.get(name).and_then(Value::as_array);
    list.is_none_or(Vec::is_empty)
}

/// Fills in a Service.
pub fn service(object: &mut Object) {
    let spec = object.0.entry("spec").or_insert_with(|| json!({}));
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    set_default(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => client_affinity(spec),
        _ => {}
    }
    set_default(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        set_default(port, "protocol", "TCP");
        let is_unset = match port.get("targetPort") {
            None | Some(Value::Null) => true,
            Some(target) => *target == json!(0) || *target == json!(""),
        };
        if is_unset {
            let number = port.get("port").cloned().unwrap_or_else(|| json!(0));
            port.insert("targetPort".to_owned(), number);
        }
    }
    traffic(spec);
    if text(spec, "type") == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        load_balancer_modes(object);
    }
}

fn client_affinity(spec: &mut Members) {
    let timeout = ["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
    let has_timeout = timeout
        .iter()
        .try_fold(&*spec, |members, name| match members.get(*name) {
            Some(Value::Object(below)) => Ok(below),
            other => Err(other.is_some_and(|value| !value.is_null())),
        });
    if has_timeout != Err(true) {
        spec.insert(
            "sessionAffinityConfig".to_owned(),
            json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}),
        );
    }
}

/// The policies for traffic from outside and inside.
fn traffic(spec: &mut Members) {
    let is_accessible = match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !is_empty_list(spec, "externalIPs"),
        _ => false,
    };
    if is_accessible {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    let has_policy = spec
        .get("internalTrafficPolicy")
        .is_some_and(|policy| !policy.is_null());
    let is_inside = matches!(
        text(spec, "type"),
        "ClusterIP" | "NodePort" | "LoadBalancer"
    );
    if is_inside && !has_policy {
        spec.insert("internalTrafficPolicy".to_owned(), "Cluster".into());
    }
}

fn load_balancer_modes(object: &mut Object) {
    let status = member(&mut object.0, "status");
    let Some(balancer) = status.and_then(|status| member(status, "loadBalancer")) else {
        return;
    };
    for ingress in items(balancer, "ingress") {
        let has_mode = ingress.get("ipMode").is_some_and(|mode| !mode.is_null());
        if !text(ingress, "ip").is_empty() && !has_mode {
            ingress.insert("ipMode".to_owned(), "VIP".into());
        }
    }
}

/// Fills in Endpoints.
pub fn endpoints(object: &mut Object) {
    for subset in items(&mut object.0, "subsets") {
        for port in items(subset, "ports") {
            set_default(port, "protocol", "TCP");
        }
    }
}

/// Fills in a Secret. Plain texts become data in base64 (API-254).
pub fn secret(object: &mut Object) {
    set_default(&mut object.0, "type", "Opaque");
    let Some(Value::Object(texts)) = object.0.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let data = object.0.entry("data").or_insert(Value::Null);
    if !data.is_object() {
        *data = Value::Object(Map::new());
    }
    let Some(data) = data.as_object_mut() else {
        return;
    };
    for (name, text) in texts {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        data.insert(name, encoded.into());
    }
}

/// Fills in a Node. What can be allocated is what is there. The range for pods is the first one of
/// the list of them. Configurations of kubelets in its status are of a feature that is gone.
pub fn node(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        let list = spec.get("podCIDRs").and_then(Value::as_array);
        let first = list.and_then(|list| list.first()).cloned();
        let own = spec.get("podCIDR").filter(|range| **range != json!(""));
        match (own.cloned(), first) {
            (Some(own), first) if first.as_ref() != Some(&own) => {
                spec.insert("podCIDRs".to_owned(), json!([own]));
            }
            (None, Some(first)) => {
                spec.insert("podCIDR".to_owned(), first);
            }
            _ => {}
        }
    }
    let Some(status) = member(&mut object.0, "status") else {
        return;
    };
    status.remove("config");
    let is_set = |value: &&Value| !value.is_null();
    let has_allocatable = status.get("allocatable").filter(is_set).is_some();
    if let (false, Some(capacity)) = (has_allocatable, status.get("capacity").filter(is_set)) {
        status.insert("allocatable".to_owned(), capacity.clone());
    }
    resource_list(status, "capacity");
    resource_list(status, "allocatable");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-254, as kube-apiserver 1.36 answers.
    #[test]
    fn amounts_of_a_node_are_whole_thousandths() {
        let status = json!({"capacity": {"cpu": "1.0000001"}, "allocatable": {"cpu": "0.0001"}});
        let body = json!({"metadata": {"name": "n"}, "status": status});
        let mut object = Object::of(body.as_object().expect("an object").clone());
        node(&mut object);
        let status = json!({"capacity": {"cpu": "1001m"}, "allocatable": {"cpu": "1m"}});
        assert_eq!(object.0["status"], status);
    }
}
