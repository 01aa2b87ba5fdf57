//! Rules over objects.

use serde_json::{Value as Json, json};

use super::super::Shape;
use super::{Checking, OBJECT_LIMIT, RuleFault, Rules, Scope, Verdict, compiled, is_unchanged};
use crate::structural::Budget;

fn rules(schema: &Json) -> Rules {
    Rules::of(schema, true, &Budget::of(schema)).expect("the schema has rules")
}

fn texts(verdict: &Verdict) -> Vec<String> {
    verdict.errors.iter().map(ToString::to_string).collect()
}

/// Returns the errors of a new object, or of an update from an old one.
fn errors(schema: &Json, object: &Json, old: Option<&Json>) -> Vec<String> {
    let checking = old.map_or_else(Checking::create, Checking::update);
    texts(&rules(schema).check(object, checking))
}

/// The definition of the recorded scenario `crd/rules`.
fn looms() -> Json {
    let thread = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 20},
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}});
    let spec = json!({
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "fixed": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "is immutable"}]},
        "grow": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf",
            "messageExpression": "oldSelf > 3 ? 'it was over 3' : 'it was below'"}]},
        "once": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true}]},
        "threads": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"], "items": thread},
        "when": {"type": "string", "format": "date-time", "x-kubernetes-validations": [
            {"rule": "self > timestamp('2020-01-01T00:00:00Z')"}]},
        "wait": {"type": "string", "format": "duration", "x-kubernetes-validations": [
            {"rule": "self <= duration('1h')"}]},
        "div": {"type": "integer", "x-kubernetes-validations": [{"rule": "10 / self > 1"}]},
    });
    json!({"type": "object",
        "x-kubernetes-validations": [
            {"rule": "self.metadata.name != 'bad'", "message": "not that name"}],
        "properties": {"spec": {"type": "object", "properties": spec,
            "x-kubernetes-validations": [{
                "rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
                "messageExpression":
                    "self.max > 0 ? 'min is over max' : 'max is not even positive'",
                "reason": "FieldValueForbidden", "fieldPath": ".min"}]}}})
}

/// The answers of kube-apiserver 1.36 (CRD-170, CRD-173, CRD-175, CRD-176).
#[test]
fn recorded_objects_have_the_recorded_errors() {
    let schema = looms();
    let object = |name: &str, spec: &Json| {
        let metadata = json!({"name": name, "namespace": "n"});
        json!({"apiVersion": "g/v1", "kind": "Loom", "metadata": metadata, "spec": spec})
    };
    for (spec, wanted) in [
        (
            json!({"min": 3, "max": 2}),
            "spec.min: Forbidden: min is over max",
        ),
        (
            json!({"min": 0, "max": -1}),
            "spec.min: Forbidden: max is not even positive",
        ),
        (
            json!({"once": "old"}),
            "spec.once: Invalid value: \"old\": failed rule: oldSelf.hasValue() || self == 'new'",
        ),
        (
            json!({"when": "2019-12-31T23:59:59Z"}),
            "spec.when: Invalid value: \"2019-12-31T23:59:59Z\": failed rule: \
             self > timestamp('2020-01-01T00:00:00Z')",
        ),
        (
            json!({"wait": "2h"}),
            "spec.wait: Invalid value: \"2h\": failed rule: self <= duration('1h')",
        ),
        (
            json!({"div": 0}),
            "spec.div: Invalid value: \"integer\": division by zero evaluating rule: \
             10 / self > 1",
        ),
        (
            json!({"div": 9}),
            "spec.div: Invalid value: 9: failed rule: 10 / self > 1",
        ),
    ] {
        assert_eq!(
            errors(&schema, &object("a", &spec), None),
            [wanted],
            "{spec}"
        );
    }
    let bad = object("bad", &json!({}));
    assert_eq!(
        errors(&schema, &bad, None),
        ["<nil>: Invalid value: not that name"]
    );
    let threads = json!([{"name": "a", "n": 5}, {"name": "b", "n": 5}]);
    let before = json!({"fixed": "f", "grow": 5, "once": "new", "threads": threads});
    let before = object("a", &before);
    assert!(errors(&schema, &before, None).is_empty());
    for (member, value, wanted) in [
        (
            "fixed",
            json!("g"),
            "spec.fixed: Invalid value: \"g\": is immutable",
        ),
        (
            "grow",
            json!(4),
            "spec.grow: Invalid value: 4: it was over 3",
        ),
        ("once", json!("else"), ""),
        (
            "threads",
            json!([{"name": "b", "n": 4}, {"name": "c", "n": 1}, {"name": "a", "n": 5}]),
            "spec.threads[0].n: Invalid value: 4: failed rule: self >= oldSelf",
        ),
        ("grow", json!(null), ""),
    ] {
        let mut after = before.clone();
        after["spec"][member] = value;
        let found = errors(&schema, &after, Some(&before));
        let wanted: Vec<&str> = Some(wanted)
            .filter(|of| !of.is_empty())
            .into_iter()
            .collect();
        assert_eq!(found, wanted, "{member}");
    }
}

