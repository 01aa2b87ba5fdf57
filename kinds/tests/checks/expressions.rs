//! Expressions in CEL of arbitrary text over arbitrary objects: none causes a panic, costs are
//! bounded, and the result is the same with and without short cuts (CRD-176).
#![allow(dead_code)]

use std::sync::LazyLock;

use api::cel::rules::{Checking, OBJECT_LIMIT, Rules};
use api::cel::{Environment, Failure, Shape, Value as Cel, Work, check as checked};
use api::structural::Budget;
use serde_json::{Value, json};

/// The limit on a call.
const LIMIT: u64 = 1_000_000;

/// A schema with a member of each type, and an object of it.
static SAMPLE: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../api/src/cel/eval/sample.json");
    serde_json::from_str(text).expect("the sample is JSON")
});

/// Checks an expression and an object in JSON, separated by a zero byte.
pub fn by_bytes(data: &[u8]) {
    let Some((text, object)) = super::halves(data) else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match serde_json::from_slice(object) {
        Ok(object @ Value::Object(_)) => check(text, &object),
        _ => check(text, &SAMPLE["object"]),
    }
}

/// Runs the check.
pub fn check(text: &str, object: &Value) {
    let mut schema = SAMPLE["schema"].clone();
    let shape = Shape::of(&schema, true, &Budget::of(&schema));
    let budget = Budget::of_expressions(100_000);
    let of = shape.declared(&budget).expect("a visible shape");
    let environment = Environment::default()
        .with("self", of.clone())
        .with("oldSelf", of);
    let Ok(expression) = checked(text, &environment, &budget) else {
        return;
    };
    // It ends. Its minimum may be above its maximum, as in Kubernetes (`url('') == url('')`).
    expression.estimate(&shape, &budget);
    if let (Ok(short), Ok(full)) = (expression.program(), expression.program_in_full()) {
        let run = |program: &api::cel::Program| {
            let work = Work::default();
            let value = |_: &str| Some(Cel::shaped(object, &shape));
            let found = program.evaluate(value, LIMIT, &work);
            let words = match &found.outcome {
                Ok(value) => Some(shown(value)),
                Err(Failure::Error(what)) => Some(format!("!{what}")),
                Err(_) => None,
            };
            assert!(words.is_none() || found.cost <= LIMIT, "{text}");
            (words, found.cost)
        };
        let (found, cost) = run(&short);
        let (in_full, full_cost) = run(&full);
        if found.is_some() && in_full.is_some() {
            assert_eq!(found, in_full, "{text}");
            assert!(cost <= full_cost, "{text}: {cost} {full_cost}");
        }
    }
    // As the rule of a schema, for a new object and for a changed one.
    schema["x-kubernetes-validations"] = json!([{"rule": text, "messageExpression": text}]);
    let Some(rules) = Rules::of(&schema, true, &Budget::of(&schema)) else {
        return;
    };
    for checking in [Checking::create(), Checking::update(&SAMPLE["object"])] {
        let verdict = rules.check(object, checking);
        assert!(verdict.left <= OBJECT_LIMIT, "{text}");
    }
}

/// Returns a value in words, which are those of its type if it has parts.
fn shown(value: &Cel<'_>) -> String {
    match value {
        Cel::List(_) => "a list".to_owned(),
        Cel::Map(_) => "a map".to_owned(),
        Cel::Optional(inside) => format!("optional {}", inside.is_some()),
        Cel::Opaque(_) | Cel::Preserved(_) => "another value".to_owned(),
        other => format!("{other:?}"),
    }
}
