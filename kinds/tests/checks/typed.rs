//! Bodies that mostly match the type of their kind.

use api::decode::{BodyFormat, decode_object};
use api::resource::ResourceDefinition;
use api::schema::{Scalar, Schema, Shape, StructId, Type};
use serde_json::{Map, Value, json};

use super::{bodies, patches};

/// A stream of choices, which proptest can shrink when a test fails.
pub struct Choices<'c> {
    bytes: std::slice::Iter<'c, u8>,
}

impl<'c> Choices<'c> {
    pub fn of_bytes(bytes: &'c [u8]) -> Choices<'c> {
        Choices {
            bytes: bytes.iter(),
        }
    }

    pub fn next(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    pub fn of(&mut self, count: usize) -> usize {
        usize::from(self.next()) % count.max(1)
    }
}

/// Returns a value that mostly matches the type.
fn value(schema: &Schema, of: &Type, choices: &mut Choices<'_>, depth: usize) -> Value {
    // Some values are null or of another type.
    match choices.next() {
        0..=3 => return odd(choices),
        4..=6 => return Value::Null,
        _ => {}
    }
    match &of.shape {
        Shape::Scalar(scalar) => scalar_value(*scalar, of, choices),
        Shape::List(item) => {
            let count = choices.of(3);
            let items = (0..count).map(|_| value(schema, item, choices, depth));
            items.collect::<Vec<Value>>().into()
        }
        Shape::Map(item) => {
            let mut members = Map::new();
            for name in ["a", "ex.com/b", "cpu"].iter().take(choices.of(4)) {
                members.insert((*name).to_owned(), value(schema, item, choices, depth));
            }
            members.into()
        }
        Shape::Struct(id) if depth > 0 => body(schema, *id, choices, depth - 1).into(),
        Shape::Struct(_) => json!({}),
        Shape::Object => json!({"x": [1, null]}),
        Shape::Any => json!([1, {"y": "z"}]),
    }
}

fn odd(choices: &mut Choices<'_>) -> Value {
    let all = [
        json!(1.5),
        json!(-7),
        json!(u64::MAX),
        json!("x"),
        json!(true),
        json!([1]),
        json!({"a": {}}),
        json!(""),
    ];
    let at = choices.of(all.len());
    all[at].clone()
}

fn scalar_value(scalar: Scalar, of: &Type, choices: &mut Choices<'_>) -> Value {
    if let (Scalar::String, false, true) = (scalar, of.values.is_empty(), choices.next() > 60) {
        let at = choices.of(of.values.len());
        return of.values[at].clone().into();
    }
    let all = match scalar {
        Scalar::String => vec![
            json!("a"),
            json!("A b"),
            json!("10.0.0.1"),
            json!(""),
            json!("é"),
        ],
        Scalar::Bool => vec![json!(true), json!(false)],
        Scalar::Int32 => vec![json!(0), json!(80), json!(-1), json!(i32::MAX)],
        Scalar::Int64 | Scalar::Float64 => vec![json!(0), json!(1), json!(i64::MIN)],
        Scalar::Bytes => vec![json!(""), json!("YQ=="), json!("YQ")],
        Scalar::Time => vec![json!("2024-01-02T03:04:05Z"), json!("2024-13-02")],
        Scalar::MicroTime => vec![json!("2024-01-02T03:04:05.000006+01:00"), json!("x")],
        Scalar::Duration => vec![json!("1h"), json!("x")],
        Scalar::Quantity => vec![
            json!("1Gi"),
            json!("500m"),
            json!(1),
            json!("0"),
            json!("-1"),
        ],
        Scalar::IntOrString => vec![json!(1), json!("25%"), json!("web"), json!("120%")],
    };
    let at = choices.of(all.len());
    all[at].clone()
}

/// Returns the members of a struct.
pub fn body(
    schema: &Schema,
    id: StructId,
    choices: &mut Choices<'_>,
    depth: usize,
) -> Map<String, Value> {
    let mut members = Map::new();
    let of = schema.get(id).expect("a struct of the schema");
    // Large structs get only some of their members.
    let share = (of.fields().len() / 8).max(1);
    for field in of.fields() {
        if choices.of(share + 1) == 0 || field.is_required {
            let value = value(schema, &field.of, choices, depth);
            members.insert(field.name.clone(), value);
        }
    }
    if choices.next() < 4 {
        members.insert("unknown".to_owned(), json!([{"a": 1}]));
    }
    members
}

/// Runs the check. The first byte selects the kind, the others the body.
pub fn by_bytes(data: &[u8]) {
    if let Some((kind, choices)) = data.split_first() {
        check(super::row(*kind), choices);
    }
}

/// Checks that a body is decoded or refused, and that a decoded one keeps its rules.
pub fn check(row: &ResourceDefinition, bytes: &[u8]) {
    let (schema, id) = row.object_type().found().expect("a known type");
    let mut choices = Choices::of_bytes(bytes);
    let text = Value::Object(body(schema, id, &mut choices, 12)).to_string();
    for format in [BodyFormat::Json, BodyFormat::Yaml] {
        if let Ok(decoded) = decode_object(text.as_bytes(), format, row) {
            bodies::check_object(row, &decoded.object);
            patches::equal_documents(row, &bodies::finished(&decoded.object, row));
        }
    }
}
