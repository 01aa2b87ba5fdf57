//! Validation of HorizontalPodAutoscalers, in the autoscaling/v2 version.

use api::field::Field;
use api::names;
use api::object::Object;
use api::quantity::Quantity;

use super::numbers::{number, validate_all_nonnegative, validate_nonnegative};
use super::pods::containers::resources::validate_container_resource_name;
use api::error_list::ErrorList;

/// The longest period of a scaling policy, in seconds.
const MAX_PERIOD: i64 = 1800;
/// The longest stabilization window, in seconds.
const MAX_WINDOW: i64 = 3600;

/// The types of metrics and the members of their sources, in the order of validation.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

const TYPES: [&str; 5] = [
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];

/// Validates a HorizontalPodAutoscaler.
pub fn validate_horizontalpodautoscaler(object: &Object, errors: &mut ErrorList) {
    validate(object, None, errors);
}

/// Validates an update of a HorizontalPodAutoscaler.
pub fn validate_horizontalpodautoscaler_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate(object, Some(stored), errors);
}

/// Validates a Scale.
pub fn validate_scale(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_nonnegative(&spec.member("replicas"), errors);
}

/// Validates an update of the status of a HorizontalPodAutoscaler.
pub fn validate_horizontalpodautoscaler_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let status = Field::of(object, "status");
    validate_all_nonnegative(&status, &["currentReplicas", "desiredReplicas"], errors);
}

fn validate(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let (min, max) = (spec.member("minReplicas"), spec.member("maxReplicas"));
    let old_min = stored.and_then(|stored| {
        let old = Field::of(stored, "spec");
        old.member("minReplicas").int()
    });
    let least = if old_min == Some(0) { 0 } else { 1 };
    if min.int().is_some_and(|min| min < least) {
        errors.push(min.invalid(format!("must be greater than or equal to {least}")));
    }
    match number(&max) {
        0 => errors.push(max.required("must be set and greater than 0")),
        ..0 => errors.push(max.invalid("must be greater than or equal to 1")),
        _ => {}
    }
    if min.int().is_some_and(|min| number(&max) < min) {
        let message = "must be greater than or equal to `minReplicas`";
        errors.push(max.invalid_value(number(&max), message));
    }
    let target = spec.member("scaleTargetRef");
    validate_reference(&target, errors);
    // The only scalable kind of the core group, which has no group in its `apiVersion`.
    let needs_group = target.member("kind").text() != "ReplicationController";
    let path = ["spec", "scaleTargetRef", "apiVersion"];
    if stored.is_none_or(|stored| stored.text(&path) != object.text(&path)) {
        validate_version(&target, needs_group, errors);
    }
    validate_metrics(&spec.member("metrics"), min.int(), errors);
    let behavior = spec.member("behavior");
    validate_scaling_rules(&behavior.member("scaleUp"), errors);
    validate_scaling_rules(&behavior.member("scaleDown"), errors);
}

/// Validates that a text is set and is a valid path segment.
fn validate_segment(field: &Field<'_>, missing: &str, errors: &mut ErrorList) {
    if field.text().is_empty() {
        errors.push(field.required(missing));
    }
    let wrong = names::path_segment(field.text()).into_iter();
    errors.extend(wrong.map(|message| field.invalid(message)));
}

fn validate_reference(reference: &Field<'_>, errors: &mut ErrorList) {
    validate_segment(&reference.member("kind"), "", errors);
    validate_segment(&reference.member("name"), "", errors);
}

/// Validates the `apiVersion` of a reference. With `needs_group` it must have a group.
fn validate_version(reference: &Field<'_>, needs_group: bool, errors: &mut ErrorList) {
    let version = reference.member("apiVersion");
    let text = version.text();
    let has_group = text
        .split_once('/')
        .is_some_and(|(group, _)| !group.is_empty());
    if text.split('/').count() > 2 {
        let message = format!("unexpected GroupVersion string: {text}");
        errors.push(version.invalid(message));
    } else if needs_group && !has_group {
        errors.push(version.invalid_value(text, "apiVersion must specify API group"));
    }
}

