//! Validation of Services (API-247, http.md 6.2). `registry/services` allocates addresses and
//! ports.

mod cluster_ips;

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;

use super::addresses::{
    parse_address, validate_legacy_address, validate_non_special_ip, validate_range_text,
};
use super::enums::{must_be_one_of, require_one_of, validate_one_of};
use super::ports::{
    port_number, port_number_or_name, validate_application, validate_number_and_protocol,
};
use super::report;
use super::selectors::validate_labels;
use crate::types::internal::internal_json;
use api::error_list::ErrorList;

const MAX_AFFINITY_SECONDS: i64 = 86_400;
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates a new Service.
pub fn validate_service(object: &Object, errors: &mut ErrorList) {
    validate(object, None, errors);
}

/// Validates an update of a Service.
pub fn validate_service_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let before = errors.reported();
    cluster_ips::validate(object, Some(stored), errors);
    if errors.reported() > before {
        return;
    }
    cluster_ips::validate_changes(object, stored, errors);
    validate_balancer_class_change(object, stored, errors);
    validate_health_check_change(object, stored, errors);
    validate(object, Some(stored), errors);
}

/// Validates cluster IPs and families. kube-apiserver reports their errors before all others.
pub fn validate_cluster_ips(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    cluster_ips::validate(object, stored, errors);
}

/// A Service and its type, which most rules depend on.
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

    /// Reports whether it is headless.
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

fn validate(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    // kube-apiserver allocates addresses before validation, and first checks the fields for that.
    let before = errors.reported();
    cluster_ips::validate(object, stored, errors);
    if errors.reported() > before {
        return;
    }
    let service = Service::of(object);
    let spec = &service.spec;
    validate_topology_annotations(object, errors);
    let ports = spec.member("ports");
    if ports.is_empty() && !service.is_headless() && service.kind != "ExternalName" {
        errors.push(ports.required(""));
    }
    validate_kind(&service, errors);
    validate_ports(&service, errors);
    validate_labels(&spec.member("selector"), errors);
    validate_affinity(spec, errors);
    validate_external_ips(spec, stored, errors);
    let kind = spec.member("type");
    let kinds = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    require_one_of(&kind, kinds, errors);
    validate_port_conflicts(&service, errors);
    validate_source_ranges(object, stored, &service, errors);
    validate_balancer(&service, errors);
    validate_traffic(&service, errors);
}

fn validate_topology_annotations(object: &Object, errors: &mut ErrorList) {
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let mode = annotations.key(TOPOLOGY_MODE);
    let hints = annotations.key(HINTS);
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        errors.push(mode.invalid(format!(
            "must match annotations[{HINTS}] when both are specified"
        )));
    }
}

/// Validates the rules of each type.
fn validate_kind(service: &Service<'_>, errors: &mut ErrorList) {
    let spec = &service.spec;
    let ips = spec.member("clusterIPs");
    match service.kind {
        "LoadBalancer" | "NodePort" if service.is_headless() => {
            let why = format!("may not be set to 'None' for {} services", service.kind);
            errors.push(ips.index(0).invalid(why));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.member(name);
                if field.is_set() && (name == "ipFamilyPolicy" || !field.is_empty()) {
                    errors.push(field.forbidden("may not be set for ExternalName services"));
                }
            }
            let target = spec.member("externalName");
            let name = target.text().strip_suffix('.').unwrap_or(target.text());
            if name.is_empty() {
                errors.push(target.required(""));
            } else {
                let wrong = names::dns_subdomain(name).into_iter();
                errors.extend(wrong.map(|message| target.invalid_value(name, message)));
            }
        }
        _ => {}
    }
}

fn validate_ports(service: &Service<'_>, errors: &mut ErrorList) {
    let ports = service.spec.member("ports");
    let ports: Vec<Field<'_>> = ports.items().collect();
    let needs_names = ports.len() > 1;
    let mut seen = HashSet::new();
    for port in &ports {
        let name = port.member("name");
        if !name.text().is_empty() {
            report(&name, names::dns_label(name.text()), errors);
            if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        } else if needs_names {
            errors.push(name.required(""));
        }
        validate_number_and_protocol(port, errors);
        let target = port.member("targetPort");
        report(&target, port_number_or_name(&target), errors);
        validate_application(port, errors);
    }
}

