//! Validation of StorageClasses and VolumeAttributesClasses.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use api::field::Field;
use api::field_error::FieldErrorKind;
use api::names;
use api::object::Object;
use serde_json::Value;

use crate::validation::enums::validate_one_of;
use crate::validation::required::require_text;
use crate::validation::selectors::validate_label_name;
use api::error_list::{ErrorList, Report};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_BYTES: usize = 256 * 1024;
const POLICIES: [&str; 2] = ["Delete", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

/// Validates a StorageClass.
pub fn validate_storageclass(object: &Object, errors: &mut ErrorList) {
    validate_provisioner(&Field::of(object, "provisioner"), errors);
    validate_parameters(&Field::of(object, "parameters"), true, errors);
    let policy = Field::of(object, "reclaimPolicy");
    if !policy.text().is_empty() {
        validate_one_of(&policy, &POLICIES, errors);
    }
    let mode = Field::of(object, "volumeBindingMode");
    if mode.is_set() {
        validate_one_of(&mode, &BINDING_MODES, errors);
    } else {
        errors.push(mode.required(""));
    }
    validate_topologies(&Field::of(object, "allowedTopologies"), errors);
}

/// Validates an update of a StorageClass.
pub fn validate_storageclass_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_storageclass(object, errors);
    for name in [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ] {
        let field = Field::of(object, name);
        if field.value() != Field::of(stored, name).value() {
            errors.push(field.invalid("field is immutable"));
        }
    }
}

/// Validates a VolumeAttributesClass.
pub fn validate_volumeattributesclass(object: &Object, errors: &mut ErrorList) {
    validate_provisioner(&Field::of(object, "driverName"), errors);
    validate_parameters(&Field::of(object, "parameters"), false, errors);
}

/// Validates an update of a VolumeAttributesClass.
pub fn validate_volumeattributesclass_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    for name in ["driverName", "parameters"] {
        let field = Field::of(object, name);
        if field.value() != Field::of(stored, name).value() {
            errors.push(field.forbidden(format!("updates to {name} are forbidden.")));
        }
    }
    validate_volumeattributesclass(object, errors);
}

fn validate_provisioner(provisioner: &Field<'_>, errors: &mut ErrorList) {
    if require_text(provisioner, errors) {
        let name = provisioner.text().to_lowercase();
        let wrong = names::qualified_name(&name).into_iter();
        errors.extend(wrong.map(|message| provisioner.invalid_value(name.as_str(), message)));
    }
}

fn validate_parameters(parameters: &Field<'_>, may_be_empty: bool, errors: &mut ErrorList) {
    if parameters.len() > MAX_PARAMETERS {
        errors.push(parameters.too_long(MAX_PARAMETERS));
        return;
    }
    let mut bytes = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.push(parameters.invalid_value("", "field can not be empty."));
        }
        bytes += key.len() + value.text().len();
    }
    if bytes > MAX_PARAMETERS_BYTES {
        errors.push(parameters.too_long(MAX_PARAMETERS_BYTES));
    }
    if !may_be_empty && parameters.is_empty() {
        errors.push(parameters.required("must contain at least one key/value pair"));
    }
}

/// The values of a term, by key.
type Term<'v> = BTreeMap<&'v str, BTreeSet<&'v str>>;

fn validate_topologies(topologies: &Field<'_>, errors: &mut ErrorList) {
    let mut seen: HashMap<Term<'_>, usize> = HashMap::new();
    for (term, value) in topologies.items().zip(topologies.list()) {
        let expressions = term.member("matchLabelExpressions");
        let mut keys = BTreeMap::new();
        let values = value.get("matchLabelExpressions").and_then(Value::as_array);
        for (expression, value) in expressions.items().zip(values.into_iter().flatten()) {
            validate_requirement(&expression, errors);
            let key = expression.member("key");
            let name = value.get("key").and_then(Value::as_str).unwrap_or_default();
            let values = value.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str);
            if keys.insert(name, values.collect()).is_some() {
                errors.push(key.duplicate());
            }
        }
        let same = seen.get(&keys).copied().unwrap_or_default();
        // Kubernetes compares an empty term with as many empty terms as there are terms.
        let more = if keys.is_empty() { topologies.len() } else { 0 };
        errors.push_repeated(same + more, || {
            let error = expressions.fault_value(FieldErrorKind::Duplicate, "", "");
            error.written()
        });
        *seen.entry(keys).or_default() += 1;
    }
}

fn validate_requirement(requirement: &Field<'_>, errors: &mut ErrorList) {
    let values = requirement.member("values");
    if values.is_empty() {
        errors.push(values.required(""));
    }
    let mut seen = HashSet::new();
    for (place, value) in values.items().zip(values.list()) {
        if !seen.insert(value) {
            errors.push(place.duplicate());
        }
    }
    let key = requirement.member("key");
    validate_label_name(key.text(), &key, errors);
}
