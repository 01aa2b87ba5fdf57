//! What is refused of paths and modes of files in volumes.

use api::field::Field;

use crate::validation::Faults;
use crate::validation::formats::{one_of, require_text};

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

/// The faults of a path of the node.
pub fn validate_host_path(source: &Field<'_>, faults: &mut Faults) {
    let path = source.member("path");
    if require_text(&path, faults) {
        validate_no_backsteps(&path, faults);
        let of = source.member("type");
        one_of(&of, &HOST_PATH_TYPES, faults);
    }
}

/// The faults of a repository.
pub fn validate_git_repo(source: &Field<'_>, faults: &mut Faults) {
    require_text(&source.member("repository"), faults);
    validate_descending_path(&source.member("directory"), faults);
}

/// A path may not have `..` as one of its parts.
pub fn validate_no_backsteps(path: &Field<'_>, faults: &mut Faults) {
    if path.text().split('/').any(|part| part == "..") {
        faults.push(path.invalid("must not contain '..'"));
    }
}

/// A path must be relative, and without `..`.
pub fn validate_descending_path(path: &Field<'_>, faults: &mut Faults) {
    if path.text().starts_with('/') {
        faults.push(path.invalid("must be a relative path"));
    }
    validate_no_backsteps(path, faults);
}

/// A path must be relative, without `..`, and may not begin with it.
pub fn validate_local_path(path: &Field<'_>, faults: &mut Faults) {
    validate_descending_path(path, faults);
    let text = path.text();
    if text.starts_with("..") && !text.starts_with("../") {
        faults.push(path.invalid("must not start with '..'"));
    }
}

/// The faults of permissions of files, if there are any.
pub fn validate_mode(mode: &Field<'_>, faults: &mut Faults) {
    if mode.int().is_some_and(|bits| !(0..=0o777).contains(&bits)) {
        faults.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}
