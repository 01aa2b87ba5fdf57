//! Quantities of resources: their canonical form and their defaults (API-245, API-254).

use std::collections::BTreeMap;

use api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::defaults::{Members, member, member_or_new};
use crate::resource_names::{is_cpu_or_memory, is_huge_pages, is_of_pod_level};

/// Brings a quantity into canonical form.
pub fn quantity(members: &mut Members, name: &str) {
    if let Some(value) = members.get_mut(name) {
        rewrite(value, |quantity| quantity);
    }
}

/// Rounds the quantities of a resource list up to whole thousandths, in canonical form (API-254).
pub fn resource_list(members: &mut Members, name: &str) {
    let list = member(members, name).into_iter().flatten();
    for (_, value) in list {
        rewrite(value, Quantity::rounded_to_milli);
    }
}

/// Normalizes the limits and requests of a container, a pod or a claim.
pub fn resource_requirements(members: &mut Members, name: &str) {
    if let Some(resources) = member(members, name) {
        resource_list(resources, "limits");
        resource_list(resources, "requests");
    }
}

fn rewrite(value: &mut Value, change: impl Fn(Quantity) -> Quantity) {
    if let Some(quantity) = read(value) {
        let changed = change(quantity.clone());
        let kept = value.as_str().filter(|_| changed == quantity);
        let kept = kept.and_then(|text| api::quantity::printed(text).ok());
        let text = kept.unwrap_or_else(|| changed.to_string());
        if value.as_str() != Some(text.as_str()) {
            *value = text.into();
        }
    }
}

/// Parses a quantity that is a string or a number.
pub fn read(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Sets each absent request to the limit of the same resource.
pub(super) fn requests_from_limits(container: &mut Members) {
    if let Some(resources) = member(container, "resources") {
        let limits = resources.get("limits").and_then(Value::as_object);
        if let Some(limits) = limits.cloned() {
            add_missing(resources, "requests", limits);
        }
    }
}

/// Adds the resources that a list lacks.
fn add_missing(resources: &mut Members, list: &str, missing: Map<String, Value>) {
    if missing.is_empty() {
        return;
    }
    if let Some(list) = member_or_new(resources, list) {
        for (name, value) in missing {
            list.entry(name).or_insert(value);
        }
    }
}

/// Quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Sets the defaults of pod-level resources, if there are any. They come from the containers;
/// requests also come from limits.
pub(super) fn pod_level_resources(spec: &mut Members) {
    let Some(resources) = spec.get("resources") else {
        return;
    };
    let has = |list: &str| {
        resources
            .get(list)
            .is_some_and(|list| list.as_object().is_some_and(|list| !list.is_empty()))
    };
    let (has_limits, has_requests) = (has("limits"), has("requests"));
    if !has_limits && !has_requests {
        return;
    }
    let texts = |amounts: Amounts, wanted: fn(&str) -> bool| -> Map<String, Value> {
        let wanted = amounts.into_iter().filter(|(name, _)| wanted(name));
        wanted
            .map(|(name, amount)| (name, amount.to_string().into()))
            .collect()
    };
    let limits = texts(of_containers(spec, "limits"), is_huge_pages);
    let requests = texts(of_containers(spec, "requests"), is_cpu_or_memory);
    let Some(resources) = member(spec, "resources") else {
        return;
    };
    add_missing(resources, "limits", limits);
    let limits = resources.get("limits").and_then(Value::as_object).cloned();
    let Some(mut limits) = limits.filter(|limits| !limits.is_empty()) else {
        return;
    };
    limits.retain(|name, _| is_of_pod_level(name));
    add_missing(resources, "requests", requests);
    add_missing(resources, "requests", limits);
}

/// Returns the total that the containers of a pod need. Containers that run at the same time add
/// up; init containers run before them, one after the other, so only the largest one counts.
pub fn of_containers(spec: &Members, list: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in structs(spec, "containers") {
        add(&mut total, &amounts(container, list));
    }
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for container in structs(spec, "initContainers") {
        let mut own = amounts(container, list);
        let restarts = container.get("restartPolicy").and_then(Value::as_str);
        if restarts == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut highest, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut highest, &own);
        }
    }
    raise(&mut total, &highest);
    total
}

fn structs<'m>(members: &'m Members, name: &str) -> impl Iterator<Item = &'m Members> {
    let list = members.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

/// Returns the limits or requests of a container.
pub fn amounts(container: &Members, list: &str) -> Amounts {
    let list = container
        .get("resources")
        .and_then(|resources| resources.get(list));
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), read(value)?)))
        .collect()
}

/// Adds quantities to a total.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            Some(before) => before.plus(amount),
            None => amount.clone(),
        };
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|before| amount > before) {
            total.insert(name.clone(), amount.clone());
        }
    }
}
