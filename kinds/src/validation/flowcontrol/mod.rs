//! Validation of FlowSchemas and PriorityLevelConfigurations.

mod levels;
mod rules;

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::{Value, json};

use crate::types::internal::{internal_json, invalid_struct};
use api::error_list::ErrorList;

pub use levels::{
    validate_prioritylevelconfiguration, validate_prioritylevelconfiguration_status_update,
    validate_prioritylevelconfiguration_update,
};

const MAX_PRECEDENCE: i64 = 10_000;

/// Validates a FlowSchema.
pub fn validate_flowschema(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_spec(object.name(), &spec, errors);
    let is_changed = mandatory_spec(object.name())
        .is_some_and(|mandatory| spec.value().is_some_and(|spec| *spec != mandatory));
    if is_changed {
        let detail = format!("spec of '{}' must equal the fixed value", object.name());
        errors.push(invalid_struct(
            &spec,
            "flowcontrol.v1.FlowSchemaSpec",
            &detail,
        ));
    }
    validate_conditions(object, errors);
}

/// Validates an update of a FlowSchema.
pub fn validate_flowschema_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_flowschema(object, errors);
}

/// Validates an update of the status of a FlowSchema.
pub fn validate_flowschema_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_conditions(object, errors);
}

fn validate_spec(name: &str, spec: &Field<'_>, errors: &mut ErrorList) {
    let field = spec.member("matchingPrecedence");
    let precedence = field.int().unwrap_or(0);
    if precedence <= 0 {
        errors.push(field.invalid_value(precedence, "must be a positive value"));
    }
    if precedence > MAX_PRECEDENCE {
        errors.push(field.invalid(format!("must not be greater than {MAX_PRECEDENCE}")));
    }
    if precedence == 1 && name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(field.invalid(detail));
    }
    let method = spec.member("distinguisherMethod");
    let kind = method.member("type");
    if method.is_set() && !matches!(kind.text(), "ByNamespace" | "ByUser") {
        let error = kind.not_supported(&["ByNamespace", "ByUser"]);
        // Kubernetes shows the whole struct here.
        let type_name = "flowcontrol.v1.FlowDistinguisherMethod";
        errors.push(error.showing_json(|| internal_json(type_name, method.value())));
    }
    let level = spec.member("priorityLevelConfiguration");
    let level = level.member("name");
    if level.text().is_empty() {
        errors.push(level.required("must reference a priority level"));
    } else {
        let wrong = names::dns_subdomain(level.text()).into_iter();
        errors.extend(wrong.map(|message| level.invalid(message)));
    }
    for rule in spec.member("rules").items() {
        rules::validate_rule(&rule, errors);
    }
}

/// Returns the required spec of a mandatory FlowSchema.
fn mandatory_spec(name: &str) -> Option<Value> {
    let (precedence, groups): (i64, &[&str]) = match name {
        "exempt" => (1, &["system:masters"]),
        "catch-all" => (
            MAX_PRECEDENCE,
            &["system:unauthenticated", "system:authenticated"],
        ),
        _ => return None,
    };
    let subject = |group: &&str| json!({"kind": "Group", "group": {"name": group}});
    let subjects: Vec<Value> = groups.iter().map(subject).collect();
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": precedence,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "clusterScope": true,
                "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if let (Some(members), "catch-all") = (spec.as_object_mut(), name) {
        members.insert("distinguisherMethod".to_owned(), json!({"type": "ByUser"}));
    }
    Some(spec)
}

/// Validates the conditions of a status, whose types must be unique.
fn validate_conditions(object: &Object, errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    let mut seen = HashSet::new();
    let conditions = status.member("conditions");
    for (condition, value) in conditions.items().zip(conditions.list()) {
        let kind = condition.member("type");
        let name = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !seen.insert(name) {
            errors.push(kind.with_value(&name.into()).duplicate());
        }
        if name.is_empty() {
            errors.push(kind.required(""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::flowcontrol::{flowschema, prioritylevelconfiguration};
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let functions = |path: &str| match path.ends_with("/flowschemas") {
            true => Functions {
                defaults: Some(flowschema),
                create: validate_flowschema,
                update: Some(validate_flowschema_update),
            },
            false => Functions {
                defaults: Some(prioritylevelconfiguration),
                create: validate_prioritylevelconfiguration,
                update: Some(validate_prioritylevelconfiguration_update),
            },
        };
        let cases = include_str!("../../../recorded/flowcontrol.json");
        check(cases, functions);
    }

    #[test]
    fn answers_to_statuses_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/flowcontrol_status.json");
        check(cases, |_| Functions {
            defaults: Some(prioritylevelconfiguration),
            create: validate_prioritylevelconfiguration,
            update: Some(validate_prioritylevelconfiguration_status_update),
        });
    }
}
