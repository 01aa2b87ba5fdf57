//! Validation of Nodes (http.md 6.2).

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldErrorKind;
use api::names;
use api::object::Object;
use api::text::quoting::go_quote;
use serde_json::{Map, Value};

use super::addresses::{Range, validate_legacy_range};
use super::enums::require_one_of;
use super::pods::containers::resources::validate_quantity;
use super::report;
use crate::types::internal::internal_json;
use api::error_list::ErrorList;
use api::go_json::{Expected, document_error};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOIDED_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const MAX_FEATURE: usize = 253;
const ONLY_ONCE: &str = "except from \"\" to valid";

/// Validates a new Node.
pub fn validate_node(object: &Object, errors: &mut ErrorList) {
    validate(object, &HashSet::new(), errors);
}

/// Validates a Node. Stored CIDRs may keep their form.
fn validate(object: &Object, stored_ranges: &HashSet<&str>, errors: &mut ErrorList) {
    validate_annotations(object, errors);
    let spec = Field::of(object, "spec");
    let taints = spec.member("taints");
    // Kubernetes has this path for taints.
    validate_taints(&Field::named("metadata.taints", taints.value()), errors);
    validate_resources(object, errors);
    validate_swap(object, errors);
    validate_features(object, errors);
    validate_pod_ranges(&spec, stored_ranges, errors);
}

/// Validates an update of a Node.
pub fn validate_node_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let ranges = stored.at(&["spec", "podCIDRs"]).and_then(Value::as_array);
    let ranges: HashSet<&str> = ranges
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    validate(object, &ranges, errors);
    validate_node_status_update(object, stored, errors);
}

/// Validates an update of the status of a Node.
pub fn validate_node_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_annotations(object, errors);
    validate_resources(object, errors);
    validate_features(object, errors);
    validate_addresses(object, errors);
    let (spec, before) = (Field::of(object, "spec"), Field::of(stored, "spec"));
    let (ranges, old) = (spec.member("podCIDRs"), before.member("podCIDRs"));
    if !old.is_empty() {
        let why = format!("node updates may not change podCIDR {ONLY_ONCE}");
        if ranges.len() == old.len() {
            let pairs = ranges.list().iter().zip(old.list());
            for _ in pairs.filter(|(new, old)| new != old) {
                errors.push(ranges.forbidden(why.clone()));
            }
        } else {
            errors.push(ranges.forbidden(why));
        }
    }
    let (provider, old) = (spec.member("providerID"), before.member("providerID"));
    if !old.text().is_empty() && provider.text() != old.text() {
        let why = format!("node updates may not change providerID {ONLY_ONCE}");
        errors.push(provider.forbidden(why));
    }
    let taints = spec.member("taints");
    validate_taints(&Field::named("metadata.taints", taints.value()), errors);
    let external = spec.member("externalID");
    if external.text() != before.member("externalID").text() {
        errors.push(external.forbidden("may not be updated"));
    }
}

/// Validates annotations that contain JSON of former fields.
fn validate_annotations(object: &Object, errors: &mut ErrorList) {
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let taints = annotations.key(TAINTS);
    if !taints.text().is_empty() {
        validate_taints_annotation(&annotations, taints.text(), errors);
    }
    let avoided = annotations.key(AVOIDED_PODS);
    if !avoided.text().is_empty() {
        validate_avoided_pods(&annotations, avoided.text(), errors);
    }
}

fn validate_taints_annotation(annotations: &Field<'_>, text: &str, errors: &mut ErrorList) {
    let wrong = document_error(text.as_bytes(), Expected::List, "[]core.Taint");
    let taints = serde_json::from_str::<Vec<Map<String, Value>>>(text);
    match (wrong, taints) {
        (Some(wrong), _) => errors.push(annotations.invalid_value(TAINTS, wrong)),
        (None, Ok(taints)) => {
            let taints: Value = taints.into_iter().map(lower_names).collect();
            let place = annotations.member(TAINTS);
            let path = place.path();
            validate_taints(&Field::named(&path, Some(&taints)), errors);
        }
        (None, Err(_)) => {}
    }
}

/// Converts member names to lower case, because Go matches them without regard to case.
fn lower_names(members: Map<String, Value>) -> Value {
    let members = members.into_iter();
    let lowered = members.map(|(name, value)| (name.to_ascii_lowercase(), value));
    Value::Object(lowered.collect())
}

fn validate_avoided_pods(annotations: &Field<'_>, text: &str, errors: &mut ErrorList) {
    let wrong = document_error(text.as_bytes(), Expected::Object, "v1.AvoidPods");
    if let Some(wrong) = wrong {
        let place = annotations.member("AvoidPods");
        errors.push(place.invalid_value(AVOIDED_PODS, wrong));
        return;
    }
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let place = annotations.member(AVOIDED_PODS);
    let path = place.path();
    for entry in Field::named(&path, document.get("preferAvoidPods")).items() {
        let signature = entry.value().and_then(|entry| entry.get("podSignature"));
        let controller = signature.and_then(|signature| signature.get("podController"));
        let place = entry.member("PodSignature");
        match controller.filter(|controller| !controller.is_null()) {
            None => errors.push(place.required("")),
            Some(controller) if controller.get("controller") != Some(&Value::Bool(true)) => {
                let place = place.member("PodController");
                let place = place.member("Controller");
                errors.push(place.invalid_value(false, "must point to a controller"));
            }
            Some(_) => {}
        }
    }
}

