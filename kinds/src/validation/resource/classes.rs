//! What is refused of classes of devices.

use api::field::Field;
use api::names::qualified_name;
use api::object::Object;

use super::{MAX_CONFIGS, validate_length, validate_opaque, validate_selectors};
use api::error_list::ErrorList;

/// Adds the errors of a class of devices.
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
    if name.is_set() && !is_extended_resource_name(name.text()) {
        errors.push(name.invalid("must be a valid extended resource name"));
    }
}

/// Adds the errors of a change to a class of devices.
pub fn validate_deviceclass_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_deviceclass(object, errors);
}

/// Whether a resource is one that others than Kubernetes define.
fn is_extended_resource_name(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}
