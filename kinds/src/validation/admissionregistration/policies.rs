//! Validation of admission policies.

use std::collections::HashSet;

use api::cel::{Type, is_reserved};
use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;

use super::rules::{validate_match_resources, validate_mutated_operations};
use super::{FAILURE_POLICIES, REINVOCATION_POLICIES, validate_match_conditions};
use crate::types::internal::internal_json;
use crate::validation::conditions::validate_conditions;
use crate::validation::enums::{require_one_of, validate_one_of};
use crate::validation::expressions::{Policy, validate_condition, validate_expression};
use crate::validation::required::require_text;
use crate::validation::text_formats::dns1035_label;
use api::error_list::ErrorList;

const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Validates a ValidatingAdmissionPolicy.
pub fn validate_validatingadmissionpolicy(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let mut policy = Policy::of(&spec, false);
    validate_matching(&spec, false, &mut policy, errors);
    let validations = spec.member("validations");
    let annotations = spec.member("auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(validations.required(detail));
        errors.push(annotations.required(detail));
    }
    for validation in validations.items() {
        validate_validation(&validation, &mut policy, errors);
    }
    validate_annotations(object.name(), &annotations, &mut policy, errors);
}

/// Validates an update of a ValidatingAdmissionPolicy.
pub fn validate_validatingadmissionpolicy_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_validatingadmissionpolicy(object, errors);
}

/// Validates an update of the status of a ValidatingAdmissionPolicy.
pub fn validate_validatingadmissionpolicy_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let status = Field::of(object, "status");
    let checking = status.member("typeChecking");
    for warning in checking.member("expressionWarnings").items() {
        require_text(&warning.member("warning"), errors);
        let place = warning.member("fieldRef");
        let is_open = || {
            let rest = place.text().rsplit_once('[').map(|(_, rest)| rest);
            rest.is_some_and(|rest| !rest.contains(']'))
        };
        if require_text(&place, errors) && is_open() {
            errors.push(place.invalid("invalid JSONPath: unterminated array"));
        }
    }
    validate_conditions(&status.member("conditions"), errors);
}

/// Validates a MutatingAdmissionPolicy.
pub fn validate_mutatingadmissionpolicy(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let mut policy = Policy::of(&spec, true);
    validate_matching(&spec, true, &mut policy, errors);
    let mutations = spec.member("mutations");
    if mutations.is_empty() {
        errors.push(mutations.required("mutations must contain at least one item"));
    }
    policy.expressions = policy.expressions.with_objects();
    for mutation in mutations.items() {
        validate_mutation(&mutation, &policy, errors);
    }
    let reinvocation = spec.member("reinvocationPolicy");
    require_one_of(&reinvocation, &REINVOCATION_POLICIES, errors);
}

/// Validates an update of a MutatingAdmissionPolicy.
pub fn validate_mutatingadmissionpolicy_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_mutatingadmissionpolicy(object, errors);
}

/// Validates the members that both kinds of policies have: match constraints, match conditions and
/// variables.
fn validate_matching(
    spec: &Field<'_>,
    is_mutating: bool,
    policy: &mut Policy,
    errors: &mut ErrorList,
) {
    validate_one_of(&spec.member("failurePolicy"), &FAILURE_POLICIES, errors);
    validate_parameter_kind(&spec.member("paramKind"), errors);
    let constraints = spec.member("matchConstraints");
    if constraints.is_set() {
        validate_match_resources(&constraints, errors);
        let rules = constraints.member("resourceRules");
        if is_mutating {
            validate_mutated_operations(&rules, errors);
        }
        if rules.is_empty() {
            errors.push(rules.required(""));
        }
    } else {
        errors.push(constraints.required(""));
    }
    let conditions = spec.member("matchConditions");
    validate_match_conditions(&conditions, &policy.conditions, &policy.budget, errors);
    for variable in spec.member("variables").items() {
        validate_variable(&variable, policy, errors);
    }
}

fn validate_parameter_kind(parameter: &Field<'_>, errors: &mut ErrorList) {
    if !parameter.is_set() {
        return;
    }
    let version = parameter.member("apiVersion");
    if require_text(&version, errors) {
        validate_group_version(&version, errors);
    }
    let kind = parameter.member("kind");
    if require_text(&kind, errors) {
        let wrong = dns1035_label(&kind.text().to_ascii_lowercase());
        if !wrong.is_empty() {
            let wrong = wrong.join(", ");
            errors.push(kind.invalid(format!(
                "may have mixed case, but should otherwise match: {wrong}"
            )));
        }
    }
}

fn validate_group_version(field: &Field<'_>, errors: &mut ErrorList) {
    let text = field.text();
    let (group, version) = match text.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            errors.push(field.invalid(format!("unexpected GroupVersion string: {text}")));
            return;
        }
        Some(parts) => parts,
        None => ("", text),
    };
    if !group.is_empty() {
        let wrong = names::dns_subdomain(group).into_iter();
        errors.extend(wrong.map(|message| field.invalid_value(group, message)));
    }
    if version.is_empty() {
        errors.push(field.invalid("version must be specified"));
    } else {
        let wrong = dns1035_label(version).into_iter();
        errors.extend(wrong.map(|message| field.invalid_value(version, message)));
    }
}

