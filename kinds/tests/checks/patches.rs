//! Patches of any bytes, on any object.

use api::decode::{BodyFormat, decode_object};
use api::options::FieldValidation;
use api::patch::{Patch, PatchKind};
use serde_json::{Value, json};

use super::{halves, row};

/// The result of a merge patch as RFC 7386 defines it.
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

/// A byte that chooses the kind, an object, a zero byte, a patch. A patch is carried out or refused
/// on every object, and one that was carried out is carried out in the same way again.
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
    let apply = || patch.apply(&before.object, row, FieldValidation::Ignore);
    let (Ok(first), Ok(second)) = (apply(), apply()) else {
        return;
    };
    assert_eq!(first, second);
    super::bodies::check_object(row, &first.object);
    if kind == PatchKind::Merge {
        let document: Value = serde_json::from_slice(body).expect("it was read");
        let wanted = merged(Value::Object(before.object.0), &document).to_string();
        let mut wanted = decode_object(wanted.as_bytes(), BodyFormat::Json, row)
            .expect("the patched object was read")
            .object;
        wanted.0.entry("kind").or_insert_with(|| json!(row.kind));
        assert_eq!(first.object, wanted);
    }
}

/// A JSON patch.
pub fn json(data: &[u8]) {
    check(data, PatchKind::Json);
}

/// A merge patch, whose result is that of RFC 7386.
pub fn merge(data: &[u8]) {
    check(data, PatchKind::Merge);
}

/// A strategic merge patch (API-163 to API-167).
pub fn strategic(data: &[u8]) {
    check(data, PatchKind::Strategic);
}
