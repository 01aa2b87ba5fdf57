//! Warnings about Nodes, and about node labels in selectors of any kind.

use api::field::Field;
use api::names::label_value;
use api::object::Object;

use super::addresses::warn_of_range;
use super::{Warnings, warn};

/// Deprecated node labels and the reasons.
const OLD_LABELS: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

/// Returns the reason why a node label is deprecated, if it is.
pub(super) fn reason_against(label: &str) -> Option<&'static str> {
    let found = OLD_LABELS.iter().find(|(old, _)| *old == label);
    found.map(|(_, reason)| *reason)
}

/// Warns of a key that is a deprecated node label.
pub(super) fn warn_of_key(key: &Field<'_>, warnings: &Warnings) {
    if let Some(reason) = reason_against(key.text()) {
        warn(key, format!("{} is {reason}", key.text()), warnings);
    }
}

/// Warns of deprecated keys in a node selector term, and if requested of invalid label values.
pub(super) fn warn_of_term(term: &Field<'_>, checks_values: bool, warnings: &Warnings) {
    for expression in term.member("matchExpressions").items() {
        warn_of_key(&expression.member("key"), warnings);
        let values = expression.member("values");
        for value in values.items().filter(|_| checks_values) {
            for wrong in label_value(value.text()) {
                warn(
                    &value,
                    format!("{} is invalid, {wrong}", value.text()),
                    warnings,
                );
            }
        }
    }
}

/// Returns the warnings about a Node.
pub fn of_node(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    if spec.member("configSource").is_set() {
        warnings.add("spec.configSource: the feature is removed".to_owned());
    }
    let external = spec.member("externalID");
    if !external.text().is_empty() {
        let text = "this field is deprecated, and is unused by Kubernetes";
        warn(&external, text, &warnings);
    }
    for range in spec.member("podCIDRs").items() {
        warn_of_range(&range, &warnings);
    }
    warnings.take()
}
