//! Examples of each rule. Error texts and field sets are those of a kube-apiserver 1.36.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;

const TEXT: &str = "package a.v1\n\n\
    type Thing kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec Spec\n  3 status Status omitzero\n\n\
    type Spec\n  1 replicas *int32\n  2 paused bool\n  3 image string\n\
    \x20 4 items []Item list=map(name)\n  5 ports []Port list=map(port,protocol)\n\
    \x20 6 args []string list=atomic\n  7 plain []Item\n  8 selector *Selector\n\
    \x20 9 size quantity omitzero\n  10 at time omitzero\n  11 where intorstring omitzero\n\
    \x20 12 numbers []float64 list=set\n  13 labels map[string]string\n\
    \x20 14 whole map[string]string map=atomic\n  15 parts map[string]Item\n\
    \x20 16 open raw omitzero map=granular\n\
    \x20 40 opaque raw omitzero\n\
    \x20 17 any json\n  18 merged []Item patch=merge(name)\n  19 inner Selector map=granular\n\
    \x20 20 keyed []Keyed list=map(k,l)\n\n\
    type Status\n  1 phase string\n\n\
    type Item\n  1 name string always\n  2 value string\n  3 env []Item list=map(name)\n\n\
    type Port\n  1 port int32 always\n  2 protocol string default=TCP\n  3 name string\n\n\
    type Keyed\n  1 k *string\n  2 l *string\n  3 v string\n\n\
    type Selector map=atomic\n  1 a string\n  2 b string\n";

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::read(&[crate::schema::META, TEXT]).unwrap());

fn thing() -> ValueType<'static> {
    ValueType::of(&SCHEMA, SCHEMA.find("a.v1.Thing").unwrap())
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("no object: {other}"),
    }
}

fn spec(value: Value) -> Object {
    object(json!({ "spec": value }))
}

fn problem(value: Value) -> String {
    let result = thing().validate(&spec(value), false);
    result.map_or_else(|errors| errors.to_string(), |()| String::new())
}

/// API-171.
#[test]
fn errors_are_those_of_kubernetes() {
    let string = "expected string, got &value.valueUnstructured{Value:";
    for (value, refusal) in [
        (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
        (
            json!({"replicas": "x"}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            json!({"replicas": {"a": 1}}),
            ".spec.replicas: expected numeric (int or float), got map[string]interface {}",
        ),
        (
            json!({"paused": {"b": [1, "x"]}}),
            ".spec.paused: expected boolean, got &{map[b:[1 x]]}",
        ),
        (
            json!({"image": {"a": 1.5, "b": [true, null, "q"]}}),
            &format!(
                ".spec.image: {string}map[string]interface {{}}{{\"a\":1.5, \
                 \"b\":[]interface {{}}{{true, interface {{}}(nil), \"q\"}}}}}}"
            ),
        ),
        (json!({"image": 12}), &format!(".spec.image: {string}12}}")),
        (
            json!({"items": {"a": [1, {"b": null}]}}),
            ".spec.items: expected list, got &{map[a:[1 map[b:<nil>]]]}",
        ),
        (
            json!({"selector": [1]}),
            ".spec.selector: expected map, got &{[1]}",
        ),
        (
            json!({"items": [{"name": "a"}, {"name": "a"}]}),
            ".spec.items: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"items": [{"name": "a", "env": [{"name": "b", "x": 1}]}]}),
            ".spec.items[name=\"a\"].env[name=\"b\"].x: field not declared in schema",
        ),
        (
            json!({"items": [null]}),
            ".spec.items: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"items": [1]}),
            ".spec.items: element 0: associative list with keys may not have non-map elements",
        ),
        (
            json!({"keyed": [{"v": "x"}]}),
            ".spec.keyed: element 0: associative list with keys has an element that omits all \
             key fields [\"k\" \"l\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"numbers": [null]}),
            ".spec.numbers: element 0: associative list without keys has an element that's an \
             explicit null",
        ),
        (
            json!({"numbers": [{"a": 1}]}),
            ".spec.numbers: element 0: associative list without keys has an element that's a \
             map type",
        ),
        (
            json!({"numbers": [[1]]}),
            ".spec.numbers: element 0: not supported: associative list with lists as elements",
        ),
        (
            json!({"numbers": [1e21, 1e21, 1e-7, 1e-7, 1000000.5, 1000000.5, 1, 1.0]}),
            "errors:\n  .spec.numbers: duplicate entries for key [=1e+21]\n  \
             .spec.numbers: duplicate entries for key [=1e-07]\n  \
             .spec.numbers: duplicate entries for key [=1.0000005e+06]\n  \
             .spec.numbers: duplicate entries for key [=1]",
        ),
        (
            json!({"size": {"a": 1}}),
            ".spec.size: expected any scalar, got &{map[a:1]}",
        ),
        (
            json!({"at": [1]}),
            ".spec.at: expected any scalar, got &{[1]}",
        ),
        (
            json!({"plain": [{"x": 1}]}),
            ".spec.plain[0].x: field not declared in schema",
        ),
    ] {
        assert_eq!(problem(value), refusal);
    }
}

/// API-171, API-193, API-194, API-195: values that fit their types.
#[test]
fn values_of_their_types_are_valid() {
    for value in [
        json!({"items": [{}, {"name": "a"}]}),
        json!({"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}),
        json!({"keyed": [{"k": "a"}, {"k": "a", "l": "b"}]}),
        json!({"size": 1, "at": "x", "where": {"a": 1}, "any": [1, {"a": null}]}),
        json!({"open": {"a": {"b": [1, {}]}}, "args": ["a", "a"]}),
        json!({"replicas": null, "items": null, "selector": null}),
        json!({"plain": [{"name": "a"}, {"name": "a"}], "selector": {"a": "x"}}),
    ] {
        assert_eq!(problem(value.clone()), "", "{value}");
    }
    let port = json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]});
    let refusal = ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]";
    assert_eq!(problem(port.clone()), refusal);
    // Stored objects may have duplicates.
    assert_eq!(thing().validate(&spec(port), true), Ok(()));
    let whole = object(json!({"apiVersion": "a/v1", "kind": 1}));
    let refusal = ".kind: expected string, got &value.valueUnstructured{Value:1}";
    let errors = thing().validate(&whole, false).unwrap_err();
    assert_eq!(errors.to_string(), refusal);
}

