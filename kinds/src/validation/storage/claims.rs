//! Validation of PersistentVolumeClaims.

use std::borrow::Cow;

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use api::quantity::Quantity;
use serde_json::{Map, Value};

use super::{VOLUME_MODES, validate_access_modes, validate_basic, validate_positive};
use crate::defaults::pods::resources::read;
use crate::types::internal::internal_json;
use crate::validation::enums::validate_one_of;
use crate::validation::pods::diff::json_difference;
use crate::validation::report;
use crate::validation::required::require_text;
use crate::validation::selectors::validate_label_selector;
use api::error_list::ErrorList;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Validates a PersistentVolumeClaim.
pub fn validate_persistentvolumeclaim(object: &Object, errors: &mut ErrorList) {
    validate_persistent_volume_claim_spec(&Field::of(object, "spec"), errors);
}

/// Validates the spec of a claim or of a claim template.
pub fn validate_persistent_volume_claim_spec(spec: &Field<'_>, errors: &mut ErrorList) {
    validate_spec(spec, true, errors);
}

/// Validates a spec. Without `checks_groups`, groups of data sources are skipped, because they were
/// not validated in the past.
fn validate_spec(spec: &Field<'_>, checks_groups: bool, errors: &mut ErrorList) {
    let modes = spec.member("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    validate_label_selector(&spec.member("selector"), false, errors);
    validate_access_modes(&modes, errors);
    let resources = spec.member("resources");
    let requests = resources.member("requests");
    let place = resources.key("storage");
    match requests.key("storage").value() {
        Some(storage) => validate_positive(&place.with_value(storage), errors),
        None => errors.push(place.required("")),
    }
    let class = spec.member("storageClassName");
    if !class.text().is_empty() {
        report(&class, names::dns_subdomain(class.text()), errors);
    }
    validate_one_of(&spec.member("volumeMode"), &VOLUME_MODES, errors);
    let (source, reference) = (spec.member("dataSource"), spec.member("dataSourceRef"));
    validate_data_source(&source, checks_groups, errors);
    validate_data_source(&reference, checks_groups, errors);
    let namespace = reference.member("namespace");
    let is_elsewhere = !namespace.text().is_empty();
    if is_elsewhere {
        report(&namespace, names::dns_label(namespace.text()), errors);
    }
    if is_elsewhere && source.is_set() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.push(spec.invalid_value(Map::new(), detail));
    }
    let is_same = |name: &str| source.member(name).value() == reference.member(name).value();
    let both = source.is_set() && reference.is_set() && !is_elsewhere;
    if both && !["apiGroup", "kind", "name"].into_iter().all(is_same) {
        // Kubernetes shows an empty struct here.
        errors.push(spec.invalid_value(Map::new(), "must match dataSourceRef"));
    }
    let class = spec.member("volumeAttributesClassName");
    if !class.text().is_empty() {
        report(&class, names::dns_subdomain(class.text()), errors);
    }
}

/// Validates the data source of a volume, if any.
fn validate_data_source(source: &Field<'_>, checks_groups: bool, errors: &mut ErrorList) {
    if !source.is_set() {
        return;
    }
    require_text(&source.member("name"), errors);
    let kind = source.member("kind");
    require_text(&kind, errors);
    let group = source.member("apiGroup");
    if !group.text().is_empty() {
        if checks_groups {
            report(&group, names::dns_subdomain(group.text()), errors);
        }
    } else if kind.text() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_value(kind.text(), detail));
    }
}

/// Validates an update of a PersistentVolumeClaim.
pub fn validate_persistentvolumeclaim_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let spec = Field::of(object, "spec");
    let before = Field::of(stored, "spec");
    let has_group = |name: &str| before.member(name).member("apiGroup").is_set();
    let had_groups = has_group("dataSource") || has_group("dataSourceRef");
    validate_spec(&spec, !had_groups, errors);
    let is_bound = Field::of(stored, "status").member("phase").text() == "Bound";
    validate_same_spec(object, stored, is_bound, errors);
    validate_size(&spec, stored, errors);
    let mode = spec.member("volumeMode");
    if mode.value() != before.member("volumeMode").value() {
        let place = Field::named("volumeMode", mode.value());
        errors.push(place.invalid("field is immutable"));
    }
}

