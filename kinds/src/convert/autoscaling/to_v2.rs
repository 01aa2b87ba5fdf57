//! From autoscaling/v1 to autoscaling/v2.

use api::object::Object;
use api::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::defaults::autoscaling::{default_metric, take_annotations};
use crate::defaults::member_or_new;

/// A value in an annotation has another type than its field. Such annotations are ignored.
struct Mistyped;

type Read<T> = Result<T, Mistyped>;

/// Converts an autoscaler from autoscaling/v1 to autoscaling/v2. Annotations take precedence over
/// fields.
pub fn v1_to_v2(object: &mut Object) {
    object.set_type("HorizontalPodAutoscaler", "autoscaling/v2");
    let [metrics, current, conditions, behavior] = take_annotations(object);
    // Server-side apply converts objects without optional parts, so an absent spec counts as empty.
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        let mut sources = read_list(metrics.as_deref(), metric_source);
        if let Some(utilization) = spec.remove("targetCPUUtilizationPercentage") {
            let target = json!({"type": "Utilization", "averageUtilization": utilization});
            let resource = json!({"name": "cpu", "target": target});
            sources.push(json!({"type": "Resource", "resource": resource}));
        }
        if sources.is_empty() {
            // Kubernetes adds the default metric during conversion, before it computes field
            // ownership, so a manager that writes no metric owns this one.
            sources.push(default_metric());
        }
        put_list(spec, "metrics", sources);
        if let Some(behavior) = behavior.as_deref().and_then(read_behavior) {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(status) = object.0.get_mut("status").and_then(Value::as_object_mut) {
        let utilization = status.remove("currentCPUUtilizationPercentage");
        let mut metrics = read_list(current.as_deref(), metric_status);
        if let Some(utilization) = utilization.filter(|_| metrics.is_empty()) {
            let current = json!({"averageUtilization": utilization});
            let resource = json!({"name": "cpu", "current": current});
            metrics.push(json!({"type": "Resource", "resource": resource}));
        }
        put_list(status, "currentMetrics", metrics);
        put_list(
            status,
            "conditions",
            read_list(conditions.as_deref(), condition),
        );
    }
}

fn put_list(members: &mut Map<String, Value>, name: &str, items: Vec<Value>) {
    if !items.is_empty() {
        members.insert(name.to_owned(), items.into());
    }
}

/// Reads the items of a list. Returns no items if the text is invalid.
fn read_list(text: Option<&str>, read: fn(&Value) -> Read<Value>) -> Vec<Value> {
    let list = text.and_then(|text| serde_json::from_str(text).ok());
    let Some(Value::Array(items)) = list else {
        return Vec::new();
    };
    let items: Read<Vec<Value>> = items.iter().map(read).collect();
    items.unwrap_or_default()
}

/// Returns a member of a struct. Its name is matched without regard to case, as Go's decoder does.
fn member<'v>(value: &'v Value, name: &str) -> Read<Option<&'v Value>> {
    let members = match value {
        Value::Null => return Ok(None),
        Value::Object(members) => members,
        _ => return Err(Mistyped),
    };
    let like = || {
        members
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let found = members.get(name).or_else(|| like().map(|(_, value)| value));
    Ok(found.filter(|value| !value.is_null()))
}

fn text(value: &Value, name: &str) -> Read<String> {
    match member(value, name)? {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Mistyped),
    }
}

fn int(value: &Value, name: &str) -> Read<Option<i32>> {
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    match member(value, name)? {
        None => Ok(None),
        Some(value) => number(value).map(Some).ok_or(Mistyped),
    }
}

/// Reads a quantity, a string or a number, and returns its canonical form.
fn quantity(value: &Value, name: &str) -> Read<Option<String>> {
    let text = match member(value, name)? {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(Mistyped),
    };
    let read: Result<Quantity, _> = text.parse();
    read.map(|quantity| Some(quantity.to_string()))
        .map_err(|_| Mistyped)
}

/// Reads a quantity. An absent one is zero.
fn quantity_or_zero(value: &Value, name: &str) -> Read<String> {
    Ok(quantity(value, name)?.unwrap_or_else(|| "0".to_owned()))
}

/// Builds a struct from the members that have a value.
fn structure(members: Vec<(&str, Option<Value>)>) -> Value {
    let members = members.into_iter();
    let members = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(members.collect())
}

