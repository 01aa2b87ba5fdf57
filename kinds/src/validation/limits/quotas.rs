//! Validation of ResourceQuotas.

use std::collections::{BTreeSet, HashMap};

use api::field::Field;
use api::object::Object;

use crate::resource_names::{is_of_quotas, is_of_scoped_pods};
use crate::types::internal::internal_json;
use crate::validation::pods::containers::resources::{validate_quantity, validate_resource_name};
use api::error_list::{ErrorList, Report};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Pairs of scopes that no object is in together.
const CONFLICTS: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
];

/// Validates a ResourceQuota.
pub fn validate_resourcequota(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let hard = spec.member("hard");
    validate_quantities(&hard, errors);
    let names: Vec<&str> = hard.entries().map(|(name, _)| name).collect();
    validate_scopes(&spec.member("scopes"), &names, errors);
    validate_scope_selector(&spec, &names, errors);
}

/// Validates an update of a ResourceQuota, whose scopes are immutable.
pub fn validate_resourcequota_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_resourcequota(object, errors);
    let spec = Field::of(object, "spec");
    let scopes = spec.member("scopes");
    let before = Field::of(stored, "spec");
    if set(&scopes) != set(&before.member("scopes")) {
        errors.push(scopes.invalid("field is immutable"));
    }
}

/// Validates an update of the status of a ResourceQuota.
pub fn validate_resourcequota_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let status = Field::of(object, "status");
    validate_quantities(&status.member("hard"), errors);
    validate_quantities(&status.member("used"), errors);
}

fn set<'f>(scopes: &Field<'f>) -> BTreeSet<&'f str> {
    let scopes = scopes.list().iter();
    scopes.filter_map(|scope| scope.as_str()).collect()
}

fn validate_quantities(list: &Field<'_>, errors: &mut ErrorList) {
    for (name, place) in list.entries() {
        validate_resource_name(name, &place, errors);
        if !name.contains('/') && !is_of_quotas(name) {
            errors.push(place.invalid_value(name, "must be a standard resource for quota"));
        }
        validate_quantity(name, &place, errors);
    }
}

/// Reports whether a quota with this scope can limit a resource.
fn is_counted(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => !SCOPES.contains(&scope) || is_of_scoped_pods(name),
    }
}

/// Returns for each scope the number of listed resources that a quota with this scope cannot limit.
fn uncounted(names: &[&str]) -> HashMap<&'static str, usize> {
    let of = |scope| {
        let names = names.iter();
        let wrong = names.filter(|name| is_of_quotas(name) && !is_counted(scope, name));
        wrong.count()
    };
    SCOPES.map(|scope| (scope, of(scope))).into()
}

fn conflicts(scopes: &[&str]) -> usize {
    // linear: twice for each of two pairs.
    let are_both = |pair: &&[&str; 2]| pair.iter().all(|scope| scopes.contains(scope));
    CONFLICTS.iter().filter(are_both).count()
}

fn validate_scopes(scopes: &Field<'_>, names: &[&str], errors: &mut ErrorList) {
    let mut all = Vec::new();
    let uncounted = uncounted(names);
    for scope in scopes.list().iter().filter_map(|scope| scope.as_str()) {
        if !SCOPES.contains(&scope) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        let count = uncounted.get(scope).copied().unwrap_or_default();
        let detail = "unsupported scope applied to resource";
        errors.push_repeated(count, || scopes.invalid(detail).written());
        all.push(scope);
    }
    for _ in 0..conflicts(&all) {
        errors.push(scopes.invalid("conflicting scopes"));
    }
}

/// Validates a scope selector. Paths have no index in Kubernetes.
fn validate_scope_selector(spec: &Field<'_>, names: &[&str], errors: &mut ErrorList) {
    let selector = spec.member("scopeSelector");
    let expressions = selector.member("matchExpressions");
    let scopes = spec.member("scopes");
    let mut all = Vec::new();
    let uncounted = uncounted(names);
    for expression in expressions.list() {
        let place = expressions.with_value(expression);
        let scope = expression.get("scopeName").and_then(|name| name.as_str());
        let scope = scope.unwrap_or_default();
        let name = place.member("scopeName");
        if !SCOPES.contains(&scope) {
            errors.push(name.invalid_value(scope, "unsupported scope"));
        }
        let count = uncounted.get(scope).copied().unwrap_or_default();
        errors.push_repeated(count, || {
            let error = expressions.invalid("unsupported scope applied to resource");
            let json = || internal_json("core.v1.ScopeSelector", selector.value());
            error.showing_json(json).written()
        });
        validate_scope_operator(scope, &place, errors);
        all.push(scope);
    }
    for _ in 0..conflicts(&all) {
        // Kubernetes shows `spec.scopes` here.
        let shown = scopes.value().unwrap_or(&serde_json::Value::Null);
        errors.push(expressions.invalid_value(shown, "conflicting scopes"));
    }
}

fn validate_scope_operator(scope: &str, expression: &Field<'_>, errors: &mut ErrorList) {
    let operator = expression.member("operator");
    let values = expression.member("values");
    let takes_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    if SCOPES.contains(&scope) && !takes_values && operator.text() != "Exists" {
        errors.push(operator.invalid_value(
            operator.text(),
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
             ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
             ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        ));
    }
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => errors.push(values.required(
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        )),
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(values.invalid(
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        )),
        "Exists" | "DoesNotExist" => {}
        other => errors.push(operator.invalid_value(other, "not a valid selector operator")),
    }
}
