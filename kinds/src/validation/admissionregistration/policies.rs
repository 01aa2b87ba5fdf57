//! What is refused of policies.

use std::collections::HashSet;

use api::cel::{Type, is_reserved};
use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;

use super::rules::{validate_match_resources, validate_mutated_operations};
use super::{FAILURE_POLICIES, REINVOCATION_POLICIES, validate_match_conditions};
use crate::validation::conditions::validate_conditions;
use crate::validation::expressions::{Policy, validate_condition, validate_expression};
use crate::validation::formats::dns1035_label;
use crate::validation::internal::internal_json;
use crate::validation::{Faults, formats, texts};

const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// The faults of a policy that refuses objects.
pub fn validate_validatingadmissionpolicy(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    let mut policy = Policy::of(&spec, false);
    validate_matching(&spec, false, &mut policy, &mut faults);
    let validations = spec.member("validations");
    let annotations = spec.member("auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        faults.push(validations.required(detail));
        faults.push(annotations.required(detail));
    }
    for validation in validations.items() {
        validate_validation(&validation, &mut policy, &mut faults);
    }
    validate_annotations(object.name(), &annotations, &mut policy, &mut faults);
    faults
}

/// The faults of a change to a policy that refuses objects.
pub fn validate_validatingadmissionpolicy_update(object: &Object, _stored: &Object) -> Faults {
    validate_validatingadmissionpolicy(object)
}

/// The faults of a change to the status of a policy that refuses objects.
pub fn validate_validatingadmissionpolicy_status_update(
    object: &Object,
    _stored: &Object,
) -> Faults {
    let mut faults = Faults::new();
    let status = Field::of(object, "status");
    let checking = status.member("typeChecking");
    for warning in checking.member("expressionWarnings").items() {
        formats::require_text(&warning.member("warning"), &mut faults);
        let place = warning.member("fieldRef");
        let is_open = || {
            let rest = place.text().rsplit_once('[').map(|(_, rest)| rest);
            rest.is_some_and(|rest| !rest.contains(']'))
        };
        if formats::require_text(&place, &mut faults) && is_open() {
            faults.push(place.invalid("invalid JSONPath: unterminated array"));
        }
    }
    validate_conditions(&status.member("conditions"), &mut faults);
    faults
}

/// The faults of a policy that changes objects.
pub fn validate_mutatingadmissionpolicy(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    let mut policy = Policy::of(&spec, true);
    validate_matching(&spec, true, &mut policy, &mut faults);
    let mutations = spec.member("mutations");
    if mutations.is_empty() {
        faults.push(mutations.required("mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        validate_mutation(&mutation, &mut policy, &mut faults);
    }
    let reinvocation = spec.member("reinvocationPolicy");
    texts::require_one_of(&reinvocation, &REINVOCATION_POLICIES, &mut faults);
    faults
}

/// The faults of a change to a policy that changes objects.
pub fn validate_mutatingadmissionpolicy_update(object: &Object, _stored: &Object) -> Faults {
    validate_mutatingadmissionpolicy(object)
}

/// The faults of what both kinds of policies have: when they are asked, and their variables.
fn validate_matching(
    spec: &Field<'_>,
    is_mutating: bool,
    policy: &mut Policy,
    faults: &mut Faults,
) {
    texts::validate_one_of(&spec.member("failurePolicy"), &FAILURE_POLICIES, faults);
    validate_parameter_kind(&spec.member("paramKind"), faults);
    let constraints = spec.member("matchConstraints");
    if constraints.is_set() {
        validate_match_resources(&constraints, faults);
        let rules = constraints.member("resourceRules");
        if is_mutating {
            validate_mutated_operations(&rules, faults);
        }
        if rules.is_empty() {
            faults.push(rules.required(""));
        }
    } else {
        faults.push(constraints.required(""));
    }
    let conditions = spec.member("matchConditions");
    validate_match_conditions(&conditions, &policy.conditions, faults);
    for variable in spec.member("variables").items() {
        validate_variable(&variable, policy, faults);
    }
}

fn validate_parameter_kind(parameter: &Field<'_>, faults: &mut Faults) {
    if !parameter.is_set() {
        return;
    }
    let version = parameter.member("apiVersion");
    if formats::require_text(&version, faults) {
        validate_group_version(&version, faults);
    }
    let kind = parameter.member("kind");
    if formats::require_text(&kind, faults) {
        let wrong = dns1035_label(&kind.text().to_ascii_lowercase());
        if !wrong.is_empty() {
            let wrong = wrong.join(", ");
            faults.push(kind.invalid(format!(
                "may have mixed case, but should otherwise match: {wrong}"
            )));
        }
    }
}

fn validate_group_version(field: &Field<'_>, faults: &mut Faults) {
    let text = field.text();
    let (group, version) = match text.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            faults.push(field.invalid(format!("unexpected GroupVersion string: {text}")));
            return;
        }
        Some(parts) => parts,
        None => ("", text),
    };
    if !group.is_empty() {
        let wrong = names::dns_subdomain(group).into_iter();
        faults.extend(wrong.map(|message| field.invalid_value(group, message)));
    }
    if version.is_empty() {
        faults.push(field.invalid("version must be specified"));
    } else {
        let wrong = dns1035_label(version).into_iter();
        faults.extend(wrong.map(|message| field.invalid_value(version, message)));
    }
}

