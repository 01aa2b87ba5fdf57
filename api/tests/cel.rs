//! CEL expressions by the recorded answers of Kubernetes 1.36.2 (CRD-50, CRD-51, CRD-176, CRD-177).
//!
//! `tools/facts/cel.py` generates the expressions of `recorded/cel.json.gz`, records what Kubernetes
//! makes of them, and documents the form of the answers: errors of the text, values, errors of the
//! evaluation, costs, and estimates of costs.

use std::fmt::Write as _;
use std::io::Read as _;

use api::cel::{Environment, Refused, Shape, Value, Work, check};
use api::structural::Budget;
use flate2::read::GzDecoder;
use serde_json::{Value as Json, json};

const RECORDED: &[u8] = include_bytes!("recorded/cel.json.gz");

/// The limit on the cost of an expression (CRD-176).
const LIMIT: u64 = 1_000_000;

/// A text in the form of the recorded ones.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            ' '..='~' => out.push(letter),
            other => write!(out, "\\u{{{:x}}}", u32::from(other)).unwrap(),
        }
    }
    out.push('"');
    out
}

fn double(number: f64) -> String {
    match number {
        of if of.is_nan() => "dNaN".to_owned(),
        f64::INFINITY => "d+Inf".to_owned(),
        f64::NEG_INFINITY => "d-Inf".to_owned(),
        of => format!("d{of:e}"),
    }
}

/// A value in the form of the recorded ones.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(of) => of.to_string(),
        Value::Int(of) => of.to_string(),
        Value::Uint(of) => format!("{of}u"),
        Value::Double(of) => double(*of),
        Value::String(of) => quoted(of),
        Value::Bytes(of) => of.iter().fold(String::from("b"), |mut out, byte| {
            write!(out, "{byte:02x}").unwrap();
            out
        }),
        Value::Timestamp(of) => format!("time {}", of.printed()),
        Value::Duration(of) => format!("{of}ns"),
        Value::Optional(Some(of)) => format!("optional {}", shown(of)),
        Value::Optional(None) => "none".to_owned(),
        Value::Type(of) => format!("type {}", &**of),
        Value::List(of) => {
            let items = of
                .iter()
                .map(|item| item.map_or_else(|why| format!("!{why}"), |of| shown(&of)));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(of) => {
            let entries = of.entries().into_iter().map(|(key, value)| {
                let value = value.map_or_else(|why| format!("!{why}"), |of| shown(&of));
                format!("{}: {value}", shown(&key))
            });
            let mut entries: Vec<String> = entries.collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.type_name().to_owned(),
    }
}

/// Returns our answer about an expression, in the form of the recorded ones.
fn answer(text: &str, environment: &Environment, shape: &Shape, object: &Json) -> Json {
    let budget = Budget::of_expressions(1_000_000);
    let checked = match check(text, environment, &budget) {
        Ok(checked) => checked,
        Err(Refused::Wrong(why)) => return json!({"f": why}),
        Err(Refused::Spent) => return json!({"f": "the budget is spent"}),
    };
    let program = match checked.program() {
        Ok(program) => program,
        Err(why) => return json!({"p": why}),
    };
    let work = Work::default();
    let found = program.evaluate(
        |name| (name == "self").then(|| Value::shaped(object, shape)),
        LIMIT,
        &work,
    );
    let estimate = checked.estimate(shape, &budget).unwrap();
    let mut out = match &found.outcome {
        Ok(value) => json!({"v": shown(value)}),
        Err(failure) => json!({"x": failure.to_string()}),
    };
    out["c"] = json!(found.cost);
    out["s"] = json!([estimate.min, estimate.max]);
    out
}

#[test]
fn generated_expressions_have_the_recorded_answers() {
    let mut recorded = String::new();
    GzDecoder::new(RECORDED)
        .read_to_string(&mut recorded)
        .unwrap();
    let mut lines = recorded.lines();
    let about: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
    let (schema, object) = (&about["schema"], &about["object"]);
    let budget = Budget::of(schema);
    let shape = Shape::of(schema, false, &budget);
    let environment = Environment::default().with("self", shape.declared(&budget).unwrap());
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in lines {
        let (text, wanted): (String, Json) = serde_json::from_str(line).unwrap();
        let found = answer(&text, &environment, &shape, object);
        cases += 1;
        if found != wanted {
            wrong.push(format!("{text}\n  found  {found}\n  wanted {wanted}"));
        }
    }
    assert!(cases > 9_000, "{cases}");
    let count = wrong.len();
    assert!(wrong.is_empty(), "{}\n{count}", wrong.join("\n"));
}
