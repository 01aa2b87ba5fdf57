//! What the server fills in of objects (http.md 7, API-245 to API-260).
//!
//! This folder owns a pure function for each kind, named after it: an object enters that was
//! decoded by its schema, and leaves with what its writer left out. Filling in twice changes
//! nothing more.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod authentication;
pub mod autoscaling;
pub mod batch;
pub mod core;
pub mod flowcontrol;
pub mod limits;
pub mod networking;
pub mod pods;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod workloads;

use serde_json::{Map, Value};

/// The members of a struct, if it is there.
pub type Members = Map<String, Value>;

/// A struct below a struct, if it is there.
pub fn member<'m>(members: &'m mut Members, name: &str) -> Option<&'m mut Members> {
    members.get_mut(name)?.as_object_mut()
}

/// A struct below a struct. It is made if it is not there.
pub fn member_or_new<'m>(members: &'m mut Members, name: &str) -> Option<&'m mut Members> {
    let slot = members.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// The structs in a list, if it is there.
pub fn items<'m>(members: &'m mut Members, name: &str) -> impl Iterator<Item = &'m mut Members> {
    let list = members.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a value that is absent, null, or an empty text.
pub fn set_default(members: &mut Members, name: &str, value: impl Into<Value>) {
    let is_unset = match members.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if is_unset {
        members.insert(name.to_owned(), value.into());
    }
}

/// Sets a value that is absent or null. An empty text stays, as it was given.
pub fn set_absent(members: &mut Members, name: &str, value: impl Into<Value>) {
    let slot = members.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// Sets a whole number that is absent or 0.
pub fn set_number(members: &mut Members, name: &str, value: i64) {
    if members.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
        members.insert(name.to_owned(), value.into());
    }
}
