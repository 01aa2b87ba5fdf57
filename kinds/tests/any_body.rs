//! Bodies of any form for every built-in kind: none causes a panic, and what is read, filled in and
//! brought into its canonical form stays as it is when that is done again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use api::decode::{BodyFormat, decode_object, type_value};
use api::object::Object;
use api::resource::ResourceDefinition;
use api::schema::{Scalar, Schema, Shape, StructId, Type};
use kinds::built_in;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

/// A stream of choices, which proptest makes smaller when a test fails.
struct Choices<'c> {
    bytes: std::slice::Iter<'c, u8>,
}

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    fn of(&mut self, count: usize) -> usize {
        usize::from(self.next()) % count.max(1)
    }
}

/// A value that is mostly of the type.
fn value(schema: &Schema, of: &Type, choices: &mut Choices<'_>, depth: usize) -> Value {
    // Some values are of another type, or null.
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

fn body(
    schema: &Schema,
    id: StructId,
    choices: &mut Choices<'_>,
    depth: usize,
) -> Map<String, Value> {
    let mut members = Map::new();
    let of = schema.get(id).expect("a struct of the schema");
    // Large structs have few members at a time.
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

/// What the server makes of an object.
fn finished(object: &Object, row: &ResourceDefinition) -> Object {
    let (schema, id) = row.object_type.found().expect("a known type");
    let mut object = object.clone();
    schema.add_structs(id, &mut object.0);
    if let Some(defaults) = row.defaults {
        defaults(&mut object);
    }
    schema.canonicalize(id, &mut object.0);
    object
}

fn check(row: &ResourceDefinition, bytes: &[u8]) -> Result<(), TestCaseError> {
    let (schema, id) = row.object_type.found().expect("a known type");
    let mut choices = Choices {
        bytes: bytes.iter(),
    };
    let text = Value::Object(body(schema, id, &mut choices, 12)).to_string();
    for format in [BodyFormat::Json, BodyFormat::Yaml] {
        let Ok(decoded) = decode_object(text.as_bytes(), format, row) else {
            continue;
        };
        let object = finished(&decoded.object, row);
        let again = finished(&object, row);
        prop_assert_eq!(&object, &again, "{:?} {}", row, text);
        // What is printed reads as what was printed.
        let printed = Value::Object(object.0.clone());
        let read = type_value(&printed, row.object_type).expect("it is not deeper");
        prop_assert_eq!(read.refusal, None, "{:?} {}", row, printed);
        prop_assert!(read.faults.is_empty(), "{:?} {:?}", row, read.faults);
        let Value::Object(members) = read.value else {
            panic!("an object was read");
        };
        let mut read = Object(members);
        read.set_type(&row.kind, &row.api_version());
        prop_assert_eq!(&finished(&read, row), &object, "{:?} {}", row, printed);
        // Validation finds the same faults after a round trip, whatever they are.
        if let Some(validate) = row.create.validate {
            prop_assert_eq!(validate(&object), validate(&finished(&read, row)));
        }
        if let Some(validate) = row.update.validate {
            validate(&object, &decoded.object);
            validate(&decoded.object, &object);
        }
        for column in &row.columns {
            if let api::resource::Cell::Computed(cell) = column.cell {
                cell(&object, jiff::Timestamp::UNIX_EPOCH);
            }
        }
    }
    Ok(())
}

/// `TAFFRAIL_SEED` plays a run again, `TAFFRAIL_BODIES` sets the number of bodies.
#[test]
fn bodies_of_any_form_are_read_or_refused() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("TAFFRAIL_SEED").unwrap_or_else(rand_seed);
    let bodies = number("TAFFRAIL_BODIES").unwrap_or(3_000);
    println!("TAFFRAIL_SEED={seed}");
    let config = ProptestConfig {
        cases: u32::try_from(bodies).unwrap(),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let rows = built_in();
    let inputs = (0..rows.len(), prop::collection::vec(any::<u8>(), 0..600));
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&inputs, |(row, bytes)| check(&rows[row], &bytes));
    if let Err(error) = result {
        panic!("TAFFRAIL_SEED={seed}: {error}");
    }
}

fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}
