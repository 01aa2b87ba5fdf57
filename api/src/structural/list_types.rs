//! Uniqueness of the items of sets and maps (CRD-155).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::keyed_path::KeyedPath;
use super::node::{Flags, ListType, Node};
use crate::error_list::ErrorList;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::go_json;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// Reports items of sets and maps that occur more than once in an object.
pub fn validate_list_types(members: &Map<String, Value>, schema: Node<'_>, errors: &mut ErrorList) {
    if !schema.has(Flags::KEYED_IN) {
        return;
    }
    let mut found = |error| errors.push(error);
    Walk { found: &mut found }.members(members, schema, &KeyedPath::Top);
}

/// Returns whether every set and map of an object has different items.
pub fn has_valid_lists(members: &Map<String, Value>, schema: Node<'_>) -> bool {
    let mut is_valid = true;
    if schema.has(Flags::KEYED_IN) {
        let mut found = |_| is_valid = false;
        Walk { found: &mut found }.members(members, schema, &KeyedPath::Top);
    }
    is_valid
}

/// Calls a function for each item that occurs before.
struct Walk<'w> {
    found: &'w mut dyn FnMut(FieldError),
}

impl Walk<'_> {
    fn members(&mut self, members: &Map<String, Value>, schema: Node<'_>, at: &KeyedPath<'_>) {
        // kube-apiserver visits the members by the schema of additional ones first.
        for (name, value) in members {
            if let Some(of) = schema.additional_schema() {
                self.value(value, of, &KeyedPath::Key(at, name));
            }
        }
        for (name, value) in members {
            if let Some(of) = schema.property(name) {
                self.value(value, of, &KeyedPath::Member(at, name));
            }
        }
    }

    fn value(&mut self, value: &Value, schema: Node<'_>, at: &KeyedPath<'_>) {
        if !schema.has(Flags::KEYED_IN) {
            return;
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match value {
            Value::Object(members) => self.members(members, schema, at),
            Value::Array(items) => {
                match schema.list_type() {
                    ListType::Atomic => {}
                    ListType::Set => self.duplicates(items.iter().map(Some), at, Value::clone),
                    ListType::Map => self.map(items, schema.list_keys(), at),
                }
                for (place, item) in items.iter().enumerate() {
                    if let Some(of) = schema.items() {
                        self.value(item, of, &KeyedPath::Item(at, place));
                    }
                }
            }
            _ => {}
        });
    }

    /// Reports the second item of each group of equal ones. `None` stands for an absent value.
    fn duplicates<'v>(
        &mut self,
        items: impl Iterator<Item = Option<&'v Value>>,
        at: &KeyedPath<'_>,
        shown: impl Fn(&Value) -> Value,
    ) {
        let mut times: HashMap<Option<Vec<u8>>, usize> = HashMap::new();
        for (place, item) in items.enumerate() {
            let key = item.map(key_of);
            let times = times.entry(key).or_default();
            *times += 1;
            if *times == 2 {
                let path = KeyedPath::Item(at, place).to_string();
                let value = item.map_or_else(|| json!({}), &shown);
                let kind = FieldErrorKind::Duplicate;
                (self.found)(FieldError::new(kind, path, &value, ""));
            }
        }
    }

    fn map(&mut self, items: &[Value], names: &[String], at: &KeyedPath<'_>) {
        let is_member = |item: &Value| item.is_object() || item.is_null();
        if let Some(place) = items.iter().position(|item| !is_member(item)) {
            let path = KeyedPath::Item(at, place).to_string();
            let value = items.get(place).cloned().unwrap_or_default();
            let detail = "must be an object for an array of list-type map";
            (self.found)(FieldError::invalid(path, value, detail));
            return;
        }
        if let [name] = names {
            let keys = items.iter().map(|item| item.get(name));
            self.duplicates(keys, at, |key| json!({ name: key }));
            return;
        }
        let keys = items.iter().map(|item| {
            let members = names.iter().filter_map(|name| {
                let value = item.get(name)?;
                Some((name.clone(), value.clone()))
            });
            Value::Object(members.collect())
        });
        let keys: Vec<Value> = keys.collect();
        self.duplicates(keys.iter().map(Some), at, Value::clone);
    }
}

/// Returns a key that equal values share. As in Go, a scalar float differs from the integer that it
/// equals, but inside lists and objects both have the same JSON.
fn key_of(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    match value {
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            key.extend_from_slice(b"float ");
            // A zero equals its negative.
            key.extend_from_slice(&(float + 0.0).to_bits().to_le_bytes());
        }
        Value::Array(_) | Value::Object(_) => {
            go_json::write_value(&mut key, &super::canonical::printed(value));
        }
        other => go_json::write_value(&mut key, other),
    }
    key
}
