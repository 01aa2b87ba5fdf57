//! `networking.k8s.io/v1`.

use super::{cluster, generation, names, rules, typed, with_bare_status, with_status};
use crate::columns::networking as columns;
use api::resource::{NameRule, ResourceDefinition, UpdateCheck};

const GROUP: &str = "networking.k8s.io";

/// IngressClasses.
pub fn ingressclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        generation: generation(&["spec"]),
        columns: columns::ingressclasses(),
        ..cluster("networking.v1.IngressClass", GROUP, "ingressclasses")
    })
}

/// Ingresses. Their keys have the singular (KV-2).
pub fn ingresses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["ing"]),
        key_prefix: "ingress".to_owned(),
        generation: generation(&["spec"]),
        columns: columns::ingresses(),
        ..with_status(typed("networking.v1.Ingress", GROUP, "ingresses"))
    })
}

/// IPAddresses. Their names are addresses, which their own validation checks (API-201).
pub fn ipaddresses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["ip"]),
        name_rule: NameRule::PathSegment,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::ipaddresses(),
        ..cluster("networking.v1.IPAddress", GROUP, "ipaddresses")
    })
}

/// NetworkPolicies.
pub fn networkpolicies() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["netpol"]),
        generation: generation(&["spec"]),
        generation_tells_empty: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::networkpolicies(),
        ..typed("networking.v1.NetworkPolicy", GROUP, "networkpolicies")
    })
}

/// ServiceCIDRs.
pub fn servicecidrs() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        update_checks: &[UpdateCheck::Changes],
        columns: columns::servicecidrs(),
        ..with_bare_status(cluster("networking.v1.ServiceCIDR", GROUP, "servicecidrs"))
    })
}
