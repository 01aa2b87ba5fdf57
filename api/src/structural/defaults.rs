//! Defaults of a schema (CRD-135, CRD-136).

use serde_json::{Map, Value};

use super::node::{Flags, Node};

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// Returns whether a schema has any default that [`set_defaults`] may apply.
pub fn has_defaults(schema: Node<'_>) -> bool {
    schema.has(Flags::DEFAULTS_BELOW)
}

/// The limit on the defaults that are copied into one object, in bytes of approximate memory. A
/// list of a million empty items may ask for a million copies. An object with that many is too
/// large to be stored.
const MAX_BYTES: usize = 16 << 20;

/// Applies the defaults of a schema to the members of an object that are absent, or that are null
/// and may not be. A second call changes nothing. Returns whether anything changed. Stops at a
/// bound that no object in a store can reach.
pub fn set_defaults(members: &mut Map<String, Value>, schema: Node<'_>) -> bool {
    let mut defaulting = Defaulting {
        left: MAX_BYTES,
        has_changes: false,
    };
    defaulting.members(members, schema);
    defaulting.has_changes
}

struct Defaulting {
    left: usize,
    has_changes: bool,
}

impl Defaulting {
    /// Returns a copy of a default, unless the bound is reached.
    fn copy(&mut self, default: &Value) -> Option<Value> {
        let left = self.left.checked_sub(bytes(default));
        self.left = left.unwrap_or(0);
        self.has_changes |= left.is_some();
        left.map(|_| default.clone())
    }

    fn replace(&mut self, value: &mut Value, default: &Value) {
        if let Some(default) = self.copy(default) {
            *value = default;
        }
    }

    fn members(&mut self, members: &mut Map<String, Value>, schema: Node<'_>) {
        if !schema.has(Flags::DEFAULTS_BELOW) {
            return;
        }
        for (name, of) in schema.properties() {
            let Some(default) = of.default() else {
                continue;
            };
            match members.get_mut(name) {
                None => {
                    if let Some(default) = self.copy(default) {
                        members.insert(name.to_owned(), default);
                    }
                }
                Some(value) if value.is_null() && !of.is_nullable() => self.replace(value, default),
                Some(_) => {}
            }
        }
        for (name, value) in members {
            if matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_)) {
                continue;
            }
            match schema.property(name) {
                Some(of) => self.below(value, of),
                None => {
                    if let Some(of) = schema.additional_schema() {
                        self.element(value, of);
                    }
                }
            }
        }
    }

    /// Applies defaults to a value of a map or a list, where null is replaced, too.
    fn element(&mut self, value: &mut Value, of: Node<'_>) {
        if value.is_null()
            && !of.is_nullable()
            && let Some(default) = of.default()
        {
            self.replace(value, default);
        }
        self.below(value, of);
    }

    fn below(&mut self, value: &mut Value, of: Node<'_>) {
        if !of.has(Flags::DEFAULTS_BELOW) {
            return;
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match value {
            Value::Object(members) => self.members(members, of),
            Value::Array(items) => {
                for item in items {
                    if let Some(of) = of.items() {
                        self.element(item, of);
                    }
                }
            }
            _ => {}
        });
    }
}

/// Returns the approximate memory of a value.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => 8 + items.iter().map(bytes).sum::<usize>(),
        Value::Object(members) => {
            let members = members.iter();
            8 + members
                .map(|(name, value)| name.len() + 8 + bytes(value))
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::structural::StructuralSchema;

    fn defaulted(schema: &Value, value: Value) -> Value {
        let schema = StructuralSchema::compile(schema);
        let Value::Object(mut members) = value else {
            panic!("an object");
        };
        let before = members.clone();
        let has_changes = set_defaults(&mut members, schema.root());
        assert_eq!(has_changes, before != members);
        assert!(!set_defaults(&mut members, schema.root()));
        Value::Object(members)
    }

    /// CRD-135, CRD-136.
    #[test]
    fn absent_and_invalid_nulls_are_replaced() {
        let inner = json!({"type": "object", "properties": {
            "kind": {"type": "string", "default": "clay"}}});
        let schema = json!({"type": "object", "properties": {
            "size": {"type": "integer", "default": 3}, "soil": inner,
            "maybe": {"type": "string", "nullable": true, "default": "d"},
            "map": {"type": "object", "additionalProperties": inner},
            "list": {"type": "array", "items": inner},
            "whole": {"type": "object", "default": {}, "properties": inner["properties"]},
        }});
        let clay = json!({"kind": "clay"});
        for (given, expected) in [
            (json!({}), json!({"size": 3, "maybe": "d", "whole": clay})),
            (
                json!({"size": null, "maybe": null, "soil": {}, "whole": {"kind": ""}}),
                json!({"size": 3, "maybe": null, "soil": clay, "whole": {"kind": ""}}),
            ),
            (
                json!({"size": 0, "maybe": "", "whole": null, "map": {"a": {}, "b": null},
                    "list": [{}, {"kind": null}, null]}),
                json!({"size": 0, "maybe": "", "whole": clay, "map": {"a": clay, "b": null},
                    "list": [clay, clay, null]}),
            ),
        ] {
            assert_eq!(defaulted(&schema, given), expected);
        }
    }

    /// Defaults of a megabyte are not copied a million times.
    #[test]
    fn defaults_are_bounded() {
        let large = "x".repeat(1 << 20);
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
            "type": "object", "properties": {"a": {"type": "string", "default": large}}}}}});
        let schema = StructuralSchema::compile(&schema);
        let mut members = Map::from_iter([("l".to_owned(), json!(vec![json!({}); 100_000]))]);
        set_defaults(&mut members, schema.root());
        let items = members["l"].as_array().unwrap();
        assert!(items.iter().filter(|item| item.get("a").is_some()).count() < 20);
    }
}
