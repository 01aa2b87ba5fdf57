//! Services: addresses and families that follow from each other, and what an update keeps when it
//! leaves it out (API-228). Addresses and ports of nodes are not allocated.

use api::object::Object;
use serde_json::{Value, json};

use crate::defaults::{Members, member, set_default};

const HEADLESS: &str = "None";

/// Makes the list of addresses agree with the first address, and chooses families.
pub fn prepare_create(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    mirror_addresses(spec);
    choose_families(spec);
}

/// Keeps addresses, families and ports of nodes that the update leaves out.
pub fn prepare_update(object: &mut Object, stored: &Object) {
    let Some(before) = stored.0.get("spec").and_then(Value::as_object) else {
        return;
    };
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if has_addresses(spec) && has_addresses(before) {
        if !is_set(spec, "clusterIP") && !is_set(spec, "clusterIPs") {
            keep(spec, before, &["clusterIP", "clusterIPs"]);
        }
        keep(spec, before, &["ipFamilies", "ipFamilyPolicy"]);
        keep_node_ports(spec, before);
    }
    if has_node_ports(spec) && has_node_ports(before) {
        keep(spec, before, &["healthCheckNodePort"]);
    }
    mirror_addresses(spec);
    choose_families(spec);
}

/// Whether the service has addresses in the cluster.
fn has_addresses(spec: &Members) -> bool {
    spec.get("type").and_then(Value::as_str) != Some("ExternalName")
}

fn has_node_ports(spec: &Members) -> bool {
    let kind = spec.get("type").and_then(Value::as_str);
    matches!(kind, Some("NodePort" | "LoadBalancer"))
}

fn is_set(spec: &Members, name: &str) -> bool {
    match spec.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

fn keep(spec: &mut Members, before: &Members, names: &[&str]) {
    for name in names {
        if let (false, Some(value)) = (is_set(spec, name), before.get(*name)) {
            spec.insert((*name).to_owned(), value.clone());
        }
    }
}

/// A port without a port of the nodes keeps the one that the same port had before.
fn keep_node_ports(spec: &mut Members, before: &Members) {
    if !has_node_ports(spec) {
        return;
    }
    let ports = |spec: &Members| spec.get("ports").and_then(Value::as_array).cloned();
    let before = ports(before).unwrap_or_default();
    let Some(Value::Array(ports)) = spec.get_mut("ports") else {
        return;
    };
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        if is_set(port, "nodePort") {
            continue;
        }
        let same = before.iter().find(|other| {
            let is = |name: &str| other.get(name) == port.get(name);
            is("port") && is("protocol")
        });
        if let Some(number) = same.and_then(|other| other.get("nodePort")) {
            port.insert("nodePort".to_owned(), number.clone());
        }
    }
}

fn mirror_addresses(spec: &mut Members) {
    if !is_set(spec, "clusterIPs") {
        if let (true, Some(address)) = (is_set(spec, "clusterIP"), spec.get("clusterIP")) {
            let list = json!([address]);
            spec.insert("clusterIPs".to_owned(), list);
        }
    } else if !is_set(spec, "clusterIP")
        && let Some(first) = spec.get("clusterIPs").and_then(|list| list.get(0))
    {
        let first = first.clone();
        spec.insert("clusterIP".to_owned(), first);
    }
}

/// The families of a service that has addresses, if its writer chose none: those of the addresses,
/// and of a service without pods of its own both.
fn choose_families(spec: &mut Members) {
    if !has_addresses(spec) {
        return;
    }
    let address = spec.get("clusterIP").and_then(Value::as_str);
    let is_headless = address == Some(HEADLESS);
    let has_selector = spec.get("selector").and_then(Value::as_object);
    let has_selector = has_selector.is_some_and(|selector| !selector.is_empty());
    let family = match address {
        Some(address) if address.contains(':') => "IPv6",
        _ => "IPv4",
    };
    let is_free = !is_set(spec, "ipFamilyPolicy") && !is_set(spec, "ipFamilies");
    if is_headless && !has_selector && is_free {
        spec.insert("ipFamilyPolicy".to_owned(), "RequireDualStack".into());
        spec.insert("ipFamilies".to_owned(), json!(["IPv4", "IPv6"]));
        return;
    }
    set_default(spec, "ipFamilyPolicy", "SingleStack");
    if !is_set(spec, "ipFamilies") {
        spec.insert("ipFamilies".to_owned(), json!([family]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Object {
        let Value::Object(members) = json!({"metadata": {"name": "a"}, "spec": spec}) else {
            unreachable!("made above")
        };
        Object(members)
    }

    /// API-228.
    #[test]
    fn families_follow_from_addresses() {
        for (given, wanted) in [
            (
                json!({"type": "ClusterIP"}),
                json!({"type": "ClusterIP", "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}),
            ),
            (
                json!({"clusterIP": "fd00::1"}),
                json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"],
                    "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}),
            ),
            (
                json!({"clusterIP": "None"}),
                json!({"clusterIP": "None", "clusterIPs": ["None"],
                    "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            ),
            (
                json!({"type": "ExternalName"}),
                json!({"type": "ExternalName"}),
            ),
        ] {
            let mut object = service(given);
            prepare_create(&mut object);
            assert_eq!(object.0["spec"], wanted);
        }
    }

    /// API-228.
    #[test]
    fn an_update_keeps_what_it_leaves_out() {
        let stored = service(json!({
            "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}],
        }));
        let mut object = service(json!({
            "type": "NodePort",
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}],
        }));
        prepare_update(&mut object, &stored);
        let spec = &object.0["spec"];
        assert_eq!(spec["clusterIPs"], json!(["10.0.0.1"]));
        assert_eq!(spec["ports"][0]["nodePort"], 30001);
        assert_eq!(spec["ports"][1].get("nodePort"), None);
        let mut named = service(json!({"type": "ExternalName", "externalName": "ex.com"}));
        prepare_update(&mut named, &stored);
        assert_eq!(named.0["spec"].get("clusterIP"), None);
    }
}