/// Validates taints, whose pairs of key and effect must be unique.
fn validate_taints(taints: &Field<'_>, errors: &mut ErrorList) {
    let taints: Vec<Field<'_>> = taints.items().collect();
    let mut seen = HashSet::new();
    for taint in &taints {
        let (key, value) = (taint.member("key"), taint.member("value"));
        report(&key, names::qualified_name(key.text()), errors);
        report(&value, names::label_value(value.text()), errors);
        let effect = taint.member("effect");
        require_one_of(&effect, EFFECTS, errors);
        if !seen.insert((key.text(), effect.text())) {
            let why = "taints must be unique by key and effect pair";
            let error = taint.fault(FieldErrorKind::Duplicate, why);
            errors.push(error.showing_json(|| internal_json("core.v1.Taint", taint.value())));
        }
    }
}

fn validate_resources(object: &Object, errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    for list in ["capacity", "allocatable"] {
        let list = status.member(list);
        for (name, _) in list.entries() {
            validate_quantity(name, &list.member(name), errors);
        }
    }
}

/// Validates the swap capacity. A kubelet without swap reports 0, which is valid in updates of the
/// status only.
fn validate_swap(object: &Object, errors: &mut ErrorList) {
    let capacity = object.at(&["status", "nodeInfo", "swap", "capacity"]);
    // Kubernetes has this path for the capacity.
    let capacity = Field::named("metadata.nodeSwapStatus.capacity", capacity);
    if capacity.int().is_some_and(|bytes| bytes <= 0) {
        errors.push(capacity.invalid("must be greater than zero"));
    }
}

/// Validates that declared features are sorted and unique.
fn validate_features(object: &Object, errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    let mut before = None;
    for feature in status.member("declaredFeatures").items() {
        let name = feature.text();
        if before == Some(name) {
            errors.push(feature.duplicate());
        } else if before.is_some_and(|before| name < before) {
            errors.push(feature.invalid("list must be sorted alphabetically"));
        }
        before = Some(name);
        if let Some(wrong) = feature_error(name) {
            let shown = go_quote(name);
            errors.push(feature.invalid(format!("invalid feature name {shown}: {wrong}")));
        }
    }
}

/// Returns the error in the name of a feature: words separated by slashes, the first of which
/// starts with a capital.
fn feature_error(name: &str) -> Option<String> {
    if name.len() > MAX_FEATURE {
        return Some(format!("must be no more than {MAX_FEATURE} characters"));
    }
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let has_large = name.starts_with(|first: char| first.is_ascii_uppercase());
    (!has_large || !name.split('/').all(is_word)).then(|| {
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' \
         (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and \
         slashes"
            .to_owned()
    })
}

fn validate_addresses(object: &Object, errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    let addresses = status.member("addresses");
    let addresses: Vec<Field<'_>> = addresses.items().collect();
    let mut seen = HashSet::new();
    for address in &addresses {
        let parts = ["type", "address"].map(|name| address.member(name).text());
        if !seen.insert(parts) {
            let json = || internal_json("core.v1.NodeAddress", address.value());
            errors.push(address.duplicate().showing_json(json));
        }
    }
}

/// Validates the pod CIDRs of a Node: one, or one of each family.
fn validate_pod_ranges(spec: &Field<'_>, stored: &HashSet<&str>, errors: &mut ErrorList) {
    let ranges = spec.member("podCIDRs");
    for range in ranges.items() {
        validate_legacy_range(&range, stored, errors);
    }
    if ranges.len() < 2 {
        return;
    }
    let texts = ranges
        .list()
        .iter()
        .map(|text| text.as_str().unwrap_or_default());
    let parsed: Vec<Option<Range>> = texts.map(Range::parse).collect();
    let unreadable = parsed.iter().position(Option::is_none);
    if let Some(index) = unreadable {
        let text = ranges.index(index).text().to_owned();
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid \
             CIDR[{index}]: <nil> (invalid CIDR address: {text})"
        );
        errors.push(ranges.fault(FieldErrorKind::Internal, why));
    }
    // linear: two families are looked for.
    let has = |wanted: bool| parsed.iter().flatten().any(|range| range.is_v4() == wanted);
    let is_dual = unreadable.is_none() && has(true) && has(false);
    if !is_dual || ranges.len() > 2 {
        errors.push(ranges.invalid("may specify no more than one CIDR for each IP family"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::core::node;
    use crate::recorded::{Functions, check};
    use crate::strategies::disabled_fields::drop_of_node;

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(include_str!("../../recorded/nodes.json"), |path| {
            Functions {
                defaults: Some(|object| {
                    node(object);
                    drop_of_node(object, None);
                }),
                create: validate_node,
                update: Some(match path.ends_with("/status") {
                    true => validate_node_status_update,
                    false => validate_node_update,
                }),
            }
        });
    }
}