fn ruled(kind: &str, rule: &Json) -> Json {
    let part = json!({"type": kind, "x-kubernetes-validations": [rule]});
    json!({"type": "object", "properties": {"a": part}})
}

#[test]
fn errors_have_reasons_fields_and_messages() {
    let text =
        |rule: Json, value: Json| errors(&ruled("string", &rule), &json!({"a": value}), None);
    let long = "'x'.replace('x', 'yyyyyyyyyy').replace('y', 'zzzzzzzzzz').replace('z', \
                'wwwwwwwwww').replace('w', 'vvvvvvvvvv')";
    for (rule, wanted) in [
        (
            json!({"rule": "false"}),
            "a: Invalid value: \"v\": failed rule: false",
        ),
        (
            json!({"rule": " false "}),
            "a: Invalid value: \"v\": failed rule: false",
        ),
        (
            json!({"rule": "false", "message": " m "}),
            "a: Invalid value: \"v\": m",
        ),
        (
            json!({"rule": "false", "reason": "FieldValueRequired", "message": "m"}),
            "a: Required value: m",
        ),
        (
            json!({"rule": "false", "reason": "FieldValueDuplicate", "message": "m"}),
            "a: Duplicate value: \"v\"",
        ),
        (
            json!({"rule": "false", "message": "m", "messageExpression": "'is ' + self"}),
            "a: Invalid value: \"v\": is v",
        ),
        // Other results fall back to the message: errors, empty texts, two lines, too many bytes.
        (
            json!({"rule": "false", "message": "m", "messageExpression": "string(1 / 0)"}),
            "a: Invalid value: \"v\": m",
        ),
        (
            json!({"rule": "false", "messageExpression": "' '"}),
            "a: Invalid value: \"v\": failed rule: false",
        ),
        (
            json!({"rule": "false", "message": "m", "messageExpression": "'a\\nb'"}),
            "a: Invalid value: \"v\": m",
        ),
        (
            json!({"rule": "false", "message": "m", "messageExpression": long}),
            "a: Invalid value: \"v\": m",
        ),
        (
            json!({"rule": "self.matches(self + '(')", "message": "m"}),
            "a: Invalid value: \"string\": error parsing regexp: missing closing ): `v(` \
             evaluating rule: m",
        ),
        (
            json!({"rule": "self.none"}),
            "a: Invalid value: \"string\": rule compile error: compilation failed: ERROR: \
             <input>:1:5: type 'string' does not support field selection\n | self.none\n | ....^",
        ),
        (
            json!({"rule": "dyn(self) + 1 == 2"}),
            "a: Invalid value: \"string\": 'no such overload': call arguments did not match a \
             supported operator, function or macro signature for rule: dyn(self) + 1 == 2",
        ),
    ] {
        assert_eq!(text(rule.clone(), json!("v")), [wanted], "{rule}");
    }
    assert!(text(json!({"rule": "false"}), json!(null)).is_empty());
    let object = json!({"type": "object", "properties": {"a": {"type": "object",
        "x-kubernetes-validations": [{"rule": "false", "message": "m",
            "fieldPath": ".b['x.y']"}],
        "properties": {"b": {"type": "object", "additionalProperties": {"type": "string"}}}}}});
    let found = errors(&object, &json!({"a": {}}), None);
    assert_eq!(found, ["a.b[x.y]: Invalid value: m"]);
}

