//! Validation of the volume mounts and block devices of containers.

use std::collections::{HashMap, HashSet};

use api::field::Field;
use serde_json::Value;

use super::{Volumes, not_found};
use crate::validation::enums::validate_one_of;
use crate::validation::pods::volumes::files::validate_descending_path;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

const MUST_BE_UNIQUE: &str = "must be unique";

/// Validates the volume mounts of a container.
pub(super) fn validate_volume_mounts(
    container: &Field<'_>,
    volumes: &Volumes<'_>,
    errors: &mut ErrorList,
) {
    let mounts = container.member("volumeMounts");
    let devices = container.member("volumeDevices");
    let context = container.member("securityContext");
    let is_privileged = context.member("privileged").is_true();
    let taken = Taken::of(&devices, "devicePath");
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.member("name"), mount.member("mountPath"));
        require_text(&name, errors);
        if !volumes.contains_key(name.text()) {
            errors.push(not_found(&name));
        }
        require_text(&path, errors);
        if !paths.insert(path.text().to_owned()) {
            errors.push(path.invalid_value(path.text(), MUST_BE_UNIQUE));
        }
        if taken.names.contains(name.text()) {
            let detail = "must not already exist in volumeDevices";
            errors.push(name.invalid_value(name.text(), detail));
        }
        if taken.paths.contains(path.text()) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(path.invalid_value(path.text(), detail));
        }
        validate_sub_paths(&mounts, &mount, errors);
        validate_propagation(&mounts, &mount, is_privileged, errors);
        validate_recursive_read_only(&mounts, &mount, errors);
    }
}

/// The names and the paths of the other list: mounts or devices.
struct Taken<'v> {
    names: HashSet<&'v str>,
    paths: HashSet<&'v str>,
}

impl<'v> Taken<'v> {
    /// Returns the names and paths of a list. Of items with the same name, only the path of the
    /// last one counts.
    fn of(list: &Field<'v>, path: &str) -> Taken<'v> {
        let text = |item: &'v Value, member: &str| {
            let text = item.get(member).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let items = list.list().iter();
        let paths: HashMap<&str, &str> = items
            .map(|item| (text(item, "name"), text(item, path)))
            .collect();
        Taken {
            names: paths.keys().copied().collect(),
            paths: paths.into_values().collect(),
        }
    }
}

/// Returns a member of an item with the path of the list's member.
fn at_list<'f>(list: &'f Field<'f>, item: &'f Field<'f>, name: &'f str) -> Field<'f> {
    let member = list.member(name);
    match item.member(name).value() {
        Some(value) => member.with_value(value),
        None => member,
    }
}

fn validate_sub_paths(mounts: &Field<'_>, mount: &Field<'_>, errors: &mut ErrorList) {
    let path = at_list(mounts, mount, "subPath");
    if !path.text().is_empty() {
        validate_descending_path(&path, errors);
    }
    let expression = at_list(mounts, mount, "subPathExpr");
    if !expression.text().is_empty() {
        if !path.text().is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(mount.member("subPathExpr").invalid(detail));
        }
        validate_descending_path(&expression, errors);
    }
}

fn validate_propagation(
    mounts: &Field<'_>,
    mount: &Field<'_>,
    is_privileged: bool,
    errors: &mut ErrorList,
) {
    let propagation = at_list(mounts, mount, "mountPropagation");
    if !propagation.is_set() {
        return;
    }
    validate_one_of(
        &propagation,
        &["Bidirectional", "HostToContainer", "None"],
        errors,
    );
    if propagation.text() == "Bidirectional" && !is_privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(propagation.forbidden(detail));
    }
}

fn validate_recursive_read_only(mounts: &Field<'_>, mount: &Field<'_>, errors: &mut ErrorList) {
    let recursive = at_list(mounts, mount, "recursiveReadOnly");
    if !recursive.is_set() {
        return;
    }
    validate_one_of(&recursive, &["Disabled", "Enabled", "IfPossible"], errors);
    if !matches!(recursive.text(), "Enabled" | "IfPossible") {
        return;
    }
    if !mount.member("readOnly").is_true() {
        errors.push(recursive.forbidden("may only be specified when readOnly is true"));
    }
    let propagation = mount.member("mountPropagation");
    if propagation.is_set() && propagation.text() != "None" {
        let detail = "may only be specified when mountPropagation is None or not specified";
        errors.push(recursive.forbidden(detail));
    }
}

/// Validates the block devices of a container.
pub(super) fn validate_volume_devices(
    container: &Field<'_>,
    volumes: &Volumes<'_>,
    errors: &mut ErrorList,
) {
    let mounts = container.member("volumeMounts");
    let devices = container.member("volumeDevices");
    let taken = Taken::of(&mounts, "mountPath");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in devices.items() {
        let (name, path) = (device.member("name"), device.member("devicePath"));
        require_text(&name, errors);
        let is_new = name.text().is_empty() || names.insert(name.text().to_owned());
        if !is_new {
            errors.push(name.invalid(MUST_BE_UNIQUE));
        }
        match volumes.get(name.text()) {
            None => errors.push(not_found(&name)),
            Some(volume) => {
                let has = |kind| volume.get(kind).is_some_and(|of| !of.is_null());
                if !has("persistentVolumeClaim") && !has("ephemeral") {
                    let detail = "can only use volume source type of PersistentVolumeClaim or \
                                  Ephemeral for block mode";
                    errors.push(name.invalid(detail));
                }
            }
        }
        require_text(&path, errors);
        if paths.contains(path.text()) {
            errors.push(path.invalid_value(path.text(), MUST_BE_UNIQUE));
        }
        if path.text().split('/').any(|part| part == "..") {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        } else {
            paths.insert(path.text().to_owned());
        }
        if taken.names.contains(name.text()) {
            let detail = "must not already exist in volumeMounts";
            errors.push(name.invalid_value(name.text(), detail));
        }
        if taken.paths.contains(path.text()) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(path.invalid_value(path.text(), detail));
        }
    }
}
