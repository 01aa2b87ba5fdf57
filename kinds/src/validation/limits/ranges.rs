//! Validation of LimitRanges.

use std::collections::HashSet;

use std::collections::BTreeSet;

use api::field::Field;
use api::names;
use api::object::Object;
use api::quantity::Quantity;
use serde_json::Value;

use crate::resource_names::can_be_overcommitted;
use crate::validation::pods::containers::resources::{
    validate_container_resource_name, validate_resource_name,
};
use api::error_list::ErrorList;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

/// Validates a LimitRange.
pub fn validate_limitrange(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let limits = spec.member("limits");
    let mut seen = HashSet::new();
    for (item, value) in limits.items().zip(limits.list()) {
        let kind = item.member("type");
        validate_type(&kind, errors);
        let name = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !seen.insert(name) {
            errors.push(kind.duplicate());
        }
        validate_item(&item, errors);
    }
}

/// Validates an update of a LimitRange.
pub fn validate_limitrange_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_limitrange(object, errors);
}

fn validate_type(kind: &Field<'_>, errors: &mut ErrorList) {
    let text = kind.text();
    let wrong = names::qualified_name(text);
    if wrong.is_empty() && !text.contains('/') && !TYPES.contains(&text) {
        errors.push(kind.invalid("must be a standard limit type or fully qualified"));
    }
    let wrong = wrong.into_iter();
    errors.extend(wrong.map(|message| kind.invalid_value(text, message)));
}

fn validate_item(item: &Field<'_>, errors: &mut ErrorList) {
    let kind = item.member("type");
    let mut resources = BTreeSet::new();
    let list = |name: &str, resources: &mut BTreeSet<String>, errors: &mut ErrorList| {
        for (resource, place) in item.member(name).entries() {
            match kind.text() {
                "Pod" | "Container" => validate_container_resource_name(resource, &place, errors),
                _ => {
                    validate_resource_name(resource, &place, errors);
                }
            }
            resources.insert(resource.to_owned());
        }
    };
    list("max", &mut resources, errors);
    list("min", &mut resources, errors);
    for name in ["default", "defaultRequest"] {
        let field = item.member(name);
        if kind.text() != "Pod" {
            list(name, &mut resources, errors);
        } else if !field.is_empty() {
            errors.push(field.forbidden("may not be specified when `type` is 'Pod'"));
        }
    }
    let (min, max) = (item.member("min"), item.member("max"));
    let has_storage = min.key("storage").is_set() || max.key("storage").is_set();
    if kind.text() == "PersistentVolumeClaim" && !has_storage {
        errors.push(item.member("limits").required(
            "either minimum or maximum storage value is required, but neither was provided",
        ));
    }
    list("maxLimitRequestRatio", &mut resources, errors);
    for resource in &resources {
        validate_resource(item, resource, errors);
    }
}

/// Two lists, the first of which must not exceed the second for any resource; the list at whose
/// path the error is reported, and the one whose quantity it shows; the words for both.
type Order = (
    [&'static str; 2],
    &'static str,
    &'static str,
    [&'static str; 2],
);

const ORDERS: [Order; 6] = [
    (["min", "max"], "min", "min", ["min value", "max value"]),
    (
        ["min", "defaultRequest"],
        "defaultRequest",
        "defaultRequest",
        ["min value", "default request value"],
    ),
    (
        ["defaultRequest", "max"],
        "defaultRequest",
        "defaultRequest",
        ["default request value", "max value"],
    ),
    (
        ["defaultRequest", "default"],
        "defaultRequest",
        "defaultRequest",
        ["default request value", "default limit value"],
    ),
    (
        ["min", "default"],
        "default",
        "min",
        ["min value", "default value"],
    ),
    (
        ["default", "max"],
        "default",
        "max",
        ["default value", "max value"],
    ),
];

fn quantity(item: &Field<'_>, list: &str, resource: &str) -> Option<Quantity> {
    let is_of_pod = item.member("type").text() == "Pod";
    if is_of_pod && matches!(list, "default" | "defaultRequest") {
        return None;
    }
    item.member(list).key(resource).text().parse().ok()
}

fn validate_resource(item: &Field<'_>, resource: &str, errors: &mut ErrorList) {
    for (lists, place, shown, words) in &ORDERS {
        let [less, more] = lists.map(|list| quantity(item, list, resource));
        if let (Some(less), Some(more), Some(shown)) = (less, more, quantity(item, shown, resource))
            && less > more
        {
            let [first, second] = words;
            let list = item.member(place);
            errors.push(list.key(resource).invalid_value(
                shown.to_string(),
                format!("{first} {less} is greater than {second} {more}"),
            ));
        }
    }
    validate_ratio(item, resource, errors);
    let default = quantity(item, "default", resource);
    let request = quantity(item, "defaultRequest", resource);
    let may_differ = can_be_overcommitted(resource);
    if let (false, Some(default), Some(request)) = (may_differ, default, request)
        && default != request
    {
        let list = item.member("defaultRequest");
        errors.push(list.key(resource).invalid_value(
            request.to_string(),
            format!(
                "default value {default} must equal to defaultRequest value {request} in {resource}"
            ),
        ));
    }
}

fn validate_ratio(item: &Field<'_>, resource: &str, errors: &mut ErrorList) {
    let Some(ratio) = quantity(item, "maxLimitRequestRatio", resource) else {
        return;
    };
    let list = item.member("maxLimitRequestRatio");
    let place = list.key(resource);
    if ratio < Quantity::whole(1) {
        let detail = format!("ratio {ratio} is less than 1");
        errors.push(place.invalid_value(ratio.to_string(), detail));
    }
    let [min, max] = ["min", "max"].map(|list| quantity(item, list, resource));
    let (Some(min), Some(max)) = (min, max) else {
        return;
    };
    // Thousandths are exact for numbers in this range.
    let is_small = |number: &Quantity| number.value() < i64::MAX / 1000;
    let (least, most, given) = if [&ratio, &min, &max].into_iter().all(is_small) {
        let given = ratio.milli_value() as f64 / 1000.0;
        (min.milli_value(), max.milli_value(), given)
    } else {
        (min.value(), max.value(), ratio.value() as f64)
    };
    let limit = most as f64 / least as f64;
    if given > limit {
        let detail = format!("ratio {ratio} is greater than max/min = {limit:.6}");
        errors.push(place.invalid_value(ratio.to_string(), detail));
    }
}