fn filled(text: String) -> Option<Value> {
    (!text.is_empty()).then(|| text.into())
}

fn reference(value: &Value) -> Read<Value> {
    Ok(structure(vec![
        ("kind", Some(text(value, "kind")?.into())),
        ("name", Some(text(value, "name")?.into())),
        ("apiVersion", filled(text(value, "apiVersion")?)),
    ]))
}

/// Reads the name and the selector of a metric.
fn metric(source: &Value, selector: &str) -> Read<Value> {
    Ok(structure(vec![
        ("name", Some(text(source, "metricName")?.into())),
        (
            "selector",
            member(source, selector)?.map(label_selector).transpose()?,
        ),
    ]))
}

fn label_selector(value: &Value) -> Read<Value> {
    let labels = match member(value, "matchLabels")? {
        None => None,
        Some(Value::Object(labels)) if labels.values().all(Value::is_string) => {
            Some(Value::Object(labels.clone())).filter(|_| !labels.is_empty())
        }
        Some(_) => return Err(Mistyped),
    };
    let expressions = list(value, "matchExpressions", |value| {
        let values = list(value, "values", |value| match value {
            Value::String(_) => Ok(value.clone()),
            _ => Err(Mistyped),
        })?;
        Ok(structure(vec![
            ("key", Some(text(value, "key")?.into())),
            ("operator", Some(text(value, "operator")?.into())),
            ("values", values.filter(|values| values != &json!([]))),
        ]))
    })?;
    Ok(structure(vec![
        ("matchLabels", labels),
        (
            "matchExpressions",
            expressions.filter(|values| values != &json!([])),
        ),
    ]))
}

/// Reads each item of a list.
fn list(value: &Value, name: &str, read: fn(&Value) -> Read<Value>) -> Read<Option<Value>> {
    match member(value, name)? {
        None => Ok(None),
        Some(Value::Array(items)) => {
            let items: Read<Vec<Value>> = items.iter().map(read).collect();
            Ok(Some(items?.into()))
        }
        Some(_) => Err(Mistyped),
    }
}

/// Reads a metric. `read` reads the source of the given type.
fn read_metric(value: &Value, read: fn(&str, &Value) -> Read<Value>) -> Read<Value> {
    let mut members = vec![("type", Some(text(value, "type")?.into()))];
    for name in [
        "object",
        "pods",
        "resource",
        "containerResource",
        "external",
    ] {
        if let Some(source) = member(value, name)? {
            members.push((name, Some(read(name, source)?)));
        }
    }
    Ok(structure(members))
}

fn described_object(source: &Value) -> Read<Value> {
    reference(member(source, "target")?.unwrap_or(&Value::Null))
}

fn container(name: &str, source: &Value) -> Read<Option<Value>> {
    match name {
        "containerResource" => Ok(Some(text(source, "container")?.into())),
        _ => Ok(None),
    }
}

fn metric_source(value: &Value) -> Read<Value> {
    read_metric(value, |name, source| {
        let target = |of: &str, members: Vec<(&str, Option<Value>)>| {
            let mut all = vec![("type", Some(of.into()))];
            all.extend(members);
            Some(structure(all))
        };
        let average = |name| Ok(quantity(source, name)?.map(Value::from));
        Ok(match name {
            "object" => {
                let average = average("averageValue")?;
                let of = if average.is_some() {
                    "AverageValue"
                } else {
                    "Value"
                };
                let value = quantity_or_zero(source, "targetValue")?;
                // With an average, a zero `targetValue` means that it is unset.
                let is_said = average.is_none() || value != "0";
                let value = is_said.then(|| value.into());
                structure(vec![
                    ("describedObject", Some(described_object(source)?)),
                    ("metric", Some(metric(source, "selector")?)),
                    (
                        "target",
                        target(of, vec![("value", value), ("averageValue", average)]),
                    ),
                ])
            }
            "pods" => {
                let average = quantity_or_zero(source, "targetAverageValue")?;
                let members = vec![("averageValue", Some(average.into()))];
                structure(vec![
                    ("metric", Some(metric(source, "selector")?)),
                    ("target", target("AverageValue", members)),
                ])
            }
            "external" => {
                let value = quantity(source, "targetValue")?.map(Value::from);
                let of = if value.is_some() {
                    "Value"
                } else {
                    "AverageValue"
                };
                let average = average("targetAverageValue")?;
                structure(vec![
                    ("metric", Some(metric(source, "metricSelector")?)),
                    (
                        "target",
                        target(of, vec![("value", value), ("averageValue", average)]),
                    ),
                ])
            }
            _ => {
                let utilization = int(source, "targetAverageUtilization")?.map(Value::from);
                let of = if utilization.is_some() {
                    "Utilization"
                } else {
                    "AverageValue"
                };
                let average = average("targetAverageValue")?;
                let members = vec![
                    ("averageUtilization", utilization),
                    ("averageValue", average),
                ];
                structure(vec![
                    ("name", Some(text(source, "name")?.into())),
                    ("target", target(of, members)),
                    ("container", container(name, source)?),
                ])
            }
        })
    })
}

