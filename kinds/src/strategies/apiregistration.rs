//! APIServices of groups that Taffrail itself serves (API-235).

use api::object::{Object, put};
use serde_json::json;

/// Makes a new APIService without a service available at once, because Taffrail serves it itself.
pub fn prepare_create(object: &mut Object) {
    if object.at(&["spec", "service"]).is_some() {
        return;
    }
    let available = json!({
        "type": "Available", "status": "True", "reason": "Local",
        "message": "Local APIServices are always available",
        "lastTransitionTime": object.meta("creationTimestamp"),
    });
    put(object, &["status", "conditions"], json!([available]));
}
