//! Expressions with their values, errors and costs.

use serde_json::{Value as Json, json};

use super::super::values::value::{Map, Value};
use super::super::{Checked, Environment, Shape, check};
use super::super::{Failure, Work};
use crate::structural::Budget;

/// The limit on a call.
pub(in super::super) const LIMIT: u64 = 1_000_000;

/// Returns a checked expression over `self` and `oldSelf`.
pub(in super::super) fn checked(text: &str, shape: &Shape) -> Checked {
    let budget = Budget::of_expressions(1_000_000);
    let of = shape.declared(&budget).expect("a visible shape");
    let environment = Environment::default()
        .with("self", of.clone())
        .with("oldSelf", of);
    check(text, &environment, &budget).unwrap_or_else(|why| panic!("{text}: {why:?}"))
}

/// Formats a value for comparison.
pub(in super::super) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(bytes) => format!("b{bytes:?}"),
        Value::Double(of) => format!("{of:?}"),
        Value::Uint(of) => format!("{of}u"),
        Value::Null => "null".to_owned(),
        Value::List(list) => {
            let items = list
                .iter()
                .map(|item| item.map_or_else(|why| format!("!{why}"), |of| shown(&of)));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(map @ Map::Built(_)) => {
            let entries = map.entries().into_iter().map(|(key, value)| {
                format!(
                    "{}: {}",
                    shown(&key),
                    shown(&value.expect("a built map has no faults"))
                )
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Optional(Some(of)) => format!("optional({})", shown(of)),
        Value::Optional(None) => "none".to_owned(),
        Value::Timestamp(of) => of.printed(),
        Value::Duration(of) => format!("{of}ns"),
        other => other.to_string(),
    }
}

/// Returns the value or error of an expression over an object, and its cost.
pub(in super::super) fn evaluated(text: &str, schema: &Json, object: &Json) -> (String, u64) {
    let budget = Budget::of(&json!({}));
    let shape = Shape::of(schema, false, &budget);
    let program = match checked(text, &shape).program() {
        Ok(program) => program,
        Err(why) => return (format!("!{why}"), 0),
    };
    let work = Work::default();
    let value = |name: &str| (name == "self").then(|| Value::shaped(object, &shape));
    let found = program.evaluate(value, LIMIT, &work);
    let outcome = match &found.outcome {
        Ok(value) => shown(value),
        Err(why) => format!("!{why}"),
    };
    (outcome, found.cost)
}

/// Each line has an expression, its value or error, and its cost, between tabs or several spaces.
#[test]
fn expressions_have_values_errors_and_costs() {
    let sample: Json = serde_json::from_str(include_str!("sample.json")).unwrap();
    let (schema, object) = (&sample["schema"], &sample["object"]);
    let mut wrong = Vec::new();
    for line in include_str!("cases.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let parts: Vec<&str> = line.split(" ~ ").map(str::trim).collect();
        let [text, wanted, cost] = parts.as_slice() else {
            assert!(line.is_empty(), "{line}");
            continue;
        };
        let (found, found_cost) = evaluated(text, schema, object);
        if (found.as_str(), found_cost.to_string().as_str()) != (*wanted, *cost) {
            wrong.push(format!(
                "{text} ~ {found} ~ {found_cost}    instead of {wanted} ~ {cost}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The figures of issue 37: how often a loop may do something with a text of 20,000 characters
/// within the limit.
#[test]
fn loops_over_a_long_text_run_as_often_as_in_cel_go() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "s": {"type": "string"}, "t": {"type": "string"},
        "l": {"type": "array", "items": {"type": "integer"}}}}}});
    for (body, most) in [
        ("!self.spec.s.contains('b')", 498),
        ("self.spec.s == self.spec.t", 497),
        ("(self.spec.s + 'x').size() > 0", 497),
        ("!self.spec.s.matches('^b+c$')", 249),
        ("self.spec.s.replace('a', 'b').size() > 0", 249),
        ("self.spec.s.find('b') == ''", 498),
        ("self.spec.s.split('b').size() > 0", 249),
    ] {
        let run = |count: i64| {
            let text = "a".repeat(20_000);
            let items: Vec<i64> = (0..count).collect();
            let object = json!({"spec": {"s": text, "t": text, "l": items}});
            evaluated(&format!("self.spec.l.all(i, {body})"), &schema, &object).0
        };
        assert_eq!(run(most), "true", "{body} {most}");
        let stopped = format!("!{}", Failure::OverBudget);
        assert_eq!(run(most + 1), stopped, "{body} {}", most + 1);
    }
}
