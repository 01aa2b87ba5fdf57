//! From autoscaling/v2 to autoscaling/v1.

use api::object::Object;
use serde_json::{Map, Value};

use crate::defaults::autoscaling::{
    BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS, take_annotations,
};
use crate::types::internal::{html_safe, internal_json};

/// Converts an autoscaler from autoscaling/v2 to autoscaling/v1.
pub fn v2_to_v1(object: &mut Object) {
    take_annotations(object);
    object.set_type("HorizontalPodAutoscaler", "autoscaling/v1");
    let mut annotations = Vec::new();
    if let Some(spec) = object.0.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = take_list(spec, "metrics");
        let utilization = metrics.iter().find_map(cpu_utilization).cloned();
        if let Some(utilization) = utilization {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), utilization);
        }
        let others = metrics
            .iter()
            .filter(|metric| cpu_utilization(metric).is_none());
        let others: Vec<String> = others.map(metric_source).collect();
        if !others.is_empty() {
            annotations.push((METRICS, format!("[{}]", others.join(","))));
        }
        if let Some(behavior) = spec.remove("behavior") {
            let of = "autoscaling.v2.HorizontalPodAutoscalerBehavior";
            annotations.push((BEHAVIOR, internal_json(of, Some(&behavior))));
        }
    }
    if let Some(status) = object.0.get_mut("status").and_then(Value::as_object_mut) {
        let metrics = take_list(status, "currentMetrics");
        let utilization = metrics.iter().filter(|metric| is_resource(metric, "cpu"));
        let at = "/resource/current/averageUtilization";
        let utilization = utilization
            .filter_map(|metric| metric.pointer(at))
            .next_back();
        if let Some(utilization) = utilization.cloned() {
            status.insert("currentCPUUtilizationPercentage".to_owned(), utilization);
        }
        let texts: Vec<String> = metrics.iter().map(metric_status).collect();
        if !texts.is_empty() {
            annotations.push((CURRENT_METRICS, format!("[{}]", texts.join(","))));
        }
        let conditions = take_list(status, "conditions");
        let texts: Vec<String> = conditions.iter().map(condition).collect();
        if !texts.is_empty() {
            annotations.push((CONDITIONS, format!("[{}]", texts.join(","))));
        }
    }
    annotate(object, annotations);
}

fn annotate(object: &mut Object, texts: Vec<(&str, String)>) {
    if texts.is_empty() {
        return;
    }
    let slot = object
        .metadata_mut()
        .entry("annotations")
        .or_insert(Value::Null);
    if slot.is_null() {
        *slot = Map::new().into();
    }
    if let Some(annotations) = slot.as_object_mut() {
        for (name, text) in texts {
            annotations.insert(name.to_owned(), html_safe(text).into());
        }
    }
}

