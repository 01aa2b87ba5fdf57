//! RuntimeClasses of `node.k8s.io/v1alpha1`.

use api::object::Object;
use serde_json::Value;

/// Converts a RuntimeClass, whose fields are below `spec`.
pub(super) fn runtimeclass(object: &mut Object) {
    let Some(Value::Object(mut spec)) = object.0.remove("spec") else {
        return;
    };
    if let Some(handler) = spec.remove("runtimeHandler") {
        spec.insert("handler".to_owned(), handler);
    }
    object.0.append(&mut spec);
}
