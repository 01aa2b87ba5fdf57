//! The order of groups and versions in discovery. Pure.

use std::cmp::Ordering;

/// The built-in groups in the order of discovery (API-28). The core group comes first and has its
/// own path. Clients resolve an ambiguous short name to the first group that has it. Other groups
/// follow by name.
pub const GROUPS: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Returns the rank of a group: built-in groups in the order of [`GROUPS`], then others by name.
pub(super) fn rank(group: &str) -> (usize, &str) {
    let place = GROUPS.iter().position(|known| *known == group);
    (place.unwrap_or(GROUPS.len()), group)
}

/// Orders versions by preference: v10, v2, v1, v2beta1, v1beta1, v1alpha1, then others by name
/// (API-30).
pub fn compare_versions(one: &str, other: &str) -> Ordering {
    match (Stability::of(one), Stability::of(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// The parsed name of a version, ordered with the most preferred last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    /// `v1alpha2` is (1, 2).
    Alpha(u64, u64),
    /// `v1beta2` is (1, 2).
    Beta(u64, u64),
    /// `v1`.
    Stable(u64),
}

impl Stability {
    /// Parses the name of a version. Returns `None` if it has another form.
    fn of(version: &str) -> Option<Stability> {
        let number = |text: &str| {
            let is_number = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        };
        let rest = version.strip_prefix('v')?;
        if let Some((major, minor)) = rest.split_once("alpha") {
            return Some(Stability::Alpha(number(major)?, number(minor)?));
        }
        if let Some((major, minor)) = rest.split_once("beta") {
            return Some(Stability::Beta(number(major)?, number(minor)?));
        }
        number(rest).map(Stability::Stable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-30
    #[test]
    fn versions_are_ordered_as_clients_should_prefer_them() {
        let preferred = [
            "v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1",
        ];
        let others = ["foo1", "foo10", "v01", "v1beta"];
        let expected: Vec<&str> = preferred.into_iter().chain(others).collect();
        let mut versions = expected.clone();
        versions.sort_unstable();
        versions.sort_by(|one, other| compare_versions(one, other));
        assert_eq!(versions, expected);
    }
}
