//! What is refused of IngressClasses, and of references to parameters and backends.

use api::field::Field;
use api::names;
use api::object::Object;

use super::super::Faults;
use super::super::formats::{domain_prefixed_path, one_of, report};
use super::super::texts::require_valid;

const MAX_CONTROLLER: usize = 250;

/// The faults of an IngressClass.
pub fn validate_ingressclass(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    let controller = spec.member("controller");
    if controller.text().len() > MAX_CONTROLLER {
        faults.push(controller.too_long(MAX_CONTROLLER));
    }
    domain_prefixed_path(&controller, &mut faults);
    let parameters = spec.member("parameters");
    if parameters.is_set() {
        validate_parameters(&parameters, &mut faults);
    }
    faults
}

/// The faults of a change to an IngressClass.
pub fn validate_ingressclass_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    let controller = spec.member("controller");
    if controller.text() != stored.text(&["spec", "controller"]) {
        faults.push(controller.invalid_value(controller.text(), "field is immutable"));
    }
    faults.extend(validate_ingressclass(object));
    faults
}

fn validate_parameters(parameters: &Field<'_>, faults: &mut Faults) {
    validate_reference(parameters, faults);
    let scope = parameters.member("scope");
    if !scope.is_set() {
        faults.push(scope.required(""));
        return;
    }
    one_of(&scope, &["Cluster", "Namespace"], faults);
    let namespace = parameters.member("namespace");
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => {
            faults.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", true) => report(&namespace, names::dns_label(namespace.text()), faults),
        ("Cluster", true) => {
            faults.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
        }
        _ => {}
    }
}

/// A reference to an object by group, kind and name.
pub(super) fn validate_reference(reference: &Field<'_>, faults: &mut Faults) {
    let group = reference.member("apiGroup");
    if group.is_set() {
        report(&group, names::dns_subdomain(group.text()), faults);
    }
    for name in ["kind", "name"] {
        require_valid(&reference.member(name), names::path_segment, faults);
    }
}
