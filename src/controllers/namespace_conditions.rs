//! Pure: makes the conditions of a terminating namespace describe its contents (API-225).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::api::object::{Object, put};
use crate::kinds::strategies::put_condition;

const CONDITIONS: &[&str] = &["status", "conditions"];

/// The name of pods in [`RemainingContent::resources`].
pub(super) const PODS: &str = "pods.";

/// The objects that remain in a namespace after its contents were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemainingContent {
    /// The number of objects, by the name of their resource: `pods.` or `deployments.apps`.
    pub resources: BTreeMap<String, usize>,
    /// The number of objects that have a finalizer, by the finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// The failures, one for each resource.
    pub failures: Vec<String>,
    /// The group versions whose resources are not known, such as `example.com/v1`.
    pub undiscovered: BTreeSet<String>,
}

/// The objects that remain in one collection of a namespace.
pub struct RemainingObjects<'a> {
    /// The group of the resource.
    pub group: &'a str,
    /// The version by which it was emptied.
    pub version: &'a str,
    /// The plural of the resource.
    pub plural: &'a str,
    /// The number of objects.
    pub count: usize,
    /// The number of objects that have a finalizer, by the finalizer.
    pub finalizers: &'a BTreeMap<String, usize>,
    /// Whether they may remain for a while without a finalizer.
    pub is_expected: bool,
}

/// A type of condition, and its reason and message while its status is False.
struct ConditionType {
    name: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// The types in the order in which they are added to a namespace.
const TYPES: [ConditionType; 5] = [
    ConditionType {
        name: "NamespaceDeletionDiscoveryFailure",
        reason: "ResourcesDiscovered",
        message: "All resources successfully discovered",
    },
    ConditionType {
        name: "NamespaceDeletionGroupVersionParsingFailure",
        reason: "ParsedGroupVersions",
        message: "All legacy kube types successfully parsed",
    },
    ConditionType {
        name: "NamespaceDeletionContentFailure",
        reason: "ContentDeleted",
        message: "All content successfully deleted, may be waiting on finalization",
    },
    ConditionType {
        name: "NamespaceContentRemaining",
        reason: "ContentRemoved",
        message: "All content successfully removed",
    },
    ConditionType {
        name: "NamespaceFinalizersRemaining",
        reason: "ContentHasNoFinalizers",
        message: "All content-preserving finalizers finished",
    },
];

impl RemainingContent {
    /// Whether nothing remains and nothing failed.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.failures.is_empty() && self.undiscovered.is_empty()
    }

