//! Descriptions of defaulted NetworkPolicies and IngressClasses.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted NetworkPolicy.
pub fn networkpolicy() -> Expected {
    let port = Expected::default().given(&["protocol"]);
    let rule = Expected::default().below("ports", port);
    let spec = Expected::default()
        .filled(&["policyTypes"])
        .below("egress", rule.clone())
        .below("ingress", rule);
    of(spec)
}

/// Describes a defaulted IngressClass.
pub fn ingressclass() -> Expected {
    of(Expected::default().below("parameters", Expected::default().given(&["scope"])))
}
