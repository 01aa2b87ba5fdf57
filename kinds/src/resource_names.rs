//! The names of resources that containers request and quotas limit. Pure.
//!
//! Quotas put `requests.` or `limits.` before the name of a resource of containers.

use api::names::qualified_name;

/// The prefix of huge pages. The size of a page follows.
pub const HUGE_PAGES: &str = "hugepages-";

/// The standard resources of containers, in addition to huge pages.
pub const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The number of a resource's objects, for those that have such a name.
const COUNTED_OBJECTS: [&str; 9] = [
    PODS,
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

const PODS: &str = "pods";

/// Reports whether a resource is cpu or memory. Pods have these two as a whole, too, and their
/// amounts decide on the quality of service.
pub fn is_cpu_or_memory(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

/// Reports whether a resource is huge pages of some size.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Reports whether a resource can belong to a pod as a whole.
pub fn is_of_pod_level(name: &str) -> bool {
    is_cpu_or_memory(name) || is_huge_pages(name)
}

/// Reports whether a resource of containers is a standard one.
pub fn is_of_containers(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || is_huge_pages(name)
}

/// Returns the resource of containers whose requests or limits a quota counts by this name. A name
/// without a prefix counts requests.
pub fn in_quota(name: &str) -> &str {
    let bare = name.strip_prefix("requests.");
    bare.or_else(|| name.strip_prefix("limits."))
        .unwrap_or(name)
}

/// Returns the resource whose requests a quota counts by this name, if it has that prefix.
pub fn requested(name: &str) -> Option<&str> {
    name.strip_prefix("requests.")
}

/// Reports whether a resource is huge pages of some size, or the name by which a quota counts them.
/// Quotas do not count their limits.
fn is_huge_pages_of_quotas(name: &str) -> bool {
    is_huge_pages(requested(name).unwrap_or(name))
}

/// Reports whether a quota counts a resource of pods by this name: their number, or a standard
/// resource of their containers.
pub fn is_of_pods(name: &str) -> bool {
    name == PODS || OF_CONTAINERS.contains(&in_quota(name)) || is_huge_pages_of_quotas(name)
}

/// Reports whether a quota with a scope for pods can limit a resource.
pub fn is_of_scoped_pods(name: &str) -> bool {
    name == PODS || is_cpu_or_memory(in_quota(name))
}

/// Reports whether a quota can limit a resource without a domain.
pub fn is_of_quotas(name: &str) -> bool {
    is_of_pods(name) || name == "requests.storage" || COUNTED_OBJECTS.contains(&name)
}

/// Reports whether a resource without a domain is a standard one.
pub fn is_standard(name: &str) -> bool {
    is_of_quotas(name) || name == "storage"
}

/// Reports whether a resource is native to Kubernetes.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Reports whether a resource is an extended one.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && requested(name).is_none()
        && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Reports whether the request of a resource may be less than its limit.
pub fn can_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Reports whether a resource has whole quantities only.
pub fn is_counted(name: &str) -> bool {
    COUNTED_OBJECTS.contains(&name) || is_extended(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `standardResources` and `standardQuotaResources` of Kubernetes 1.36.
    #[test]
    fn standard_resources_are_those_of_kubernetes() {
        let of_quotas = [
            "cpu",
            "memory",
            "ephemeral-storage",
            "requests.cpu",
            "requests.memory",
            "requests.storage",
            "requests.ephemeral-storage",
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
            "pods",
            "resourcequotas",
            "services",
            "replicationcontrollers",
            "secrets",
            "persistentvolumeclaims",
            "configmaps",
            "services.nodeports",
            "services.loadbalancers",
            "hugepages-2Mi",
            "requests.hugepages-2Mi",
        ];
        for name in of_quotas {
            assert!(is_of_quotas(name) && is_standard(name), "{name}");
        }
        assert!(is_standard("storage") && !is_of_quotas("storage"));
        for name in [
            "",
            "limits.storage",
            "limits.hugepages-2Mi",
            "requests.limits.cpu",
            "x.y/z",
        ] {
            assert!(!is_standard(name) && !is_of_quotas(name), "{name}");
        }
        let scoped = of_quotas.into_iter().filter(|name| is_of_scoped_pods(name));
        let expected = [
            "cpu",
            "memory",
            "requests.cpu",
            "requests.memory",
            "limits.cpu",
            "limits.memory",
            "pods",
        ];
        assert_eq!(scoped.collect::<Vec<_>>(), expected);
    }
}
