//! Defaulting of objects (http.md 7, API-245 to API-260).
//!
//! For each kind, a pure function of its name sets the fields that a client left out. Objects have
//! been decoded by their schema. Defaulting is idempotent.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod authentication;
pub mod autoscaling;
pub mod batch;
pub mod complete;
pub mod core;
pub mod discovery;
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

/// The version of all defaulting functions together. An embedded store remembers which version set
/// the defaults of its objects, and applies defaulting on reads if that is another one (KV-31).
///
/// Raise it when any function sets other defaults than before. The test
/// `recorded_bodies_are_filled_in_as_this_version_says` fails until then.
pub const VERSION: u32 = 1;

/// The members of a struct.
pub type Members = Map<String, Value>;

/// Returns a member that is a struct.
pub fn member<'m>(members: &'m mut Members, name: &str) -> Option<&'m mut Members> {
    members.get_mut(name)?.as_object_mut()
}

/// Returns a member that is a struct. Creates it if it is absent or null.
pub fn member_or_new<'m>(members: &'m mut Members, name: &str) -> Option<&'m mut Members> {
    let slot = members.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// Returns the structs in a member that is a list.
pub fn items<'m>(members: &'m mut Members, name: &str) -> impl Iterator<Item = &'m mut Members> {
    let list = members.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a value that is absent, null, or an empty string.
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

/// Sets a value that is absent or null. An explicit empty string stays.
pub fn set_absent(members: &mut Members, name: &str, value: impl Into<Value>) {
    let slot = members.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// Sets an integer that is absent or 0.
pub fn set_number(members: &mut Members, name: &str, value: i64) {
    if members.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
        members.insert(name.to_owned(), value.into());
    }
}
