//! The columns of `autoscaling/v2` and `autoscaling/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};
use serde_json::{Map, Value};

use super::{NONE, UNKNOWN, UNSET, computed, integer, list, member, text_or};

/// The text of an absent quantity.
const ABSENT: &str = "<nil>";

/// Returns the columns of HorizontalPodAutoscalers in either version. Rows are computed from the
/// cached object, which may be in the other version.
pub fn horizontalpodautoscalers() -> Vec<Column> {
    let targets = computed(|autoscaler, _| {
        let targets = match autoscaler.api_version() {
            "autoscaling/v1" => targets_v1(autoscaler),
            _ => targets_v2(autoscaler),
        };
        shown(&targets).into()
    });
    with_targets(Column::text(
        "Targets",
        OfField("autoscaling.v2.HorizontalPodAutoscalerSpec.metrics"),
        targets,
    ))
}

/// Returns the columns of Scales. Unlike in other kinds, the first column has no format.
pub fn scales() -> Vec<Column> {
    let desired = computed(|scale, _| integer(scale, &["spec", "replicas"]));
    let available = computed(|scale, _| integer(scale, &["status", "replicas"]));
    let name = Column {
        format: String::new(),
        ..Column::name()
    };
    vec![
        name,
        Column::integer("Desired", "Number of desired pods.", desired),
        Column::integer("Available", "Number of existing pods.", available),
        Column::age(),
    ]
}

fn targets_v2(autoscaler: &Object) -> Vec<String> {
    let specs = list(autoscaler, &["spec", "metrics"]);
    let statuses = list(autoscaler, &["status", "currentMetrics"]);
    let of = |(index, spec)| target(spec, statuses.get(index));
    specs.iter().enumerate().map(of).collect()
}

/// Returns the targets of an autoscaling/v1 object: CPU utilization from its fields, other metrics
/// from its annotations.
fn targets_v1(autoscaler: &Object) -> Vec<String> {
    let specs = annotated(autoscaler, "metrics", "target");
    let statuses = annotated(autoscaler, "current-metrics", "current");
    let of = |(index, spec)| target(spec, statuses.get(index));
    let mut targets: Vec<String> = specs.iter().enumerate().map(of).collect();
    let percent = |part, name| autoscaler.at(&[part, name]).and_then(Value::as_i64);
    if let Some(target) = percent("spec", "targetCPUUtilizationPercentage") {
        let current = percent("status", "currentCPUUtilizationPercentage");
        let current = current.map_or(UNKNOWN.to_owned(), |current| format!("{current}%"));
        targets.push(format!("cpu: {current}/{target}%"));
    }
    targets
}

/// Reads the metrics of an annotation and converts them to autoscaling/v2. In v2, target and
/// current values are in a struct each (`target`, `current`); in the annotation, they are members
/// with that prefix, such as `targetAverageValue`.
fn annotated(autoscaler: &Object, name: &str, part: &str) -> Vec<Value> {
    let name = format!("autoscaling.alpha.kubernetes.io/{name}");
    let text = autoscaler.text(&["metadata", "annotations", &name]);
    let mut metrics: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    for metric in metrics.iter_mut().filter_map(Value::as_object_mut) {
        for details in metric.values_mut().filter_map(Value::as_object_mut) {
            let values: Map<String, Value> = details
                .iter()
                .filter_map(|(name, value)| {
                    let short = match name.strip_prefix(part).unwrap_or(name) {
                        "AverageUtilization" => "averageUtilization",
                        "AverageValue" | "averageValue" => "averageValue",
                        "Value" => "value",
                        _ => return None,
                    };
                    Some((short.to_owned(), value.clone()))
                })
                .collect();
            details.insert(part.to_owned(), Value::Object(values));
        }
    }
    metrics
}

fn with_targets(targets: Column) -> Vec<Column> {
    let reference = computed(|autoscaler, _| {
        let of = |name| autoscaler.text(&["spec", "scaleTargetRef", name]);
        format!("{}/{}", of("kind"), of("name")).into()
    });
    let minimum = computed(
        |autoscaler, _| match autoscaler.at(&["spec", "minReplicas"]) {
            Some(minimum) => minimum.to_string().into(),
            None => UNSET.into(),
        },
    );
    let maximum = computed(|autoscaler, _| integer(autoscaler, &["spec", "maxReplicas"]));
    let current = computed(|autoscaler, _| integer(autoscaler, &["status", "currentReplicas"]));
    vec![
        Column::name(),
        Column::text(
            "Reference",
            OfField("autoscaling.v2.HorizontalPodAutoscalerSpec.scaleTargetRef"),
            reference,
        ),
        targets,
        Column::text(
            "MinPods",
            OfField("autoscaling.v1.HorizontalPodAutoscalerSpec.minReplicas"),
            minimum,
        ),
        Column::text(
            "MaxPods",
            OfField("autoscaling.v2.HorizontalPodAutoscalerSpec.maxReplicas"),
            maximum,
        ),
        Column::text(
            "Replicas",
            OfField("autoscaling.v2.HorizontalPodAutoscalerStatus.currentReplicas"),
            current,
        ),
        Column::age(),
    ]
}

/// Joins the first targets and the number of the others.
fn shown(targets: &[String]) -> String {
    const SHOWN: usize = 2;
    match targets {
        [] => NONE.to_owned(),
        [first, second, _, ..] => {
            let more = targets.len() - SHOWN;
            format!("{first}, {second} + {more} more...")
        }
        _ => targets.join(", "),
    }
}

/// Formats the current and the target value of a metric.
fn target(spec: &Value, status: Option<&Value>) -> String {
    let part = match member(spec, "type") {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        _ => return "<unknown type>".to_owned(),
    };
    let spec = spec.get(part).unwrap_or(&Value::Null);
    let target = spec.get("target").unwrap_or(&Value::Null);
    let current = status.and_then(|status| status.get(part)?.get("current"));
    let quantity = |of: Option<&Value>, name: &str| {
        let text = of.map_or("", |of| member(of, name));
        text.to_owned()
    };
    let average = member(target, "averageValue");
    let current_average = quantity(current, "averageValue");
    match part {
        "pods" => format!(
            "{}/{}",
            current.map_or(UNKNOWN, |_| text_or(&current_average, ABSENT)),
            text_or(average, ABSENT),
        ),
        "external" | "object" if !average.is_empty() => {
            format!("{}/{average} (avg)", text_or(&current_average, UNKNOWN))
        }
        "external" | "object" => {
            let value = quantity(current, "value");
            let value = current.map_or(UNKNOWN, |_| text_or(&value, ABSENT));
            format!("{value}/{}", text_or(member(target, "value"), ABSENT))
        }
        _ => resource_target(member(spec, "name"), target, current),
    }
}

/// Formats the current and the target use of a resource.
fn resource_target(name: &str, target: &Value, current: Option<&Value>) -> String {
    let average = member(target, "averageValue");
    if !average.is_empty() {
        let current = current.map_or(UNKNOWN, |current| {
            text_or(member(current, "averageValue"), ABSENT)
        });
        return format!("{name}: {current}/{average}");
    }
    let percent = |of: Option<&Value>, absent: &str| {
        let percent = of.and_then(|of| of.get("averageUtilization")?.as_i64());
        percent.map_or(absent.to_owned(), |percent| format!("{percent}%"))
    };
    let current = percent(current, UNKNOWN);
    format!("{name}: {current}/{}", percent(Some(target), "<auto>"))
}
