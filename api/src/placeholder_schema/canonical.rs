//! The canonical form of objects with equal meaning.
//!
//! Kubernetes decodes into typed structs and does not print empty members. A client that sends
//! `"labels":{}` or `"finalizers":null` gets an object without them, and an update between both
//! forms changes nothing (PF-3). This module has no types, so it does the same for `metadata`, for
//! members with known types, and for nulls, which mean "absent" in every built-in kind.

use serde_json::{Map, Value};

use super::{MemberType, PlaceholderSchema};
use crate::object::Object;

impl PlaceholderSchema {
    /// Drops everything that counts as absent: nulls anywhere, empty members of `metadata`, and
    /// empty maps, lists and texts among the members with known types (API-254).
    pub fn canonicalize(&self, object: &mut Object) {
        drop_nulls(&mut object.0);
        if let Some(Value::Object(metadata)) = object.0.get_mut("metadata") {
            metadata.retain(|_, value| !is_empty(value));
        }
        for (name, member_type) in &self.members {
            if omitted_when_empty(*member_type) && object.0.get(name).is_some_and(is_empty) {
                object.0.remove(name);
            }
        }
    }
}

/// Empty objects, numbers and booleans are kept: `spec: {}`, `immutable: false`.
fn omitted_when_empty(member_type: MemberType) -> bool {
    use MemberType as T;
    matches!(
        member_type,
        T::StringMap | T::Base64Map | T::String | T::List
    )
}

fn drop_nulls(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    for value in members.values_mut() {
        drop_nulls_within(value);
    }
}

fn drop_nulls_within(value: &mut Value) {
    match value {
        Value::Object(members) => drop_nulls(members),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls_within),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(value: Value, schema: &PlaceholderSchema) -> Value {
        let Value::Object(members) = value else {
            panic!("an object is given");
        };
        let mut object = Object(members);
        schema.canonicalize(&mut object);
        Value::Object(object.0)
    }

    /// PF-3, API-254: empty and null mean absent.
    #[test]
    fn empty_members_are_dropped() {
        let given = json!({
            "metadata": {"name": "a", "labels": {}, "finalizers": [], "annotations": null,
                         "generateName": "", "ownerReferences": [], "generation": 7},
            "data": {}, "binaryData": null, "immutable": false,
        });
        let kept = json!({"metadata": {"name": "a", "generation": 7}, "immutable": false});
        let schema = PlaceholderSchema::of(&[
            ("data", MemberType::StringMap),
            ("binaryData", MemberType::Base64Map),
            ("immutable", MemberType::Bool),
        ]);
        assert_eq!(canonical(given, &schema), kept);
    }

    /// http.md 6.2: members without a known type are kept except nulls. An empty spec stays.
    #[test]
    fn fields_without_a_type_stay() {
        let schema = PlaceholderSchema::of(&[("spec", MemberType::Object)]);
        let given = json!({"metadata": {"name": "a"}, "spec": {}});
        assert_eq!(canonical(given.clone(), &schema), given);
        let given = json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "command": null}], "volumes": [],
                     "securityContext": {}, "nodeName": null},
        });
        let kept = json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c"}], "volumes": [], "securityContext": {}},
        });
        assert_eq!(canonical(given, &schema), kept);
    }
}
