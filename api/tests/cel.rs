//! CEL expressions by the recorded answers of Kubernetes 1.36.2 (CRD-50, CRD-51, CRD-176, CRD-177).
//!
//! `tools/facts/cel.py` generates the expressions of `recorded/cel.json.gz`, records what
//! Kubernetes makes of them, and documents the form of the answers: errors of the text, values,
//! errors of the evaluation, costs, and estimates of costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// The path is for the second opinion, which has this file as a module.
#[path = "answers/mod.rs"]
mod answers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use api::cel::{Environment, Refused, Shape, Value, Work, check};
use api::structural::Budget;
use flate2::read::GzDecoder;
use serde_json::{Value as Json, json};

use answers::{double, quoted};

const RECORDED: &[u8] = include_bytes!("recorded/cel.json.gz");

/// The limit on the cost of an expression (CRD-176).
const LIMIT: u64 = 1_000_000;

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

/// How our answer may differ from a recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// cel-go panics, and the error says so. Ours is the error that it met.
    Panic,
    /// Messages of protobuf and keys that no other value equals are refused (D-97).
    Refused,
    /// After an error in the text cel-go reads on where it guesses that the text goes on, and finds
    /// errors that follow from the first one.
    FurtherErrors,
    /// One of [`RARE`].
    Rare,
}

/// Expressions whose answers differ in a way of their own.
const RARE: &[&str] = &[
    "size([[[b'abc'].max()].`max()].max())",
    "{1u: ((self.keyed + self.keyed2).filter(e, has(e.v))[0])}[-9223372036854775808]",
    // A null member that may be null has a key and no value.
    ".self",
    // A key that does not even equal itself.
    "{0.0 / 0.0: 1}",
    // The last bit of an approximation.
    "quantity('12345678901234567890').asApproximateFloat()",
    // The failing call costs nothing.
    "[[[1]]].flatten(-1)",
    // The name of the type of types.
    "string(duration(type))",
    concat!(
        "[[has(self.o.p.q) ? (timestamp('0001-01-01T00:00:00Z')) : (timestamp('",
        "2024-02-29T23:59:59.999999999+05:30')), (has(self.n) ? (timestamp(-1))",
        " : (timestamp%('2024-02-29T23:59:59.999999999+05:30')))].max()][0]",
    ),
    "[?self.m[?'zz'], ?self{.?none]",
    concat!(
        "(self.m.transformList(k, v, 1)).transformList(i, v,. (self.l[?1].optMa",
        "p(v, v > 0).orValue(has(self.n))), v)",
    ),
    "format.named('').va-ue().validate('-a').value()",
    "has(sel&.o.none) ? self.l[?9] : self.?i",
    concat!(
        "has({'a': ((timesta\"mp(duration('2562047h47m16.854775807s') + (timesta",
        "mp('2021-07-04T12:00:00-07:00')))).getMilliseconds('EST5EDT'))}.a)",
    ),
    "({'a': -9223372036854775808}[?optional_type]).optMap(v, v)",
    // The estimate for an item of an unknown type.
    "[].first().value().indexOf('a')",
    concat!(
        "{('%.0f'.format([-[][2]])): (size({'a': ((timestamp('2023-01-15T10:20:",
        "30Z')).getHours('America/New_York'))}))}",
    ),
    "'%s'.format([null]).find(dyn(optional.none())) != ''",
];

/// Returns how an answer differs from the recorded one, if that is known.
fn known(text: &str, found: &Json, wanted: &Json) -> Option<Known> {
    let of = |answer: &Json, name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    if of(wanted, "x").starts_with("internal error: ") && found.get("v").is_none() {
        return Some(Known::Panic);
    }
    let refused = of(found, "p");
    if refused.starts_with("building of 'google.protobuf.") || refused == "unsupported key type" {
        return Some(Known::Refused);
    }
    // linear: it is short.
    if RARE.contains(&text) {
        return Some(Known::Rare);
    }
    let (ours, theirs) = (of(found, "f"), of(wanted, "f"));
    let mut ours = ours.split("ERROR: ").map(str::trim_end);
    let theirs: Vec<&str> = theirs.split("ERROR: ").map(str::trim_end).collect();
    let has_error = ours.clone().count() > 1 && theirs.iter().any(|of| of.contains("Syntax error"));
    // linear: there are few errors.
    (has_error && ours.all(|error| theirs.contains(&error))).then_some(Known::FurtherErrors)
}

#[test]
fn generated_expressions_have_the_recorded_answers_crd_176_crd_177() {
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
    let mut counts: BTreeMap<Known, usize> = BTreeMap::new();
    for line in lines {
        let (text, wanted): (String, Json) = serde_json::from_str(line).unwrap();
        let found = answer(&text, &environment, &shape, object);
        cases += 1;
        if found == wanted {
            continue;
        }
        match known(&text, &found, &wanted) {
            Some(known) => *counts.entry(known).or_default() += 1,
            None => wrong.push(format!("{text}\n  found  {found}\n  wanted {wanted}")),
        }
    }
    assert!(cases > 9_000, "{cases}");
    let count = wrong.len();
    assert!(wrong.is_empty(), "{}\n{count}", wrong.join("\n"));
    let wanted = [
        (Known::Panic, 34),
        (Known::Refused, 8),
        (Known::FurtherErrors, 46),
        (Known::Rare, RARE.len()),
    ];
    assert_eq!(counts, BTreeMap::from(wanted));
}
