//! The priorities of the group versions that this server serves itself (CN-8). Pure.

/// The priorities of a group version in discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// That of its group.
    pub group: i32,
    /// That of the version in its group.
    pub version: i32,
}

/// The priorities of custom resources (CN-10).
pub const CUSTOM: Priorities = Priorities {
    group: 1000,
    version: 100,
};

/// The group of APIServices, which is served without one, before all others.
pub const OWN_GROUP: &str = "apiregistration.k8s.io";

/// The priorities of built-in groups.
const GROUPS: [(&str, i32); 20] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
];

/// The priorities of versions that are neither the stable one of most groups nor a beta version.
const VERSIONS: [(&str, &str, i32); 5] = [
    ("", "v1", 1),
    ("autoscaling", "v2", 30),
    ("events.k8s.io", "v1beta1", 5),
    ("resource.k8s.io", "v1", 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
];

/// Returns the priorities of a version of a built-in group; `None` for groups of others.
pub fn of_built_in(group: &str, version: &str) -> Option<Priorities> {
    // linear: a few groups.
    let (_, priority) = GROUPS.iter().find(|(name, _)| *name == group)?;
    // linear: a few versions.
    let special = VERSIONS
        .iter()
        .find(|(of, name, _)| (*of, *name) == (group, version));
    let usual = match version {
        version if version.contains("alpha") => 1,
        version if version.contains("beta") => 9,
        _ => 15,
    };
    Some(Priorities {
        group: *priority,
        version: special.map_or(usual, |(_, _, priority)| *priority),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::GROUPS as IN_ORDER;

    /// The order of the built-in groups is that of their priorities; of equal ones by name.
    #[test]
    fn priorities_agree_with_the_order_of_discovery_cn_8() {
        let mut by_priority = GROUPS.to_vec();
        by_priority.sort_by_key(|(name, priority)| (-priority, *name));
        let names: Vec<&str> = by_priority.iter().map(|(name, _)| *name).collect();
        let others = IN_ORDER.iter().filter(|name| **name != OWN_GROUP);
        assert_eq!(names, others.copied().collect::<Vec<_>>());
        let of = |group, version| of_built_in(group, version).map(|p| (p.group, p.version));
        assert_eq!(of("", "v1"), Some((18_000, 1)));
        assert_eq!(of("autoscaling", "v1"), Some((17_500, 15)));
        assert_eq!(of("autoscaling", "v2"), Some((17_500, 30)));
        assert_eq!(of("events.k8s.io", "v1beta1"), Some((17_750, 5)));
        assert_eq!(of("example.com", "v1"), None);
    }
}
