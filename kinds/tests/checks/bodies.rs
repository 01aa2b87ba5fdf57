//! Arbitrary bodies, and the rules that each decoded object keeps.

use api::decode::{BodyFormat, decode_object, type_value};
use api::error_list::ErrorList;
use api::go_json::write_json;
use api::metadata::{OwnersStage, deduplicate_owners, validate_create, validate_update};
use api::object::Object;
use api::protobuf::{Envelope, Texts, to_json, write_message};
use api::resource::{ResourceDefinition, UpdateCheck};
use api::schema::Empty;
use kinds::types::TYPES;
use kinds::validation::{authentication, authorization, autoscaling, core};
use serde_json::{Map, Value};

use super::{requests, row};

type Validation = fn(&Object, &mut ErrorList);

/// Returns the validation of a kind that is not stored, which its handlers call.
fn unstored_validation(row: &ResourceDefinition) -> Option<Validation> {
    match &*row.kind {
        "Binding" => Some(core::validate_binding),
        "TokenRequest" => Some(authentication::validate_token_request),
        "Scale" => Some(autoscaling::validate_scale),
        "SubjectAccessReview" => Some(authorization::validate_subject_access_review),
        "LocalSubjectAccessReview" => Some(authorization::validate_local_subject_access_review),
        "SelfSubjectAccessReview" => Some(authorization::validate_self_subject_access_review),
        _ => None,
    }
}

/// Returns the errors of a new object.
fn errors(row: &ResourceDefinition, object: &Object) -> ErrorList {
    ErrorList::of(|errors| match unstored_validation(row) {
        Some(validate) => validate(object, errors),
        None => row.behaviour.validate(object, errors),
    })
}

/// Returns the object as the server stores it. Empty values are validated as sent, and then
/// defaulted like absent ones.
pub fn finished(object: &Object, row: &ResourceDefinition) -> Object {
    let mut object = object.clone();
    row.fill_in(&mut object);
    if row.canonicalize_with(&mut object, Empty::Distinguished) {
        errors(row, &object);
        row.canonicalize(&mut object);
        row.fill_in(&mut object);
        row.canonicalize(&mut object);
    }
    object
}

/// Converts managedFields that are still text into a tree, as in an object from another format.
pub(super) fn whole(object: Object) -> Object {
    match object.managed_fields() {
        Some(_) => Object::of(object.into_document()),
        None => object,
    }
}

/// Checks that decoding, defaulting and canonicalization are idempotent, and that errors stay the
/// same.
pub fn check_object(row: &ResourceDefinition, decoded: &Object) {
    let decoded = &whole(decoded.clone());
    let object = finished(decoded, row);
    assert_eq!(object, finished(&object, row), "{row:?} {decoded:?}");
    // A printed object decodes to itself. The text of free-form JSON is not compared: Go prints
    // members in the order that they came in, and a tree has them sorted.
    let printed = Value::Object(object.0.clone());
    let read = type_value(&printed, row.object_type()).expect("it is not deeper");
    assert_eq!(read.refusal, None, "{row:?} {printed}");
    assert!(read.faults.is_empty(), "{row:?} {:?}", read.faults);
    let Value::Object(members) = read.value else {
        panic!("an object was read");
    };
    let mut read = Object::of(members);
    read.set_type(&row.kind, &row.api_version());
    assert_eq!(finished(&read, row).0, object.0, "{row:?} {printed}");
    check_protobuf(row, &object);
    // Validation finds the same errors after a round trip.
    let again = errors(row, &finished(&read, row));
    assert_eq!(errors(row, &object).kept(), again.kept());
    check_metadata(row, &object, decoded);
    if let (true, Some(options)) = (row.kind == "Eviction", object.0.get("deleteOptions")) {
        requests::delete_options(format!("\0{options}").as_bytes());
    }
    let kind = &row.behaviour;
    ErrorList::of(|errors| kind.validate_update("", &object, decoded, errors));
    ErrorList::of(|errors| kind.validate_update("", decoded, &object, errors));
    api::table::cells(row, &object, jiff::Timestamp::UNIX_EPOCH);
}

/// Checks that duplicate owners are dropped once, and that arbitrary metadata can be validated
/// (API-199 to API-208).
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

/// Checks that an object is the same after encoding as protobuf and decoding, and that its JSON has
/// the stored form (API-58, KV-25).
fn check_protobuf(row: &ResourceDefinition, object: &Object) {
    let (schema, id) = row.object_type().found().expect("a known type");
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

/// Returns the JSON of a document with type and metadata first, and all other members sorted.
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

/// Checks a body in a format. The first byte selects the kind.
fn check(data: &[u8], format: BodyFormat) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let row = row(*kind);
    if let Ok(decoded) = decode_object(body, format, row) {
        check_object(row, &decoded.object);
    }
}

/// Checks a JSON body after a byte that selects the kind.
pub fn json(data: &[u8]) {
    check(data, BodyFormat::Json);
}

/// Checks a YAML body after a byte that selects the kind.
pub fn yaml(data: &[u8]) {
    check(data, BodyFormat::Yaml);
}

/// Checks a protobuf body after a byte that selects the kind of the path.
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
