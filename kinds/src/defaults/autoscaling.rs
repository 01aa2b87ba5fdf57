//! Defaults of HorizontalPodAutoscalers (http.md 7).

use api::object::Object;
use serde_json::{Value, json};

use super::{Members, member, member_or_new, set_absent, set_default};

/// The annotation of metrics. autoscaling/v1 keeps in annotations what it has no fields for;
/// autoscaling/v2 never shows them.
pub const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The annotation of the current metrics.
pub const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The annotation of conditions.
pub const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The annotation of the behavior.
pub const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Removes the annotations of autoscaling/v1. Returns the values for metrics, current metrics,
/// conditions and behavior, in this order.
pub fn take_annotations(object: &mut Object) -> [Option<String>; 4] {
    let names = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];
    let metadata = object.metadata_mut();
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return [const { None }; 4];
    };
    let taken = names.map(|name| match annotations.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    });
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

/// Sets the defaults of a HorizontalPodAutoscaler of autoscaling/v1 (API-255).
pub fn horizontalpodautoscaler_v1(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        set_default(spec, "minReplicas", 1);
    }
}

/// Sets the defaults of a HorizontalPodAutoscaler of autoscaling/v2 (API-255). A body of
/// autoscaling/v1 is validated before it is converted and gets here.
pub fn horizontalpodautoscaler(object: &mut Object) {
    take_annotations(object);
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    set_default(spec, "minReplicas", 1);
    if spec
        .get("metrics")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec.insert("metrics".to_owned(), json!([default_metric()]));
    }
    if let Some(behavior) = member(spec, "behavior") {
        scale_up(behavior);
        scale_down(behavior);
    }
}

/// Returns the default metric: 80 percent of the requested CPU.
pub fn default_metric() -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80},
        },
    })
}

fn percent_policy() -> Value {
    json!({"type": "Percent", "value": 100, "periodSeconds": 15})
}

fn scale_up(behavior: &mut Members) {
    if let Some(rules) = member_or_new(behavior, "scaleUp") {
        set_absent(rules, "stabilizationWindowSeconds", 0);
        set_absent(rules, "selectPolicy", "Max");
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        set_absent(rules, "policies", json!([pods, percent_policy()]));
    }
}

fn scale_down(behavior: &mut Members) {
    if let Some(rules) = member_or_new(behavior, "scaleDown") {
        set_absent(rules, "selectPolicy", "Max");
        set_absent(rules, "policies", json!([percent_policy()]));
    }
}
