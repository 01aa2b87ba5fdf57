//! Descriptions of defaulted Namespaces, Secrets, Nodes, Services and Endpoints.

use api::completeness::{Expected, Relation};

/// Describes a defaulted Namespace.
pub fn namespace() -> Expected {
    let label = Relation::Holds("\"kubernetes.io/metadata.name\":");
    Expected::default()
        .given(&["status"])
        .below("status", Expected::default().has(&["phase"]))
        .below(
            "metadata",
            Expected::default().pair("name", "labels", label),
        )
}

/// Describes a defaulted Secret.
pub fn secret() -> Expected {
    Expected::default().has(&["type"]).lacks(&["stringData"])
}

/// Describes a defaulted Node.
pub fn node() -> Expected {
    let range = Relation::Begins("[");
    let spec = Expected::default().pair("podCIDR", "podCIDRs", range);
    let status = Expected::default().when_given("capacity", &["allocatable"]);
    Expected::default()
        .below("spec", spec)
        .below("status", status)
}

/// Describes a defaulted Service.
pub fn service() -> Expected {
    let port = Expected::default()
        .has(&["protocol"])
        .filled(&["targetPort"]);
    let client = Expected::default().given(&["timeoutSeconds"]);
    let affinity = Expected::default()
        .given(&["clientIP"])
        .below("clientIP", client);
    let both = &["externalTrafficPolicy", "internalTrafficPolicy"];
    let spec = Expected::default()
        .has(&["sessionAffinity", "type"])
        .excludes("sessionAffinity", "\"None\"", "sessionAffinityConfig")
        .when(
            "sessionAffinity",
            "\"ClientIP\"",
            &["sessionAffinityConfig"],
        )
        .when("type", "\"ClusterIP\"", &["internalTrafficPolicy"])
        .when("type", "\"NodePort\"", both)
        .when("type", "\"LoadBalancer\"", both)
        .when(
            "type",
            "\"LoadBalancer\"",
            &["allocateLoadBalancerNodePorts"],
        )
        .when_filled("externalIPs", &["externalTrafficPolicy"])
        .below("sessionAffinityConfig", affinity)
        .below("ports", port);
    let ingress = Expected::default().when_filled("ip", &["ipMode"]);
    let balancer = Expected::default().below("ingress", ingress);
    Expected::default()
        .given(&["spec"])
        .below("spec", spec)
        .below(
            "status",
            Expected::default().below("loadBalancer", balancer),
        )
}

/// Describes defaulted Endpoints.
pub fn endpoints() -> Expected {
    let port = Expected::default().has(&["protocol"]);
    Expected::default().below("subsets", Expected::default().below("ports", port))
}