/// Whether an expression can use this as a name.
fn is_identifier(text: &str) -> bool {
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    text.bytes().all(is_word)
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && !is_reserved(text)
}

fn validate_variable(variable: &Field<'_>, policy: &mut Policy, faults: &mut Faults) {
    let name = variable.member("name");
    if name.text().is_empty() {
        faults.push(name.required("name is not specified"));
    } else if !is_identifier(name.text()) {
        faults.push(name.invalid("must be a valid CEL identifier"));
    }
    let expression = variable.member("expression");
    if require_expression(&expression, faults) {
        policy.declare(name.text(), &expression, faults);
    }
}

fn require_expression(expression: &Field<'_>, faults: &mut Faults) -> bool {
    let is_empty = expression.text().trim().is_empty();
    if is_empty {
        faults.push(expression.required("expression is not specified"));
    }
    !is_empty
}

fn validate_validation(validation: &Field<'_>, policy: &mut Policy, faults: &mut Faults) {
    let expression = validation.member("expression");
    if require_expression(&expression, faults) && policy.may_read(&expression) {
        validate_condition(&expression, &policy.expressions, faults);
    }
    let message = validation.member("message");
    let message_expression = validation.member("messageExpression");
    for text in [&message_expression, &message] {
        if !text.text().is_empty() && text.text().trim().is_empty() {
            faults.push(text.invalid("must be non-empty if specified"));
        } else if !text.text().is_empty() && text.path() == message_expression.path() {
            if policy.may_read(text) {
                let is_text = |of: &Type| *of == Type::String;
                validate_expression(text, &policy.expressions, "string", is_text, faults);
            }
        } else if text.text().trim().contains('\n') && text.path() == message.path() {
            faults.push(text.invalid("must not contain line breaks"));
        }
    }
    texts::validate_one_of(&validation.member("reason"), &REASONS, faults);
}

fn validate_annotations(
    policy_name: &str,
    annotations: &Field<'_>,
    policy: &mut Policy,
    faults: &mut Faults,
) {
    if annotations.len() > MAX_ANNOTATIONS {
        let json = |annotation: &serde_json::Value| {
            internal_json("admissionregistration.v1.AuditAnnotation", Some(annotation))
        };
        let shown: Vec<String> = annotations.list().iter().map(json).collect();
        faults.push(FieldError::invalid_document(
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
        faults.extend(wrong.map(|message| key.invalid_value(shown.as_str(), message)));
        let expression = annotation.member("valueExpression");
        let text = expression.text().trim();
        if text.is_empty() {
            faults.push(expression.required("valueExpression is not specified"));
        } else if text.len() > MAX_ANNOTATION_BYTES {
            let detail = format!("must not exceed {MAX_ANNOTATION_BYTES} bytes in length");
            faults.push(expression.required(detail));
        } else if policy.may_read(&expression) {
            let wanted = "one of [string null_type]";
            let fits = |of: &Type| matches!(of, Type::String | Type::Null);
            validate_expression(&expression, &policy.expressions, wanted, fits, faults);
        }
        let name = value.get("key");
        if !seen.insert(name) {
            faults.push(key.duplicate());
        }
    }
}

/// The ways to change an object: the type, its member, and the other member.
const PATCHES: [(&str, &str, &str); 2] = [
    ("ApplyConfiguration", "applyConfiguration", "jsonPatch"),
    ("JSONPatch", "jsonPatch", "applyConfiguration"),
];

fn validate_mutation(mutation: &Field<'_>, policy: &mut Policy, faults: &mut Faults) {
    let kind = mutation.member("patchType");
    if !formats::require_text(&kind, faults) {
        return;
    }
    let Some((name, wanted, other)) = PATCHES.iter().find(|(name, ..)| *name == kind.text()) else {
        faults.push(kind.not_supported(&["ApplyConfiguration", "JSONPatch"]));
        return;
    };
    let wanted = mutation.member(wanted);
    let expression = wanted.member("expression");
    if !wanted.is_set() {
        faults.push(wanted.required(format!("must be specified when patchType is {name}")));
    } else if expression.text().trim().is_empty() {
        faults.push(expression.required(""));
    } else if policy.may_read(&expression) {
        let environment = policy.expressions.clone().with_objects();
        let (type_name, fits): (_, fn(&Type) -> bool) = match *name {
            "JSONPatch" => ("list(JSONPatch)", |of| of.to_string() == "list(JSONPatch)"),
            _ => ("Object", |of| of.to_string() == "Object"),
        };
        validate_expression(&expression, &environment, type_name, fits, faults);
    }
    let unwanted = mutation.member(other);
    if unwanted.is_set() {
        let detail = format!("must not be specified when patchType is {name}");
        faults.push(unwanted.invalid_value(format!("{{{other}}}"), detail));
    }
}
