//! ResourceSlices: the time at which device taints were added.

use api::keyed::Keyed;
use api::object::{Object, whole_seconds};
use jiff::Timestamp;
use serde_json::Value;

use crate::defaults::Members;

/// Sets the time of taints in a new slice to its creation, unless they have one.
pub fn prepare(object: &mut Object) {
    let created = object.meta("creationTimestamp").to_owned();
    for_taints(object, |_, taint| set_time(taint, &created));
}

/// Keeps the time of taints that the stored slice has, unless the update sets one.
pub fn prepare_update(object: &mut Object, stored: &Object) {
    let devices = stored.items(&["spec", "devices"]).iter();
    let before = devices.flat_map(|device| {
        let taints = device.get("taints").and_then(Value::as_array);
        let taints = taints.into_iter().flatten().filter_map(Value::as_object);
        taints.map(|taint| (name(device), taint))
    });
    let before = Keyed::by(before, |(device, taint)| (*device, identity(taint)));
    for_taints(object, |device, taint| {
        let known = before.first(&(device, identity(taint)));
        let time = known.and_then(|(_, known)| known.get("timeAdded")?.as_str());
        if let Some(time) = time {
            set_time(taint, time);
        }
    });
}

/// Sets the time of taints that were added by this update.
pub fn stamp(object: &mut Object, _: &Object, now: Timestamp) {
    let now = whole_seconds(now);
    for_taints(object, |_, taint| set_time(taint, &now));
}

/// Returns the members that identify a taint of a device.
fn identity(taint: &Members) -> [Option<&Value>; 3] {
    ["key", "value", "effect"].map(|member| taint.get(member))
}

fn set_time(taint: &mut Members, time: &str) {
    let slot = taint.entry("timeAdded").or_insert(Value::Null);
    if slot.is_null() {
        *slot = time.into();
    }
}

fn name(device: &Value) -> &str {
    let name = device.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Calls `visit` for each taint, with the name of its device.
fn for_taints(object: &mut Object, mut visit: impl FnMut(&str, &mut Members)) {
    let spec = object.0.get_mut("spec");
    let devices = spec.and_then(|spec| spec.get_mut("devices")?.as_array_mut());
    for device in devices.into_iter().flatten() {
        let name = name(device).to_owned();
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        let taints = taints.into_iter().flatten();
        for taint in taints.filter_map(Value::as_object_mut) {
            visit(&name, taint);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(created: &str, time: &Value) -> Object {
        let Value::Object(members) = json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"devices": [
                {"name": "a", "taints": [{"key": "x", "effect": "None", "timeAdded": time}]},
                {"name": "b"},
            ]},
        }) else {
            panic!("an object");
        };
        Object::of(members)
    }

    #[test]
    fn taints_keep_the_time_since_which_they_are_there() {
        let first = "2026-01-01T00:00:00Z";
        let mut object = slice(first, &json!(null));
        prepare(&mut object);
        assert_eq!(object, slice(first, &json!(first)));
        let second = "2026-01-02T00:00:00Z";
        let mut changed = slice(second, &json!(null));
        prepare_update(&mut changed, &object);
        assert_eq!(changed, slice(second, &json!(first)));
        let mut given = slice(second, &json!(second));
        prepare_update(&mut given, &object);
        assert_eq!(given, slice(second, &json!(second)));
        let mut added = slice(first, &json!(null));
        stamp(&mut added, &object, second.parse().expect("a time"));
        assert_eq!(added, slice(first, &json!(second)));
    }
}
