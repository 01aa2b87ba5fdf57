//! What is refused of the variables of containers.

use api::field::Field;
use api::names;

use super::{Volumes, not_found};
use crate::validation::Faults;
use crate::validation::formats::{config_key, environment_variable_name, report, require_text};
use crate::validation::pods::field_refs::{
    validate_object_field_selector, validate_resource_field_selector,
};
use crate::validation::pods::volumes::files::validate_no_backsteps;

/// The fields of a pod that variables can have.
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

/// The faults of the variables of a container.
pub(super) fn validate_env(variables: &Field<'_>, faults: &mut Faults) {
    for variable in variables.items() {
        let name = variable.member("name");
        if require_text(&name, faults) {
            report(&name, environment_variable_name(name.text()), faults);
        }
        let source = variable.member("valueFrom");
        if source.is_set() {
            validate_source(&source, !variable.member("value").text().is_empty(), faults);
        }
    }
}

/// The faults of what a variable takes its value from.
fn validate_source(source: &Field<'_>, has_value: bool, faults: &mut Faults) {
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
            "fieldRef" => validate_object_field_selector(&of, &FIELDS, faults),
            "resourceFieldRef" => validate_resource_field_selector(&of, false, faults),
            "fileKeyRef" => validate_file_key(&of, faults),
            _ => validate_key(&of, faults),
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
    faults.push(source.invalid_value("", detail));
}

/// A key of a ConfigMap or a Secret.
fn validate_key(of: &Field<'_>, faults: &mut Faults) {
    let name = of.member("name");
    report(&name, names::dns_subdomain(name.text()), faults);
    let key = of.member("key");
    if require_text(&key, faults) {
        report(&key, config_key(key.text()), faults);
    }
}

/// A key in a file of a volume.
fn validate_file_key(of: &Field<'_>, faults: &mut Faults) {
    let key = of.member("key");
    if require_text(&key, faults) {
        report(&key, environment_variable_name(key.text()), faults);
    }
    let volume = of.member("volumeName");
    if require_text(&volume, faults) {
        report(&volume, names::dns_label(volume.text()), faults);
    }
    let path = of.member("path");
    if require_text(&path, faults) {
        validate_no_backsteps(&path, faults);
    }
}

/// The faults of objects whose keys are all variables of a container.
pub(super) fn validate_env_from(sources: &Field<'_>, faults: &mut Faults) {
    for source in sources.items() {
        let prefix = source.member("prefix");
        if !prefix.text().is_empty() {
            report(&prefix, environment_variable_name(prefix.text()), faults);
        }
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let of = source.member(kind);
            if !of.is_set() {
                continue;
            }
            found += 1;
            let name = of.member("name");
            if require_text(&name, faults) {
                report(&name, names::dns_subdomain(name.text()), faults);
            }
        }
        match found {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                faults.push(sources.invalid_value("", detail));
            }
            1 => {}
            _ => faults.push(sources.invalid_value("", TOO_MANY)),
        }
    }
}

/// The faults of variables from files of volumes that hold none.
pub fn validate_file_key_volumes(spec: &Field<'_>, _volumes: &Volumes<'_>, faults: &mut Faults) {
    let volumes = spec.member("volumes");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.member(list).items() {
            for variable in container.member("env").items() {
                let source = variable.member("valueFrom");
                let file = source.member("fileKeyRef");
                if !file.is_set() {
                    continue;
                }
                let name = file.member("volumeName");
                let mut all = volumes.items();
                match all.find(|volume| volume.member("name").text() == name.text()) {
                    None => faults.push(not_found(&name)),
                    Some(volume) if !volume.member("emptyDir").is_set() => {
                        let detail = "referenced volume must be of type emptyDir";
                        faults.push(name.invalid(detail));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