fn validate_same_spec(object: &Object, stored: &Object, is_bound: bool, errors: &mut ErrorList) {
    let (Some(new), Some(old)) = (object.0.get("spec"), stored.0.get("spec")) else {
        return;
    };
    let class_is_fixed = validate_class_annotation(object, stored, errors);
    if new == old {
        return;
    }
    let (mut new, mut old) = (Cow::Borrowed(new), Cow::Borrowed(old));
    // Copies the fields that may change, so that the comparison finds other changes.
    let is_unset = |spec: &Value, name: &str| {
        let text = spec.get(name).and_then(Value::as_str);
        text.unwrap_or_default().is_empty()
    };
    if is_unset(&old, "volumeName") {
        copy(&new, old.to_mut(), &["volumeName"]);
    }
    if !class_is_fixed {
        copy(&old, new.to_mut(), &["storageClassName"]);
    }
    if is_bound {
        if new.pointer("/resources/requests").is_some() {
            copy(&old, new.to_mut(), &["resources", "requests", "storage"]);
        }
        copy(&old, new.to_mut(), &["volumeAttributesClassName"]);
    }
    if new != old {
        let json = |spec| internal_json("core.v1.PersistentVolumeClaimSpec", Some(spec));
        let difference = json_difference(&json(&old), &json(&new));
        errors.push(FieldError::forbidden(
            "spec",
            format!(
                "spec is immutable after creation except resources.requests and \
                 volumeAttributesClassName for bound claims\n{difference}"
            ),
        ));
    }
}

/// Copies a member of a spec to another spec.
fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let Some((last, above)) = path.split_last() else {
        return;
    };
    let (mut source, mut target) = (Some(from), Some(to));
    for name in above {
        source = source.and_then(|value| value.get(name));
        target = target.and_then(|value| value.get_mut(name));
    }
    let value = source.and_then(|value| value.get(last));
    let Some(members) = target.and_then(Value::as_object_mut) else {
        return;
    };
    match value {
        Some(value) => {
            members.insert((*last).to_owned(), value.clone());
        }
        None => {
            members.remove(*last);
        }
    }
}

/// Validates that a class is set later only if the old claim had none, or had the same one in an
/// annotation. Returns whether other classes are refused.
fn validate_class_annotation(object: &Object, stored: &Object, errors: &mut ErrorList) -> bool {
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let annotation = annotations.member(CLASS_ANNOTATION);
    let old_metadata = Field::of(stored, "metadata");
    let old_annotations = old_metadata.member("annotations");
    let old_annotation = old_annotations.member(CLASS_ANNOTATION);
    let spec = Field::of(object, "spec");
    let class = spec.member("storageClassName");
    let old_spec = Field::of(stored, "spec");
    let had_class = old_spec.member("storageClassName").is_set();
    let is_set_later = !had_class && class.is_set();
    if is_set_later && old_annotation.is_set() {
        let is_kept = !annotation.is_set() || annotation.text() == old_annotation.text();
        if is_kept && class.text() == old_annotation.text() {
            return false;
        }
    }
    if annotation.text() != old_annotation.text() {
        errors.push(annotation.invalid_value(annotation.text(), "field is immutable"));
    }
    !(is_set_later && old_annotation.text().is_empty())
}

/// Validates the size: a request may shrink, but must stay above the capacity of the volume.
fn validate_size(spec: &Field<'_>, stored: &Object, errors: &mut ErrorList) {
    let storage = |value: Option<&Value>, path: &str| value?.pointer(path).and_then(read);
    let path = "/resources/requests/storage";
    let size = storage(spec.value(), path);
    let before = storage(stored.0.get("spec"), path);
    let has = storage(stored.0.get("status"), "/capacity/storage");
    let or_zero = |size: Option<Quantity>| size.unwrap_or_else(|| Quantity::whole(0));
    let [size, before, has] = [size, before, has].map(or_zero);
    if size < before && size <= has {
        let resources = spec.member("resources");
        let requests = resources.member("requests");
        let detail = "field can not be less than status.capacity";
        errors.push(requests.member("storage").forbidden(detail));
    }
}

/// Validates an update of the status of a PersistentVolumeClaim.
pub fn validate_persistentvolumeclaim_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let spec = Field::of(object, "spec");
    if spec.member("accessModes").is_empty() {
        let place = Field::named("Spec", None);
        errors.push(place.member("accessModes").required(""));
    }
    let status = Field::of(object, "status");
    for (_, quantity) in status.member("capacity").entries() {
        validate_basic(&quantity, errors);
    }
    let allocated = status.member("allocatedResources");
    for (name, quantity) in allocated.entries() {
        if validate_resource_key(name, &allocated, errors) {
            validate_basic(&quantity, errors);
        }
    }
    let statuses = status.member("allocatedResourceStatuses");
    for (name, value) in statuses.entries() {
        validate_resource_key(name, &statuses, errors);
        if !RESIZE_STATUSES.contains(&value.text()) {
            let path = statuses.path();
            errors.push(FieldError::not_supported(path, name, &RESIZE_STATUSES));
        }
    }
}

/// Validates that an allocated resource is storage or an extended one. Returns whether it is valid.
fn validate_resource_key(name: &str, place: &Field<'_>, errors: &mut ErrorList) -> bool {
    let wrong = names::qualified_name(name);
    let is_valid = wrong.is_empty();
    errors.extend(
        wrong
            .into_iter()
            .map(|message| place.invalid_value(name, message)),
    );
    let is_known = name == "storage" || name.contains('/') && !name.contains("kubernetes.io/");
    if is_valid && !is_known {
        errors.push(FieldError::not_supported(place.path(), name, &["storage"]));
    }
    is_valid && is_known
}