/// Reports whether a text is a CEL identifier.
fn is_identifier(text: &str) -> bool {
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    text.bytes().all(is_word)
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && !is_reserved(text)
}

fn validate_variable(variable: &Field<'_>, policy: &mut Policy, errors: &mut ErrorList) {
    let name = variable.member("name");
    if name.text().is_empty() {
        errors.push(name.required("name is not specified"));
    } else if !is_identifier(name.text()) {
        errors.push(name.invalid("must be a valid CEL identifier"));
    }
    let expression = variable.member("expression");
    if require_expression(&expression, errors) {
        policy.declare(name.text(), &expression, errors);
    }
}

fn require_expression(expression: &Field<'_>, errors: &mut ErrorList) -> bool {
    let is_empty = expression.text().trim().is_empty();
    if is_empty {
        errors.push(expression.required("expression is not specified"));
    }
    !is_empty
}

fn validate_validation(validation: &Field<'_>, policy: &mut Policy, errors: &mut ErrorList) {
    let expression = validation.member("expression");
    if require_expression(&expression, errors) {
        validate_condition(&expression, &policy.expressions, &policy.budget, errors);
    }
    let message = validation.member("message");
    let message_expression = validation.member("messageExpression");
    for text in [&message_expression, &message] {
        if !text.text().is_empty() && text.text().trim().is_empty() {
            errors.push(text.invalid("must be non-empty if specified"));
        } else if !text.text().is_empty() && text.path() == message_expression.path() {
            let (expressions, budget) = (&policy.messages, &policy.budget);
            let is_text = |of: &Type| *of == Type::String;
            validate_expression(text, expressions, "string", is_text, budget, errors);
        } else if text.text().trim().contains('\n') && text.path() == message.path() {
            errors.push(text.invalid("must not contain line breaks"));
        }
    }
    validate_one_of(&validation.member("reason"), &REASONS, errors);
}

fn validate_annotations(
    policy_name: &str,
    annotations: &Field<'_>,
    policy: &mut Policy,
    errors: &mut ErrorList,
) {
    if annotations.len() > MAX_ANNOTATIONS {
        let json = |annotation: &serde_json::Value| {
            internal_json("admissionregistration.v1.AuditAnnotation", Some(annotation))
        };
        let shown: Vec<String> = annotations.list().iter().map(json).collect();
        errors.push(FieldError::invalid_document(
            annotations.path(),
            &format!("[{}]", shown.join(",")),
            format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations"),
        ));
    }
    let mut seen = HashSet::new();
    for (annotation, value) in annotations.items().zip(annotations.list()) {
        let key = annotation.member("key");
        let shown = format!("{policy_name}/{}", key.text());
        let wrong = names::qualified_name(&shown).into_iter();
        errors.extend(wrong.map(|message| key.invalid_value(shown.as_str(), message)));
        let expression = annotation.member("valueExpression");
        let text = expression.text().trim();
        if text.is_empty() {
            errors.push(expression.required("valueExpression is not specified"));
        } else if text.len() > MAX_ANNOTATION_BYTES {
            let detail = format!("must not exceed {MAX_ANNOTATION_BYTES} bytes in length");
            errors.push(expression.required(detail));
        } else {
            let fits = |of: &Type| matches!(of, Type::String | Type::Null);
            let wanted = "one of [string null_type]";
            let (environment, budget) = (&policy.expressions, &policy.budget);
            validate_expression(&expression, environment, wanted, fits, budget, errors);
        }
        let name = value.get("key");
        if !seen.insert(name) {
            errors.push(key.duplicate());
        }
    }
}

/// The types of patches, each with its own member and the member of the other type.
const PATCHES: [(&str, &str, &str); 2] = [
    ("ApplyConfiguration", "applyConfiguration", "jsonPatch"),
    ("JSONPatch", "jsonPatch", "applyConfiguration"),
];

fn validate_mutation(mutation: &Field<'_>, policy: &Policy, errors: &mut ErrorList) {
    let kind = mutation.member("patchType");
    if !require_text(&kind, errors) {
        return;
    }
    let Some((name, wanted, other)) = PATCHES.iter().find(|(name, ..)| *name == kind.text()) else {
        errors.push(kind.not_supported(&["ApplyConfiguration", "JSONPatch"]));
        return;
    };
    let wanted = mutation.member(wanted);
    let expression = wanted.member("expression");
    if !wanted.is_set() {
        errors.push(wanted.required(format!("must be specified when patchType is {name}")));
    } else if expression.text().trim().is_empty() {
        errors.push(expression.required(""));
    } else {
        let (wanted, fits): (_, fn(&Type) -> bool) = match *name {
            "JSONPatch" => ("list(JSONPatch)", |of| of.to_string() == "list(JSONPatch)"),
            _ => ("Object", |of| of.to_string() == "Object"),
        };
        validate_expression(
            &expression,
            &policy.expressions,
            wanted,
            fits,
            &policy.budget,
            errors,
        );
    }
    let unwanted = mutation.member(other);
    if unwanted.is_set() {
        let detail = format!("must not be specified when patchType is {name}");
        errors.push(unwanted.invalid_value(format!("{{{other}}}"), detail));
    }
}
