//! What is refused of Services (API-247, http.md 6.2). Addresses and ports are not allocated here.

mod cluster_ips;

use std::collections::HashSet;
use std::net::IpAddr;

use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};
use api::names;
use api::object::Object;

use super::Faults;
use super::addresses::{parse_address, validate_legacy_address, validate_range_text};
use super::endpoints::{validate_application, validate_number_and_protocol};
use super::formats::{one_of, port_number, port_number_or_name, report, require_text};
use super::internal::internal_json;
use super::selectors::validate_labels;

const MAX_AFFINITY_SECONDS: i64 = 86_400;
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// The faults of a new Service.
pub fn validate_service(object: &Object) -> Faults {
    validate(object, None)
}

/// The faults of a change to a Service.
pub fn validate_service_update(object: &Object, stored: &Object) -> Faults {
    let faults = cluster_ips::validate(object, Some(stored));
    if !faults.is_empty() {
        return faults;
    }
    let mut faults = cluster_ips::validate_changes(object, stored);
    validate_balancer_class_change(object, stored, &mut faults);
    validate_health_check_change(object, stored, &mut faults);
    faults.extend(validate(object, Some(stored)));
    faults
}

/// The faults of a Service's addresses and their families, which are told in front of all others.
pub fn validate_cluster_ips(object: &Object, stored: Option<&Object>) -> Faults {
    cluster_ips::validate(object, stored)
}

/// A Service with its type, which most rules ask for.
struct Service<'s> {
    spec: Field<'s>,
    kind: &'s str,
}

impl<'s> Service<'s> {
    fn of(object: &'s Object) -> Service<'s> {
        let spec = Field::of(object, "spec");
        let kind = object.text(&["spec", "type"]);
        Service { spec, kind }
    }

    /// Whether it has no address of its own.
    fn is_headless(&self) -> bool {
        let ips = self.spec.member("clusterIPs");
        matches!(ips.list(), [only] if only == "None")
    }

    fn is_balancer(&self) -> bool {
        self.kind == "LoadBalancer"
    }

    fn is_externally_accessible(&self) -> bool {
        match self.kind {
            "LoadBalancer" | "NodePort" => true,
            "ClusterIP" => !self.spec.member("externalIPs").is_empty(),
            _ => false,
        }
    }

    fn needs_health_check(&self) -> bool {
        let policy = self.spec.member("externalTrafficPolicy");
        self.is_balancer() && policy.text() == "Local"
    }
}

fn validate(object: &Object, stored: Option<&Object>) -> Faults {
    // The server allocates addresses before it validates, and checks what it has for that first.
    let faults = cluster_ips::validate(object, stored);
    if !faults.is_empty() {
        return faults;
    }
    let mut faults = Faults::new();
    let service = Service::of(object);
    let spec = &service.spec;
    validate_topology_annotations(object, &mut faults);
    let ports = spec.member("ports");
    if ports.is_empty() && !service.is_headless() && service.kind != "ExternalName" {
        faults.push(ports.required(""));
    }
    validate_kind(&service, &mut faults);
    validate_ports(&service, &mut faults);
    validate_labels(&spec.member("selector"), &mut faults);
    validate_affinity(spec, &mut faults);
    validate_external_ips(spec, stored, &mut faults);
    let kind = spec.member("type");
    if require_text(&kind, &mut faults) {
        let kinds = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        one_of(&kind, kinds, &mut faults);
    }
    validate_port_conflicts(&service, &mut faults);
    validate_source_ranges(object, stored, &service, &mut faults);
    validate_balancer(&service, &mut faults);
    validate_traffic(&service, &mut faults);
    faults
}

fn validate_topology_annotations(object: &Object, faults: &mut Faults) {
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let mode = annotations.key(TOPOLOGY_MODE);
    let hints = annotations.key(HINTS);
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        faults.push(mode.invalid(format!(
            "must match annotations[{HINTS}] when both are specified"
        )));
    }
}

