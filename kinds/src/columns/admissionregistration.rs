//! The columns of `admissionregistration.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Cell, Column, FieldPath};

use super::{UNSET, computed, member, text};

/// MutatingAdmissionPolicies.
pub fn mutatingadmissionpolicies() -> Vec<Column> {
    let mutations = Cell::Count(FieldPath::list(&["spec.mutations"]));
    vec![
        Column::name(),
        Column::integer("Mutations", "Number of changes that it makes.", mutations),
        parameter_kind(),
        Column::age(),
    ]
}

/// ValidatingAdmissionPolicies.
pub fn validatingadmissionpolicies() -> Vec<Column> {
    let validations = Cell::Count(FieldPath::list(&["spec.validations"]));
    vec![
        Column::name(),
        Column::integer("Validations", "Number of its rules.", validations),
        parameter_kind(),
        Column::age(),
    ]
}

/// The bindings of both kinds of policies.
pub fn bindings() -> Vec<Column> {
    let parameters = computed(|binding, _| parameters(binding).into());
    vec![
        Column::name(),
        Column::text(
            "PolicyName",
            "The policy that is in force.",
            text("spec.policyName"),
        ),
        Column::text("ParamRef", "The parameters of the policy.", parameters),
        Column::age(),
    ]
}

/// Both kinds of webhook configurations.
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
    Column::text("ParamKind", "The kind of its parameters.", kind)
}

fn parameters(binding: &Object) -> String {
    let Some(parameters) = binding.at(&["spec", "paramRef"]) else {
        return UNSET.to_owned();
    };
    match (member(parameters, "namespace"), member(parameters, "name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