/// CRD-162: an error at a part that the update does not change is a warning.
#[test]
fn unchanged_parts_are_forgiven() {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'good'"}]},
        "l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
                "x-kubernetes-validations": [{"rule": "self.v > 0"}],
                "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "atomic": {"type": "array", "items": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 0"}]}},
        "all": {"type": "string", "allOf": [
            {"x-kubernetes-validations": [{"rule": "self == 'good'"}]}]},
    }});
    let rules = rules(&schema);
    let both = |new: Json, old: Json| {
        let verdict = rules.check(&new, Checking::update(&old));
        (verdict.errors.len(), verdict.warnings.len())
    };
    let bad = json!({"s": "bad", "l": [{"k": "a", "v": 0}, {"k": "b", "v": 0}]});
    let moved = json!({"s": "bad", "l": [{"k": "b", "v": 0}, {"k": "a", "v": 0}]});
    assert_eq!(both(bad.clone(), bad.clone()), (0, 3));
    assert_eq!(both(moved, bad.clone()), (0, 3));
    let changed = json!({"s": "worse", "l": [{"k": "a", "v": -1}, {"k": "b", "v": 0}]});
    assert_eq!(both(changed, bad), (2, 1));
    // Items of other lists have the whole list before them.
    let numbers = json!({"atomic": [0, 1]});
    assert_eq!(both(numbers.clone(), numbers.clone()), (0, 1));
    assert_eq!(both(json!({"atomic": [0, 1, 2]}), numbers), (1, 0));
    // A part inside of allOf has only the object around it.
    let all = json!({"all": "bad"});
    assert_eq!(
        both(json!({"all": "bad", "s": "good"}), all.clone()),
        (1, 0)
    );
    let warning = &rules.check(&json!({"s": "bad"}), Checking::update(&json!({"s": "bad"})));
    let texts: Vec<String> = warning.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["s: Invalid value: \"bad\": failed rule: self == 'good'"]
    );
    let shape = Shape::of(&schema, true, &Budget::of(&schema));
    assert!(is_unchanged(&all, &all, &shape));
    assert!(!is_unchanged(
        &json!({"unknown": 1}),
        &json!({"unknown": 1}),
        &shape
    ));
}

/// CRD-173: transition rules need a part before the update.
#[test]
fn transition_rules_see_what_was_before() {
    let rule = json!({"rule": "self.size() >= oldSelf.size()"});
    let schema = json!({"type": "object", "properties": {
        "m": {"type": "object", "additionalProperties":
            {"type": "string", "x-kubernetes-validations": [rule]}},
        "o": {"type": "string", "x-kubernetes-validations": [{
            "rule": "oldSelf.optMap(o, o == self).orValue(true)", "optionalOldSelf": true,
            "messageExpression": "'was ' + string(oldSelf)"}]}}});
    let old = json!({"m": {"a": "xx"}, "o": "1"});
    let new = json!({"m": {"a": "x", "b": "y"}, "o": "2"});
    // The message expression does not compile, because its old value is optional.
    assert_eq!(
        errors(&schema, &new, Some(&old)),
        [
            "m[a]: Invalid value: \"x\": failed rule: self.size() >= oldSelf.size()",
            "o: Invalid value: \"2\": failed rule: oldSelf.optMap(o, o == self).orValue(true)",
        ]
    );
    assert!(errors(&schema, &new, None).is_empty());
    let of_null = json!({"m": {"a": null}, "o": null});
    assert!(errors(&schema, &new, Some(&of_null)).is_empty());
}

