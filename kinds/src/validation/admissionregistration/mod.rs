//! Validation of admission webhooks and policies.

mod bindings;
mod client;
mod policies;
mod rules;
mod type_checks;
mod webhooks;

pub use bindings::{
    validate_mutatingadmissionpolicybinding, validate_mutatingadmissionpolicybinding_update,
    validate_validatingadmissionpolicybinding, validate_validatingadmissionpolicybinding_update,
};
pub use client::{validate_webhook_service, validate_webhook_url};
pub use policies::{
    validate_mutatingadmissionpolicy, validate_mutatingadmissionpolicy_update,
    validate_validatingadmissionpolicy, validate_validatingadmissionpolicy_status_update,
    validate_validatingadmissionpolicy_update,
};
pub use type_checks::{
    ExpressionWarning, NamedResource, NamedType, expression_warnings, named_resources,
};
pub use webhooks::{
    knows_review, validate_mutatingwebhookconfiguration,
    validate_mutatingwebhookconfiguration_update, validate_review_versions,
    validate_validatingwebhookconfiguration, validate_validatingwebhookconfiguration_update,
};

use std::collections::HashSet;

use api::cel::Environment;
use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};
use api::names;
use api::structural::Budget;

use super::expressions::validate_trimmed_condition;
use super::required::require_valid;
use api::error_list::ErrorList;

const MAX_CONDITIONS: usize = 64;
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];

/// Validates the match conditions of a webhook or a policy.
fn validate_match_conditions(
    conditions: &Field<'_>,
    environment: &Environment,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::new(
            FieldErrorKind::TooMany,
            conditions.path(),
            &conditions.len().into(),
            format!("must have at most {MAX_CONDITIONS} items"),
        ));
    }
    let mut seen = HashSet::new();
    let values = conditions.list().iter();
    for (index, (condition, value)) in conditions.items().zip(values).enumerate() {
        let expression = condition.member("expression");
        if expression.text().trim().is_empty() {
            errors.push(expression.required(""));
        } else if index < MAX_CONDITIONS {
            validate_trimmed_condition(&expression, environment, budget, errors);
        }
        let name = condition.member("name");
        require_valid(&name, names::qualified_name, errors);
        if !name.text().is_empty() && !seen.insert(value.get("name")) {
            errors.push(name.duplicate());
        }
    }
}

#[cfg(test)]
mod tests {
    use api::object::Object;
    use serde_json::json;

    use super::*;
    use crate::defaults::admissionregistration as defaults;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/admissionregistration.json");
        check(cases, |path| match path.rsplit('/').next() {
            Some("validatingwebhookconfigurations") => Functions {
                defaults: Some(defaults::validatingwebhookconfiguration),
                create: validate_validatingwebhookconfiguration,
                update: Some(validate_validatingwebhookconfiguration_update),
            },
            Some("mutatingwebhookconfigurations") => Functions {
                defaults: Some(defaults::mutatingwebhookconfiguration),
                create: validate_mutatingwebhookconfiguration,
                update: Some(validate_mutatingwebhookconfiguration_update),
            },
            Some("validatingadmissionpolicies") => Functions {
                defaults: Some(defaults::validatingadmissionpolicy),
                create: validate_validatingadmissionpolicy,
                update: Some(validate_validatingadmissionpolicy_update),
            },
            Some("mutatingadmissionpolicies") => Functions {
                defaults: Some(defaults::mutatingadmissionpolicy),
                create: validate_mutatingadmissionpolicy,
                update: Some(validate_mutatingadmissionpolicy_update),
            },
            Some("validatingadmissionpolicybindings") => Functions {
                defaults: Some(defaults::validatingadmissionpolicybinding),
                create: validate_validatingadmissionpolicybinding,
                update: Some(validate_validatingadmissionpolicybinding_update),
            },
            _ => Functions {
                defaults: Some(defaults::mutatingadmissionpolicybinding),
                create: validate_mutatingadmissionpolicybinding,
                update: Some(validate_mutatingadmissionpolicybinding_update),
            },
        });
    }

    #[test]
    fn answers_to_expressions_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/expressions.json");
        check(cases, |path| match path.rsplit('/').next() {
            Some("validatingadmissionpolicies") => Functions {
                defaults: Some(defaults::validatingadmissionpolicy),
                create: validate_validatingadmissionpolicy,
                update: None,
            },
            Some("mutatingadmissionpolicies") => Functions {
                defaults: Some(defaults::mutatingadmissionpolicy),
                create: validate_mutatingadmissionpolicy,
                update: None,
            },
            Some("validatingwebhookconfigurations") => Functions {
                defaults: Some(defaults::validatingwebhookconfiguration),
                create: validate_validatingwebhookconfiguration,
                update: None,
            },
            _ => Functions {
                defaults: Some(defaults::mutatingwebhookconfiguration),
                create: validate_mutatingwebhookconfiguration,
                update: None,
            },
        });
    }

    #[test]
    fn answers_to_statuses_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/admissionregistration_status.json");
        check(cases, |_| Functions {
            defaults: Some(defaults::validatingadmissionpolicy),
            create: validate_validatingadmissionpolicy,
            update: Some(validate_validatingadmissionpolicy_status_update),
        });
    }

    /// Errors show a condition without the white space around it, which is ignored.
    #[test]
    fn conditions_are_trimmed() {
        let errors_of = |expression: &str| {
            let object = Object::of(
                json!({"webhooks": [{
                    "name": "a.b.c", "clientConfig": {"url": "https://x/y"},
                    "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "failurePolicy": "Fail", "matchPolicy": "Equivalent",
                    "matchConditions": [{"name": "a", "expression": expression}],
                }]})
                .as_object()
                .unwrap()
                .clone(),
            );
            let errors =
                ErrorList::of(|errors| validate_validatingwebhookconfiguration(&object, errors));
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let at = "webhooks[0].matchConditions[0].expression: Invalid value";
        assert_eq!(errors_of("\u{a0} 1 == 1 "), [""; 0]);
        assert_eq!(
            errors_of(" 1 "),
            [format!("{at}: \"1\": must evaluate to bool but got int")]
        );
        let undeclared = errors_of(" foo ").concat();
        let start = format!("{at}: \"foo\": compilation failed: ERROR: <input>:1:1: undeclared");
        assert!(undeclared.starts_with(&start), "{undeclared}");
    }
}
