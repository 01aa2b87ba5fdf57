use api::object::Object;
use serde_json::{Value, json};

use super::*;
use crate::defaults::autoscaling::{BEHAVIOR, CONDITIONS, METRICS, default_metric};

/// Objects from kube-apiserver 1.36: as stored in `v2`, as shown in `v1`, and in `v2` again after
/// an update with that `v1` object.
const VERSIONS: &str = include_str!("../../../recorded/autoscaling_versions.json");

fn object(value: &Value) -> Object {
    Object::of(value.as_object().unwrap().clone())
}

/// Adds values that the schema prints even when they are absent.
fn printed(mut object: Object) -> Value {
    if let Some(Value::Array(conditions)) = object.0["status"].get_mut("conditions") {
        for condition in conditions {
            let members = condition.as_object_mut().unwrap();
            members.entry("lastTransitionTime").or_insert(Value::Null);
        }
    }
    object.0.into()
}

#[test]
fn autoscalers_are_converted_as_by_kubernetes() {
    let cases: Vec<Value> = serde_json::from_str(VERSIONS).unwrap();
    assert!(!cases.is_empty());
    for case in &cases {
        let mut found = object(&case["v2"]);
        v2_to_v1(&mut found);
        assert_eq!(printed(found.clone()), case["v1"]);
        v1_to_v2(&mut found);
        assert_eq!(printed(found), case["back"]);
    }
}

fn read(annotations: &Value) -> Value {
    let mut found = object(&json!({"metadata": {"annotations": annotations}, "spec": {}}));
    v1_to_v2(&mut found);
    assert_eq!(found.at(&["metadata", "annotations"]), None);
    let spec = found.0["spec"].as_object_mut().unwrap();
    if spec["metrics"] == json!([default_metric()]) {
        // The default is the only metric.
        spec.remove("metrics");
    }
    found.0["spec"].clone()
}

#[test]
fn annotations_that_say_nothing_are_passed_over() {
    for text in [
        "junk",
        "[]",
        "{}",
        r#"[{"type":"Resource","resource":3}]"#,
        "[3]",
    ] {
        assert_eq!(
            read(&json!({METRICS: text, CONDITIONS: text})),
            json!({}),
            "{text}"
        );
    }
    for text in [
        "junk",
        "{}",
        "[]",
        r#"{"ScaleUp":{"Policies":[{"Type":3}]}}"#,
    ] {
        assert_eq!(read(&json!({BEHAVIOR: text})), json!({}), "{text}");
    }
    let text = r#"{"scaleup":{"policies":[{"TYPE":"Pods","value":1}],"Tolerance":0.10}}"#;
    let policy = json!({"type": "Pods", "value": 1, "periodSeconds": 0});
    let up = json!({"policies": [policy], "tolerance": "100m"});
    assert_eq!(
        read(&json!({BEHAVIOR: text})),
        json!({"behavior": {"scaleUp": up}})
    );
}
