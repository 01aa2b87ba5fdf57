//! Defaults of Namespaces, Services, Endpoints, Secrets and Nodes (API-224, API-247, API-254).

use api::names;
use api::object::{Object, put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pods::resources::resource_list;
use super::{Members, items, member, set_default};

/// The default timeout of ClientIP session affinity: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

/// The label with the name of a namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

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

/// Sets the default phase and the label of a Namespace (API-224).
pub fn namespace(object: &mut Object) {
    if object.text(&["status", "phase"]).is_empty() {
        put(object, &["status", "phase"], "Active".into());
    }
    label_with_name(object);
}

/// Adds the label with the name of a Namespace.
pub(crate) fn label_with_name(object: &mut Object) {
    let name = object.name().to_owned();
    // A generated name is validated later. Until then, an invalid one is not used as a label.
    let is_made = !object.meta("generateName").is_empty();
    if name.is_empty() || is_made && !names::label_value(&name).is_empty() {
        return;
    }
    put(object, &["metadata", "labels", NAME_LABEL], name.into());
}

/// Sets the defaults of a Service.
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

/// Sets the default external and internal traffic policies.
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

/// Sets the defaults of Endpoints.
pub fn endpoints(object: &mut Object) {
    for subset in items(&mut object.0, "subsets") {
        for port in items(subset, "ports") {
            set_default(port, "protocol", "TCP");
        }
    }
}

/// Sets the defaults of a Secret, and merges `stringData` into `data` in base64 (API-254).
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

/// Sets the defaults of a Node. Drops `status.config`, which belongs to the removed feature
/// DynamicKubeletConfig.
pub fn node(object: &mut Object) {
    if let Some(status) = member(&mut object.0, "status") {
        status.remove("config");
    }
    fill_in_node(object);
}

/// Sets the defaults of a Node read from storage. Reads drop nothing, so `status.config` stays
/// (KV-30).
pub fn stored_node(object: &mut Object, _: Timestamp) {
    fill_in_node(object);
}

/// Sets the allocatable amounts to the capacity if they are absent, and mirrors `podCIDR` and the
/// first of `podCIDRs`.
fn fill_in_node(object: &mut Object) {
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

    /// API-254: answers of kube-apiserver 1.36.
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
