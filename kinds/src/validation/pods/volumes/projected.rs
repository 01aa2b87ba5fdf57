//! Validation of volumes with files from Secrets, ConfigMaps, pod fields and tokens.

use std::collections::HashSet;

use api::field::Field;

use super::files::{validate_local_path, validate_mode};
use crate::validation::pods::field_refs::{
    validate_object_field_selector, validate_resource_field_selector,
};
use crate::validation::required::require_text;
use api::error_list::ErrorList;

/// The fields of a pod that files can contain.
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Validates a Secret volume.
pub fn validate_secret(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("secretName"), errors);
    validate_files(source, errors);
}

/// Validates a ConfigMap volume.
pub fn validate_config_map(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("name"), errors);
    validate_files(source, errors);
}

fn validate_files(source: &Field<'_>, errors: &mut ErrorList) {
    validate_mode(&source.member("defaultMode"), errors);
    for item in source.member("items").items() {
        validate_key_to_path(&item, errors);
    }
}

fn validate_key_to_path(item: &Field<'_>, errors: &mut ErrorList) {
    require_text(&item.member("key"), errors);
    let path = item.member("path");
    require_text(&path, errors);
    validate_local_path(&path, errors);
    validate_mode(&item.member("mode"), errors);
}

/// Validates a downward API volume.
pub fn validate_downward_api(source: &Field<'_>, errors: &mut ErrorList) {
    validate_mode(&source.member("defaultMode"), errors);
    for item in source.member("items").list() {
        // Kubernetes reports errors of an item at the volume.
        validate_downward_api_file(&source.with_value(item), errors);
    }
}

fn validate_downward_api_file(file: &Field<'_>, errors: &mut ErrorList) {
    let path = file.member("path");
    require_text(&path, errors);
    validate_local_path(&path, errors);
    let of_field = file.member("fieldRef");
    let of_resource = file.member("resourceFieldRef");
    if of_field.is_set() {
        validate_object_field_selector(&of_field, &VOLUME_FIELDS, errors);
        if of_resource.is_set() {
            errors.push(file.invalid_value(
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            ));
        }
    } else if of_resource.is_set() {
        validate_resource_field_selector(&of_resource, true, errors);
    } else {
        errors.push(file.required("one of fieldRef and resourceFieldRef is required"));
    }
    validate_mode(&file.member("mode"), errors);
}

/// Validates a projected volume.
pub fn validate_projected(source: &Field<'_>, errors: &mut ErrorList) {
    validate_mode(&source.member("defaultMode"), errors);
    let mut paths = HashSet::new();
    let sources = source.member("sources");
    for part in sources.items() {
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let keys = part.member(name);
            if keys.is_set() {
                count += 1;
                validate_projected_keys(source, &keys, &mut paths, errors);
            }
        }
        let downward_api = part.member("downwardAPI");
        if downward_api.is_set() {
            count += 1;
            for item in downward_api.member("items").list() {
                let file = downward_api.with_value(item);
                validate_downward_api_file(&file, errors);
                let path = file.member("path");
                validate_unique(source, path.text(), path.text(), &mut paths, errors);
            }
        }
        let token = part.member("serviceAccountToken");
        if token.is_set() {
            count += 1;
            validate_token(source, &token, errors);
        }
        if count > 1 {
            errors.push(part.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

fn validate_projected_keys(
    source: &Field<'_>,
    keys: &Field<'_>,
    paths: &mut HashSet<String>,
    errors: &mut ErrorList,
) {
    let name = keys.member("name");
    require_text(&name, errors);
    for item in keys.member("items").items() {
        validate_key_to_path(&item, errors);
        let path = item.member("path");
        validate_unique(source, path.text(), name.text(), paths, errors);
    }
}

/// Validates that a path is unique among all sources.
fn validate_unique(
    source: &Field<'_>,
    path: &str,
    shown: &str,
    paths: &mut HashSet<String>,
    errors: &mut ErrorList,
) {
    if !path.is_empty() && !paths.insert(path.to_owned()) {
        errors.push(source.invalid_value(shown, "conflicting duplicate paths"));
    }
}

fn validate_token(source: &Field<'_>, token: &Field<'_>, errors: &mut ErrorList) {
    let expiration = token.member("expirationSeconds");
    match expiration.int() {
        None => errors.push(expiration.required("")),
        Some(seconds) if seconds < MIN_TOKEN_SECONDS => {
            errors.push(expiration.invalid("may not specify a duration less than 10 minutes"))
        }
        Some(seconds) if seconds > MAX_TOKEN_SECONDS => {
            errors.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"))
        }
        Some(_) => {}
    }
    // Kubernetes reports the path at the volume.
    let path = source.member("path");
    let path = match token.member("path").value() {
        Some(value) => path.with_value(value),
        None => path,
    };
    if require_text(&path, errors) {
        validate_local_path(&path, errors);
    }
}
