//! Conversion of Events between the core group, in which they are stored, and `events.k8s.io`,
//! which has other names for some fields.

use api::object::Object;
use serde_json::{Value, json};

/// Member names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts the fields of an Event from the core group to `events.k8s.io`, except its type.
pub fn core_to_events(object: &mut Object) {
    for (from, to) in NAMES {
        rename(object, from, to);
    }
    remove_if(object, "reportingInstance", &json!(""));
    // `events.k8s.io` has both fields of the series without `omitempty`.
    if let Some(series) = object.0.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("count").or_insert_with(|| json!(0));
        series.entry("lastObservedTime").or_insert(Value::Null);
    }
}

/// Converts the fields of an Event from `events.k8s.io` to the core group, except its type.
pub fn events_to_core(object: &mut Object) {
    for (to, from) in NAMES {
        rename(object, from, to);
    }
    for name in ["reportingComponent", "reportingInstance"] {
        object.0.entry(name).or_insert_with(|| json!(""));
    }
    object
        .0
        .entry("involvedObject")
        .or_insert_with(|| json!({}));
    if let Some(series) = object.0.get_mut("series").and_then(Value::as_object_mut)
        && series.get("count") == Some(&json!(0))
    {
        series.remove("count");
    }
}

/// Renames a member. An empty value is dropped.
fn rename(object: &mut Object, from: &str, to: &str) {
    let Some(value) = object.0.remove(from) else {
        return;
    };
    let is_empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    };
    if !is_empty {
        object.0.insert(to.to_owned(), value);
    }
}

fn remove_if(object: &mut Object, name: &str, value: &Value) {
    if object.0.get(name) == Some(value) {
        object.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().expect("an object").clone())
    }

    #[test]
    fn events_are_converted_there_and_back() {
        let core = object(json!({
            "metadata": {"name": "a"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "reason": "r",
            "source": {"component": "c"}, "firstTimestamp": "2020-01-01T00:00:00Z",
            "lastTimestamp": "2020-01-01T00:00:01Z", "count": 3, "type": "Normal",
            "eventTime": "2020-01-01T00:00:00.000001Z",
            "series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000001Z"},
            "action": "x", "related": {"kind": "Node"},
            "reportingComponent": "a/b", "reportingInstance": "i",
        }));
        let mut converted = core.clone();
        core_to_events(&mut converted);
        let events = object(json!({
            "metadata": {"name": "a"},
            "regarding": {"kind": "Pod"}, "note": "m", "reason": "r",
            "deprecatedSource": {"component": "c"},
            "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2020-01-01T00:00:01Z", "deprecatedCount": 3,
            "type": "Normal", "eventTime": "2020-01-01T00:00:00.000001Z",
            "series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000001Z"},
            "action": "x", "related": {"kind": "Node"},
            "reportingController": "a/b", "reportingInstance": "i",
        }));
        assert_eq!(converted, events);
        events_to_core(&mut converted);
        assert_eq!(converted, core);
    }

    #[test]
    fn empty_fields_are_left_out() {
        let core = object(json!({
            "involvedObject": {}, "reportingComponent": "", "reportingInstance": "",
            "firstTimestamp": null, "series": {},
        }));
        let mut converted = core;
        core_to_events(&mut converted);
        let series = json!({"count": 0, "lastObservedTime": null});
        let events = object(json!({"regarding": {}, "series": series}));
        assert_eq!(converted, events);
        events_to_core(&mut converted);
        let series = json!({"lastObservedTime": null});
        let core = object(json!({
            "involvedObject": {}, "reportingComponent": "", "reportingInstance": "",
            "series": series,
        }));
        assert_eq!(converted, core);
    }
}
