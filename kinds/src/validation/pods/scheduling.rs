//! Validation of affinity, node selectors, tolerations and topology spread constraints.

use std::collections::{HashMap, HashSet};

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::added_labels::adds_too_much;
use super::fields::validate_dns_label;
use crate::validation::enums::{must_be_one_of, validate_one_of};
use crate::validation::report;
use crate::validation::selectors::{validate_label_name, validate_label_selector};
use api::error_list::ErrorList;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

/// Validates the affinity of a pod, if any.
pub fn validate_affinity(affinity: &Field<'_>, errors: &mut ErrorList) {
    let nodes = affinity.member("nodeAffinity");
    let required = nodes.member(REQUIRED);
    if required.is_set() {
        validate_node_selector(&required, errors);
    }
    for term in nodes.member(PREFERRED).items() {
        validate_weight(&term, errors);
        // Invalid label values match no node, which is harmless in a preference.
        validate_node_selector_term(&term.member("preference"), true, errors);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.member(name);
        for term in pods.member(REQUIRED).items() {
            validate_pod_affinity_term(&term, errors);
        }
        for term in pods.member(PREFERRED).items() {
            validate_weight(&term, errors);
            validate_pod_affinity_term(&term.member("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Field<'_>, errors: &mut ErrorList) {
    let weight = term.member("weight");
    let number = weight.int().unwrap_or_default();
    if !(1..=100).contains(&number) {
        errors.push(weight.invalid_value(number, "must be in the range 1-100"));
    }
}

/// Validates a node selector.
pub fn validate_node_selector(selector: &Field<'_>, errors: &mut ErrorList) {
    let terms = selector.member("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    validate_node_selector_terms(&terms, errors);
}

/// Validates the terms of a node selector.
pub fn validate_node_selector_terms(terms: &Field<'_>, errors: &mut ErrorList) {
    for term in terms.items() {
        validate_node_selector_term(&term, false, errors);
    }
}

/// Validates a node selector term.
pub fn validate_node_selector_term(
    term: &Field<'_>,
    allows_invalid_values: bool,
    errors: &mut ErrorList,
) {
    for requirement in term.member("matchExpressions").items() {
        validate_requirement(&requirement, allows_invalid_values, errors);
    }
    for requirement in term.member("matchFields").items() {
        validate_field_requirement(&requirement, errors);
    }
}

fn validate_requirement(
    requirement: &Field<'_>,
    allows_invalid_values: bool,
    errors: &mut ErrorList,
) {
    let operator = requirement.member("operator");
    let values = requirement.member("values");
    match (operator.text(), values.len()) {
        ("In" | "NotIn", 0) => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"))
        }
        ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", 0) | ("Gt" | "Lt", 1) => {}
        ("Exists" | "DoesNotExist", _) => errors.push(
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ),
        ("Gt" | "Lt", _) => errors.push(
            values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"),
        ),
        (other, _) => errors.push(operator.invalid_value(other, "not a valid selector operator")),
    }
    let key = requirement.member("key");
    validate_label_name(key.text(), &key, errors);
    if !allows_invalid_values {
        for value in values.items() {
            report(&value, names::label_value(value.text()), errors);
        }
    }
}

/// Validates a requirement on a field of nodes, which can only be the name.
fn validate_field_requirement(requirement: &Field<'_>, errors: &mut ErrorList) {
    let operator = requirement.member("operator");
    let values = requirement.member("values");
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => errors.push(values.required(
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        "In" | "NotIn" => {}
        other => errors.push(operator.invalid_value(other, "not a valid selector operator")),
    }
    let key = requirement.member("key");
    if key.text() != "metadata.name" {
        errors.push(key.invalid_value(key.text(), "not a valid field selector key"));
        return;
    }
    for value in values.items() {
        report(&value, names::dns_subdomain(value.text()), errors);
    }
}

fn validate_pod_affinity_term(term: &Field<'_>, errors: &mut ErrorList) {
    validate_label_selector(&term.member("labelSelector"), false, errors);
    validate_label_selector(&term.member("namespaceSelector"), false, errors);
    for namespace in term.member("namespaces").list() {
        let shown = term.member("namespace").with_value(namespace);
        validate_dns_label(&shown, errors);
    }
    validate_label_keys(term, errors);
    let topology = term.member("topologyKey");
    if topology.text().is_empty() {
        errors.push(topology.required("can not be empty"));
    }
    validate_label_name(topology.text(), &topology, errors);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys` of a term with a label selector.
fn validate_label_keys(term: &Field<'_>, errors: &mut ErrorList) {
    let selector = term.member("labelSelector");
    let matched = term.member("matchLabelKeys");
    let mismatched = term.member("mismatchLabelKeys");
    for keys in [matched, mismatched] {
        if keys.is_empty() {
            continue;
        }
        if !selector.is_set() {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        for key in keys.items() {
            validate_label_name(key.text(), &key, errors);
        }
    }
    // The selector already has the requirements of the matched keys, so only a second one is an
    // error.
    let selected = selector.member("matchLabels");
    let places: HashMap<&Value, usize> = matched.list().iter().zip(0..).collect();
    let mut seen: HashSet<&str> = selected.entries().map(|(key, _)| key).collect();
    for requirement in selector.member("matchExpressions").list() {
        let key = requirement.get("key").and_then(Value::as_str);
        let key = key.unwrap_or_default();
        let place = requirement.get("key").and_then(|key| places.get(key));
        if let (false, Some(index)) = (seen.insert(key), place) {
            let place = format!("{}[{index}]", term.path());
            errors.push(Field::named(&place, None).invalid_value(key, IN_BOTH));
        }
    }
    let mismatched: HashSet<&Value> = mismatched.list().iter().collect();
    for key in matched.items() {
        if key.value().is_some_and(|key| mismatched.contains(key)) {
            errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

/// Validates that the label keys of a new pod do not add too much to its selectors.
pub fn validate_added_labels(object: &Object, errors: &mut ErrorList) {
    if adds_too_much(object) {
        errors.push(Field::of(object, "spec").forbidden(
            "labels of matchLabelKeys and mismatchLabelKeys may add at most 3 MiB to selectors",
        ));
    }
}

/// Validates tolerations.
pub fn validate_tolerations(tolerations: &Field<'_>, errors: &mut ErrorList) {
    for toleration in tolerations.items() {
        validate_toleration(&toleration, errors);
    }
}

fn validate_toleration(toleration: &Field<'_>, errors: &mut ErrorList) {
    let key = toleration.member("key");
    let operator = toleration.member("operator");
    let effect = toleration.member("effect");
    let value = toleration.member("value");
    if !key.text().is_empty() {
        validate_label_name(key.text(), &key, errors);
    } else if operator.text() != "Exists" {
        errors.push(operator.invalid_value(
            operator.text(),
            "operator must be Exists when `key` is empty, which means \"match all values and all \
             keys\"",
        ));
    }
    if toleration.member("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        errors.push(effect.invalid_value(
            effect.text(),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ));
    }
    match operator.text() {
        "Equal" | "" => {
            let wrong = names::label_value(value.text());
            if !wrong.is_empty() {
                errors.push(operator.invalid_value(value.text(), wrong.join(";")));
            }
        }
        "Exists" if !value.text().is_empty() => errors.push(operator.invalid_value(
            value.text(),
            "value must be empty when `operator` is 'Exists'",
        )),
        "Exists" => {}
        // Known values that a disabled feature gate would allow.
        "Lt" | "Gt" => errors.push(operator.not_supported(&["Equal", "Exists", "Lt", "Gt"])),
        _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
    }
    if !effect.text().is_empty() {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        validate_one_of(&effect, &effects, errors);
    }
}

/// Validates topology spread constraints.
pub fn validate_topology_spread_constraints(constraints: &Field<'_>, errors: &mut ErrorList) {
    let pair = |constraint: &Field<'_>| {
        let text = |name| constraint.member(name).text().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    // The number of remaining constraints with each pair.
    let mut left: HashMap<(String, String), usize> = HashMap::new();
    for constraint in constraints.items() {
        *left.entry(pair(&constraint)).or_default() += 1;
    }
    for constraint in constraints.items() {
        let skew = constraint.member("maxSkew");
        validate_positive(&skew, skew.int().unwrap_or_default(), errors);
        let topology = constraint.member("topologyKey");
        if topology.text().is_empty() {
            errors.push(topology.required("can not be empty"));
        }
        let action = constraint.member("whenUnsatisfiable");
        must_be_one_of(&action, &["DoNotSchedule", "ScheduleAnyway"], errors);
        let left = left.entry(pair(&constraint)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let pair = Value::from(format!("{{{}, {}}}", topology.text(), action.text()));
            let place = constraint.member("{topologyKey, whenUnsatisfiable}");
            errors.push(place.with_value(&pair).duplicate());
        }
        validate_min_domains(&constraint, errors);
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.member(name);
            validate_one_of(&policy, &["Honor", "Ignore"], errors);
        }
        validate_label_keys(&constraint, errors);
        validate_label_selector(&constraint.member("labelSelector"), false, errors);
    }
}

fn validate_positive(field: &Field<'_>, number: i64, errors: &mut ErrorList) {
    if number <= 0 {
        errors.push(field.invalid_value(number, "must be greater than zero"));
    }
}

fn validate_min_domains(constraint: &Field<'_>, errors: &mut ErrorList) {
    let domains = constraint.member("minDomains");
    let action = constraint.member("whenUnsatisfiable");
    let Some(number) = domains.int() else {
        return;
    };
    validate_positive(&domains, number, errors);
    if action.text() != "DoNotSchedule" {
        errors.push(domains.invalid(format!(
            "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
            action.text()
        )));
    }
}

/// Validates scheduling gates.
pub fn validate_scheduling_gates(gates: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for gate in gates.items() {
        let name = gate.member("name");
        for wrong in names::qualified_name(name.text()) {
            errors.push(gate.invalid_value(name.text(), wrong));
        }
        if !seen.insert(name.text().to_owned()) {
            let shown = Value::from(name.text());
            errors.push(gate.with_value(&shown).duplicate());
        }
    }
}
