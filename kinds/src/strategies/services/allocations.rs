//! The cluster IPs and node ports that Services allocate (API-228).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::field::Field;
use api::keyed::Keyed;
use api::object::{Object, remove};
use serde_json::{Value, json};

use super::{
    HEADLESS, allocates_ports, has_addresses, has_health_check, has_node_ports, is_set, node_ports,
    still_prefers_both, text,
};
use crate::defaults::{Members, items, member};
use crate::validation::addresses::{is_v4, parse_address};
use crate::validation::services::validate_cluster_ips;
use api::error_list::ErrorList;

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Family {
        match is_v4(address) {
            true => Family::V4,
            false => Family::V6,
        }
    }

    /// Returns the name used in objects.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    fn named(name: &str) -> Option<Family> {
        [Family::V4, Family::V6]
            .into_iter()
            .find(|family| family.name() == name)
    }
}

/// Gives a Service without addresses and families the first family of the cluster, unless the
/// stored Service had families.
pub fn default_family(object: &mut Object, stored: Option<&Object>, cluster: &[Family]) {
    let had = stored.is_some_and(|stored| is_set_in(stored, "ipFamilies"));
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    let is_headless = text(spec, "clusterIP") == HEADLESS;
    let mut chooses = ["clusterIP", "clusterIPs"].iter();
    let has_address = !is_headless && chooses.any(|name| is_set(spec, name));
    if had || !has_addresses(spec) || has_address || is_set(spec, "ipFamilies") {
        return;
    }
    if let [first @ Family::V6, ..] = cluster {
        spec.insert("ipFamilies".to_owned(), json!([first.name()]));
    }
}

fn is_set_in(object: &Object, name: &str) -> bool {
    let spec = object.0.get("spec").and_then(Value::as_object);
    spec.is_some_and(|spec| is_set(spec, name))
}

/// Adds errors for requested families that the cluster does not have. kube-apiserver reports them
/// before all other errors except those of the addresses and families themselves.
pub fn missing_families(
    object: &Object,
    stored: Option<&Object>,
    cluster: &[Family],
    errors: &mut ErrorList,
) {
    let Some(Value::Object(spec)) = object.0.get("spec") else {
        return;
    };
    // Copies the spec without ports: they do not affect families, and there may be many.
    let spec = spec.iter().filter(|(name, _)| *name != "ports");
    let spec: Members = spec
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut prepared = Object::of(Members::from_iter([("spec".to_owned(), spec.into())]));
    match stored {
        Some(stored) => super::prepare_update(&mut prepared, stored),
        None => super::prepare_create(&mut prepared),
    }
    if keeps_both(&prepared, stored) {
        return;
    }
    // Absent families follow from the addresses.
    if !is_set_in(object, "ipFamilies") {
        remove(&mut prepared, &["spec", "ipFamilies"]);
    }
    let of_addresses = ErrorList::of(|errors| validate_cluster_ips(&prepared, stored, errors));
    if of_addresses.is_empty() {
        validate_families(&prepared, cluster, errors);
    }
}

/// Reports whether a Service that prefers two families keeps its addresses and families.
fn keeps_both(object: &Object, stored: Option<&Object>) -> bool {
    let spec = object.0.get("spec").and_then(Value::as_object);
    let before = stored.and_then(|stored| stored.0.get("spec")?.as_object());
    let both = spec.zip(before);
    both.is_some_and(|(spec, before)| still_prefers_both(spec, before))
}

/// Adds the second family to a dual-stack Service, if the cluster has both. Adds errors for
/// requested families that the cluster does not have.
pub fn complete_families(
    object: &mut Object,
    stored: Option<&Object>,
    cluster: &[Family],
    errors: &mut ErrorList,
) {
    if keeps_both(object, stored) {
        return;
    }
    let before = errors.reported();
    validate_families(object, cluster, errors);
    if errors.reported() > before {
        return;
    }
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    let wants_both = matches!(
        text(spec, "ipFamilyPolicy"),
        "PreferDualStack" | "RequireDualStack"
    );
    if has_addresses(spec)
        && wants_both
        && let Some(Value::Array(families)) = spec.get_mut("ipFamilies")
        && let [only] = &**families
    {
        let other = cluster.iter().find(|family| only != family.name());
        families.extend(other.map(|family| family.name().into()));
    }
}