/// The rules of single types.
fn validate_kind(service: &Service<'_>, faults: &mut Faults) {
    let spec = &service.spec;
    let ips = spec.member("clusterIPs");
    match service.kind {
        "LoadBalancer" | "NodePort" if service.is_headless() => {
            let why = format!("may not be set to 'None' for {} services", service.kind);
            faults.push(ips.index(0).invalid(why));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.member(name);
                if field.is_set() && (name == "ipFamilyPolicy" || !field.is_empty()) {
                    faults.push(field.forbidden("may not be set for ExternalName services"));
                }
            }
            let target = spec.member("externalName");
            let name = target.text().strip_suffix('.').unwrap_or(target.text());
            if name.is_empty() {
                faults.push(target.required(""));
            } else {
                let wrong = names::dns_subdomain(name).into_iter();
                faults.extend(wrong.map(|message| target.invalid_value(name, message)));
            }
        }
        _ => {}
    }
}

fn validate_ports(service: &Service<'_>, faults: &mut Faults) {
    let ports = service.spec.member("ports");
    let ports: Vec<Field<'_>> = ports.items().collect();
    let needs_names = ports.len() > 1;
    let mut seen = HashSet::new();
    for port in &ports {
        let name = port.member("name");
        if !name.text().is_empty() {
            report(&name, names::dns_label(name.text()), faults);
            if !seen.insert(name.text()) {
                faults.push(name.duplicate());
            }
        } else if needs_names {
            faults.push(name.required(""));
        }
        validate_number_and_protocol(port, faults);
        let target = port.member("targetPort");
        report(&target, port_number_or_name(&target), faults);
        validate_application(port, faults);
    }
}

fn validate_affinity(spec: &Field<'_>, faults: &mut Faults) {
    let affinity = spec.member("sessionAffinity");
    let config = spec.member("sessionAffinityConfig");
    if require_text(&affinity, faults) {
        one_of(&affinity, &["ClientIP", "None"], faults);
    }
    match affinity.text() {
        "ClientIP" => {
            let client = config.member("clientIP");
            let timeout = client.member("timeoutSeconds");
            let why = "when session affinity type is ClientIP";
            match timeout.int() {
                Some(seconds) if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds) => {
                    faults.push(timeout.invalid(format!(
                        "must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
                    )));
                }
                Some(_) => {}
                None if !config.is_set() => faults.push(config.required(why)),
                None if !client.is_set() => faults.push(client.required(why)),
                None => faults.push(timeout.required(why)),
            }
        }
        "None" if config.is_set() => {
            faults.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// The texts of a list in the stored object.
fn stored_texts<'s>(stored: Option<&'s Object>, name: &str) -> Vec<&'s str> {
    let list = stored.and_then(|stored| stored.at(&["spec", name]));
    let list = list.and_then(serde_json::Value::as_array);
    let texts = list.into_iter().flatten();
    texts.filter_map(serde_json::Value::as_str).collect()
}

fn validate_external_ips(spec: &Field<'_>, stored: Option<&Object>, faults: &mut Faults) {
    let existing = stored_texts(stored, "externalIPs");
    for ip in spec.member("externalIPs").items() {
        let before = faults.len();
        let address = validate_legacy_address(&ip, &existing, faults);
        if let (Some(address), true) = (address, faults.len() == before) {
            validate_non_special_ip(&ip, address, faults);
        }
    }
}

/// An address that may stand for a host on a network.
pub(super) fn validate_non_special_ip(field: &Field<'_>, address: IpAddr, faults: &mut Faults) {
    let address = address.to_canonical();
    if address.is_unspecified() {
        let why = format!("may not be unspecified ({})", field.text());
        faults.push(field.invalid(why));
    }
    if address.is_loopback() {
        faults.push(field.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    let (is_link_local, is_link_local_group) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            matches!(address.octets(), [224, 0, 0, _]),
        ),
        IpAddr::V6(address) => (
            address.is_unicast_link_local(),
            matches!(address.octets(), [0xff, second, ..] if second & 0x0f == 2),
        ),
    };
    if is_link_local {
        let why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        faults.push(field.invalid(why));
    }
    if is_link_local_group {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        faults.push(field.invalid(why));
    }
}