fn validate_affinity(spec: &Field<'_>, errors: &mut ErrorList) {
    let affinity = spec.member("sessionAffinity");
    let config = spec.member("sessionAffinityConfig");
    require_one_of(&affinity, &["ClientIP", "None"], errors);
    match affinity.text() {
        "ClientIP" => {
            let client = config.member("clientIP");
            let timeout = client.member("timeoutSeconds");
            let why = "when session affinity type is ClientIP";
            match timeout.int() {
                Some(seconds) if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds) => {
                    errors.push(timeout.invalid(format!(
                        "must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
                    )));
                }
                Some(_) => {}
                None if !config.is_set() => errors.push(config.required(why)),
                None if !client.is_set() => errors.push(client.required(why)),
                None => errors.push(timeout.required(why)),
            }
        }
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Returns the texts of a list in the stored object.
fn stored_texts<'s>(stored: Option<&'s Object>, name: &str) -> HashSet<&'s str> {
    let list = stored.and_then(|stored| stored.at(&["spec", name]));
    let list = list.and_then(serde_json::Value::as_array);
    let texts = list.into_iter().flatten();
    texts.filter_map(serde_json::Value::as_str).collect()
}

fn validate_external_ips(spec: &Field<'_>, stored: Option<&Object>, errors: &mut ErrorList) {
    let existing = stored_texts(stored, "externalIPs");
    for ip in spec.member("externalIPs").items() {
        let before = errors.reported();
        let address = validate_legacy_address(&ip, &existing, errors);
        if let (Some(address), true) = (address, errors.reported() == before) {
            validate_non_special_ip(&ip, address, errors);
        }
    }
}

fn validate_port_conflicts(service: &Service<'_>, errors: &mut ErrorList) {
    let ports = service.spec.member("ports");
    let ports: Vec<Field<'_>> = ports.items().collect();
    let node_port = |port: &Field<'_>| port.member("nodePort").int().unwrap_or_default();
    if service.kind == "ClusterIP" {
        for port in ports.iter().filter(|port| node_port(port) != 0) {
            let field = port.member("nodePort");
            errors.push(field.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
    }
    let mut seen = HashSet::new();
    for port in ports.iter().filter(|port| node_port(port) != 0) {
        if !seen.insert((port.member("protocol").text(), node_port(port))) {
            errors.push(port.member("nodePort").duplicate());
        }
    }
    let mut seen = HashSet::new();
    for port in &ports {
        let number = port.member("port").int().unwrap_or_default();
        let protocol = port.member("protocol").text();
        if !seen.insert((protocol, number)) {
            let json = move || {
                let shown = serde_json::json!({"protocol": protocol, "port": number});
                internal_json("core.v1.ServicePort", Some(&shown))
            };
            errors.push(port.duplicate().showing_json(json));
        }
    }
}

fn validate_source_ranges(
    object: &Object,
    stored: Option<&Object>,
    service: &Service<'_>,
    errors: &mut ErrorList,
) {
    let ranges = service.spec.member("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // Kubernetes has a capital letter in this path.
        let ranges = Field::named("spec.LoadBalancerSourceRanges", ranges.value());
        if !service.is_balancer() {
            errors.push(ranges.forbidden(ONLY_BALANCERS));
        }
        let existing = stored_texts(stored, "loadBalancerSourceRanges");
        for range in ranges.items() {
            let trimmed = range.text().trim();
            let keeps_form = existing.contains(trimmed);
            validate_range_text(&range, trimmed, keeps_form, errors);
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
        errors.push(annotation.forbidden(ONLY_BALANCERS));
    }
    let text = annotation.text().trim();
    if text.is_empty() {
        return;
    }
    let existing = stored.map(|stored| stored.text(&["metadata", "annotations", SOURCE_RANGES]));
    let existing: HashSet<&str> = existing.unwrap_or_default().split(',').collect();
    for range in text.split(',').map(str::trim) {
        let keeps_form = existing.contains(range);
        validate_range_text(&annotation, range, keeps_form, errors);
    }
}

fn validate_balancer(service: &Service<'_>, errors: &mut ErrorList) {
    let allocates = service.spec.member("allocateLoadBalancerNodePorts");
    let class = service.spec.member("loadBalancerClass");
    match (service.is_balancer(), allocates.is_set()) {
        (false, true) => errors.push(allocates.forbidden(ONLY_BALANCERS)),
        (true, false) => errors.push(allocates.required("")),
        _ => {}
    }
    if !class.is_set() {
        return;
    }
    if service.is_balancer() {
        report(&class, names::qualified_name(class.text()), errors);
    } else {
        errors.push(class.forbidden(ONLY_BALANCERS));
    }
}

/// Validates that a load balancer keeps its class.
fn validate_balancer_class_change(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (now, before) = (Service::of(object), Service::of(stored));
    if !now.is_balancer() {
        let class = now.spec.member("loadBalancerClass");
        if class.is_set() {
            errors.push(class.forbidden(ONLY_BALANCERS));
        }
        return;
    }
    let class = now.spec.member("loadBalancerClass");
    if before.is_balancer() && class.value() != before.spec.member("loadBalancerClass").value() {
        errors.push(class.invalid("may not change once set"));
    }
    if class.is_set() {
        report(&class, names::qualified_name(class.text()), errors);
    }
}

/// Validates that a load balancer keeps its health check port.
fn validate_health_check_change(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (now, before) = (Service::of(object), Service::of(stored));
    let port = now.spec.member("healthCheckNodePort");
    let is_changed = port.int() != before.spec.member("healthCheckNodePort").int();
    if now.needs_health_check() && before.needs_health_check() && is_changed {
        errors.push(port.forbidden("field is immutable"));
    }
}

fn validate_traffic(service: &Service<'_>, errors: &mut ErrorList) {
    let external = service.spec.member("externalTrafficPolicy");
    if service.is_externally_accessible() {
        require_one_of(&external, &["Cluster", "Local"], errors);
    } else if !external.text().is_empty() {
        errors.push(external.invalid("may only be set for externally-accessible services"));
    }
    let health = service.spec.member("healthCheckNodePort");
    let port = health.int().unwrap_or_default();
    if service.needs_health_check() {
        // If it is 0, the allocator sets it later.
        if port != 0 {
            report(&health, port_number(port), errors);
        }
    } else if port != 0 {
        errors.push(health.invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ));
    }
    let internal = service.spec.member("internalTrafficPolicy");
    if internal.is_set() {
        validate_one_of(&internal, &["Cluster", "Local"], errors);
    } else if matches!(service.kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
        errors.push(internal.required(""));
    }
    let distribution = service.spec.member("trafficDistribution");
    let known = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    validate_one_of(&distribution, known, errors);
}

/// Validates an update of the status of a Service.
pub fn validate_service_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    let balancer = status.member("loadBalancer");
    let ingresses = balancer.member("ingress");
    if !Service::of(object).is_balancer() && !ingresses.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(ingresses.forbidden(why));
        return;
    }
    let existing = ingress_addresses(stored);
    for ingress in ingresses.items() {
        validate_balancer_ingress(&ingress, &existing, errors);
        let (ip, mode) = (ingress.member("ip"), ingress.member("ipMode"));
        match (mode.is_set(), ip.text().is_empty()) {
            (false, false) => {
                errors.push(mode.required("must be specified when `ip` is set"));
            }
            (true, true) => {
                errors.push(mode.forbidden("may not be specified when `ip` is not set"));
            }
            (true, false) => must_be_one_of(&mode, &["Proxy", "VIP"], errors),
            (false, true) => {}
        }
        validate_balancer_hostname(&ingress, errors);
    }
}

