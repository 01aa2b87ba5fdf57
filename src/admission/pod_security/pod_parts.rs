//! The parts of a pod that checks look at, and the words in which violations are reported.

use serde_json::Value;

use crate::api::text::quoting::go_quote;

/// A rule that a pod breaks: the name of the rule, and how it is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    reason: &'static str,
    detail: String,
}

impl Violation {
    /// The name of the rule.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.detail.is_empty() {
            return f.write_str(self.reason);
        }
        write!(f, "{} ({})", self.reason, self.detail)
    }
}

/// The checked parts: the metadata and the spec of a pod, or of a pod template.
#[derive(Clone, Copy)]
pub(super) struct PodParts<'p> {
    pub(super) annotations: Option<&'p Value>,
    pub(super) spec: &'p Value,
}

/// The containers of a pod, in the order in which Kubernetes visits them.
pub(super) fn containers(pod: PodParts<'_>) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let lists = lists.into_iter().map(move |list| pod.spec[list].as_array());
    lists.flatten().flatten()
}

pub(super) fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

/// The names of the containers with a property.
pub(super) fn named(pod: PodParts<'_>, is_bad: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(pod)
        .filter(|one| is_bad(one))
        .map(name)
        .collect()
}

pub(super) fn quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(go_quote).collect();
    quoted.join(", ")
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers_named(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", names.len()),
        quoted(names.iter().copied())
    )
}

pub(super) fn plural(word: &str, count: usize) -> String {
    match count {
        1 => word.to_owned(),
        _ => format!("{word}s"),
    }
}

pub(super) fn is_windows(pod: PodParts<'_>) -> bool {
    pod.spec["os"]["name"] == "windows"
}

pub(super) fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

pub(super) fn added(container: &Value) -> impl Iterator<Item = &str> {
    let added = container["securityContext"]["capabilities"]["add"].as_array();
    added.into_iter().flatten().filter_map(Value::as_str)
}

pub(super) fn volumes(pod: PodParts<'_>) -> impl Iterator<Item = &Value> {
    pod.spec["volumes"].as_array().into_iter().flatten()
}

pub(super) fn seccomp_type(context: &Value) -> Option<&str> {
    let profile = &context["securityContext"]["seccompProfile"];
    profile["type"].as_str()
}

pub(super) fn is_good_seccomp(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}