fn take_list(members: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match members.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Reports whether a metric is that of a resource summed over all containers.
fn is_resource(metric: &Value, name: &str) -> bool {
    let text = |at| metric.pointer(at).and_then(Value::as_str);
    text("/type") == Some("Resource") && text("/resource/name") == Some(name)
}

/// Returns the target utilization of the CPU metric, for which v1 has a field.
fn cpu_utilization(metric: &Value) -> Option<&Value> {
    let found = metric.pointer("/resource/target/averageUtilization")?;
    is_resource(metric, "cpu").then_some(found)
}

/// JSON of a struct that keeps the order of its members.
struct Text(String);

impl Text {
    fn new() -> Text {
        Text("{".to_owned())
    }

    fn member(mut self, name: &str, json: &str) -> Text {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&format!("\"{name}\":{json}"));
        self
    }

    /// Adds a member unless it has no value.
    fn optional(self, name: &str, value: Option<&Value>) -> Text {
        match value {
            Some(value) => self.member(name, &value.to_string()),
            None => self,
        }
    }

    /// Adds a member, with `absent` as its JSON if it has no value.
    fn or(self, name: &str, value: Option<&Value>, absent: &str) -> Text {
        match value {
            Some(value) => self.member(name, &value.to_string()),
            None => self.member(name, absent),
        }
    }

    fn selector(self, name: &str, value: Option<&Value>) -> Text {
        match value {
            Some(_) => self.member(name, &internal_json("meta.v1.LabelSelector", value)),
            None => self,
        }
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn reference(value: Option<&Value>) -> String {
    let of = |name| value.and_then(|value| value.get(name));
    let text = Text::new().or("kind", of("kind"), "\"\"");
    let text = text.or("name", of("name"), "\"\"");
    text.optional("apiVersion", of("apiVersion")).end()
}

/// The types of metric sources, in the order of their fields.
const SOURCES: [&str; 5] = [
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
];

fn metric_source(metric: &Value) -> String {
    let mut text = Text::new().or("type", metric.get("type"), "\"\"");
    for name in SOURCES {
        let Some(source) = metric.get(name) else {
            continue;
        };
        let at = |at: &str| source.pointer(at);
        let inner = match name {
            "object" => Text::new()
                .member("target", &reference(at("/describedObject")))
                .or("metricName", at("/metric/name"), "\"\"")
                .or("targetValue", at("/target/value"), "\"0\"")
                .selector("selector", at("/metric/selector"))
                .optional("averageValue", at("/target/averageValue")),
            "pods" => Text::new()
                .or("metricName", at("/metric/name"), "\"\"")
                .or("targetAverageValue", at("/target/averageValue"), "\"0\"")
                .selector("selector", at("/metric/selector")),
            "external" => Text::new()
                .or("metricName", at("/metric/name"), "\"\"")
                .selector("metricSelector", at("/metric/selector"))
                .optional("targetValue", at("/target/value"))
                .optional("targetAverageValue", at("/target/averageValue")),
            _ => {
                let utilization = at("/target/averageUtilization");
                let inner = Text::new()
                    .or("name", at("/name"), "\"\"")
                    .optional("targetAverageUtilization", utilization)
                    .optional("targetAverageValue", at("/target/averageValue"));
                with_container(inner, name, source)
            }
        };
        text = text.member(name, &inner.end());
    }
    text.end()
}

fn with_container(text: Text, name: &str, source: &Value) -> Text {
    match name {
        "containerResource" => text.or("container", source.get("container"), "\"\""),
        _ => text,
    }
}

fn metric_status(metric: &Value) -> String {
    let mut text = Text::new().or("type", metric.get("type"), "\"\"");
    for name in SOURCES {
        let Some(source) = metric.get(name) else {
            continue;
        };
        let at = |at: &str| source.pointer(at);
        let average = at("/current/averageValue");
        let inner = match name {
            "object" => Text::new()
                .member("target", &reference(at("/describedObject")))
                .or("metricName", at("/metric/name"), "\"\"")
                .or("currentValue", at("/current/value"), "\"0\"")
                .selector("selector", at("/metric/selector"))
                .optional("averageValue", average),
            "pods" => Text::new()
                .or("metricName", at("/metric/name"), "\"\"")
                .or("currentAverageValue", average, "\"0\"")
                .selector("selector", at("/metric/selector")),
            "external" => Text::new()
                .or("metricName", at("/metric/name"), "\"\"")
                .selector("metricSelector", at("/metric/selector"))
                .or("currentValue", at("/current/value"), "\"0\"")
                .optional("currentAverageValue", average),
            _ => {
                let utilization = at("/current/averageUtilization");
                let inner = Text::new()
                    .or("name", at("/name"), "\"\"")
                    .optional("currentAverageUtilization", utilization)
                    .or("currentAverageValue", average, "\"0\"");
                with_container(inner, name, source)
            }
        };
        text = text.member(name, &inner.end());
    }
    text.end()
}

fn condition(condition: &Value) -> String {
    Text::new()
        .or("type", condition.get("type"), "\"\"")
        .or("status", condition.get("status"), "\"\"")
        .or(
            "lastTransitionTime",
            condition.get("lastTransitionTime"),
            "null",
        )
        .optional("reason", condition.get("reason"))
        .optional("message", condition.get("message"))
        .end()
}
