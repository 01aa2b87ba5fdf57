//! The columns of `networking.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};

use super::core::load_balancer;
use super::{
    NONE, class_name, computed, joined, list, member, selector, text, text_or, texts, with_more,
};

/// Returns the columns of IngressClasses.
pub fn ingressclasses() -> Vec<Column> {
    let name = Column {
        cell: computed(|class, _| {
            class_name(class, &["ingressclass.kubernetes.io/is-default-class"])
        }),
        ..Column::name()
    };
    let parameters = computed(|class, _| parameters(class).into());
    vec![
        name,
        Column::text(
            "Controller",
            "Controller that serves Ingresses of the class.",
            text("spec.controller"),
        ),
        Column::text("Parameters", "Object with further parameters.", parameters),
        Column::age(),
    ]
}

/// Returns the columns of Ingresses.
pub fn ingresses() -> Vec<Column> {
    let class =
        computed(|ingress, _| text_or(ingress.text(&["spec", "ingressClassName"]), NONE).into());
    let hosts = computed(|ingress, _| hosts(ingress).into());
    let address = computed(|ingress, _| load_balancer(ingress).into());
    let ports = computed(|ingress, _| match list(ingress, &["spec", "tls"]) {
        [] => "80".into(),
        _ => "80, 443".into(),
    });
    vec![
        Column::name(),
        Column::text("Class", "IngressClass that serves the Ingress.", class),
        Column::text("Hosts", "The hosts of its rules.", hosts),
        Column::text("Address", "Addresses of the load balancer.", address),
        Column::text("Ports", "Ports at which the Ingress is reached.", ports),
        Column::age(),
    ]
}

/// Returns the columns of IPAddresses.
pub fn ipaddresses() -> Vec<Column> {
    let parent = computed(|address, _| parent(address).into());
    vec![
        Column::name(),
        Column::text(
            "ParentRef",
            OfField("networking.v1.IPAddressSpec.parentRef"),
            parent,
        ),
        Column::age().unlisted(),
    ]
}

/// Returns the columns of NetworkPolicies.
pub fn networkpolicies() -> Vec<Column> {
    let pods = computed(|policy, _| selector(policy, &["spec", "podSelector"]));
    vec![
        Column::name(),
        Column::text(
            "Pod-Selector",
            OfField("networking.v1.NetworkPolicySpec.podSelector"),
            pods,
        ),
        Column::age(),
    ]
}

/// Returns the columns of ServiceCIDRs.
pub fn servicecidrs() -> Vec<Column> {
    let ranges = computed(|object, _| texts(list(object, &["spec", "cidrs"])).into());
    vec![
        Column::name(),
        Column::text(
            "CIDRs",
            OfField("networking.v1.ServiceCIDRSpec.cidrs"),
            ranges,
        ),
        Column::age(),
    ]
}

fn parameters(class: &Object) -> String {
    let Some(parameters) = class.at(&["spec", "parameters"]) else {
        return NONE.to_owned();
    };
    let (kind, name) = (member(parameters, "kind"), member(parameters, "name"));
    match member(parameters, "apiGroup") {
        "" => format!("{kind}/{name}"),
        group => format!("{kind}.{group}/{name}"),
    }
}

fn hosts(ingress: &Object) -> String {
    const SHOWN: usize = 3;
    let rules = list(ingress, &["spec", "rules"]);
    let mut shown = Vec::new();
    for rule in rules {
        if shown.len() == SHOWN {
            // Rules without a host count too, as in Kubernetes.
            return with_more(&shown, rules.len());
        }
        let host = member(rule, "host");
        if !host.is_empty() {
            shown.push(host.to_owned());
        }
    }
    text_or(&shown.join(","), "*").to_owned()
}

fn parent(address: &Object) -> String {
    let Some(parent) = address.at(&["spec", "parentRef"]) else {
        return NONE.to_owned();
    };
    let type_of = ["resource", "group"].map(|name| member(parent, name).to_lowercase());
    let resource = joined(
        type_of
            .iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty()),
        ".",
    );
    let parts = [
        &resource,
        member(parent, "namespace"),
        member(parent, "name"),
    ];
    joined(parts.into_iter().filter(|part| !part.is_empty()), "/")
}
