//! APIServices that the daemon itself answers for (API-235).

use api::object::{Object, put};
use serde_json::json;

/// A new APIService without a service is available at once.
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