    /// Adds a collection of this namespace. Objects that nothing explains are a failure.
    pub fn add(&mut self, namespace: &str, remaining: &RemainingObjects<'_>) {
        let RemainingObjects {
            group,
            version,
            plural,
            count,
            finalizers,
            is_expected,
        } = remaining;
        if *count == 0 {
            return;
        }
        self.resources.insert(format!("{plural}.{group}"), *count);
        self.add_finalizers(finalizers);
        if finalizers.is_empty() && !is_expected {
            self.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: \
                 {group}/{version}, Resource={plural}"
            ));
        }
    }

    /// Adds other content of the namespace.
    pub fn extend(&mut self, other: RemainingContent) {
        self.add_finalizers(&other.finalizers);
        self.resources.extend(other.resources);
        self.failures.extend(other.failures);
        self.undiscovered.extend(other.undiscovered);
    }

    fn add_finalizers(&mut self, finalizers: &BTreeMap<String, usize>) {
        for (finalizer, count) in finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += count;
        }
    }

    /// Makes the conditions of a namespace describe what remains. Conditions of other types stay.
    /// The time of a condition changes only with its status. Returns whether anything has changed.
    pub(super) fn write_to(&self, namespace: &mut Object, now: &str) -> bool {
        let before = namespace.items(CONDITIONS);
        let mut conditions = before.to_vec();
        for (kind, problem) in TYPES.iter().zip(self.problems()) {
            let mut next = match problem {
                Some((reason, message)) => json!({
                    "status": "True", "reason": reason, "message": message,
                }),
                None => json!({
                    "status": "False", "reason": kind.reason, "message": kind.message,
                }),
            };
            next["type"] = kind.name.into();
            next["lastTransitionTime"] = now.into();
            put_condition(&mut conditions, next);
        }
        let is_changed = conditions != before;
        if is_changed {
            put(namespace, CONDITIONS, conditions.into());
        }
        is_changed
    }

    /// For each of [`TYPES`] the reason and the message if it is True. Only discovery at extensions
    /// can fail: the daemon knows its own resources. Pods are not counted, as by
    /// kube-controller-manager: it counts the resources that it deletes after them.
    fn problems(&self) -> [Option<(&'static str, String)>; 5] {
        let undiscovered = (!self.undiscovered.is_empty()).then(|| {
            let groups = self.undiscovered.iter();
            let mut groups: Vec<String> = groups
                .map(|one| format!("{one}: stale GroupVersion discovery: {one}"))
                .collect();
            groups.sort_unstable();
            let (count, groups) = (groups.len(), groups.join(", "));
            let message = format!(
                "Discovery failed for some groups, {count} failing: unable to retrieve the \
                 complete list of server APIs: {groups}"
            );
            ("DiscoveryFailed", message)
        });
        let failures = (!self.failures.is_empty()).then(|| {
            let mut failures = self.failures.clone();
            failures.sort_unstable();
            let (count, failures) = (failures.len(), failures.join(", "));
            let message =
                format!("Failed to delete all resource types, {count} remaining: {failures}");
            ("ContentDeletionFailed", message)
        });
        let has_pods = self.resources.contains_key(PODS);
        let resources = (!self.resources.is_empty() && !has_pods).then(|| {
            let counted = counted(&self.resources, "has");
            let message = format!("Some resources are remaining: {counted}");
            ("SomeResourcesRemain", message)
        });
        let finalizers = (!self.finalizers.is_empty() && !has_pods).then(|| {
            let counted = counted(&self.finalizers, "in");
            let message =
                format!("Some content in the namespace has finalizers remaining: {counted}");
            ("SomeFinalizersRemain", message)
        });
        [undiscovered, None, failures, resources, finalizers]
    }
}

