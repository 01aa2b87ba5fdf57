//! What a schema drops of a value: the members that it doesn't know (CRD-125 to CRD-127).

use serde_json::{Map, Value};

use super::{Additional, Structural};

/// The stack that a level takes, and what is added when it is short.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The members that every whole object has.
const OBJECT_MEMBERS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the members that the schema doesn't know. `is_root` says that the value is a whole object.
/// Answers whether something was dropped.
pub fn prune(value: &mut Value, schema: &Value, is_root: bool) -> bool {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
        let schema = Structural::read(schema);
        match value {
            Value::Array(items) => {
                let mut dropped = false;
                for item in items {
                    dropped |= schema.items.is_some_and(|of| prune_below(item, of));
                }
                dropped
            }
            Value::Object(members) => prune_members(members, &schema, is_root),
            _ => false,
        }
    })
}

fn prune_below(value: &mut Value, schema: &Value) -> bool {
    let is_embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    prune(value, schema, is_embedded)
}

fn prune_members(members: &mut Map<String, Value>, schema: &Structural<'_>, is_root: bool) -> bool {
    let is_object_member = |name: &str| is_root && OBJECT_MEMBERS.contains(&name);
    let before = members.len();
    if !schema.keeps_unknown && matches!(schema.additional, Additional::Unsaid) {
        members.retain(|name, _| is_object_member(name) || schema.property(name).is_some());
    }
    let mut dropped = members.len() != before;
    for (name, value) in members {
        if is_object_member(name) {
            continue;
        }
        match (schema.property(name), schema.additional) {
            (Some(of), _) | (None, Additional::Schema(of)) => dropped |= prune_below(value, of),
            _ => {}
        }
    }
    dropped
}
