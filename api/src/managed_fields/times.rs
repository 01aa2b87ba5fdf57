//! Writes that would change nothing but the times of entries (API-104, API-191).

use serde_json::{Map, Value};

use super::entry::stored_entries;
use crate::object::Object;

type Members = Map<String, Value>;

/// Gives the entries of an object the times that they have in the stored one, if nothing else
/// differs. So a write that changes nothing stays one that stores nothing.
pub fn keep_times(object: &mut Object, stored: &Object) {
    let (new, old) = (stored_entries(object), stored_entries(stored));
    if new.is_empty() || new.len() != old.len() || new == old {
        return;
    }
    let mut pairs = new.iter().zip(old);
    if !pairs.all(|(new, old)| is_equal(new, old, &["time"])) || !is_rest_equal(object, stored) {
        return;
    }
    let old = Value::Array(old.to_vec());
    object
        .metadata_mut()
        .insert("managedFields".to_owned(), old);
}

/// Whether two values are equal. Of objects these members don't count.
fn is_equal(one: &Value, other: &Value, but: &[&str]) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => are_equal(one, other, but),
        _ => one == other,
    }
}

fn are_equal(one: &Members, other: &Members, but: &[&str]) -> bool {
    let counts = |name: &str| !but.contains(&name);
    let number = |members: &Members| members.keys().filter(|name| counts(name)).count();
    number(one) == number(other)
        && one
            .iter()
            .filter(|(name, _)| counts(name))
            .all(|(name, value)| other.get(name) == Some(value))
}

/// Whether two objects are equal but for managedFields, and for the version that is not stored.
fn is_rest_equal(one: &Object, other: &Object) -> bool {
    let (Some(ours), Some(theirs)) = (one.metadata(), other.metadata()) else {
        return false;
    };
    are_equal(&one.0, &other.0, &["metadata"])
        && are_equal(ours, theirs, &["managedFields", "resourceVersion"])
}
