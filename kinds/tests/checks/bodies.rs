//! Bodies of any bytes, and the rules that each object that is read keeps.

use api::decode::{BodyFormat, decode_object, type_value};
use api::object::Object;
use api::protobuf::to_json;
use api::resource::{Cell, ResourceDefinition};
use kinds::types::TYPES;
use serde_json::Value;

use super::row;

/// What the server makes of an object.
pub fn finished(object: &Object, row: &ResourceDefinition) -> Object {
    let (schema, id) = row.object_type.found().expect("a known type");
    let mut object = object.clone();
    schema.add_structs(id, &mut object.0);
    if let Some(defaults) = row.defaults {
        defaults(&mut object);
    }
    schema.canonicalize(id, &mut object.0);
    object
}

/// What is read, filled in and brought into its canonical form stays as it is when that is done
/// again, and has the same faults.
pub fn check_object(row: &ResourceDefinition, decoded: &Object) {
    let object = finished(decoded, row);
    assert_eq!(object, finished(&object, row), "{row:?} {decoded:?}");
    // What is printed reads as what was printed.
    let printed = Value::Object(object.0.clone());
    let read = type_value(&printed, row.object_type).expect("it is not deeper");
    assert_eq!(read.refusal, None, "{row:?} {printed}");
    assert!(read.faults.is_empty(), "{row:?} {:?}", read.faults);
    let Value::Object(members) = read.value else {
        panic!("an object was read");
    };
    let mut read = Object(members);
    read.set_type(&row.kind, &row.api_version());
    assert_eq!(finished(&read, row), object, "{row:?} {printed}");
    // Validation finds the same faults after a round trip, whatever they are.
    if let Some(validate) = row.create.validate {
        assert_eq!(validate(&object), validate(&finished(&read, row)));
    }
    if let Some(validate) = row.update.validate {
        validate(&object, decoded);
        validate(decoded, &object);
    }
    for column in &row.columns {
        if let Cell::Computed(cell) = column.cell {
            cell(&object, jiff::Timestamp::UNIX_EPOCH);
        }
    }
}

/// The first byte chooses the kind, the others are the body.
fn check(data: &[u8], format: BodyFormat) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let row = row(*kind);
    if let Ok(decoded) = decode_object(body, format, row) {
        check_object(row, &decoded.object);
    }
}

/// A body in JSON, behind a byte that chooses the kind.
pub fn json(data: &[u8]) {
    check(data, BodyFormat::Json);
}

/// A body in YAML, behind a byte that chooses the kind.
pub fn yaml(data: &[u8]) {
    check(data, BodyFormat::Yaml);
}

/// A body in protobuf, behind a byte that chooses the kind of the path.
pub fn protobuf(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let row = row(*kind);
    let Ok(text) = to_json(body, &row.api_version(), &row.kind, &TYPES) else {
        return;
    };
    if let Ok(decoded) = decode_object(&text, BodyFormat::Json, row) {
        check_object(row, &decoded.object);
    }
}
