//! What is refused of volumes with files from secrets, config maps, fields and tokens.

use std::collections::HashSet;

use api::field::Field;

use super::files::{validate_local_path, validate_mode};
use crate::validation::Faults;
use crate::validation::formats::require_text;
use crate::validation::pods::field_refs::{
    validate_object_field_selector, validate_resource_field_selector,
};

/// The fields of a pod that its volumes can show.
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// The faults of a secret's files.
pub fn validate_secret(source: &Field<'_>, faults: &mut Faults) {
    require_text(&source.member("secretName"), faults);
    validate_files(source, faults);
}

/// The faults of a config map's files.
pub fn validate_config_map(source: &Field<'_>, faults: &mut Faults) {
    require_text(&source.member("name"), faults);
    validate_files(source, faults);
}

fn validate_files(source: &Field<'_>, faults: &mut Faults) {
    validate_mode(&source.member("defaultMode"), faults);
    for item in source.member("items").items() {
        validate_key_to_path(&item, faults);
    }
}

fn validate_key_to_path(item: &Field<'_>, faults: &mut Faults) {
    require_text(&item.member("key"), faults);
    let path = item.member("path");
    require_text(&path, faults);
    validate_local_path(&path, faults);
    validate_mode(&item.member("mode"), faults);
}

/// The faults of files with fields of the pod.
pub fn validate_downward_api(source: &Field<'_>, faults: &mut Faults) {
    validate_mode(&source.member("defaultMode"), faults);
    for item in source.member("items").list() {
        // Faults of an item are reported as those of the volume.
        validate_downward_api_file(&source.with_value(item), faults);
    }
}

fn validate_downward_api_file(file: &Field<'_>, faults: &mut Faults) {
    let path = file.member("path");
    require_text(&path, faults);
    validate_local_path(&path, faults);
    let of_field = file.member("fieldRef");
    let of_resource = file.member("resourceFieldRef");
    if of_field.is_set() {
        validate_object_field_selector(&of_field, &VOLUME_FIELDS, faults);
        if of_resource.is_set() {
            faults.push(file.invalid_value(
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            ));
        }
    } else if of_resource.is_set() {
        validate_resource_field_selector(&of_resource, true, faults);
    } else {
        faults.push(file.required("one of fieldRef and resourceFieldRef is required"));
    }
    validate_mode(&file.member("mode"), faults);
}

/// The faults of files from several sources.
pub fn validate_projected(source: &Field<'_>, faults: &mut Faults) {
    validate_mode(&source.member("defaultMode"), faults);
    let mut paths = HashSet::new();
    let sources = source.member("sources");
    for part in sources.items() {
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let keys = part.member(name);
            if keys.is_set() {
                count += 1;
                validate_projected_keys(source, &keys, &mut paths, faults);
            }
        }
        let downward_api = part.member("downwardAPI");
        if downward_api.is_set() {
            count += 1;
            for item in downward_api.member("items").list() {
                let file = downward_api.with_value(item);
                validate_downward_api_file(&file, faults);
                let path = file.member("path");
                validate_unique(source, path.text(), path.text(), &mut paths, faults);
            }
        }
        let token = part.member("serviceAccountToken");
        if token.is_set() {
            count += 1;
            validate_token(source, &token, faults);
        }
        if count > 1 {
            faults.push(part.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

fn validate_projected_keys(
    source: &Field<'_>,
    keys: &Field<'_>,
    paths: &mut HashSet<String>,
    faults: &mut Faults,
) {
    let name = keys.member("name");
    require_text(&name, faults);
    for item in keys.member("items").items() {
        validate_key_to_path(&item, faults);
        let path = item.member("path");
        validate_unique(source, path.text(), name.text(), paths, faults);
    }
}

/// A path may be there once in all sources.
fn validate_unique(
    source: &Field<'_>,
    path: &str,
    shown: &str,
    paths: &mut HashSet<String>,
    faults: &mut Faults,
) {
    if !path.is_empty() && !paths.insert(path.to_owned()) {
        faults.push(source.invalid_value(shown, "conflicting duplicate paths"));
    }
}

fn validate_token(source: &Field<'_>, token: &Field<'_>, faults: &mut Faults) {
    let expiration = token.member("expirationSeconds");
    match expiration.int() {
        None => faults.push(expiration.required("")),
        Some(seconds) if seconds < MIN_TOKEN_SECONDS => {
            faults.push(expiration.invalid("may not specify a duration less than 10 minutes"))
        }
        Some(seconds) if seconds > MAX_TOKEN_SECONDS => {
            faults.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"))
        }
        Some(_) => {}
    }
    // The path is reported as one of the volume.
    let path = source.member("path");
    let path = match token.member("path").value() {
        Some(value) => path.with_value(value),
        None => path,
    };
    if require_text(&path, faults) {
        validate_local_path(&path, faults);
    }
}
