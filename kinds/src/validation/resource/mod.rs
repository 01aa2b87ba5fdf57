//! Validation of the kinds of `resource.k8s.io`: DeviceClasses, ResourceClaims and ResourceSlices.

mod claims;
mod classes;
mod devices;
mod names;
mod node_choice;
mod request_policy;
mod slices;
mod statuses;

pub use claims::{
    validate_resourceclaim, validate_resourceclaim_update, validate_resourceclaimtemplate,
    validate_resourceclaimtemplate_update,
};
pub use classes::{validate_deviceclass, validate_deviceclass_update};
pub use slices::{validate_resourceslice, validate_resourceslice_update};
pub use statuses::{identity as identity_of_device, validate_resourceclaim_status_update};

use std::collections::HashSet;

use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};

use super::expressions::validate_device_selector;
use api::error_list::ErrorList;

/// The limits of lists and texts.
const MAX_SELECTORS: usize = 32;
const MAX_CONFIGS: usize = 32;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
const MAX_PARAMETERS_BYTES: usize = 10 * 1024;

/// Validates the length of a list. Returns whether it is valid; if not, callers skip the items.
fn validate_length(list: &Field<'_>, most: usize, errors: &mut ErrorList) -> bool {
    let fits = list.len() <= most;
    if !fits {
        errors.push(FieldError::new(
            FieldErrorKind::TooMany,
            list.path(),
            &list.len().into(),
            format!("must have at most {most} items"),
        ));
    }
    fits
}

/// Validates that items of a list differ in this member. Errors have the path of the item.
fn validate_unique(list: &Field<'_>, member: &str, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (item, value) in list.items().zip(list.list()) {
        let key = value.get(member).and_then(|key| key.as_str());
        let key = key.unwrap_or_default();
        if !seen.insert(key) {
            let shown = key.into();
            errors.push(item.with_value(&shown).duplicate());
        }
    }
}

/// Validates CEL selectors of devices.
fn validate_selectors(selectors: &Field<'_>, errors: &mut ErrorList) {
    if !validate_length(selectors, MAX_SELECTORS, errors) {
        return;
    }
    for selector in selectors.items() {
        let cel = selector.member("cel");
        let expression = cel.member("expression");
        if !cel.is_set() {
            errors.push(cel.required(""));
        } else if expression.text().len() > MAX_EXPRESSION_BYTES {
            errors.push(expression.too_long(MAX_EXPRESSION_BYTES));
        } else {
            validate_device_selector(&expression, errors);
        }
    }
}

/// Validates the opaque configuration of a driver.
fn validate_opaque(configuration: &Field<'_>, errors: &mut ErrorList) {
    let opaque = configuration.member("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    names::validate_driver(&opaque.member("driver"), errors);
    let parameters = opaque.member("parameters");
    if parameters.is_set() {
        validate_parameters(&parameters, errors);
    } else {
        errors.push(parameters.required(""));
    }
}

/// Validates the parameters of a driver, an object that only the driver understands. Errors do not
/// show it.
fn validate_parameters(parameters: &Field<'_>, errors: &mut ErrorList) {
    let bytes = parameters.value().map(|value| value.to_string().len());
    if bytes.is_some_and(|bytes| bytes > MAX_PARAMETERS_BYTES) {
        errors.push(parameters.too_long(MAX_PARAMETERS_BYTES));
    } else if parameters.value().is_none_or(|value| !value.is_object()) {
        errors.push(parameters.invalid_value("<value omitted>", "must be a valid JSON object"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::resource as defaults;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/resource.json");
        check(cases, |path| match path.rsplit('/').next() {
            Some("deviceclasses") => Functions {
                defaults: None,
                create: validate_deviceclass,
                update: Some(validate_deviceclass_update),
            },
            Some("resourceclaims") => Functions {
                defaults: Some(defaults::resourceclaim),
                create: validate_resourceclaim,
                update: Some(validate_resourceclaim_update),
            },
            Some("resourceclaimtemplates") => Functions {
                defaults: Some(defaults::resourceclaimtemplate),
                create: validate_resourceclaimtemplate,
                update: Some(validate_resourceclaimtemplate_update),
            },
            _ => Functions {
                defaults: Some(defaults::resourceslice),
                create: validate_resourceslice,
                update: Some(validate_resourceslice_update),
            },
        });
    }

    #[test]
    fn answers_to_statuses_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/resource_status.json");
        check(cases, |_| Functions {
            defaults: Some(defaults::resourceclaim),
            create: validate_resourceclaim,
            update: Some(validate_resourceclaim_status_update),
        });
    }
}