fn validate_metrics(metrics: &Field<'_>, min_replicas: Option<i64>, errors: &mut ErrorList) {
    let mut is_outside = false;
    for metric in metrics.items() {
        validate_metric(&metric, errors);
        is_outside |= matches!(metric.member("type").text(), "Object" | "External");
    }
    if min_replicas == Some(0) && !is_outside {
        errors.push(metrics.forbidden(
            "must specify at least one Object or External metric to support scaling to zero \
             replicas",
        ));
    }
}

fn validate_metric(metric: &Field<'_>, errors: &mut ErrorList) {
    let of = metric.member("type");
    if of.text().is_empty() {
        errors.push(of.required("must specify a metric source type"));
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == of.text());
    if expected.is_none() {
        errors.push(of.not_supported(&TYPES));
    }
    let mut present = SOURCES
        .iter()
        .filter(|(_, name)| metric.member(name).is_set());
    if let Some((_, name)) = present.next() {
        validate_source(name, &metric.member(name), errors);
    }
    match expected {
        Some((_, name)) if !metric.member(name).is_set() => {
            let message = "must populate information for the given metric source";
            errors.push(metric.member(name).required(message));
        }
        Some(_) => {}
        None => errors.push(of.not_supported(&TYPES)),
    }
    if present.next().is_some() {
        for (_, name) in SOURCES {
            let source = metric.member(name);
            if source.is_set() && expected.is_none_or(|(_, expected)| *expected != name) {
                errors.push(source.forbidden("must populate the given metric source only"));
            }
        }
    }
}

fn validate_source(name: &str, source: &Field<'_>, errors: &mut ErrorList) {
    let target = source.member("target");
    let metric = source.member("metric");
    let (value, average) = (target.member("value"), target.member("averageValue"));
    let utilization = target.member("averageUtilization");
    let validate_named = |errors: &mut ErrorList| {
        let missing = "must specify a metric name";
        validate_segment(&metric.member("name"), missing, errors);
        validate_target(&target, errors);
    };
    match name {
        "object" => {
            let described = source.member("describedObject");
            validate_reference(&described, errors);
            validate_version(&described, false, errors);
            validate_named(errors);
            if !value.is_set() && !average.is_set() {
                errors.push(average.required("must set either a target value or averageValue"));
            }
        }
        "external" => {
            validate_named(errors);
            if !value.is_set() && !average.is_set() {
                errors.push(
                    average
                        .required("must set either a target value for metric or a per-pod target"),
                );
            }
            if value.is_set() && average.is_set() {
                errors.push(
                    value.forbidden(
                        "may not set both a target value for metric and a per-pod target",
                    ),
                );
            }
        }
        "pods" => {
            validate_named(errors);
            if !average.is_set() {
                errors.push(average.required("must specify a positive target averageValue"));
            }
        }
        _ => {
            let resource = source.member("name");
            if resource.text().is_empty() {
                errors.push(resource.required("must specify a resource name"));
            } else if name == "containerResource" {
                validate_container_resource_name(resource.text(), &resource, errors);
            }
            if name == "containerResource" {
                validate_container(&source.member("container"), errors);
            }
            validate_target(&target, errors);
            if !utilization.is_set() && !average.is_set() {
                errors.push(
                    utilization
                        .required("must set either a target raw value or a target utilization"),
                );
            }
            if utilization.is_set() && average.is_set() {
                errors.push(
                    average
                        .forbidden("may not set both a target raw value and a target utilization"),
                );
            }
        }
    }
}

fn validate_container(container: &Field<'_>, errors: &mut ErrorList) {
    if container.text().is_empty() {
        errors.push(container.required("must specify a container"));
    } else {
        let wrong = names::dns_label(container.text()).into_iter();
        errors.extend(wrong.map(|message| container.invalid(message)));
    }
}

