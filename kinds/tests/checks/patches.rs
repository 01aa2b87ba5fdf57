//! Arbitrary patches of any object.

use std::collections::HashSet;

use api::decode::{BodyFormat, decode_object, decode_value};
use api::object::Object;
use api::options::FieldValidation;
use api::patch::{Patch, PatchKind};
use api::resource::ResourceDefinition;
use api::schema::{PatchStrategy, Schema, Shape, StructId};
use serde_json::{Map, Value, json};

use super::bodies::{check_object, whole};
use super::{halves, row};

/// Returns the result of a merge patch as RFC 7386 defines it.
fn merged(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut result = match target {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            result.remove(name);
        } else {
            let before = result.remove(name).unwrap_or_default();
            result.insert(name.clone(), merged(before, value));
        }
    }
    Value::Object(result)
}

/// Checks a byte that selects the kind, an object, a zero byte and a patch. A patch of an object
/// succeeds or is refused, and a successful one gives the same result again.
fn check(data: &[u8], kind: PatchKind) {
    let Some((byte, rest)) = data.split_first() else {
        return;
    };
    let row = row(*byte);
    let Some((object, body)) = halves(rest) else {
        return;
    };
    let Ok(before) = decode_object(object, BodyFormat::Json, row) else {
        return;
    };
    let Ok(patch) = Patch::parse(kind, body) else {
        return;
    };
    patch.touches_version();
    let before = whole(before.object);
    let apply = || patch.apply(&before, row, FieldValidation::Ignore);
    let (Ok(first), Ok(second)) = (apply(), apply()) else {
        return;
    };
    assert_eq!(first, second);
    check_object(row, &first.object);
    if kind == PatchKind::Merge {
        let (document, _) = decode_value(body, BodyFormat::Json).expect("it was read");
        let wanted = merged(Value::Object(before.0), &document).to_string();
        let mut wanted = decode_object(wanted.as_bytes(), BodyFormat::Json, row)
            .expect("the patched object was read")
            .object;
        wanted = whole(wanted);
        wanted.0.entry("kind").or_insert_with(|| json!(row.kind));
        assert_eq!(first.object, wanted);
    }
}

/// Checks that a strategic merge of an object's own document changes nothing, if the items of its
/// lists have distinct keys, and no value is a directive or deletes another (API-163).
pub fn equal_documents(row: &ResourceDefinition, object: &Object) {
    let (schema, id) = row.object_type().found().expect("a known type");
    let Some(is_merged) = is_own_merge(schema, id, &object.0) else {
        return;
    };
    let document = Value::Object(object.0.clone()).to_string();
    let patch = Patch::parse(PatchKind::Strategic, document.as_bytes()).expect("a patch");
    let patched = patch.apply(object, row, FieldValidation::Strict);
    let mut patched = patched.unwrap_or_else(|error| panic!("{row:?} {document}: {error:?}"));
    row.canonicalize(&mut patched.object);
    assert_eq!(patched.object, *object, "{row:?} {is_merged}");
}

/// Reports whether these members have lists that are merged. Returns `None` if a merge with itself
/// may change something.
fn is_own_merge(schema: &Schema, id: StructId, members: &Map<String, Value>) -> Option<bool> {
    let of = schema.get(id)?;
    let mut found = false;
    for (name, value) in members {
        let Some(field) = of.field(name) else {
            // `kind` and `apiVersion` are part of the type and not fields.
            continue;
        };
        let merges = |patch: &&api::schema::Patch| patch.strategies.contains(&PatchStrategy::Merge);
        if let (Some(patch), Value::Array(items)) = (field.patch.as_deref().filter(merges), value) {
            let keys = items.iter().map(|item| match &patch.key {
                Some(key) => item.get(key).filter(|key| !key.is_null()),
                None => Some(item),
            });
            let keys: Vec<String> = keys
                .map(|key| Some(key?.to_string()))
                .collect::<Option<_>>()?;
            if keys.iter().collect::<HashSet<_>>().len() < keys.len() {
                return None;
            }
            found |= keys.len() > 1;
        }
        found |= is_own_merge_of_value(schema, &field.of.shape, value)?;
    }
    Some(found)
}

fn is_own_merge_of_value(schema: &Schema, shape: &Shape, value: &Value) -> Option<bool> {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(members)) => is_own_merge(schema, *id, members),
        (Shape::List(item), Value::Array(items)) => {
            let each = |value| is_own_merge_of_value(schema, &item.shape, value);
            any(items.iter().map(each))
        }
        (Shape::Map(item), Value::Object(members)) => {
            // Kubernetes cannot merge lists in maps.
            let has_lists = matches!(item.shape, Shape::List(_)) && !members.is_empty();
            let deletes = |(key, value): (&String, &Value)| key.starts_with('$') || value.is_null();
            if has_lists || members.iter().any(deletes) {
                return None;
            }
            let each = |value| is_own_merge_of_value(schema, &item.shape, value);
            any(members.values().map(each))
        }
        (Shape::Object | Shape::Any, value) => {
            // Kubernetes merges raw values as structs without any known fields.
            let has_parts = value.is_array() || value.is_object();
            (!has_parts).then_some(false)
        }
        _ => Some(false),
    }
}

/// Reports whether any is true. Returns `None` if one is unknown.
fn any(all: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let all: Option<Vec<bool>> = all.collect();
    Some(all?.contains(&true))
}

/// Checks a JSON patch.
pub fn json(data: &[u8]) {
    check(data, PatchKind::Json);
}

/// Checks a merge patch, whose result is that of RFC 7386.
pub fn merge(data: &[u8]) {
    check(data, PatchKind::Merge);
}

/// Checks a strategic merge patch (API-163 to API-167).
pub fn strategic(data: &[u8]) {
    check(data, PatchKind::Strategic);
}