/// Returns the load balancer addresses in the status of a stored object.
pub(super) fn ingress_addresses(stored: &Object) -> HashSet<&str> {
    let list = stored.at(&["status", "loadBalancer", "ingress"]);
    let list = list.and_then(serde_json::Value::as_array);
    let addresses = list.into_iter().flatten().map(|ingress| ingress.get("ip"));
    addresses
        .filter_map(|ip| ip.and_then(serde_json::Value::as_str))
        .collect()
}

/// Validates the IP address of a load balancer, if any.
pub(super) fn validate_balancer_ingress(
    ingress: &Field<'_>,
    existing: &HashSet<&str>,
    errors: &mut ErrorList,
) {
    let ip = ingress.member("ip");
    if !ip.text().is_empty() {
        validate_legacy_address(&ip, existing, errors);
    }
}

/// Validates the host name of a load balancer, if any.
pub(super) fn validate_balancer_hostname(ingress: &Field<'_>, errors: &mut ErrorList) {
    let hostname = ingress.member("hostname");
    if hostname.text().is_empty() {
        return;
    }
    report(&hostname, names::dns_subdomain(hostname.text()), errors);
    if parse_address(hostname.text()).is_some() {
        errors.push(hostname.invalid("must be a DNS name, not an IP address"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::core::service;
    use crate::recorded::{Functions, check};
    use crate::strategies::services::{prepare_create, prepare_update};

    fn create(object: &Object, errors: &mut ErrorList) {
        let mut object = object.clone();
        prepare_create(&mut object);
        validate_service(&object, errors);
    }

    fn update(object: &Object, stored: &Object, errors: &mut ErrorList) {
        let mut object = object.clone();
        prepare_update(&mut object, stored);
        validate_service_update(&object, stored, errors);
    }

    /// API-228: answers of kube-apiserver 1.36.
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
        let changed = headless(serde_json::json!(["IPv6"]));
        let errors = ErrorList::of(|errors| update(&changed, &stored, errors));
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let why = "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' \
                   to release the secondary IP family";
        assert_eq!(errors, [why]);
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
