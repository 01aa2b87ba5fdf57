//! Warnings about valid objects (API-94, API-103).
//!
//! Pure functions return all warnings about an object or an update, in the order and with the texts
//! of kube-apiserver 1.36. Objects have defaults, are prepared and valid. The texts go into
//! `Warning` headers of the response.

mod addresses;
pub mod admissionregistration;
pub mod apiextensions;
pub mod batch;
pub mod core;
pub mod discovery;
pub mod limits;
pub mod networking;
pub mod node;
pub mod nodes;
pub mod pods;
pub mod resource;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod workloads;

use std::fmt::Display;

use api::field::Field;
use api::object::Object;
use api::quantity::{printed, seems_whole};
use api::text::quoting::GoQuoted;
use api::warnings::Warnings;

/// The annotation that named the StorageClass of volumes and claims before it became a field.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Adds a warning about a field.
fn warn(field: &Field<'_>, text: impl Display, warnings: &Warnings) {
    warnings.add(format!("{}: {text}", field.path()));
}

/// Quotes a text as Go's `%q` does.
fn quoted(text: &str) -> GoQuoted<'_> {
    GoQuoted(text)
}

/// Warns of fractions of a byte.
fn warn_of_fraction(field: &Field<'_>, warnings: &Warnings) {
    let text = field.text();
    if seems_whole(text) == Ok(false) {
        let shown = printed(text).unwrap_or_default();
        let shown = quoted(&shown);
        let text = format!("fractional byte value {shown} is invalid, must be an integer");
        warn(field, text, warnings);
    }
}

/// Warns of an annotation that has been replaced.
fn warn_of_annotation(metadata: &Field<'_>, key: &str, text: &str, warnings: &Warnings) {
    let annotations = metadata.member("annotations");
    let annotation = annotations.key(key);
    if annotation.is_set() {
        warn(&annotation, text, warnings);
    }
}

/// Reports whether a write is a create or raises the generation.
fn is_new_generation(object: &Object, stored: Option<&Object>) -> bool {
    let generation = ["metadata", "generation"];
    stored.is_none_or(|stored| stored.at(&generation) != object.at(&generation))
}
