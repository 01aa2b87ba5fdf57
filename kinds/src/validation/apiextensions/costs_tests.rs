//! The costs of rules, and defaults that rules refuse (CRD-40, CRD-49 to CRD-52).

use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::*;
use crate::defaults::apiextensions::customresourcedefinition;
use crate::recorded::{Functions, check};

/// Recorded scenarios: schemas, rules and definitions that are refused.
#[test]
fn answers_to_scenarios_are_those_of_kube_apiserver() {
    check(
        include_str!("../../../recorded/apiextensions_scenarios.json"),
        |_| Functions {
            defaults: Some(customresourcedefinition),
            create: validate_customresourcedefinition,
            update: None,
        },
    );
}

fn definition(schemas: &[(&str, &Value)]) -> Object {
    let versions = schemas.iter().enumerate().map(|(at, (name, schema))| {
        json!({"name": name, "served": true, "storage": at == 0,
            "schema": {"openAPIV3Schema": schema}})
    });
    let versions: Vec<Value> = versions.collect();
    let whole = json!({
        "metadata": {"name": "foos.d.example.com"},
        "spec": {"group": "d.example.com", "scope": "Namespaced", "versions": versions,
            "conversion": {"strategy": "None"}, "names": {
            "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}},
        "status": {"storedVersions": [schemas[0].0]},
    });
    Object::of(whole.as_object().unwrap().clone())
}

fn created(schema: &Value) -> Vec<String> {
    let whole = definition(&[("v1", schema)]);
    let errors = ErrorList::of(|errors| validate_customresourcedefinition(&whole, errors));
    errors.iter().map(ToString::to_string).collect()
}

fn updated(old: &[(&str, &Value)], new: &[(&str, &Value)]) -> Vec<String> {
    let (old, new) = (definition(old), definition(new));
    let errors =
        ErrorList::of(|errors| validate_customresourcedefinition_update(&new, &old, errors));
    errors.iter().map(ToString::to_string).collect()
}

fn properties(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

const HINT: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
                    where arrays, maps, and strings are declared)";
const AT: &str = "spec.validation.openAPIV3Schema";

/// CRD-51: the sum of all costs is limited, and the greatest are named first.
#[test]
fn rules_that_cost_too_much_together_are_named() {
    let list = |items: u64| {
        let rules = json!([{"rule": "self.all(x, x > 0)"}]);
        json!({"type": "array", "items": {"type": "integer"}, "maxItems": items,
            "x-kubernetes-validations": rules})
    };
    // Each item costs five.
    let lists = (0..20).map(|at| (format!("l{at:02}"), list(1_400_000 + at)));
    let mut lists: Map<String, Value> = lists.collect();
    lists.insert("small".to_owned(), list(100));
    let errors = created(&properties(&lists.into()));
    let named = |name: &str| {
        format!(
            "{AT}.properties[{name}].x-kubernetes-validations[0].rule: Forbidden: contributed to \
             estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        )
    };
    assert_eq!(errors[..4], ["l19", "l18", "l17", "l16"].map(named));
    let total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    assert!(errors[4].starts_with(&format!(
        "{AT}: Forbidden: {total} exceeds budget by factor"
    )));
    assert_eq!(errors.len(), 5);
}

/// CRD-51: a rule runs for each value, its message is computed once.
#[test]
fn costs_of_messages_do_not_depend_on_the_number_of_values() {
    let rules = |rule: &str, message: &str| {
        let rules = json!([{"rule": rule, "messageExpression": message}]);
        let item = json!({"type": "string", "maxLength": 1000, "x-kubernetes-validations": rules});
        properties(&json!({"a": {"type": "array", "maxItems": 100_000, "items": item}}))
    };
    let (cheap, dear) = ("'a'", "self.contains(self) ? 'a' : 'b'");
    assert_eq!(created(&rules("true", dear)), [""; 0]);
    let rule = format!("({dear}) == 'a'");
    let at = format!("{AT}.properties[a].items.x-kubernetes-validations[0]");
    let errors = created(&rules(&rule, cheap));
    assert!(errors[0].starts_with(&format!(
        "{at}.rule: Forbidden: estimated rule cost exceeds"
    )));
    let long = json!([{"rule": "true", "messageExpression": "self.contains(self) ? 'a' : 'b'"}]);
    let schema = json!({"type": "string", "x-kubernetes-validations": long});
    assert_eq!(
        created(&properties(&json!({ "a": schema }))),
        [
            format!(
                "{AT}.properties[a].x-kubernetes-validations[0].messageExpression: Forbidden: \
                 estimated messageExpression cost exceeds budget by factor of more than 100x {HINT}"
            ),
            format!(
                "{AT}.properties[a].x-kubernetes-validations[0].messageExpression: Forbidden: \
                 contributed to estimated rule cost total exceeding cost limit for entire \
                 OpenAPIv3 schema"
            ),
            format!(
                "{AT}: Forbidden: x-kubernetes-validations estimated rule cost total for entire \
                 OpenAPIv3 schema exceeds budget by factor of more than 100x {HINT}"
            ),
        ]
    );
}

/// CRD-52, CRD-41: a version whose schema is unchanged may keep rules that cost too much for one
/// expression, but these excuse nothing else.
#[test]
fn unchanged_schemas_may_keep_their_rules() {
    let rules = json!([{"rule": "self.contains(self)"}]);
    let item = json!({"type": "string", "maxLength": 10_000, "x-kubernetes-validations": rules});
    let dear = properties(&json!({ "a": item }));
    let changed = properties(&json!({"a": item, "b": {"type": "string"}}));
    let refused = |at: &str| {
        vec![format!(
            "{at}.properties[a].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost \
             exceeds budget by factor of 1.6x {HINT}"
        )]
    };
    assert_eq!(created(&dear), refused(AT));
    assert_eq!(updated(&[("v1", &dear)], &[("v1", &dear)]), [""; 0]);
    assert_eq!(updated(&[("v1", &dear)], &[("v1", &changed)]), refused(AT));
    // Versions are known by their names.
    let plain = properties(&json!({}));
    let both = [("v1", &dear), ("v2", &plain)];
    assert_eq!(updated(&both, &both), [""; 0]);
    assert_eq!(updated(&both, &[("v2", &plain), ("v1", &dear)]), [""; 0]);
    assert_eq!(
        updated(&both, &[("v1", &dear), ("v2", &changed)]),
        refused("spec.versions[1].schema.openAPIV3Schema")
    );
    let untyped = properties(&json!({"a": item, "b": {}}));
    assert_eq!(
        updated(&[("v1", &dear)], &[("v1", &untyped)]),
        [format!(
            "{AT}.properties[b].type: Required value: must not be empty for specified object fields"
        )]
    );
}

/// CRD-49: the outermost list is named, and a rule with a fault does not use the old value.
#[test]
fn old_values_of_lists_in_lists() {
    let rules = |rule: Value| {
        let item = json!({"type": "integer", "x-kubernetes-validations": [rule]});
        let list = |items: Value| json!({"type": "array", "maxItems": 2, "items": items});
        created(&properties(&json!({"a": list(list(item))})))
    };
    let at = format!("{AT}.properties[a].items.items.x-kubernetes-validations[0]");
    assert_eq!(
        rules(json!({"rule": "self == oldSelf"})),
        [format!(
            "{at}.rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the \
             uncorrelatable portion of the schema within {AT}.properties[a]"
        )]
    );
    let errors = rules(json!({"rule": "self", "optionalOldSelf": true}));
    assert!(errors[0].ends_with("cel expression must evaluate to a bool"));
    assert_eq!(
        errors[1],
        format!(
            "{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in \
             rule"
        )
    );
}

/// CRD-40: a default passes the rules, both as a new value and as one that an update keeps.
#[test]
fn defaults_pass_their_rules() {
    let with = |default: Value, rule: Value| {
        let items = json!({"type": "integer", "x-kubernetes-validations": [rule]});
        let list = json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "n": items}}});
        let mut schema = properties(&json!({ "l": list, "n": items }));
        schema["default"] = default;
        created(&properties(&json!({ "a": schema })))
    };
    let at = format!("{AT}.properties[a].default");
    let (four, two) = (json!({"n": 4}), json!({"l": [{"k": "x", "n": 2}]}));
    let over = json!({"rule": "self > 3"});
    assert_eq!(with(four.clone(), over.clone()), [""; 0]);
    assert_eq!(
        with(two, over),
        [format!(
            "{at}.l[0].n: Invalid value: 2: failed rule: self > 3"
        )]
    );
    let grows = json!({"rule": "self > oldSelf"});
    assert_eq!(
        with(four.clone(), grows),
        [format!(
            "{at}.n: Invalid value: 4: failed rule: self > oldSelf"
        )]
    );
    let kept = json!({"rule": "oldSelf.hasValue()", "optionalOldSelf": true});
    assert_eq!(
        with(four, kept),
        [format!(
            "{at}.n: Invalid value: 4: failed rule: oldSelf.hasValue()"
        )]
    );
}