/// `configmaps. has 2 resource instances, secrets. has 1 resource instances`
fn counted(counts: &BTreeMap<String, usize>, verb: &str) -> String {
    let counts = counts.iter();
    let texts: Vec<String> = counts
        .map(|(name, count)| format!("{name} {verb} {count} resource instances"))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
        of.iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    /// Of each condition the status, the reason, the time and the message.
    fn shown(namespace: &Object) -> Vec<String> {
        let conditions = namespace.items(CONDITIONS).iter();
        let members = ["type", "status", "reason", "lastTransitionTime", "message"];
        conditions
            .map(|one| {
                members
                    .map(|name| one[name].as_str().unwrap_or_default())
                    .join(" | ")
            })
            .collect()
    }

    #[test]
    fn an_empty_namespace_has_five_conditions_that_are_false() {
        let mut namespace = Object::default();
        let nothing = RemainingContent::default();
        assert!(nothing.is_empty());
        assert!(nothing.write_to(&mut namespace, "T1"));
        assert_eq!(
            shown(&namespace),
            [
                "NamespaceDeletionDiscoveryFailure | False | ResourcesDiscovered | T1 \
                 | All resources successfully discovered",
                "NamespaceDeletionGroupVersionParsingFailure | False | ParsedGroupVersions | T1 \
                 | All legacy kube types successfully parsed",
                "NamespaceDeletionContentFailure | False | ContentDeleted | T1 \
                 | All content successfully deleted, may be waiting on finalization",
                "NamespaceContentRemaining | False | ContentRemoved | T1 \
                 | All content successfully removed",
                "NamespaceFinalizersRemaining | False | ContentHasNoFinalizers | T1 \
                 | All content-preserving finalizers finished",
            ]
        );
        assert!(!nothing.write_to(&mut namespace, "T2"), "nothing is new");
    }

    #[test]
    fn what_is_left_is_counted_and_sorted() {
        let mut namespace = Object::default();
        let left = RemainingContent {
            resources: counts(&[
                ("secrets.", 1),
                ("deployments.apps", 12),
                ("configmaps.", 2),
            ]),
            finalizers: counts(&[("ex.com/b", 3), ("ex.com/a", 12)]),
            failures: vec!["no disk".to_owned(), "a timeout".to_owned()],
            undiscovered: ["a.b/v1", "a.b/v10"].map(str::to_owned).into(),
        };
        assert!(!left.is_empty());
        assert!(left.write_to(&mut namespace, "T1"));
        let stale = "stale GroupVersion discovery";
        assert_eq!(
            shown(&namespace)[0],
            format!(
                "NamespaceDeletionDiscoveryFailure | True | DiscoveryFailed | T1 \
                 | Discovery failed for some groups, 2 failing: unable to retrieve the complete \
                 list of server APIs: a.b/v10: {stale}: a.b/v10, a.b/v1: {stale}: a.b/v1"
            )
        );
        assert_eq!(
            shown(&namespace)[2..],
            [
                "NamespaceDeletionContentFailure | True | ContentDeletionFailed | T1 \
                 | Failed to delete all resource types, 2 remaining: a timeout, no disk",
                "NamespaceContentRemaining | True | SomeResourcesRemain | T1 \
                 | Some resources are remaining: configmaps. has 2 resource instances, \
                 deployments.apps has 12 resource instances, secrets. has 1 resource instances",
                "NamespaceFinalizersRemaining | True | SomeFinalizersRemain | T1 \
                 | Some content in the namespace has finalizers remaining: \
                 ex.com/a in 12 resource instances, ex.com/b in 3 resource instances",
            ]
        );
    }

    #[test]
    fn the_time_changes_with_the_status_and_other_conditions_stay() {
        let mut namespace = Object::default();
        let own = json!({"type": "Own", "status": "Unknown", "lastTransitionTime": "T0"});
        put(&mut namespace, CONDITIONS, json!([own]));
        let mut left = RemainingContent {
            resources: counts(&[("secrets.", 2)]),
            ..RemainingContent::default()
        };
        assert!(left.write_to(&mut namespace, "T1"));
        assert_eq!(namespace.items(CONDITIONS)[0], own);
        assert_eq!(namespace.items(CONDITIONS).len(), 6);
        left.resources = counts(&[("secrets.", 1)]);
        assert!(left.write_to(&mut namespace, "T2"));
        assert_eq!(
            shown_of(&namespace, "NamespaceContentRemaining"),
            "True | SomeResourcesRemain | T1 \
             | Some resources are remaining: secrets. has 1 resource instances"
        );
        assert!(RemainingContent::default().write_to(&mut namespace, "T3"));
        assert_eq!(
            shown_of(&namespace, "NamespaceContentRemaining"),
            "False | ContentRemoved | T3 | All content successfully removed"
        );
        assert_eq!(
            shown_of(&namespace, "NamespaceFinalizersRemaining"),
            "False | ContentHasNoFinalizers | T1 | All content-preserving finalizers finished"
        );
    }

    #[test]
    fn pods_are_not_counted() {
        let (mut namespace, mut empty) = (Object::default(), Object::default());
        let left = RemainingContent {
            resources: counts(&[(PODS, 1)]),
            finalizers: counts(&[("ex.com/a", 1)]),
            ..RemainingContent::default()
        };
        assert!(!left.is_empty());
        left.write_to(&mut namespace, "T1");
        RemainingContent::default().write_to(&mut empty, "T1");
        assert_eq!(shown(&namespace), shown(&empty));
    }

    fn shown_of(namespace: &Object, name: &str) -> String {
        let start = format!("{name} | ");
        let texts = shown(namespace);
        let mut texts = texts.iter().filter_map(|text| text.strip_prefix(&start));
        texts.next().expect("it is there").to_owned()
    }
}