fn validate_port_conflicts(service: &Service<'_>, faults: &mut Faults) {
    let ports = service.spec.member("ports");
    let ports: Vec<Field<'_>> = ports.items().collect();
    let node_port = |port: &Field<'_>| port.member("nodePort").int().unwrap_or_default();
    if service.kind == "ClusterIP" {
        for port in ports.iter().filter(|port| node_port(port) != 0) {
            let field = port.member("nodePort");
            faults.push(field.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
    }
    let mut seen = HashSet::new();
    for port in ports.iter().filter(|port| node_port(port) != 0) {
        if !seen.insert((port.member("protocol").text(), node_port(port))) {
            faults.push(port.member("nodePort").duplicate());
        }
    }
    let mut seen = HashSet::new();
    for port in &ports {
        let number = port.member("port").int().unwrap_or_default();
        let protocol = port.member("protocol").text();
        if !seen.insert((protocol, number)) {
            let shown = serde_json::json!({"protocol": protocol, "port": number});
            let json = internal_json("core.v1.ServicePort", Some(&shown));
            faults.push(FieldError {
                kind: FieldErrorKind::Duplicate,
                ..FieldError::invalid_document(port.path(), &json, "")
            });
        }
    }
}

fn validate_source_ranges(
    object: &Object,
    stored: Option<&Object>,
    service: &Service<'_>,
    faults: &mut Faults,
) {
    let ranges = service.spec.member("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // This path begins with a capital letter in Kubernetes.
        let ranges = Field::named("spec.LoadBalancerSourceRanges", ranges.value());
        if !service.is_balancer() {
            faults.push(ranges.forbidden(ONLY_BALANCERS));
        }
        let existing = stored_texts(stored, "loadBalancerSourceRanges");
        for range in ranges.items() {
            let trimmed = range.text().trim();
            let keeps_form = existing.contains(&trimmed);
            validate_range_text(&range, trimmed, keeps_form, faults);
        }
        return;
    }
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let annotation = annotations.key(SOURCE_RANGES);
    if !annotation.is_set() {
        return;
    }
    if !service.is_balancer() {
        faults.push(annotation.forbidden(ONLY_BALANCERS));
    }
    let text = annotation.text().trim();
    if text.is_empty() {
        return;
    }
    let existing = stored.map(|stored| stored.text(&["metadata", "annotations", SOURCE_RANGES]));
    let existing: Vec<&str> = existing.unwrap_or_default().split(',').collect();
    for range in text.split(',').map(str::trim) {
        let keeps_form = existing.contains(&range);
        validate_range_text(&annotation, range, keeps_form, faults);
    }
}

fn validate_balancer(service: &Service<'_>, faults: &mut Faults) {
    let allocates = service.spec.member("allocateLoadBalancerNodePorts");
    let class = service.spec.member("loadBalancerClass");
    match (service.is_balancer(), allocates.is_set()) {
        (false, true) => faults.push(allocates.forbidden(ONLY_BALANCERS)),
        (true, false) => faults.push(allocates.required("")),
        _ => {}
    }
    if !class.is_set() {
        return;
    }
    if service.is_balancer() {
        report(&class, names::qualified_name(class.text()), faults);
    } else {
        faults.push(class.forbidden(ONLY_BALANCERS));
    }
}

/// A load balancer keeps its class.
fn validate_balancer_class_change(object: &Object, stored: &Object, faults: &mut Faults) {
    let (now, before) = (Service::of(object), Service::of(stored));
    if !now.is_balancer() {
        let class = now.spec.member("loadBalancerClass");
        if class.is_set() {
            faults.push(class.forbidden(ONLY_BALANCERS));
        }
        return;
    }
    let class = now.spec.member("loadBalancerClass");
    if before.is_balancer() && class.value() != before.spec.member("loadBalancerClass").value() {
        faults.push(class.invalid("may not change once set"));
    }
    if class.is_set() {
        report(&class, names::qualified_name(class.text()), faults);
    }
}

/// A load balancer keeps the port for its checks.
fn validate_health_check_change(object: &Object, stored: &Object, faults: &mut Faults) {
    let (now, before) = (Service::of(object), Service::of(stored));
    let port = now.spec.member("healthCheckNodePort");
    let is_changed = port.int() != before.spec.member("healthCheckNodePort").int();
    if now.needs_health_check() && before.needs_health_check() && is_changed {
        faults.push(port.forbidden("field is immutable"));
    }
}

fn validate_traffic(service: &Service<'_>, faults: &mut Faults) {
    let external = service.spec.member("externalTrafficPolicy");
    if service.is_externally_accessible() {
        if require_text(&external, faults) {
            one_of(&external, &["Cluster", "Local"], faults);
        }
    } else if !external.text().is_empty() {
        faults.push(external.invalid("may only be set for externally-accessible services"));
    }
    let health = service.spec.member("healthCheckNodePort");
    let port = health.int().unwrap_or_default();
    if service.needs_health_check() {
        // Kubernetes allocates one where none is given. Nothing allocates ports here yet.
        if port != 0 {
            report(&health, port_number(port), faults);
        }
    } else if port != 0 {
        faults.push(health.invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ));
    }
    let internal = service.spec.member("internalTrafficPolicy");
    if internal.is_set() {
        one_of(&internal, &["Cluster", "Local"], faults);
    } else if matches!(service.kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
        faults.push(internal.required(""));
    }
    let distribution = service.spec.member("trafficDistribution");
    if distribution.is_set() {
        let known = &["PreferClose", "PreferSameZone", "PreferSameNode"];
        one_of(&distribution, known, faults);
    }
}

/// The faults of a change to the status of a Service.
pub fn validate_service_status_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
    let status = Field::of(object, "status");
    let balancer = status.member("loadBalancer");
    let ingresses = balancer.member("ingress");
    if !Service::of(object).is_balancer() && !ingresses.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        faults.push(ingresses.forbidden(why));
        return faults;
    }
    let existing = ingress_addresses(stored);
    for ingress in ingresses.items() {
        validate_balancer_ingress(&ingress, &existing, &mut faults);
        let (ip, mode) = (ingress.member("ip"), ingress.member("ipMode"));
        match (mode.is_set(), ip.text().is_empty()) {
            (false, false) => {
                faults.push(mode.required("must be specified when `ip` is set"));
            }
            (true, true) => {
                faults.push(mode.forbidden("may not be specified when `ip` is not set"));
            }
            (true, false) => one_of(&mode, &["Proxy", "VIP"], &mut faults),
            (false, true) => {}
        }
        validate_balancer_hostname(&ingress, &mut faults);
    }
    faults
}

