//! Warnings about admission policies, their bindings and webhook configurations.

use api::object::Object;

/// The suffix of names that manifest files of admission webhooks and policies use.
const RESERVED: &str = ".static.k8s.io";

/// Returns the warning about an admission policy, binding or webhook configuration with a reserved
/// name.
pub fn of_reserved_name(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    if !object.name().ends_with(RESERVED) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with \"{RESERVED}\" are reserved for static manifest-based \
         configurations and cannot be managed via the API"
    )]
}
