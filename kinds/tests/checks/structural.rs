//! Objects of custom resources with arbitrary schemas: none causes a panic, and the steps of
//! reading and writing hold together (crd.md 7 to 9).
#![allow(dead_code)]

use std::sync::Arc;

use api::custom::CustomSchema;
use api::error_list::ErrorList;
use api::field_set::FieldSet;
use api::object::Object;
use api::schema::Empty;
use api::structural::{Additional, Node, SchemaKind, StructuralSchema};
use serde_json::{Map, Value, json};

/// Checks a schema and an object of it in JSON, separated by a zero byte.
pub fn by_bytes(data: &[u8]) {
    let Some(at) = data.iter().position(|byte| *byte == 0) else {
        return;
    };
    let schema = serde_json::from_slice(&data[..at]);
    let object = serde_json::from_slice(&data[at + 1..]);
    if let (Ok(schema), Ok(object)) = (schema, object) {
        check(&schema, &object);
    }
}

/// Checks an object that nearly fits the schema, made of the choices that bytes are.
pub fn check_fitting(schema: &Value, choices: &[u8]) {
    let compiled = StructuralSchema::compile(schema);
    let mut choices = choices.iter().copied();
    if let Value::Object(members) = fitting(compiled.root(), &mut choices) {
        check(schema, &members);
    }
}

fn fitting(of: Node<'_>, choices: &mut impl Iterator<Item = u8>) -> Value {
    let mut choose = |most: u8| choices.next().map_or(0, |byte| byte % most);
    if choose(12) == 11 {
        let others = json!([null, 1.5, "b", {"a": 1}, [1, 1]]);
        return others[usize::from(choose(5))].clone();
    }
    if let Some(value) = of.rules().values.first().filter(|_| choose(2) == 1) {
        return value.clone();
    }
    let number = choose(5);
    match of.kind() {
        SchemaKind::Object => {
            let mut members = Map::new();
            for (name, of) in of.properties() {
                members.insert(name.to_owned(), fitting(of, choices));
            }
            if let Additional::Schema(of) = of.additional() {
                members.insert("x".to_owned(), fitting(of, choices));
            }
            Value::Object(members)
        }
        SchemaKind::Array => {
            let items = (0..number % 4).filter_map(|_| Some(fitting(of.items()?, choices)));
            items.collect()
        }
        SchemaKind::String => ["", "a", "b", "2020-01-01", "aa"][usize::from(number)].into(),
        SchemaKind::Integer => number.into(),
        SchemaKind::Number => (f64::from(number) / 2.0).into(),
        SchemaKind::Boolean => (number > 1).into(),
        SchemaKind::Any | SchemaKind::IntOrString | SchemaKind::Unknown => {
            json!([1, "a", 2.5, {"a": {}}, [{}]])
                .get(usize::from(number))
                .cloned()
                .unwrap_or_default()
        }
    }
}

/// Returns an object without some members of another one.
fn other(object: &Object) -> Object {
    let mut other = object.clone();
    for (_, value) in other.0.iter_mut().step_by(2) {
        if let Value::Object(members) = value {
            members.clear();
        }
    }
    let first = other.0.keys().next().cloned();
    other.0.remove(&first.unwrap_or_default());
    other
}

/// Runs the check.
pub fn check(schema: &Value, object: &Map<String, Value>) {
    let compiled = StructuralSchema::compile(schema);
    let custom = CustomSchema::new(Arc::new(compiled));
    let mut read = Object::of(object.clone());
    // A type that is wrong in embedded metadata refuses the object.
    let is_readable = custom.why_unreadable(&read).is_none();
    custom.prune(&mut read);
    let once = read.clone();
    assert!(custom.prune(&mut read).is_empty(), "{schema} {object:?}");
    assert_eq!(read, once, "pruned twice");

    let changes = custom.set_defaults(&mut read);
    assert_eq!(changes, read != once);
    assert!(!changes || custom.has_defaults());
    let once = read.clone();
    assert!(!custom.set_defaults(&mut read));
    assert_eq!(read, once, "defaulted twice");

    let valid = |object: &Object, stored: Option<&Object>| {
        let errors = ErrorList::of(|errors| {
            match stored {
                None => custom.validate(object, errors),
                Some(stored) => custom.validate_update(object, stored, errors),
            };
        });
        errors.is_empty()
    };
    let is_valid = valid(&read, None);
    assert!(!is_valid || valid(&read, Some(&read)), "ratchet {schema}");
    ErrorList::of(|errors| {
        custom.validate_status_update(&read, &once, errors);
    });

    // An object whose numbers are canonical is the same after a round trip, and as valid.
    let mut canonical = read.clone();
    custom.canonicalize(&mut canonical, Empty::Forgotten);
    let text = Value::Object(canonical.0.clone()).to_string();
    let again = Object::of(serde_json::from_str(&text).expect("our own JSON"));
    assert_eq!(again, canonical);
    let once = canonical.clone();
    custom.canonicalize(&mut canonical, Empty::Forgotten);
    assert_eq!(canonical, once, "canonicalized twice");
    if canonical == read {
        assert_eq!(valid(&again, None), is_valid, "{schema} {text}");
    }
    if is_readable {
        let mut stored = canonical.clone();
        custom.complete_stored(&mut stored);
        let once = stored.clone();
        custom.complete_stored(&mut stored);
        assert_eq!(stored, once, "read twice");
    }

    let of = custom.value_type();
    if of.validate(&canonical, true).is_ok() {
        of.has_keys(&canonical);
        let created =
            of.created_fields_v1(&Object::default(), &canonical, &FieldSet::default(), None);
        let compared = of.compare(&Object::default(), &canonical).added;
        assert_eq!(created, compared.to_fields_v1(), "{schema}");
        super::apply::check_types(of, &canonical, &other(&canonical));
    }
}
