//! ResourceClaims: the status of a device is dropped when the device is deallocated.

use std::collections::HashSet;

use api::object::Object;
use serde_json::Value;

use crate::defaults::member;
use crate::validation::resource::identity_of_device;

/// Drops the statuses of devices that an update of the status deallocates.
pub fn prepare_status(object: &mut Object, stored: &Object) {
    let (had, has) = (allocated(stored), allocated(object));
    let Some(status) = member(&mut object.0, "status") else {
        return;
    };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else {
        return;
    };
    devices.retain(|device| {
        let identity = identity_of_device(device);
        !had.contains(&identity) || has.contains(&identity)
    });
    if devices.is_empty() {
        status.remove("devices");
    }
}

/// Returns the identities of a claim's allocated devices.
fn allocated(claim: &Object) -> HashSet<Value> {
    let results = claim.at(&["status", "allocation", "devices", "results"]);
    let results = results.and_then(Value::as_array).into_iter().flatten();
    results.map(identity_of_device).collect()
}

#[cfg(test)]
mod tests {
    use api::error_list::ErrorList;
    use serde_json::json;

    use super::*;
    use crate::validation::resource::validate_resourceclaim_status_update;

    fn claim(status: Value) -> Object {
        let claim = json!({"metadata": {"name": "c"}, "spec": {}, "status": status});
        Object::of(claim.as_object().expect("an object").clone())
    }

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn the_status_of_a_device_goes_with_it() {
        let result = json!({"request": "r", "driver": "a.b", "pool": "p", "device": "d"});
        let device = json!({"driver": "a.b", "pool": "p", "device": "d"});
        let unknown = json!({"driver": "a.b", "pool": "p", "device": "e"});
        let stored = claim(json!({
            "allocation": {"devices": {"results": [result]}}, "devices": [device],
        }));
        let mut kept = stored.clone();
        prepare_status(&mut kept, &stored);
        assert_eq!(kept, stored);
        let mut freed = claim(json!({"devices": [device]}));
        prepare_status(&mut freed, &stored);
        assert_eq!(freed.0["status"], json!({}));
        let errors_of = |changed: &Object| {
            ErrorList::of(|errors| validate_resourceclaim_status_update(changed, &stored, errors))
        };
        assert!(errors_of(&freed).is_empty());
        // Only statuses of devices that were allocated are dropped. Others are refused.
        let mut wrong = claim(json!({"devices": [device, unknown]}));
        prepare_status(&mut wrong, &stored);
        assert_eq!(wrong.0["status"], json!({"devices": [unknown]}));
        assert_eq!(errors_of(&wrong).kept().len(), 1);
    }
}
