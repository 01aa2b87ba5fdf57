//! The resources of `networking.k8s.io/v1`.

use super::row::Row;
use super::{cluster, generation, typed, with_bare_status, with_status};
use crate::columns::networking as columns;
use crate::{defaults, validation, warnings};
use api::resource::{NameRule, ResourceDefinition, UpdateCheck};

const GROUP: &str = "networking.k8s.io";

/// Returns the definition of IngressClasses.
pub fn ingressclasses() -> ResourceDefinition {
    Row {
        generation: generation(&["spec"]),
        columns: columns::ingressclasses(),
        defaults: Some(defaults::networking::ingressclass),
        complete: Some(defaults::complete::networking::ingressclass),
        validate: Some(validation::networking::validate_ingressclass),
        validate_update: Some(validation::networking::validate_ingressclass_update),
        ..cluster("networking.v1.IngressClass", GROUP, "ingressclasses")
    }
    .definition()
}

/// Returns the definition of Ingresses. Their keys have the singular (KV-2).
pub fn ingresses() -> ResourceDefinition {
    Row {
        short_names: &["ing"],
        key_prefix: Some("ingress"),
        generation: generation(&["spec"]),
        columns: columns::ingresses(),
        validate: Some(validation::networking::validate_ingress),
        validate_update: Some(validation::networking::validate_ingress_update),
        validate_status: Some(validation::networking::validate_ingress_status_update),
        warnings: Some(warnings::networking::of_ingress),
        status_warnings: Some(warnings::networking::of_load_balancer_status),
        ..with_status(typed("networking.v1.Ingress", GROUP, "ingresses"))
    }
    .definition()
}

/// Returns the definition of IPAddresses. Their names are IP addresses, which their validation
/// checks (API-201).
pub fn ipaddresses() -> ResourceDefinition {
    Row {
        short_names: &["ip"],
        name_rule: NameRule::PathSegment,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::ipaddresses(),
        validate: Some(validation::networking::validate_ipaddress),
        validate_update: Some(validation::networking::validate_ipaddress_update),
        ..cluster("networking.v1.IPAddress", GROUP, "ipaddresses")
    }
    .definition()
}

/// Returns the definition of NetworkPolicies.
pub fn networkpolicies() -> ResourceDefinition {
    Row {
        short_names: &["netpol"],
        generation: generation(&["spec"]),
        empty_value_bumps_generation: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::networkpolicies(),
        defaults: Some(defaults::networking::networkpolicy),
        complete: Some(defaults::complete::networking::networkpolicy),
        validate: Some(validation::networking::validate_networkpolicy),
        validate_update: Some(validation::networking::validate_networkpolicy_update),
        ratchets: validation::ratcheting::SELECTORS,
        warnings: Some(warnings::networking::of_networkpolicy),
        ..typed("networking.v1.NetworkPolicy", GROUP, "networkpolicies")
    }
    .definition()
}

/// Returns the definition of ServiceCIDRs.
pub fn servicecidrs() -> ResourceDefinition {
    Row {
        update_checks: &[UpdateCheck::Changes],
        columns: columns::servicecidrs(),
        validate: Some(validation::networking::validate_servicecidr),
        validate_update: Some(validation::networking::validate_servicecidr_update),
        ..with_bare_status(cluster("networking.v1.ServiceCIDR", GROUP, "servicecidrs"))
    }
    .definition()
}
