//! What happens to an object of a kind before it is stored, as data (http.md 6.2): which part of it a
//! writer owns, and the functions for what no rule can say. All of them are pure.

use jiff::Timestamp;

use super::FieldPath;
use crate::api::field_error::FieldError;
use crate::api::object::Object;

/// How an object is created.
#[derive(Clone, Default)]
pub struct CreateStrategy {
    /// What is dropped of the body.
    pub drops: Vec<FieldPath>,
    /// Fills in and normalizes what is about to be created.
    pub prepare: Option<fn(&mut Object)>,
    /// What is wrong with it, beside its metadata.
    pub validate: Option<fn(&Object) -> Vec<FieldError>>,
}

/// How an object is updated at one endpoint: its own, or that of a subresource.
#[derive(Clone, Default)]
pub struct UpdateStrategy {
    /// What stays as stored, whatever the body says of it.
    pub keeps: Vec<FieldPath>,
    /// Fills in and normalizes what is about to replace the second object.
    pub prepare: Option<fn(&mut Object, &Object)>,
    /// What is wrong with a change of the second object into the first, beside metadata.
    pub validate: Option<fn(&Object, &Object) -> Vec<FieldError>>,
}

/// How an object is deleted.
#[derive(Clone, Default)]
pub struct DeleteStrategy {
    /// Seconds of grace for an object of a kind that is deleted gracefully, from those that the
    /// request names (API-112).
    pub grace: Option<fn(&Object, Option<i64>) -> i64>,
    /// Whether something else than finalizers in its metadata keeps an object that is marked.
    pub is_held: Option<fn(&Object) -> bool>,
    /// The first marking for deletion, for kinds that do it in a way of their own.
    pub mark: Option<fn(&mut Object, Timestamp)>,
}
