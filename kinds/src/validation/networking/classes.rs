//! Validation of IngressClasses, and of references to parameters and backends.

use api::field::Field;
use api::names;
use api::object::Object;

use super::super::enums::validate_one_of;
use super::super::report;
use super::super::required::require_valid;
use super::super::text_formats::domain_prefixed_path;
use api::error_list::ErrorList;

const MAX_CONTROLLER: usize = 250;

/// Validates an IngressClass.
pub fn validate_ingressclass(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let controller = spec.member("controller");
    if controller.text().len() > MAX_CONTROLLER {
        errors.push(controller.too_long(MAX_CONTROLLER));
    }
    domain_prefixed_path(&controller, errors);
    let parameters = spec.member("parameters");
    if parameters.is_set() {
        validate_parameters(&parameters, errors);
    }
}

/// Validates an update of an IngressClass.
pub fn validate_ingressclass_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let controller = spec.member("controller");
    if controller.text() != stored.text(&["spec", "controller"]) {
        errors.push(controller.invalid_value(controller.text(), "field is immutable"));
    }
    validate_ingressclass(object, errors);
}

fn validate_parameters(parameters: &Field<'_>, errors: &mut ErrorList) {
    validate_reference(parameters, errors);
    let scope = parameters.member("scope");
    if !scope.is_set() {
        errors.push(scope.required(""));
        return;
    }
    validate_one_of(&scope, &["Cluster", "Namespace"], errors);
    let namespace = parameters.member("namespace");
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => {
            errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", true) => report(&namespace, names::dns_label(namespace.text()), errors),
        ("Cluster", true) => {
            errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
        }
        _ => {}
    }
}

/// Validates a reference to an object by group, kind and name.
pub(super) fn validate_reference(reference: &Field<'_>, errors: &mut ErrorList) {
    let group = reference.member("apiGroup");
    if group.is_set() {
        report(&group, names::dns_subdomain(group.text()), errors);
    }
    for name in ["kind", "name"] {
        require_valid(&reference.member(name), names::path_segment, errors);
    }
}
