//! Validation of DeviceClasses.

use api::field::Field;
use api::object::Object;

use super::{MAX_CONFIGS, validate_length, validate_opaque, validate_selectors};
use crate::resource_names::is_extended;
use api::error_list::ErrorList;

/// Validates a DeviceClass.
pub fn validate_deviceclass(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_selectors(&spec.member("selectors"), errors);
    let configurations = spec.member("config");
    if validate_length(&configurations, MAX_CONFIGS, errors) {
        for configuration in configurations.items() {
            validate_opaque(&configuration, errors);
        }
    }
    let name = spec.member("extendedResourceName");
    if name.is_set() && !is_extended(name.text()) {
        errors.push(name.invalid("must be a valid extended resource name"));
    }
}

/// Validates an update of a DeviceClass.
pub fn validate_deviceclass_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_deviceclass(object, errors);
}
