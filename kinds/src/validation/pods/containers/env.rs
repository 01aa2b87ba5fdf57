//! Validation of the environment variables of containers.

use api::field::Field;
use api::keyed::Keyed;
use api::names;

use super::{Volumes, not_found};
use crate::validation::pods::field_refs::{
    validate_object_field_selector, validate_resource_field_selector,
};
use crate::validation::pods::volumes::files::validate_no_backsteps;
use crate::validation::report;
use crate::validation::required::require_text;
use crate::validation::text_formats::{config_key, environment_variable_name};
use api::error_list::ErrorList;

/// The fields of a pod that variables can refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const TOO_MANY: &str = "may not have more than one field specified at a time";

/// Validates the variables of a container.
pub(super) fn validate_env(variables: &Field<'_>, errors: &mut ErrorList) {
    for variable in variables.items() {
        let name = variable.member("name");
        if require_text(&name, errors) {
            report(&name, environment_variable_name(name.text()), errors);
        }
        let source = variable.member("valueFrom");
        if source.is_set() {
            validate_source(&source, !variable.member("value").text().is_empty(), errors);
        }
    }
}

/// Validates the source of a variable.
fn validate_source(source: &Field<'_>, has_value: bool, errors: &mut ErrorList) {
    let mut sources = 0;
    let kinds = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    for kind in kinds {
        let of = source.member(kind);
        if !of.is_set() {
            continue;
        }
        sources += 1;
        match kind {
            "fieldRef" => validate_object_field_selector(&of, &FIELDS, errors),
            "resourceFieldRef" => validate_resource_field_selector(&of, false, errors),
            "fileKeyRef" => validate_file_key(&of, errors),
            _ => validate_key(&of, errors),
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => TOO_MANY,
    };
    errors.push(source.invalid_value("", detail));
}

/// Validates a reference to a key of a ConfigMap or a Secret.
fn validate_key(of: &Field<'_>, errors: &mut ErrorList) {
    let name = of.member("name");
    report(&name, names::dns_subdomain(name.text()), errors);
    let key = of.member("key");
    if require_text(&key, errors) {
        report(&key, config_key(key.text()), errors);
    }
}

/// Validates a reference to a key in a file of a volume.
fn validate_file_key(of: &Field<'_>, errors: &mut ErrorList) {
    let key = of.member("key");
    if require_text(&key, errors) {
        report(&key, environment_variable_name(key.text()), errors);
    }
    let volume = of.member("volumeName");
    if require_text(&volume, errors) {
        report(&volume, names::dns_label(volume.text()), errors);
    }
    let path = of.member("path");
    if require_text(&path, errors) {
        validate_no_backsteps(&path, errors);
    }
}

/// Validates `envFrom`: ConfigMaps and Secrets whose keys all become variables.
pub(super) fn validate_env_from(sources: &Field<'_>, errors: &mut ErrorList) {
    for source in sources.items() {
        let prefix = source.member("prefix");
        if !prefix.text().is_empty() {
            report(&prefix, environment_variable_name(prefix.text()), errors);
        }
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let of = source.member(kind);
            if !of.is_set() {
                continue;
            }
            found += 1;
            let name = of.member("name");
            if require_text(&name, errors) {
                report(&name, names::dns_subdomain(name.text()), errors);
            }
        }
        match found {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(sources.invalid_value("", detail));
            }
            1 => {}
            _ => errors.push(sources.invalid_value("", TOO_MANY)),
        }
    }
}

/// Validates that variables from files refer to emptyDir volumes.
pub fn validate_file_key_volumes(spec: &Field<'_>, _volumes: &Volumes<'_>, errors: &mut ErrorList) {
    let volumes = spec.member("volumes");
    let by_name = Keyed::by(volumes.items(), |volume| volume.text_of("name"));
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.member(list).items() {
            for variable in container.member("env").items() {
                let source = variable.member("valueFrom");
                let file = source.member("fileKeyRef");
                if !file.is_set() {
                    continue;
                }
                let name = file.member("volumeName");
                match by_name.first(name.text()) {
                    None => errors.push(not_found(&name)),
                    Some(volume) if !volume.member("emptyDir").is_set() => {
                        let detail = "referenced volume must be of type emptyDir";
                        errors.push(name.invalid(detail));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
