//! What the server warns the writers of valid objects of (API-94, API-103).
//!
//! This folder owns pure functions that find all warnings about an object, or about a change to
//! one, in the order and with the texts of kube-apiserver 1.36. Objects enter that are filled in,
//! prepared and valid. Texts leave, for the `Warning` headers of the answer.

mod addresses;
pub mod networking;
pub mod nodes;
pub mod others;
pub mod pods;
pub mod schemas;
pub mod secrets;
pub mod storage;
pub mod templates;
#[cfg(test)]
mod tests;

use std::fmt::Display;

use api::field::Field;
use api::field_error::GoQuoted;
use api::object::Object;
use api::quantity::{printed, seems_whole};
use api::warnings::Warnings;

/// The annotation that once named the class of volumes and claims.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Adds a warning about a field.
fn warn(field: &Field<'_>, text: impl Display, warnings: &Warnings) {
    warnings.add(format!("{}: {text}", field.path()));
}

/// Text in double quotes, as Go writes it.
fn quoted(text: &str) -> GoQuoted<'_> {
    GoQuoted(text)
}

/// Bytes have no fractions.
fn warn_of_fraction(field: &Field<'_>, warnings: &Warnings) {
    let text = field.text();
    if seems_whole(text) == Ok(false) {
        let shown = printed(text).unwrap_or_default();
        let shown = quoted(&shown);
        let text = format!("fractional byte value {shown} is invalid, must be an integer");
        warn(field, text, warnings);
    }
}

/// An annotation that has another place now.
fn warn_of_annotation(metadata: &Field<'_>, key: &str, text: &str, warnings: &Warnings) {
    let annotations = metadata.member("annotations");
    let annotation = annotations.key(key);
    if annotation.is_set() {
        warn(&annotation, text, warnings);
    }
}

/// Whether a write is a creation or raises the generation of its object.
fn is_new_generation(object: &Object, stored: Option<&Object>) -> bool {
    let generation = ["metadata", "generation"];
    stored.is_none_or(|stored| stored.at(&generation) != object.at(&generation))
}