/// CRD-176: the costs of one expression and of all of an object are bounded.
#[test]
fn evaluation_ends_when_it_costs_too_much() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let heavy = "self.all(x, self.all(y, x >= 0 || y > 0))";
    let mut schema = json!({"type": "object", "properties": {"l": list}});
    let place = |schema: &mut Json, rules: Vec<Json>| {
        schema["properties"]["l"]["x-kubernetes-validations"] = rules.into();
    };
    let object = json!({"l": (0..1000).collect::<Vec<i64>>()});
    place(
        &mut schema,
        vec![json!({"rule": heavy}), json!({"rule": "false"})],
    );
    assert_eq!(
        errors(&schema, &object, None),
        [format!(
            "l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no \
             further validation rules will be run due to call cost exceeds limit for rule: {heavy}"
        )]
    );
    // Each of these costs 900,000 or so.
    let part = json!({"l": (0..360).collect::<Vec<i64>>()});
    place(&mut schema, vec![json!({"rule": heavy}); 20]);
    let rules = rules(&schema);
    let verdict = rules.check(&part, Checking::create());
    let exhausted = "l: Invalid value: \"array\": validation failed due to running out of cost \
                     budget, no further validation rules will be run";
    assert_eq!(
        (texts(&verdict), verdict.left),
        (vec![exhausted.to_owned()], -1)
    );
    let few = Checking {
        budget: 3,
        ..Checking::create()
    };
    assert_eq!(texts(&rules.check(&part, few)), [exhausted]);
    let cheap = json!({"l": []});
    let left = rules.check(&cheap, Checking::create()).left;
    assert_eq!(OBJECT_LIMIT - left, 20 * 2);
}

#[test]
fn values_that_do_not_fit_their_schema_are_errors_of_the_rules_that_see_them() {
    let schema = json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "b": {"type": "string", "format": "byte"}},
        "x-kubernetes-validations": [
            {"rule": "self.i > 0", "message": "m"}, {"rule": "!has(self.b) || self.b != b'1'"}]});
    assert_eq!(
        errors(&schema, &json!({"i": 1.5, "b": "++++"}), None),
        [
            "<nil>: Invalid value: \"object\": invalid data, expected int, got float64 evaluating \
             rule: m",
            "<nil>: Invalid value: \"object\": Invalid byte formatted string ++++: illegal base64 \
             data at input byte 0 evaluating rule: !has(self.b) || self.b != b'1'",
        ]
    );
}

#[test]
fn rules_of_a_definition_are_compiled_with_their_costs() {
    let schema =
        json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 64}});
    let budget = Budget::of(&schema);
    let shape = Shape::of(&schema, false, &budget);
    let rule = json!({"rule": "self.all(x, self.all(y, x == y))", "messageExpression": "self[0]"});
    let scope = Scope::of(&shape, &budget).expect("rules see lists");
    let found = compiled(&rule, &scope, &shape, &budget);
    assert_eq!((found.fault, found.uses_old), (None, false));
    assert_eq!(found.cost.map(|cost| cost.max), Some(3_152));
    assert_eq!(found.message_cost.map(|cost| cost.max), Some(2));
    for (rule, wanted) in [
        (
            json!({"rule": "self"}),
            RuleFault::Rule("cel expression must evaluate to a bool".to_owned()),
        ),
        (
            json!({"rule": "self == ['a'] && int('x') == 1"}),
            RuleFault::Rule(
                "program instantiation failed: type conversion error from 'string' to 'int'"
                    .to_owned(),
            ),
        ),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            RuleFault::Message("messageExpression must evaluate to a string".to_owned()),
        ),
    ] {
        let found = compiled(&rule, &scope, &shape, &budget);
        assert_eq!(found.fault, Some(wanted), "{rule}");
    }
}
