//! Services: addresses and families that follow from each other, and fields that an update keeps
//! when it omits them (API-228). [`allocations`] has what they allocate from the cluster.

use std::collections::BTreeSet;

use api::keyed::Keyed;
use api::object::Object;
use serde_json::{Value, json};

use crate::defaults::{Members, items, member, set_absent};

pub mod allocations;

const HEADLESS: &str = "None";

/// Prepares a new Service: mirrors `clusterIP` into `clusterIPs`, and chooses families.
pub fn prepare_create(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    mirror_addresses(spec);
    choose_families(spec, None);
}

/// Prepares an update. Keeps addresses, families and node ports that it omits, and drops unchanged
/// fields that the new type cannot have.
pub fn prepare_update(object: &mut Object, stored: &Object) {
    let Some(before) = stored.0.get("spec").and_then(Value::as_object) else {
        return;
    };
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if has_addresses(spec) && has_addresses(before) {
        keep(spec, before, &["clusterIP"]);
        if spec.get("clusterIP") == before.get("clusterIP") {
            keep(spec, before, &["clusterIPs"]);
        }
        keep(spec, before, &["ipFamilies"]);
        // An empty text counts as a policy, which validation refuses.
        if spec.get("ipFamilyPolicy").is_none_or(Value::is_null) {
            keep(spec, before, &["ipFamilyPolicy"]);
        }
    }
    if allocates_ports(spec) && allocates_ports(before) {
        keep_node_ports(spec, before);
    }
    if has_health_check(spec) && has_health_check(before) {
        keep(spec, before, &["healthCheckNodePort"]);
    }
    if spec.get("clusterIP") != before.get("clusterIP")
        && spec.get("clusterIPs") == before.get("clusterIPs")
    {
        spec.remove("clusterIPs");
    }
    mirror_addresses(spec);
    choose_families(spec, Some(before));
    drop_of_type(spec, before);
    release_family(spec, before);
    if !is_balancer(spec)
        && let Some(status) = member(&mut object.0, "status")
    {
        // Only load balancers have this status.
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

/// Drops unchanged fields that only the old type can have. Validation refuses changed ones.
fn drop_of_type(spec: &mut Members, before: &Members) {
    if has_addresses(before) && !has_addresses(spec) {
        if spec.get("clusterIPs") == before.get("clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        drop_unchanged(
            spec,
            before,
            &["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"],
        );
    }
    if has_node_ports(before) && !has_node_ports(spec) && node_ports(spec) == node_ports(before) {
        for port in items(spec, "ports") {
            port.remove("nodePort");
        }
    }
    if has_health_check(before) && !has_health_check(spec) {
        drop_unchanged(spec, before, &["healthCheckNodePort"]);
    }
    if is_balancer(before) && !is_balancer(spec) {
        let names = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        drop_unchanged(spec, before, &names);
    }
    if is_accessible(before) && !is_accessible(spec) {
        drop_unchanged(spec, before, &["externalTrafficPolicy"]);
    }
}

fn drop_unchanged(spec: &mut Members, before: &Members, names: &[&str]) {
    for name in names {
        if spec.get(*name) == before.get(*name) {
            spec.remove(*name);
        }
    }
}

/// Drops the second address and family when a Service returns to one family and keeps its lists.
fn release_family(spec: &mut Members, before: &Members) {
    let policy = |spec: &Members| text(spec, "ipFamilyPolicy").to_owned();
    let was_dual = matches!(
        policy(before).as_str(),
        "RequireDualStack" | "PreferDualStack"
    );
    if !was_dual || policy(spec) != "SingleStack" {
        return;
    }
    for name in ["clusterIPs", "ipFamilies"] {
        if spec.get(name) == before.get(name)
            && let Some(list) = spec.get_mut(name).and_then(Value::as_array_mut)
        {
            list.truncate(1);
        }
    }
}

fn text<'m>(members: &'m Members, name: &str) -> &'m str {
    let text = members.get(name).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn is_balancer(spec: &Members) -> bool {
    text(spec, "type") == "LoadBalancer"
}

fn has_health_check(spec: &Members) -> bool {
    is_balancer(spec) && text(spec, "externalTrafficPolicy") == "Local"
}

/// Reports whether a Service can be reached from outside the cluster.
fn is_accessible(spec: &Members) -> bool {
    has_node_ports(spec) || (text(spec, "type") == "ClusterIP" && is_set(spec, "externalIPs"))
}

/// Returns all node ports.
fn node_ports(spec: &Members) -> BTreeSet<i64> {
    let ports = spec.get("ports").and_then(Value::as_array);
    let ports = ports.into_iter().flatten();
    ports.filter_map(node_port).collect()
}

fn node_port(port: &Value) -> Option<i64> {
    let number = port.get("nodePort").and_then(Value::as_i64);
    number.filter(|number| *number != 0)
}

/// Reports whether a Service has cluster IPs.
fn has_addresses(spec: &Members) -> bool {
    spec.get("type").and_then(Value::as_str) != Some("ExternalName")
}

fn has_node_ports(spec: &Members) -> bool {
    let kind = spec.get("type").and_then(Value::as_str);
    matches!(kind, Some("NodePort" | "LoadBalancer"))
}

/// Reports whether ports of a Service get node ports.
fn allocates_ports(spec: &Members) -> bool {
    let allocates = spec
        .get("allocateLoadBalancerNodePorts")
        .and_then(Value::as_bool);
    has_node_ports(spec) && !(is_balancer(spec) && allocates == Some(false))
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

/// Keeps the node port that a port of the same name had, unless another port has it now.
fn keep_node_ports(spec: &mut Members, before: &Members) {
    let mut used = node_ports(spec);
    let before = before.get("ports").and_then(Value::as_array);
    let before = Keyed::by(before.into_iter().flatten(), |port| port.get("name"));
    for port in items(spec, "ports") {
        if port
            .get("nodePort")
            .is_some_and(|number| number.as_i64() != Some(0))
        {
            continue;
        }
        let same = before.last(&port.get("name"));
        let number = same.and_then(|same| node_port(same));
        if let Some(number) = number.filter(|number| used.insert(*number)) {
            port.insert("nodePort".to_owned(), number.into());
        }
    }
}

/// Starts an empty `clusterIPs` with `clusterIP`. A list without `clusterIP` stays and is refused.
fn mirror_addresses(spec: &mut Members) {
    if !is_set(spec, "clusterIPs")
        && let (true, Some(address)) = (is_set(spec, "clusterIP"), spec.get("clusterIP"))
    {
        let list = json!([address]);
        spec.insert("clusterIPs".to_owned(), list);
    }
}

/// Chooses the families of a Service that has cluster IPs and no families: those of its addresses,
/// or both for a headless Service without a selector.
fn choose_families(spec: &mut Members, before: Option<&Members>) {
    if !has_addresses(spec) || before.is_some_and(|before| still_prefers_both(spec, before)) {
        return;
    }
    let addresses = spec.get("clusterIPs").and_then(Value::as_array);
    let address = addresses.and_then(|addresses| addresses.first());
    let address = address.or_else(|| spec.get("clusterIP"));
    let address = address.and_then(Value::as_str);
    let is_headless = matches!(addresses.map(Vec::as_slice), Some([only]) if only == HEADLESS);
    let has_selector = spec.get("selector").and_then(Value::as_object);
    let has_selector = has_selector.is_some_and(|selector| !selector.is_empty());
    let family = match address {
        Some(address) if address.contains(':') => "IPv6",
        _ => "IPv4",
    };
    if !is_set(spec, "ipFamilies") {
        spec.insert("ipFamilies".to_owned(), json!([family]));
    }
    let is_free = is_headless && !has_selector;
    if is_free
        && text(spec, "ipFamilyPolicy") != "SingleStack"
        && before.is_none_or(|before| families(spec) >= families(before))
    {
        add_other_family(spec);
    }
    // An empty text counts as a policy, which validation refuses.
    let policy = if is_free {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    set_absent(spec, "ipFamilyPolicy", policy);
}

/// Returns the number of families.
fn families(spec: &Members) -> usize {
    let families = spec.get("ipFamilies").and_then(Value::as_array);
    families.map_or(0, Vec::len)
}

/// Adds the second family to a Service with one.
fn add_other_family(spec: &mut Members) {
    let Some(Value::Array(families)) = spec.get_mut("ipFamilies") else {
        return;
    };
    let other = match families.first().and_then(Value::as_str) {
        Some("IPv4") => "IPv6",
        Some("IPv6") => "IPv4",
        _ => return,
    };
    if families.len() == 1 {
        families.push(other.into());
    }
}

/// Reports whether a Service prefers two families, with unchanged addresses and families. Then it
/// keeps the families it has, whatever the cluster supports and whatever else changes.
fn still_prefers_both(spec: &Members, before: &Members) -> bool {
    let prefers = |spec: &Members| text(spec, "ipFamilyPolicy") == "PreferDualStack";
    let is_same = |name: &str| spec.get(name) == before.get(name);
    prefers(spec) && prefers(before) && is_same("clusterIPs") && is_same("ipFamilies")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Object {
        let Value::Object(members) = json!({"metadata": {"name": "a"}, "spec": spec}) else {
            unreachable!("made above")
        };
        Object::of(members)
    }

    /// API-228: families follow from the addresses of a Service that requests none.
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

    /// API-228: answers of kube-apiserver 1.36.
    #[test]
    fn a_service_without_pods_and_address_has_both_families_unless_it_wants_one() {
        let none = Value::Null;
        for (families, policy, wanted_families, wanted_policy) in [
            (
                json!(["IPv6", "IPv4"]),
                none.clone(),
                json!(["IPv6", "IPv4"]),
                "RequireDualStack",
            ),
            (
                json!(["IPv4"]),
                none.clone(),
                json!(["IPv4", "IPv6"]),
                "RequireDualStack",
            ),
            (
                json!(["IPv6"]),
                none.clone(),
                json!(["IPv6", "IPv4"]),
                "RequireDualStack",
            ),
            (
                none.clone(),
                json!("PreferDualStack"),
                json!(["IPv4", "IPv6"]),
                "PreferDualStack",
            ),
            (
                json!(["IPv6"]),
                json!("SingleStack"),
                json!(["IPv6"]),
                "SingleStack",
            ),
        ] {
            let mut object = service(json!({
                "clusterIP": "None", "ipFamilies": families, "ipFamilyPolicy": policy,
            }));
            prepare_create(&mut object);
            let spec = &object.0["spec"];
            assert_eq!(spec["ipFamilies"], wanted_families, "{families} {policy}");
            assert_eq!(spec["ipFamilyPolicy"], wanted_policy);
        }
    }

    /// API-228: answers of kube-apiserver 1.36.
    #[test]
    fn the_load_balancer_status_goes_with_the_type() {
        let mut stored = service(json!({"type": "LoadBalancer"}));
        let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        stored.0.insert("status".to_owned(), status.clone());
        let updated = |kind: &str| {
            let mut object = stored.clone();
            object.0["spec"]["type"] = kind.into();
            prepare_update(&mut object, &stored);
            object.0["status"].clone()
        };
        assert_eq!(updated("LoadBalancer"), status);
        assert_eq!(updated("NodePort"), json!({"loadBalancer": {}}));
        assert_eq!(updated("ExternalName"), json!({"loadBalancer": {}}));
    }

    /// API-228: fields that only the old type can have are dropped if they are unchanged.
    #[test]
    fn a_change_of_type_drops_unchanged_fields() {
        let stored = service(json!({
            "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "loadBalancerClass": "a/b",
            "ports": [{"port": 80, "nodePort": 30001}], "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30002, "allocateLoadBalancerNodePorts": true,
            "internalTrafficPolicy": "Cluster",
        }));
        let changed = |kind: &str| {
            let mut object = stored.clone();
            object.0["spec"]["type"] = kind.into();
            prepare_update(&mut object, &stored);
            object.0["spec"].clone()
        };
        let addresses = json!({
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4"], "internalTrafficPolicy": "Cluster",
        });
        let mut inside = addresses.clone();
        inside["type"] = "ClusterIP".into();
        inside["ports"] = json!([{"port": 80}]);
        assert_eq!(changed("ClusterIP"), inside);
        let mut on_nodes = addresses;
        on_nodes["type"] = "NodePort".into();
        on_nodes["ports"] = json!([{"port": 80, "nodePort": 30001}]);
        on_nodes["externalTrafficPolicy"] = "Local".into();
        assert_eq!(changed("NodePort"), on_nodes);
        let named = json!({"type": "ExternalName", "ports": [{"port": 80}]});
        assert_eq!(changed("ExternalName"), named);
    }

    /// API-228: an update that sets `allocateLoadBalancerNodePorts` to false and omits node ports
    /// releases them.
    #[test]
    fn ports_of_nodes_are_kept_where_they_are_given() {
        let of = |kind: &str, allocates: bool, ports: Value| {
            service(json!({
                "type": kind, "allocateLoadBalancerNodePorts": allocates, "ports": ports,
            }))
        };
        let balancer = |allocates| ("LoadBalancer", allocates);
        let cases = [
            (balancer(true), balancer(true), true),
            (balancer(true), balancer(false), false),
            (balancer(false), balancer(false), false),
            (balancer(false), balancer(true), false),
            (balancer(false), ("NodePort", true), false),
            (("NodePort", true), balancer(true), true),
            (("NodePort", true), balancer(false), false),
        ];
        let given = json!([{"name": "a", "port": 80, "nodePort": 30001}]);
        let left_out = json!([{"name": "a", "port": 80}]);
        for ((before, allocated), (kind, allocates), is_kept) in cases {
            let stored = of(before, allocated, given.clone());
            for (ports, expected) in [
                (&given, &given),
                (&left_out, if is_kept { &given } else { &left_out }),
            ] {
                let mut object = of(kind, allocates, ports.clone());
                prepare_update(&mut object, &stored);
                let found = &object.0["spec"]["ports"];
                assert_eq!(found, expected, "{before} {allocated} {kind} {allocates}");
            }
        }
    }

    /// API-228: fields that the server allocates are kept if an update omits them.
    #[test]
    fn an_update_keeps_fields_that_it_omits() {
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