fn validate_families(object: &Object, cluster: &[Family], errors: &mut ErrorList) {
    // linear: there are two families.
    let has = |family: Option<Family>| family.is_none_or(|family| cluster.contains(&family));
    let spec = Field::of(object, "spec");
    let members = spec.value().and_then(Value::as_object);
    if !members.is_some_and(has_addresses) {
        return;
    }
    let (addresses, families) = (spec.member("clusterIPs"), spec.member("ipFamilies"));
    let policy = spec.member("ipFamilyPolicy");
    let reported = errors.reported();
    if policy.text() == "SingleStack" {
        for (list, what) in [(&addresses, "cluster IPs"), (&families, "IP families")] {
            if list.len() > 1 {
                errors.push(policy.invalid(format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are \
                     specified"
                )));
            }
        }
    }
    let is_headless = addresses
        .list()
        .first()
        .is_some_and(|first| first == HEADLESS);
    // For an address with an explicit family, the error is about the family.
    for address in addresses.items().skip(families.len()) {
        let family = parse_address(address.text()).map(Family::of);
        if let Some(missing) = family.filter(|family| !has(Some(*family))) {
            let all = addresses.value().unwrap_or(&Value::Null);
            let why = format!("{} is not configured on this cluster", missing.name());
            errors.push(address.invalid_value(all, why));
        }
    }
    // A headless Service without a selector may have any families.
    if errors.reported() > reported || (is_headless && spec.member("selector").is_empty()) {
        return;
    }
    if policy.text() == "RequireDualStack" && cluster.len() < 2 {
        errors.push(policy.invalid("this cluster is not configured for dual-stack services"));
    }
    for family in families
        .items()
        .filter(|family| !has(Family::named(family.text())))
    {
        errors.push(family.invalid("not configured on this cluster"));
    }
}

/// An address that a Service allocates, by its index in `clusterIPs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressDemand {
    /// Its family.
    pub family: Family,
    /// The requested address. `None` requests any.
    pub address: Option<IpAddr>,
}

/// Returns the addresses of a Service, without `None` and invalid ones.
pub fn addresses(object: &Object) -> Vec<IpAddr> {
    let spec = Field::of(object, "spec");
    let members = spec.value().and_then(Value::as_object);
    if !members.is_some_and(has_addresses) {
        return Vec::new();
    }
    let list = spec.member("clusterIPs");
    list.items()
        .filter_map(|address| parse_address(address.text()))
        .collect()
}

/// Returns the addresses that a Service allocates: each of its own that the stored Service did not
/// have, and one for each family without an address. The families must be complete.
pub fn address_demands(object: &Object, stored: Option<&Object>) -> Vec<AddressDemand> {
    let spec = Field::of(object, "spec");
    let list = spec.member("clusterIPs");
    let is_headless = list.list().first().is_some_and(|first| first == HEADLESS);
    let members = spec.value().and_then(Value::as_object);
    if is_headless || !members.is_some_and(has_addresses) {
        return Vec::new();
    }
    let before = stored.map(addresses).unwrap_or_default();
    let families = spec.member("ipFamilies");
    let places = families.items().enumerate().filter_map(|(place, family)| {
        let address = parse_address(list.index(place).text());
        let family = address
            .map(Family::of)
            .or_else(|| Family::named(family.text()))?;
        // linear: a stored Service has at most two addresses.
        let is_new = address.is_none_or(|address| !before.contains(&address));
        is_new.then_some(AddressDemand { family, address })
    });
    places.collect()
}

/// Sets the allocated addresses, in the order of the demands.
pub fn set_addresses(object: &mut Object, demands: &[AddressDemand], found: &[IpAddr]) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    let list = spec.get("clusterIPs").and_then(Value::as_array);
    let mut list = list.cloned().unwrap_or_default();
    let any = demands
        .iter()
        .zip(found)
        .filter(|(demand, _)| demand.address.is_none());
    list.extend(any.map(|(_, address)| Value::from(address.to_string())));
    if let Some(first) = list.first() {
        spec.insert("clusterIP".to_owned(), first.clone());
        spec.insert("clusterIPs".to_owned(), list.into());
    }
}

/// The use of a node port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortUse {
    /// The port of a Service, by its index.
    Port(usize),
    /// The health check.
    HealthCheck,
}

