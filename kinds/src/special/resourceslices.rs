//! ResourceSlices: since when the taints of devices are there.

use api::object::{Object, whole_seconds};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Taints of a new slice are there since its creation, if they don't say otherwise.
pub fn prepare(object: &mut Object) {
    let created = object.meta("creationTimestamp").to_owned();
    for (_, taint) in taints(object) {
        set_time(taint, &created);
    }
}

/// Taints that were there before are there since then, if they don't say otherwise.
pub fn prepare_update(object: &mut Object, stored: &Object) {
    let mut before = stored.clone();
    let before: Vec<(String, Map<String, Value>)> = taints(&mut before)
        .map(|(device, taint)| (device, taint.clone()))
        .collect();
    for (device, taint) in taints(object) {
        let is_same = |old: &Map<String, Value>| {
            let names = ["key", "value", "effect"];
            names.iter().all(|name| old.get(*name) == taint.get(*name))
        };
        let known = before
            .iter()
            .find(|(name, old)| *name == device && is_same(old));
        let time = known.and_then(|(_, old)| old.get("timeAdded")?.as_str());
        if let Some(time) = time {
            set_time(taint, time);
        }
    }
}

/// Taints that were not there before are there from now on.
pub fn stamp(object: &mut Object, _: &Object, now: Timestamp) {
    let now = whole_seconds(now);
    for (_, taint) in taints(object) {
        set_time(taint, &now);
    }
}

fn set_time(taint: &mut Map<String, Value>, time: &str) {
    let slot = taint.entry("timeAdded").or_insert(Value::Null);
    if slot.is_null() {
        *slot = time.into();
    }
}

/// The taints of a slice's devices, with the names of the devices.
fn taints(object: &mut Object) -> impl Iterator<Item = (String, &mut Map<String, Value>)> {
    let spec = object.0.get_mut("spec");
    let devices = spec.and_then(|spec| spec.get_mut("devices")?.as_array_mut());
    devices.into_iter().flatten().flat_map(|device| {
        let name = device.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        let taints = taints
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut);
        taints.map(move |taint| (name.clone(), taint))
    })
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
