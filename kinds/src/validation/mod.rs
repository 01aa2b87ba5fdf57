//! Validation of objects (API-146 to API-149, http.md 6.2).
//!
//! Pure functions add all errors of an object or an update, in the order and with the texts of
//! kube-apiserver. Objects have been decoded by their schema, and [`crate::defaults`] has set their
//! defaults. Rules for `metadata` that all kinds share are validated elsewhere.

pub mod addresses;
pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod asn1;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod conditions;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod endpoints;
pub mod enums;
pub mod events;
pub mod expressions;
pub mod flowcontrol;
pub mod immutable;
pub mod limits;
pub mod networking;
pub mod node;
pub mod nodes;
pub mod numbers;
pub mod pods;
pub mod policy;
pub mod ports;
pub mod ratcheting;
pub mod rbac;
pub mod required;
pub mod resource;
pub mod scheduling;
pub mod selectors;
pub mod services;
pub mod storage;
pub mod text_formats;
pub mod workloads;

use api::error_list::ErrorList;
use api::field::{Detail, Field, LazyError};
use api::field_error::FieldErrorKind;

/// Adds an invalid-value error for each message.
pub fn report<'f, D: Into<Detail<'f>>>(
    field: &Field<'f>,
    wrong: impl IntoIterator<Item = D>,
    errors: &mut ErrorList,
) {
    for message in wrong {
        errors.push(match field.value() {
            Some(_) => field.invalid(message),
            None => field.invalid_value("", message),
        });
    }
}

/// Returns the error of a list with too many items.
pub fn too_many<'f>(field: &Field<'f>, limit: usize) -> LazyError<'f> {
    let detail = format!("must have at most {limit} items");
    field.fault_value(FieldErrorKind::TooMany, field.len(), detail)
}
