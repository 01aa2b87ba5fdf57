//! Warnings about Services, Ingresses and NetworkPolicies.

use api::field::Field;
use api::object::Object;

use super::Warnings;
use super::addresses::{warn_of_address, warn_of_range};

/// Returns the warnings about a Service.
pub fn of_service(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    let hints = "service.kubernetes.io/topology-aware-hints";
    if object.at(&["metadata", "annotations", hints]).is_some() {
        warnings.add(format!(
            "annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode \
             instead"
        ));
    }
    let cluster_ip = spec.member("clusterIP");
    if !matches!(cluster_ip.text(), "" | "None") {
        warn_of_items(&spec.member("clusterIPs"), warn_of_address, &warnings);
    }
    let is_headless = spec.member("type").text() == "ClusterIP" && cluster_ip.text() == "None";
    if is_headless {
        warn_of_headless(&spec, &warnings);
    }
    let external = spec.member("externalIPs");
    let is_external_name = spec.member("type").text() == "ExternalName";
    warn_of_items(&external, warn_of_address, &warnings);
    if !external.is_empty() && !is_headless && !is_external_name {
        let text =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.add(text.to_owned());
    }
    warn_of_address(&spec.member("loadBalancerIP"), &warnings);
    let ranges = spec.member("loadBalancerSourceRanges");
    warn_of_items(&ranges, warn_of_range, &warnings);
    if is_external_name && !external.is_empty() {
        warnings.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_external_name && !spec.member("externalName").text().is_empty() {
        let text = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.add(text.to_owned());
    }
    if spec.member("trafficDistribution").text() == "PreferClose" {
        let text =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.add(text.to_owned());
    }
    warnings.take()
}

/// Warns of fields that a headless Service ignores.
fn warn_of_headless(spec: &Field<'_>, warnings: &Warnings) {
    let ignored = [
        (
            "loadBalancerIP",
            !spec.member("loadBalancerIP").text().is_empty(),
        ),
        ("externalIPs", !spec.member("externalIPs").is_empty()),
        (
            "SessionAffinity",
            spec.member("sessionAffinity").text() != "None",
        ),
    ];
    for (name, _) in ignored.iter().filter(|(_, is_set)| *is_set) {
        warnings.add(format!("spec.{name} is ignored for headless services"));
    }
}

/// Warns of each item of a list by a rule.
pub(super) fn warn_of_items(
    list: &Field<'_>,
    rule: fn(&Field<'_>, &Warnings),
    warnings: &Warnings,
) {
    for item in list.items() {
        rule(&item, warnings);
    }
}

/// Returns the warnings about a status with load balancer addresses, of a Service or an Ingress.
pub fn of_load_balancer_status(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let status = Field::of(object, "status");
    let balancer = status.member("loadBalancer");
    for ingress in balancer.member("ingress").items() {
        // kube-apiserver names the item, not its member `ip`.
        if let Some(address) = ingress.member("ip").value() {
            warn_of_address(&ingress.with_value(address), &warnings);
        }
    }
    warnings.take()
}

/// Returns the warnings about a new Ingress.
pub fn of_ingress(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let class = "kubernetes.io/ingress.class";
    let has_class = object.at(&["metadata", "annotations", class]).is_some();
    if stored.is_some() || !has_class {
        return Vec::new();
    }
    vec![format!(
        "annotation \"{class}\" is deprecated, please use 'spec.ingressClassName' instead"
    )]
}

/// Returns the warnings about a NetworkPolicy.
pub fn of_networkpolicy(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.member(direction).items() {
            for peer in rule.member(peers).items() {
                let block = peer.member("ipBlock");
                warn_of_range(&block.member("cidr"), &warnings);
                warn_of_items(&block.member("except"), warn_of_range, &warnings);
            }
        }
    }
    warnings.take()
}
