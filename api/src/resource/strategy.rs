//! The changes and checks of an object before it is stored, as data (http.md 6.2): the parts that a
//! writer owns, and pure functions for everything that a rule can't express.

use jiff::Timestamp;

use super::FieldPath;
use crate::field_error::FieldError;
use crate::object::Object;
use crate::user_info::UserInfo;

/// The rules for creating an object.
#[derive(Clone, Default)]
pub struct CreateStrategy {
    /// The parts of the body that are dropped.
    pub drops: Vec<FieldPath>,
    /// Says in the new object who asks for it.
    pub requester: Option<fn(&mut Object, &UserInfo)>,
    /// Fills in and normalizes the new object.
    pub prepare: Option<fn(&mut Object)>,
    /// The faults in the object, apart from its metadata.
    pub validate: Option<fn(&Object) -> Vec<FieldError>>,
}

/// The rules for updating an object at one endpoint, its own or that of a subresource.
#[derive(Clone, Default)]
pub struct UpdateStrategy {
    /// The parts that stay as stored, whatever the body contains.
    pub keeps: Vec<FieldPath>,
    /// The parts that managedFields leave out of what is written here, because the endpoint writes
    /// them for nobody (API-179).
    pub resets: Vec<FieldPath>,
    /// Fills in and normalizes the first object, which replaces the second.
    pub prepare: Option<fn(&mut Object, &Object)>,
    /// Sets the times of what a change of the second object into the first brings.
    pub stamp: Option<fn(&mut Object, &Object, Timestamp)>,
    /// The faults in a change of the second object into the first, apart from metadata.
    pub validate: Option<fn(&Object, &Object) -> Vec<FieldError>>,
}

/// The rules for deleting an object.
#[derive(Clone, Default)]
pub struct DeleteStrategy {
    /// The grace period in seconds for a kind with graceful deletion, from the requested seconds
    /// (API-112).
    pub grace: Option<fn(&Object, Option<i64>) -> i64>,
    /// Whether something other than finalizers keeps an object that is marked for deletion.
    pub is_held: Option<fn(&Object) -> bool>,
    /// The first marking for deletion, for kinds with their own way of marking.
    pub mark: Option<fn(&mut Object, Timestamp)>,
}
