//! Expressions and objects that would take long or much memory if nothing bounded them.

use allocation_counter::measure;
use serde_json::{Value as Json, json};

use super::super::{Failure, Shape, Value, Work};
use super::tests::{LIMIT, checked, evaluated};
use crate::deep;
use crate::structural::Budget;

fn schema() -> Json {
    json!({"type": "object", "properties": {
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
}

#[test]
fn expensive_expressions_are_stopped() {
    let items: Vec<i64> = (0..100_000).collect();
    let object = json!({"s": "a".repeat(100_000), "l": items});
    let stopped = format!("!{}", Failure::OverBudget);
    let growing = "'xxxxxxxxxx'".to_owned() + &".replace('x', 'xxxxxxxxxx')".repeat(12);
    let twice = |base: &str, step: &str| {
        let mut text = base.to_owned();
        for _ in 0..20 {
            text = format!("[{text}].map(v, v + v)[0]{step}");
        }
        text
    };
    for text in [
        "lists.range(10000000).size() > 0",
        "lists.range(9223372036854775807).size() > 0",
        "self.l.all(x, self.l.all(y, x >= 0 || y >= 0))",
        "self.l.map(x, self.l.map(y, y)).size() > 0",
        "self.l.all(x, self.s.replace('', self.s) != '')",
        "self.s.replace('', self.s).size() > 0",
        "self.l.all(x, self.l == self.l)",
        "self.l.all(x, self.l.sum() > 0)",
        "sets.equivalent(self.l, self.l)",
        "self.l.distinct().size() > 0",
        "self.l.all(x, self.s.matches('(a*)*b') || true)",
        &format!("{growing}.size() > 0"),
        &format!("{}.size() > 0", twice("self.s", "")),
        &format!("{}.size() > 0", twice("self.l", "")),
    ] {
        assert_eq!(evaluated(text, &schema(), &object).0, stopped, "{text:.60}");
    }
}

/// A matcher that tries alternatives one after another would not return from these.
#[test]
fn patterns_do_not_backtrack() {
    let object = json!({"s": "a".repeat(20_000), "l": []});
    for (pattern, wanted) in [
        ("(a*)*b", "false"),
        ("(a|a|aa)+$", "true"),
        ("^(.*,){11}P", "false"),
        ("(x+x+)+y", "false"),
        (
            "a{900}{900}",
            "!error parsing regexp: invalid nested repetition operator: `{900}{900}`",
        ),
    ] {
        let text = format!("self.s.matches('{pattern}' + '')");
        assert_eq!(evaluated(&text, &schema(), &object).0, wanted, "{pattern}");
    }
}

/// The items of a computed list are appended in place. A loop that copied the list for each item
/// would allocate a hundred times as much for ten times the items.
#[test]
fn loops_allocate_in_proportion_to_their_items() {
    let bytes = |count: i64| {
        let items: Vec<i64> = (0..count).collect();
        let object = json!({"s": "", "l": items});
        let text = "self.l.map(x, x).filter(x, x >= 0).size()";
        let run = || assert_eq!(evaluated(text, &schema(), &object).0, count.to_string());
        measure(run).bytes_total
    };
    let (one, ten) = (bytes(3_000), bytes(30_000));
    assert!(ten < 15 * one, "{one} {ten}");
}

/// Nested objects are compared without a deep stack.
#[test]
fn deep_objects_are_compared() {
    deep::with_room(|| {
        let nested = |inside: Json| {
            (0..4_000).fold(inside, |inside, at| match at % 2 {
                0 => json!([inside]),
                _ => json!({ "a": inside }),
            })
        };
        let schema = schema();
        let shape = Shape::of(&schema, false, &Budget::of(&schema));
        let program = checked("self.any == oldSelf.any", &shape)
            .program()
            .unwrap();
        let values = [
            json!({"any": {"x": nested(json!(1))}}),
            json!({"any": {"x": nested(json!(2))}}),
        ];
        for (old, wanted) in [(0, true), (1, false)] {
            let work = Work::default();
            let value = |name: &str| {
                let at = if name == "self" { 0 } else { old };
                Some(Value::shaped(&values[at], &shape))
            };
            let found = program.evaluate(value, LIMIT, &work).outcome;
            assert!(matches!(found, Ok(Value::Bool(of)) if of == wanted));
        }
    });
}

/// Expressions as deep as the parser allows are planned, estimated, evaluated and dropped.
#[test]
fn deep_expressions_are_evaluated() {
    let object = json!({"s": "", "l": [1]});
    let schema = schema();
    let shape = Shape::of(&schema, false, &Budget::of(&schema));
    for (open, inside, close, count) in [
        ("(", "1", " + 1)", 120),
        ("[", "1", "][0]", 80),
        ("[1].map(x, ", "1", ")[0]", 60),
        ("{'a': ", "1", "}.a", 80),
        ("(true ? ", "1", " : 1)", 80),
        ("optional.of(", "1", ").value()", 80),
        ("optional.of(", "1", ").optMap(x, x).value()", 12),
    ] {
        let text = open.repeat(count) + inside + &close.repeat(count);
        let expression = checked(&text, &shape);
        let budget = Budget::of_expressions(100_000);
        let estimate = expression.estimate(&shape, &budget).unwrap();
        assert!(estimate.min <= estimate.max, "{open}");
        let (found, _) = evaluated(&text, &schema, &object);
        assert!(
            !found.starts_with('!') || found.contains("cost limit"),
            "{open} {found}"
        );
    }
}

/// A client that is gone ends the evaluation.
#[test]
fn an_abandoned_evaluation_ends() {
    let request = std::sync::Arc::new(crate::abandoned::Abandonment::default());
    let items: Vec<i64> = (0..50_000).collect();
    let object = json!({"s": "", "l": items});
    let found = crate::abandoned::within(Some(&request), || {
        request.give_up();
        let shape = Shape::of(&schema(), false, &Budget::of_expressions(0));
        assert!(shape.is_visible());
        let work = Work::default();
        work.take(1_000_000).and(work.take(1))
    });
    assert_eq!(found, Err(Failure::Abandoned));
    assert_eq!(
        evaluated("self.l.all(x, x >= 0)", &schema(), &object).0,
        "true"
    );
}