/// Rules over a large schema, long paths and expensive defaults take no longer than other work.
#[test]
fn rules_are_bounded_by_the_budget() {
    let members = (0..40_000).map(|at| (format!("a{at}"), json!({"type": "boolean"})));
    let wide: Map<String, Value> = members.collect();
    let mut wide = properties(&wide.into());
    let rules: Vec<Value> = vec![json!({"rule": "true"}); 40_000];
    wide["x-kubernetes-validations"] = rules.into();
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = properties(&json!({"a": deep, "b": {"type": "string"}}));
        deep["x-kubernetes-validations"] = json!([{"rule": "true"}]);
        deep["default"] = json!({});
    }
    let path = format!("self{} != '1'", ".a".repeat(200));
    let paths = vec![path; 200].join(" && ");
    deep["x-kubernetes-validations"] = json!(vec![json!({ "rule": paths }); 20]);
    deep.as_object_mut().unwrap().remove("default");
    let items: Vec<i64> = (0..2_000).collect();
    let loops = json!([{"rule": "self.all(x, self.all(y, x >= 0))"}]);
    let list = json!({"type": "array", "items": {"type": "integer"}, "maxItems": 2_000,
        "default": items, "x-kubernetes-validations": loops});
    let lists = (0..50).map(|at| (format!("l{at}"), list.clone()));
    let lists: Map<String, Value> = lists.collect();
    for schema in [wide, deep, properties(&lists.into())] {
        let begin = Instant::now();
        created(&schema);
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        println!("{took:?} {:?}", created(&schema).first());
    }
}