fn metric_status(value: &Value) -> Read<Value> {
    read_metric(value, |name, source| {
        let current = |members| Some(structure(members));
        let of = |name| Ok(Some(quantity_or_zero(source, name)?.into()));
        let average = |name| Ok(quantity(source, name)?.map(Value::from));
        Ok(match name {
            "object" => structure(vec![
                ("describedObject", Some(described_object(source)?)),
                ("metric", Some(metric(source, "selector")?)),
                (
                    "current",
                    current(vec![
                        ("value", of("currentValue")?),
                        ("averageValue", average("averageValue")?),
                    ]),
                ),
            ]),
            "pods" => structure(vec![
                ("metric", Some(metric(source, "selector")?)),
                (
                    "current",
                    current(vec![("averageValue", of("currentAverageValue")?)]),
                ),
            ]),
            "external" => structure(vec![
                ("metric", Some(metric(source, "metricSelector")?)),
                (
                    "current",
                    current(vec![
                        ("value", of("currentValue")?),
                        ("averageValue", average("currentAverageValue")?),
                    ]),
                ),
            ]),
            _ => {
                let utilization = int(source, "currentAverageUtilization")?.map(Value::from);
                structure(vec![
                    ("name", Some(text(source, "name")?.into())),
                    (
                        "current",
                        current(vec![
                            ("averageUtilization", utilization),
                            ("averageValue", of("currentAverageValue")?),
                        ]),
                    ),
                    ("container", container(name, source)?),
                ])
            }
        })
    })
}

fn condition(value: &Value) -> Read<Value> {
    Ok(structure(vec![
        ("type", Some(text(value, "type")?.into())),
        ("status", Some(text(value, "status")?.into())),
        (
            "lastTransitionTime",
            filled(text(value, "lastTransitionTime")?),
        ),
        ("reason", filled(text(value, "reason")?)),
        ("message", filled(text(value, "message")?)),
    ]))
}

/// Reads a behavior. Returns `None` if it is empty or invalid.
fn read_behavior(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    let rules =
        |name| -> Read<Option<Value>> { member(&value, name)?.map(scaling_rules).transpose() };
    let up = rules("scaleUp").ok()?;
    let down = rules("scaleDown").ok()?;
    let is_said = up.is_some() || down.is_some();
    is_said.then(|| structure(vec![("scaleUp", up), ("scaleDown", down)]))
}

fn scaling_rules(value: &Value) -> Read<Value> {
    let select = match member(value, "selectPolicy")? {
        Some(_) => Some(text(value, "selectPolicy")?.into()),
        None => None,
    };
    let policies = list(value, "policies", scaling_policy)?;
    let window = int(value, "stabilizationWindowSeconds")?;
    Ok(structure(vec![
        ("stabilizationWindowSeconds", window.map(Value::from)),
        ("selectPolicy", select),
        ("policies", policies),
        ("tolerance", quantity(value, "tolerance")?.map(Value::from)),
    ]))
}

fn scaling_policy(value: &Value) -> Read<Value> {
    let number =
        |name| -> Read<Option<Value>> { Ok(Some(int(value, name)?.unwrap_or_default().into())) };
    Ok(structure(vec![
        ("type", Some(text(value, "type")?.into())),
        ("value", number("value")?),
        ("periodSeconds", number("periodSeconds")?),
    ]))
}
