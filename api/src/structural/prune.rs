//! What a schema drops of a value: the members that it doesn't know (CRD-125 to CRD-127).

use serde_json::{Map, Value};

use super::{Additional, Structural};

/// The members that every whole object has.
const OBJECT_MEMBERS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the members that the schema doesn't know. `is_root` says that the value is a whole object.
/// Answers whether something was dropped.
pub fn prune(value: &mut Value, schema: &Structural, is_root: bool) -> bool {
    match value {
        Value::Array(items) => {
            let Some(of) = &schema.items else {
                return false;
            };
            let mut dropped = false;
            for item in items {
                dropped |= prune(item, of, of.is_embedded);
            }
            dropped
        }
        Value::Object(members) => prune_members(members, schema, is_root),
        _ => false,
    }
}

fn prune_members(members: &mut Map<String, Value>, schema: &Structural, is_root: bool) -> bool {
    let is_object_member = |name: &str| is_root && OBJECT_MEMBERS.contains(&name);
    let before = members.len();
    if !schema.keeps_unknown && matches!(schema.additional, Additional::Unsaid) {
        members.retain(|name, _| is_object_member(name) || schema.properties.contains_key(name));
    }
    let mut dropped = members.len() != before;
    for (name, value) in members {
        if is_object_member(name) {
            continue;
        }
        match (schema.properties.get(name), &schema.additional) {
            (Some(of), _) => dropped |= prune(value, of, of.is_embedded),
            (None, Additional::Schema(of)) => dropped |= prune(value, of, of.is_embedded),
            _ => {}
        }
    }
    dropped
}
