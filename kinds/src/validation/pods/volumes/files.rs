//! Validation of paths and modes of files in volumes.

use api::field::Field;

use crate::validation::enums::must_be_one_of;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Validates a hostPath volume.
pub fn validate_host_path(source: &Field<'_>, errors: &mut ErrorList) {
    let path = source.member("path");
    if require_text(&path, errors) {
        validate_no_backsteps(&path, errors);
        let of = source.member("type");
        must_be_one_of(&of, &HOST_PATH_TYPES, errors);
    }
}

/// Validates a gitRepo volume.
pub fn validate_git_repo(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("repository"), errors);
    validate_descending_path(&source.member("directory"), errors);
}

/// Validates that no part of a path is `..`.
pub fn validate_no_backsteps(path: &Field<'_>, errors: &mut ErrorList) {
    if path.text().split('/').any(|part| part == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
}

/// Validates that a path is relative and without `..`.
pub fn validate_descending_path(path: &Field<'_>, errors: &mut ErrorList) {
    if path.text().starts_with('/') {
        errors.push(path.invalid("must be a relative path"));
    }
    validate_no_backsteps(path, errors);
}

/// Validates that a path is relative, without `..`, and does not start with two dots.
pub fn validate_local_path(path: &Field<'_>, errors: &mut ErrorList) {
    validate_descending_path(path, errors);
    let text = path.text();
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(path.invalid("must not start with '..'"));
    }
}

/// Validates the mode of files, if any.
pub fn validate_mode(mode: &Field<'_>, errors: &mut ErrorList) {
    if mode.int().is_some_and(|bits| !(0..=0o777).contains(&bits)) {
        errors.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}
