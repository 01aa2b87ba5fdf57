//! Estimates of expressions over a schema.

use serde_json::json;

use super::super::eval::tests::checked;
use super::super::shape::Shape;
use super::limits::{Cardinality, EXPRESSION_LIMIT, SCHEMA_LIMIT, Total, excess};
use crate::structural::Budget;

#[test]
fn estimates_follow_the_bounds_of_the_schema() {
    let short = json!({"type": "string", "maxLength": 10});
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string"}, "short": short, "i": {"type": "integer"},
        "sort": {"type": "string", "enum": ["Deployment", "Pod"]},
        "when": {"type": "string", "format": "date-time"},
        "ios": {"x-kubernetes-int-or-string": true, "maxLength": 5},
        "l": {"type": "array", "items": {"type": "integer"}},
        "few": {"type": "array", "maxItems": 10, "items": short},
        "m": {"type": "object", "maxProperties": 4, "additionalProperties": short},
        "deep": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {
            "inner": {"type": "array", "maxItems": 7, "items": short}, "other": short}}},
    }});
    let shape = Shape::of(&schema, true, &Budget::of(&schema));
    let mut wrong = Vec::new();
    for (text, min, max) in [
        ("self.i == 1", 2, 2),
        ("self.s == 'x'", 3, 3),
        ("self.s == self.s", 5, 314_577),
        ("self.short == self.short", 5, 8),
        ("self.sort == self.sort", 5, 5),
        ("self.s.contains(self.short)", 4, 1_258_296),
        ("has(self.s)", 1, 1),
        // In Kubernetes, too, the minimum is above the maximum.
        ("url('') == url('')", 1, 0),
        ("self.few.all(x, x == 'a')", 3, 53),
        ("self.l.all(x, x > 0)", 3, 7_864_318),
        ("self.few.map(x, x + 'b').size() == 1", 15, 195),
        ("self.deep.all(d, d.inner.all(i, i == d.other))", 3, 231),
        ("self.m.all(k, self.m[k] == 'a')", 3, 35),
        ("self.few.join(',').size() < 10", 4, 45),
        (
            "self.ios == 3 || self.when < timestamp('2020-01-01T00:00:00Z')",
            3,
            7,
        ),
    ] {
        let budget = Budget::of_expressions(100_000);
        let found = checked(text, &shape).estimate(&shape, &budget).unwrap();
        if (found.min, found.max) != (min, max) {
            wrong.push(format!("{text}: {} to {}", found.min, found.max));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn costs_are_multiplied_by_the_lists_around_a_schema() {
    let item = json!({"type": "string"});
    let shape = Shape::of(&item, false, &Budget::of(&item));
    let bounded = json!({"type": "array", "maxItems": 10, "items": item});
    let unbounded = json!({"type": "object", "additionalProperties": item});
    let object = json!({"type": "object", "properties": {"a": item}});
    let all = Cardinality::default().below(&object).below(&bounded);
    assert_eq!(all.cost(7, &shape), 70);
    // A text takes two bytes at least, and a comma.
    assert_eq!(
        all.below(&unbounded).cost(7, &shape),
        7 * (3 * 1024 * 1024 / 3)
    );
    assert_eq!(all.cost(u64::MAX / 2, &shape), u64::MAX);
}

#[test]
fn the_greatest_estimates_are_named() {
    let mut total = Total::default();
    for (cost, name) in [
        (1, "a"),
        (60_000_000, "b"),
        (2_000_000, "c"),
        (50_000_000, "d"),
    ] {
        total.add(cost, || name);
    }
    let named: Vec<&&str> = total.exceeding().into_iter().flatten().collect();
    assert_eq!((total.cost(), named), (112_000_001, vec![&"b", &"d", &"c"]));
    let what = "estimated rule cost";
    let said = |cost: u64, limit: u64| {
        let text = excess(what, cost, limit);
        text.split(" (")
            .next()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    let factor = |factor: &str| format!("{what} exceeds budget by factor of {factor}");
    assert_eq!(said(4_000_000_000, SCHEMA_LIMIT), factor("40.0x"));
    assert_eq!(said(11_000_000, EXPRESSION_LIMIT), factor("1.100000x"));
    assert_eq!(said(u64::MAX, EXPRESSION_LIMIT), factor("more than 100x"));
}