/// The addresses of load balancers in the status of a stored object.
pub(super) fn ingress_addresses(stored: &Object) -> Vec<&str> {
    let list = stored.at(&["status", "loadBalancer", "ingress"]);
    let list = list.and_then(serde_json::Value::as_array);
    let addresses = list.into_iter().flatten().map(|ingress| ingress.get("ip"));
    addresses
        .filter_map(|ip| ip.and_then(serde_json::Value::as_str))
        .collect()
}

/// The address of a load balancer, if it is there.
pub(super) fn validate_balancer_ingress(
    ingress: &Field<'_>,
    existing: &[&str],
    faults: &mut Faults,
) {
    let ip = ingress.member("ip");
    if !ip.text().is_empty() {
        validate_legacy_address(&ip, existing, faults);
    }
}

/// The name of a load balancer, if it is there.
pub(super) fn validate_balancer_hostname(ingress: &Field<'_>, faults: &mut Faults) {
    let hostname = ingress.member("hostname");
    if hostname.text().is_empty() {
        return;
    }
    report(&hostname, names::dns_subdomain(hostname.text()), faults);
    if parse_address(hostname.text()).is_some() {
        faults.push(hostname.invalid("must be a DNS name, not an IP address"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::core::service;
    use crate::recorded::{Functions, check};
    use crate::special::services::{prepare_create, prepare_update};

    fn create(object: &Object) -> Faults {
        let mut object = object.clone();
        prepare_create(&mut object);
        validate_service(&object)
    }

    fn update(object: &Object, stored: &Object) -> Faults {
        let mut object = object.clone();
        prepare_update(&mut object, stored);
        validate_service_update(&object, stored)
    }

    /// API-228, as kube-apiserver 1.36 answers.
    #[test]
    fn a_headless_service_releases_a_family_by_its_policy() {
        let headless = |families: serde_json::Value| {
            let spec = serde_json::json!({
                "clusterIP": "None", "ipFamilies": families, "ipFamilyPolicy": "PreferDualStack",
            });
            let service_of = serde_json::json!({"metadata": {"name": "a"}, "spec": spec});
            let mut object = Object::of(service_of.as_object().expect("an object").clone());
            service(&mut object);
            object
        };
        let mut stored = headless(serde_json::json!(["IPv6", "IPv4"]));
        prepare_create(&mut stored);
        let faults = update(&headless(serde_json::json!(["IPv6"])), &stored);
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let why = "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' \
                   to release the secondary IP family";
        assert_eq!(faults, [why]);
    }

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/services.json");
        check(cases, |path| Functions {
            defaults: Some(service),
            create,
            update: Some(match path.ends_with("/status") {
                true => validate_service_status_update,
                false => update,
            }),
        });
    }
}
