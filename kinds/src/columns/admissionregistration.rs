//! The columns of `admissionregistration.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Cell, Column, FieldPath};
use serde_json::Value;

use super::{UNSET, computed, items, joined, member, text, text_or};

/// Returns the columns of MutatingAdmissionPolicies.
pub fn mutatingadmissionpolicies() -> Vec<Column> {
    let mutations = Cell::Count(FieldPath::list(&["spec.mutations"]));
    vec![
        Column::name(),
        Column::integer("Mutations", "Number of mutations.", mutations),
        parameter_kind(),
        Column::age(),
    ]
}

/// Returns the columns of ValidatingAdmissionPolicies.
pub fn validatingadmissionpolicies() -> Vec<Column> {
    let validations = Cell::Count(FieldPath::list(&["spec.validations"]));
    vec![
        Column::name(),
        Column::integer("Validations", "Number of validation rules.", validations),
        parameter_kind(),
        Column::age(),
    ]
}

/// Returns the columns of the bindings of both kinds of policies.
pub fn bindings() -> Vec<Column> {
    let parameters = computed(|binding, _| parameters(binding).into());
    vec![
        Column::name(),
        Column::text(
            "PolicyName",
            "Name of the bound policy.",
            text("spec.policyName"),
        ),
        Column::text("ParamRef", "The parameters of the policy.", parameters),
        Column::age(),
    ]
}

/// Returns the columns of both kinds of webhook configurations.
pub fn webhookconfigurations() -> Vec<Column> {
    let webhooks = Cell::Count(FieldPath::list(&["webhooks"]));
    vec![
        Column::name(),
        Column::integer("Webhooks", "Number of its webhooks.", webhooks),
        Column::age(),
    ]
}

fn parameter_kind() -> Column {
    let kind = computed(|policy, _| match policy.at(&["spec", "paramKind"]) {
        Some(of) => format!("{}/{}", member(of, "apiVersion"), member(of, "kind")).into(),
        None => UNSET.into(),
    });
    Column::text("ParamKind", "Kind of the policy's parameters.", kind)
}

fn parameters(binding: &Object) -> String {
    let Some(parameters) = binding.at(&["spec", "paramRef"]) else {
        return UNSET.to_owned();
    };
    match member(parameters, "name") {
        "" => selector_text(parameters.get("selector").unwrap_or(&Value::Null)),
        name => format!("{}/{name}", text_or(member(parameters, "namespace"), "*")),
    }
}

/// Formats a label selector as Go's `%v` prints the struct.
fn selector_text(selector: &Value) -> String {
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    for (name, value) in labels.into_iter().flatten() {
        text += &format!("{name}: {},", value.as_str().unwrap_or_default());
    }
    text += "},MatchExpressions:[]LabelSelectorRequirement{";
    for one in items(selector, "matchExpressions") {
        let values = items(one, "values").iter().filter_map(Value::as_str);
        text += &format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            member(one, "key"),
            member(one, "operator"),
            joined(values, " "),
        );
    }
    text + "},}"
}
