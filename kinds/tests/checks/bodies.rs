//! Bodies of any bytes, and the rules that each object that is read keeps.

use api::decode::{BodyFormat, decode_object, type_value};
use api::error_list::ErrorList;
use api::go_json::write_json;
use api::metadata::{OwnersStage, deduplicate_owners, validate_create, validate_update};
use api::object::Object;
use api::protobuf::{Envelope, Texts, to_json, write_message};
use api::resource::{Cell, ResourceDefinition, UpdateCheck};
use api::schema::Empty;
use kinds::types::TYPES;
use kinds::validation::{authentication, authorization, autoscaling, core};
use serde_json::{Map, Value};

use super::{requests, row};

type Validation = fn(&Object, &mut ErrorList);

/// What finds the faults of new objects. Those that are not stored are checked behind their paths.
fn validation(row: &ResourceDefinition) -> Option<Validation> {
    let unstored: Option<Validation> = match &*row.kind {
        "Binding" => Some(core::validate_binding),
        "TokenRequest" => Some(authentication::validate_token_request),
        "Scale" => Some(autoscaling::validate_scale),
        "SubjectAccessReview" => Some(authorization::validate_subject_access_review),
        "LocalSubjectAccessReview" => Some(authorization::validate_local_subject_access_review),
        "SelfSubjectAccessReview" => Some(authorization::validate_self_subject_access_review),
        _ => None,
    };
    row.create.validate.or(unstored)
}

/// What the server makes of an object. What is given empty is validated as it is, and then filled
/// in as if it were none.
pub fn finished(object: &Object, row: &ResourceDefinition) -> Object {
    let mut object = object.clone();
    fill_in(&mut object, row);
    if row.canonicalize_with(&mut object, Empty::Told) {
        if let Some(validate) = validation(row) {
            ErrorList::of(|errors| validate(&object, errors));
        }
        row.canonicalize(&mut object);
        fill_in(&mut object, row);
        row.canonicalize(&mut object);
    }
    object
}

fn fill_in(object: &mut Object, row: &ResourceDefinition) {
    let (schema, id) = row.object_type.found().expect("a known type");
    schema.add_structs(id, &mut object.0);
    if let Some(defaults) = row.defaults {
        defaults(object);
    }
}

/// The object with managedFields that stayed text as a tree, as of a body that is written
/// otherwise.
pub(super) fn whole(object: Object) -> Object {
    match object.managed_fields() {
        Some(_) => Object::of(object.into_document()),
        None => object,
    }
}

/// What is read, filled in and brought into its canonical form stays as it is when that is done
/// again, and has the same faults.
pub fn check_object(row: &ResourceDefinition, decoded: &Object) {
    let decoded = &whole(decoded.clone());
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
    let mut read = Object::of(members);
    read.set_type(&row.kind, &row.api_version());
    assert_eq!(finished(&read, row), object, "{row:?} {printed}");
    check_protobuf(row, &object);
    // Validation finds the same faults after a round trip, whatever they are.
    if let Some(validate) = validation(row) {
        let errors = |object: &Object| ErrorList::of(|errors| validate(object, errors));
        assert_eq!(errors(&object).kept(), errors(&finished(&read, row)).kept());
    }
    check_metadata(row, &object, decoded);
    if let (true, Some(options)) = (row.kind == "Eviction", object.0.get("deleteOptions")) {
        requests::delete_options(format!("\0{options}").as_bytes());
    }
    if let Some(validate) = row.update.validate {
        ErrorList::of(|errors| validate(&object, decoded, errors));
        ErrorList::of(|errors| validate(decoded, &object, errors));
    }
    for column in &row.columns {
        if let Cell::Computed(cell) = column.cell {
            cell(&object, jiff::Timestamp::UNIX_EPOCH);
        }
    }
}

/// Owners are dropped once, and metadata of any form has faults or none (API-199 to API-208).
fn check_metadata(row: &ResourceDefinition, object: &Object, decoded: &Object) {
    let mut object = object.clone();
    deduplicate_owners(&mut object, OwnersStage::Read);
    assert!(
        deduplicate_owners(&mut object, OwnersStage::Read).is_empty(),
        "{object:?}"
    );
    validate_create(&object, row);
    let checks = [UpdateCheck::Object, UpdateCheck::Changes];
    validate_update(&object, decoded, row, &checks);
    validate_update(decoded, &object, row, &checks);
}

/// An object that becomes protobuf and JSON again is the same, and its text has the form in which
/// objects are stored (API-58, KV-25).
fn check_protobuf(row: &ResourceDefinition, object: &Object) {
    let (schema, id) = row.object_type.found().expect("a known type");
    let (version, kind) = (row.api_version(), &row.kind);
    let document = Value::Object(object.0.clone());
    let mut raw = Vec::new();
    let written = write_message(schema, id, &document, &mut raw);
    written.unwrap_or_else(|error| panic!("{row:?} {document}: {error}"));
    let envelope = Envelope {
        api_version: &version,
        kind,
        raw: &raw,
    };
    let mut body = Vec::new();
    envelope.write(&mut body);
    let text = to_json(&body, "", "", schema, Texts::Strict);
    let text = text.unwrap_or_else(|error| panic!("{row:?} {document}: {error}"));
    let Ok(Value::Object(members)) = serde_json::from_slice(&text) else {
        panic!("no object: {}", String::from_utf8_lossy(&text));
    };
    assert_eq!(text, in_order(&members), "{row:?}");
    assert_eq!(&Object::of(members), object, "{row:?}");
}

/// A document with its type and metadata first and all else sorted.
fn in_order(members: &Map<String, Value>) -> Vec<u8> {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let rest = members.keys().map(|name| &**name);
    let rest = rest.filter(|name| !FIRST.contains(name));
    let shown = FIRST.into_iter().chain(rest);
    let mut text = vec![b'{'];
    for (place, name) in shown.enumerate() {
        if place > 0 {
            text.push(b',');
        }
        write_json(&mut text, name);
        text.push(b':');
        write_json(&mut text, &members[name]);
    }
    text.push(b'}');
    text
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
    let Ok(text) = to_json(body, &row.api_version(), &row.kind, &TYPES, Texts::Strict) else {
        return;
    };
    if let Ok(decoded) = decode_object(&text, BodyFormat::Json, row) {
        check_object(row, &decoded.object);
    }
}