fn is_positive(field: &Field<'_>) -> bool {
    let quantity: Option<Quantity> = field.text().parse().ok();
    quantity.is_none_or(|quantity| quantity.sign() > 0)
}

fn validate_target(target: &Field<'_>, errors: &mut ErrorList) {
    let of = target.member("type");
    if of.text().is_empty() {
        errors.push(of.required("must specify a metric target type"));
    }
    if !matches!(of.text(), "Utilization" | "Value" | "AverageValue") {
        let message = "must be either Utilization, Value, or AverageValue";
        errors.push(of.invalid_value(of.text(), message));
    }
    for name in ["value", "averageValue"] {
        let quantity = target.member(name);
        if quantity.is_set() && !is_positive(&quantity) {
            errors.push(quantity.invalid("must be positive"));
        }
    }
    let utilization = target.member("averageUtilization");
    if utilization.int().is_some_and(|percent| percent < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn validate_scaling_rules(rules: &Field<'_>, errors: &mut ErrorList) {
    if !rules.is_set() {
        return;
    }
    let window = rules.member("stabilizationWindowSeconds");
    if window.int().is_some_and(|seconds| seconds < 0) {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if number(&window) > MAX_WINDOW {
        errors.push(window.invalid(format!("must be less than or equal to {MAX_WINDOW}")));
    }
    let select = rules.member("selectPolicy");
    if select.is_set() && !matches!(select.text(), "Max" | "Min" | "Disabled") {
        errors.push(select.not_supported(&["Disabled", "Max", "Min"]));
    }
    let policies = rules.member("policies");
    if policies.is_empty() {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        validate_scaling_policy(&policy, errors);
    }
    let tolerance = rules.member("tolerance");
    let quantity: Option<Quantity> = tolerance.text().parse().ok();
    if quantity.is_some_and(|quantity| quantity.sign() < 0) {
        errors.push(tolerance.invalid("must be greater than or equal to 0"));
    }
}

fn validate_scaling_policy(policy: &Field<'_>, errors: &mut ErrorList) {
    let of = policy.member("type");
    if !matches!(of.text(), "Pods" | "Percent") {
        errors.push(of.not_supported(&["Percent", "Pods"]));
    }
    let value = policy.member("value");
    if number(&value) <= 0 {
        errors.push(value.invalid_value(number(&value), "must be greater than zero"));
    }
    let period = policy.member("periodSeconds");
    let seconds = number(&period);
    if seconds <= 0 {
        errors.push(period.invalid_value(seconds, "must be greater than zero"));
    }
    if seconds > MAX_PERIOD {
        let message = format!("must be less than or equal to {MAX_PERIOD}");
        errors.push(period.invalid(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::autoscaling::v1_to_v2;
    use crate::defaults::autoscaling::{horizontalpodautoscaler, horizontalpodautoscaler_v1};
    use crate::recorded::{Functions, check};

    fn newer(object: &Object) -> Object {
        let mut newer = object.clone();
        v1_to_v2(&mut newer);
        newer
    }

    fn functions(path: &str) -> Functions {
        let status = "/status";
        if path.starts_with("/apis/autoscaling/v1/") {
            return Functions {
                defaults: Some(horizontalpodautoscaler_v1),
                create: |object, errors| validate_horizontalpodautoscaler(&newer(object), errors),
                update: None,
            };
        }
        Functions {
            defaults: Some(horizontalpodautoscaler),
            create: validate_horizontalpodautoscaler,
            update: Some(if path.ends_with(status) {
                validate_horizontalpodautoscaler_status_update
            } else {
                validate_horizontalpodautoscaler_update
            }),
        }
    }

    /// API-255: answers of kube-apiserver 1.36.
    #[test]
    fn autoscalers_are_answered_as_by_kubernetes() {
        check(include_str!("../../recorded/autoscaling.json"), functions);
    }
}