fn fields(value: Value) -> String {
    thing().field_set(&spec(value)).to_fields_v1()
}

/// API-182, API-192, API-194.
#[test]
fn fields_are_found_by_type() {
    for (value, set) in [
        (
            json!({"replicas": 1, "image": null, "args": ["a"], "plain": []}),
            r#"{"f:args":{},"f:image":{},"f:plain":{},"f:replicas":{}}"#,
        ),
        (
            json!({"items": [{"name": "a", "value": "x"}, {"env": [{"name": "b"}]}]}),
            concat!(
                r#"{"f:items":{"k:{\"name\":\"\"}":{".":{},"f:env":{"#,
                r#""k:{\"name\":\"b\"}":{".":{},"f:name":{}}}},"#,
                r#""k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:value":{}}}}"#,
            ),
        ),
        (
            json!({"ports": [{"port": 443}, {"port": 80, "name": "x"}]}),
            concat!(
                r#"{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":"#,
                r#"{".":{},"f:name":{},"f:port":{}},"#,
                r#""k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}"#,
            ),
        ),
        (
            json!({"numbers": [2, 1, 1], "labels": {"a": "b"}, "whole": {"a": "b"}}),
            r#"{"f:labels":{"f:a":{}},"f:numbers":{"v:1":{},"v:2":{}},"f:whole":{}}"#,
        ),
        (
            json!({"selector": {"a": "b"}, "inner": {"a": "b"}, "parts": {"x": {}}}),
            r#"{"f:inner":{"f:a":{}},"f:parts":{"f:x":{}},"f:selector":{}}"#,
        ),
        (
            json!({"open": {"a": {"b": [1], "c": {}}}, "any": [{"a": 1}], "where": 5}),
            r#"{"f:any":{},"f:open":{"f:a":{".":{},"f:b":{},"f:c":{}}},"f:where":{}}"#,
        ),
        (
            json!({"merged": [{"name": "a"}], "parts": {"x": {"name": "y"}}}),
            concat!(
                r#"{"f:merged":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"#,
                r#""f:parts":{"f:x":{".":{},"f:name":{}}}}"#,
            ),
        ),
        (json!({"items": [], "labels": {}}), r#"{"f:labels":{}}"#),
        // The schema says nothing about its members.
        (json!({"opaque": {"a": {"b": 1}}}), r#"{"f:opaque":{}}"#),
        // Items with the same key are one field.
        (
            json!({"items": [{"name": "a"}, {"name": "a", "value": "x"}]}),
            r#"{"f:items":{"k:{\"name\":\"a\"}":{}}}"#,
        ),
    ] {
        let expected = match set {
            "{}" => "{}".to_owned(),
            set => format!("{{\"f:spec\":{set}}}"),
        };
        assert_eq!(fields(value.clone()), expected, "{value}");
    }
}

/// API-185.
#[test]
fn objects_are_compared_by_type() {
    let check = |old: Value, new: Value, [added, modified, removed]: [&str; 3]| {
        let found = thing().compare(&spec(old.clone()), &spec(new.clone()));
        let texts = [&found.added, &found.modified, &found.removed].map(FieldSet::to_fields_v1);
        let expected = [added, modified, removed].map(|set| match set {
            "" => "{}".to_owned(),
            set => format!("{{\"f:spec\":{set}}}"),
        });
        assert_eq!(texts, expected, "{old} {new}");
    };
    check(
        json!({"replicas": 1, "image": "a", "paused": true}),
        json!({"replicas": 1.0, "image": "b", "args": ["x"]}),
        [
            r#"{"f:args":{}}"#,
            r#"{"f:image":{}}"#,
            r#"{"f:paused":{}}"#,
        ],
    );
    // A new struct is added with all of its fields; an empty one existed before.
    check(
        json!({"labels": {}}),
        json!({"labels": {"a": "b"}, "parts": {"x": {"name": "y"}}}),
        [
            r#"{"f:labels":{"f:a":{}},"f:parts":{".":{},"f:x":{".":{},"f:name":{}}}}"#,
            "",
            "",
        ],
    );
    check(
        json!({"items": [{"name": "a"}, {"name": "b", "value": "x"}]}),
        json!({"items": [{"name": "c"}, {"name": "b", "value": "y"}]}),
        [
            r#"{"f:items":{"k:{\"name\":\"c\"}":{".":{},"f:name":{}}}}"#,
            r#"{"f:items":{"k:{\"name\":\"b\"}":{"f:value":{}}}}"#,
            r#"{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}"#,
        ],
    );
    check(
        json!({"items": [{"name": "a"}, {"name": "b"}], "numbers": [1, 2]}),
        json!({"items": [{"name": "b"}, {"name": "a"}], "numbers": [2, 1]}),
        ["", "", ""],
    );
    check(
        json!({"selector": {"a": "x"}, "whole": {"a": "b"}, "args": ["a"]}),
        json!({"selector": {"a": "y"}, "whole": {"c": "d"}, "args": []}),
        ["", r#"{"f:args":{},"f:selector":{},"f:whole":{}}"#, ""],
    );
    // A value that becomes empty or null is not removed, but its parts are.
    check(
        json!({"labels": {"a": "b"}, "items": [{"name": "a"}], "image": "x"}),
        json!({"labels": {}, "items": null, "image": null}),
        [
            "",
            r#"{"f:image":{}}"#,
            r#"{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"f:labels":{"f:a":{}}}"#,
        ],
    );
    check(
        json!({"labels": {}}),
        json!({"labels": null}),
        ["", r#"{"f:labels":{}}"#, ""],
    );
    // Values of a deduced type change their form.
    check(
        json!({"open": {"a": {"b": 1}, "c": 1, "d": [1]}}),
        json!({"open": {"a": "x", "c": {"e": 1}, "d": [2]}}),
        [
            r#"{"f:open":{"f:c":{"f:e":{}}}}"#,
            r#"{"f:open":{"f:a":{},"f:c":{},"f:d":{}}}"#,
            r#"{"f:open":{"f:a":{"f:b":{}}}}"#,
        ],
    );
    // Items with the same key are one atomic field.
    let one = json!({"items": [{"name": "a", "value": "1"}]});
    let two = json!({"items": [{"name": "a", "value": "1"}, {"name": "a"}]});
    let other = json!({"items": [{"name": "a"}, {"name": "a"}]});
    let key = r#"{"f:items":{"k:{\"name\":\"a\"}":{}}}"#;
    let below = r#"{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:value":{}}}}"#;
    check(two.clone(), two.clone(), ["", "", ""]);
    check(two.clone(), other, ["", key, ""]);
    check(one.clone(), two.clone(), [key, "", below]);
    check(two.clone(), one, [below, "", key]);
    check(
        two,
        json!({}),
        ["", "", r#"{"f:items":{".":{},"k:{\"name\":\"a\"}":{}}}"#],
    );
}

/// API-172.
#[test]
fn applied_values_replace_live_ones() {
    let check = |live: Value, applied: Value, merged: Value| {
        let found = thing().merge(&spec(live.clone()), &spec(applied.clone()));
        assert_eq!(found, spec(merged), "{live} {applied}");
    };
    check(
        json!({"replicas": 1, "labels": {"a": "1", "b": "2"}, "args": ["a", "b"]}),
        json!({"image": "x", "labels": {"b": "3", "c": "4"}, "args": ["c"]}),
        json!({"replicas": 1, "image": "x", "labels": {"a": "1", "b": "3", "c": "4"},
               "args": ["c"]}),
    );
    check(
        json!({"selector": {"a": "x"}, "whole": {"a": "b"}, "inner": {"a": "x"}}),
        json!({"selector": {"b": "y"}, "whole": {"c": "d"}, "inner": {"b": "y"}}),
        json!({"selector": {"b": "y"}, "whole": {"c": "d"}, "inner": {"a": "x", "b": "y"}}),
    );
    check(
        json!({"items": [{"name": "a", "value": "1", "env": [{"name": "e"}]}, {"name": "b"}]}),
        json!({"items": [{"name": "a", "env": [{"name": "f"}]}]}),
        json!({"items": [
            {"name": "a", "value": "1", "env": [{"name": "e"}, {"name": "f"}]},
            {"name": "b"},
        ]}),
    );
    // Null and empty values remove nothing that has parts.
    check(
        json!({"replicas": 1, "labels": {"a": "1"}, "items": [{"name": "a"}], "args": ["a"]}),
        json!({"replicas": null, "labels": {}, "items": [], "args": null}),
        json!({"replicas": null, "labels": {"a": "1"}, "items": [{"name": "a"}], "args": null}),
    );
    check(
        json!({"labels": null, "items": []}),
        json!({"labels": {}, "items": null}),
        json!({"labels": {}, "items": null}),
    );
    check(
        json!({"open": {"a": {"b": 1}, "c": [1], "d": {"e": 1}}}),
        json!({"open": {"a": "x", "c": [2], "d": {"f": 1}}}),
        json!({"open": {"a": "x", "c": [2], "d": {"e": 1, "f": 1}}}),
    );
    // The default protocol of a port is TCP.
    check(
        json!({"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}),
        json!({"ports": [{"port": 80, "name": "x"}]}),
        json!({"ports": [
            {"port": 80, "protocol": "TCP", "name": "x"},
            {"port": 80, "protocol": "UDP"},
        ]}),
    );
    // Several live items with the same key are replaced as a whole.
    check(
        json!({"items": [{"name": "a", "value": "1"}, {"name": "b"}, {"name": "a"}]}),
        json!({"items": [{"name": "a", "value": "2"}]}),
        json!({"items": [{"name": "a", "value": "2"}, {"name": "b"}]}),
    );
}

/// API-172: the order of items in merged lists.
#[test]
fn merged_items_are_in_the_order_that_was_applied() {
    for (live, applied, merged) in [
        (vec![1, 2, 3], vec![3, 1], vec![2, 3, 1]),
        (vec![1, 2, 3], vec![4, 5], vec![1, 2, 3, 4, 5]),
        (vec![1, 2, 3], vec![2, 4], vec![1, 2, 3, 4]),
        (vec![1, 2, 3], vec![4, 2], vec![1, 4, 2, 3]),
        (vec![1, 2, 3, 4], vec![4, 2, 5], vec![1, 3, 4, 2, 5]),
        (vec![1, 1, 2], vec![2, 1], vec![2, 1]),
        (vec![2, 1], vec![1, 2], vec![1, 2]),
        (vec![1, 3, 1], vec![1], vec![1, 3]),
    ] {
        let live = spec(json!({"numbers": live}));
        let applied = spec(json!({"numbers": applied}));
        let found = thing().merge(&live, &applied);
        assert_eq!(
            found,
            spec(json!({"numbers": merged})),
            "{live:?} {applied:?}"
        );
    }
}

fn set(text: &str) -> FieldSet {
    FieldSet::from_fields_v1(text).unwrap()
}

/// API-173.
#[test]
fn fields_are_removed() {
    let live = spec(json!({
        "replicas": 1, "image": "x", "labels": {"a": "1", "b": "2"}, "args": ["a"],
        "items": [{"name": "a", "value": "1"}, {"name": "b"}], "selector": {"a": "x"},
        "numbers": [1, 2],
    }));
    let gone = set(concat!(
        r#"{"f:spec":{"f:replicas":{},"f:labels":{"f:a":{}},"f:args":{},"f:selector":{},"#,
        r#""f:items":{"k:{\"name\":\"a\"}":{"f:value":{}},"k:{\"name\":\"b\"}":{}},"#,
        r#""f:numbers":{"v:1":{},"v:2":{}}}}"#,
    ));
    let left = json!({
        "image": "x", "labels": {"b": "2"}, "items": [{"name": "a"}], "numbers": [],
    });
    assert_eq!(thing().remove_items(&live, &gone), spec(left));
    assert_eq!(thing().remove_items(&live, &FieldSet::default()), live);
}

#[test]
fn named_fields_above_members_are_added() {
    let text = concat!(
        r#"{"f:spec":{"f:labels":{"f:a":{}},"f:parts":{"f:x":{"#,
        r#""f:env":{"k:{\"name\":\"a\"}":{"f:name":{}}}}}}}"#,
    );
    let with = concat!(
        r#"{"f:spec":{".":{},"f:labels":{".":{},"f:a":{}},"f:parts":{".":{},"f:x":{"#,
        r#""f:env":{".":{},"k:{\"name\":\"a\"}":{"f:name":{}}}}}}}"#,
    );
    assert_eq!(thing().with_named_fields(&set(text)), set(with));
}

/// A part that was granular when the set was written, and is atomic now, is one field.
#[test]
fn parts_that_became_atomic_are_one_field() {
    let old = set(concat!(
        r#"{"f:gone":{"f:x":{}},"f:spec":{"f:args":{"i:0":{}},"f:image":{},"#,
        r#""f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"#,
        r#""f:open":{"f:a":{"f:b":{}}},"f:selector":{".":{},"f:a":{}}}}"#,
    ));
    let new = concat!(
        r#"{"f:gone":{"f:x":{}},"f:spec":{"f:args":{},"f:image":{},"#,
        r#""f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"#,
        r#""f:open":{"f:a":{"f:b":{}}},"f:selector":{}}}"#,
    );
    assert_eq!(thing().reconciled(&old), Some(set(new)));
    assert_eq!(thing().reconciled(&set(new)), None);
    // A part that became granular stays as it is.
    assert_eq!(
        thing().reconciled(&set(r#"{"f:spec":{"f:items":{},"f:labels":{}}}"#)),
        None
    );
}

/// API-195.
#[test]
fn without_a_schema_types_are_deduced() {
    let of = ValueType::deduced(&SCHEMA);
    let value = object(json!({"a": {"b": [{"c": 1}], "d": {}}, "metadata": {"finalizers": ["x"]}}));
    assert_eq!(of.validate(&value, false), Ok(()));
    let set = of.field_set(&value).to_fields_v1();
    let expected = r#"{"f:a":{".":{},"f:b":{},"f:d":{}},"f:metadata":{".":{},"f:finalizers":{}}}"#;
    assert_eq!(set, expected);
}

/// Many items with the same key, with different keys, and in the opposite order take less than
/// quadratic time.
#[test]
fn many_items_take_a_bounded_time() {
    let count = 20_000;
    let same = json!({"items": vec![json!({"name": "a"}); count]});
    let up: Vec<Value> = (0..count).map(|n| json!({"name": n.to_string()})).collect();
    let down: Vec<Value> = up.iter().rev().cloned().collect();
    let [same, up, down] = [same, json!({"items": up}), json!({"items": down})].map(spec);
    let of = thing();
    let errors = of.validate(&same, false).unwrap_err();
    assert_eq!(errors.0.len(), 100);
    for (one, other) in [(&same, &up), (&up, &down), (&down, &same)] {
        of.compare(one, other);
        of.merge(one, other);
        let set = of.field_set(other);
        of.remove_items(one, &set);
        let text = set.to_fields_v1();
        assert_eq!(FieldSet::from_fields_v1(&text).as_ref(), Ok(&set));
    }
}