/// A node port that a Service allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortDemand {
    /// Its use.
    pub port_use: PortUse,
    /// The requested port. `None` requests any.
    pub port: Option<u16>,
}

/// Returns all node ports of a Service.
pub fn all_node_ports(object: &Object) -> BTreeSet<u16> {
    let spec = object.0.get("spec").and_then(Value::as_object);
    let Some(spec) = spec else {
        return BTreeSet::new();
    };
    let ports = node_ports(spec)
        .into_iter()
        .filter(|_| has_node_ports(spec));
    let ports = ports
        .chain(health_check(spec))
        .filter_map(|port| port.try_into().ok());
    ports.collect()
}

fn health_check(spec: &Members) -> Option<i64> {
    let port = spec.get("healthCheckNodePort").and_then(Value::as_i64);
    port.filter(|port| *port != 0 && has_health_check(spec))
}

/// Returns the node ports that a Service allocates: requested ones that the stored Service did not
/// have, and one for each port without any. Ports with the same number and different protocols
/// share a node port.
pub fn port_demands(object: &Object, stored: Option<&Object>) -> Vec<PortDemand> {
    let spec = object.0.get("spec").and_then(Value::as_object);
    let Some(spec) = spec else {
        return Vec::new();
    };
    let before = stored.map(all_node_ports).unwrap_or_default();
    let mut demands = Vec::new();
    let ports = spec.get("ports").and_then(Value::as_array);
    let ports = ports.map(Vec::as_slice).unwrap_or_default();
    let of = |port: &Value| -> Option<u16> { super::node_port(port)?.try_into().ok() };
    let asked_for = ports.iter().filter(|port| of(port).is_some());
    let asked_for = Keyed::by(asked_for, |port| port.get("port"));
    // The node port that ports with the same number share.
    let mut shared: BTreeMap<Option<i64>, Option<u16>> = BTreeMap::new();
    for (index, port) in ports.iter().enumerate().filter(|_| has_node_ports(spec)) {
        let number = port.get("port").and_then(Value::as_i64);
        let same = asked_for.first(&port.get("port"));
        let asked = of(port).or_else(|| of(same?));
        let port_use = PortUse::Port(index);
        match (shared.get(&number), of(port)) {
            // It shares the node port of an earlier port, which may not be allocated yet.
            (Some(earlier), own) if own.is_none() || own == *earlier => continue,
            _ => {}
        }
        let is_first = !shared.contains_key(&number);
        if is_first {
            shared.insert(number, asked);
        }
        match asked {
            Some(port) if before.contains(&port) => {}
            Some(port) => demands.push(PortDemand {
                port_use,
                port: Some(port),
            }),
            None if allocates_ports(spec) => demands.push(PortDemand {
                port_use,
                port: None,
            }),
            None => {}
        }
    }
    if has_health_check(spec) {
        let port = health_check(spec).and_then(|port| port.try_into().ok());
        if port.is_none_or(|port| !before.contains(&port)) {
            let port_use = PortUse::HealthCheck;
            demands.push(PortDemand { port_use, port });
        }
    }
    demands
}

/// Sets the allocated node ports, in the order of the demands.
pub fn set_ports(object: &mut Object, demands: &[PortDemand], found: &[u16]) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    let has_ports = has_node_ports(spec);
    for (demand, port) in demands.iter().zip(found) {
        match demand.port_use {
            PortUse::HealthCheck => {
                spec.insert("healthCheckNodePort".to_owned(), (*port).into());
            }
            PortUse::Port(index) => {
                let ports = spec.get_mut("ports");
                if let Some(of) = ports.and_then(|ports| ports.get_mut(index)?.as_object_mut()) {
                    of.insert("nodePort".to_owned(), (*port).into());
                }
            }
        }
    }
    if !has_ports {
        return;
    }
    // Ports with the same number share the node port of the first.
    let mut first: BTreeMap<Option<i64>, Value> = BTreeMap::new();
    for port in items(spec, "ports") {
        let number = port.get("port").and_then(Value::as_i64);
        let own = port
            .get("nodePort")
            .filter(|own| own.as_i64() != Some(0))
            .cloned();
        match (first.get(&number), own) {
            (Some(first), None) => {
                port.insert("nodePort".to_owned(), first.clone());
            }
            (None, Some(own)) => {
                first.insert(number, own);
            }
            _ => {}
        }
    }
}
