//! Writes that change nothing but the times of entries (API-104, API-191).

use serde_json::{Map, Value};

use super::entry::written_entries;
use crate::object::Object;

type Members = Map<String, Value>;

/// Restores the times of an object's entries from the stored object if nothing else differs, so
/// that a write without changes stores nothing.
pub fn keep_times(object: &mut Object, stored: &Object) {
    if object.managed_fields() == stored.managed_fields() || !is_rest_equal(object, stored) {
        return;
    }
    let (Ok(new), Ok(old)) = (written_entries(object), written_entries(stored)) else {
        return;
    };
    let mut pairs = new.iter().zip(&old);
    if new.len() == old.len() && pairs.all(|(new, old)| new.is_same_but_time(old)) {
        object.set_managed_fields(stored.managed_fields().cloned());
    }
}

/// Returns whether members are equal, except those with these names.
fn are_equal(one: &Members, other: &Members, but: &[&str]) -> bool {
    // linear: callers leave out one name.
    let counts = |name: &str| !but.contains(&name);
    let number = |members: &Members| members.keys().filter(|name| counts(name)).count();
    number(one) == number(other)
        && one
            .iter()
            .filter(|(name, _)| counts(name))
            .all(|(name, value)| other.get(name) == Some(value))
}

/// Returns whether two objects are equal, except for managedFields and `resourceVersion`, which is
/// not stored.
fn is_rest_equal(one: &Object, other: &Object) -> bool {
    let (Some(ours), Some(theirs)) = (one.metadata(), other.metadata()) else {
        return false;
    };
    are_equal(&one.0, &other.0, &["metadata"]) && are_equal(ours, theirs, &["resourceVersion"])
}
