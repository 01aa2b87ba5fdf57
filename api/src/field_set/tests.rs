use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn field(name: &str) -> PathElement {
    PathElement::field(name)
}

fn name_key(name: &str) -> PathElement {
    PathElement::key(vec![("name".into(), json!(name))])
}

fn set(text: &str) -> FieldSet {
    FieldSet::from_fields_v1(text).unwrap()
}

/// API-182.
#[test]
fn texts_are_written_as_in_kubernetes() {
    let text = concat!(
        r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"#,
        r#""f:spec":{"f:finalizers":{"v:\"a\"":{}},"f:list":{"i:1":{},"i:10":{}},"#,
        r#""f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}},"#,
        r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}}}}"#,
    );
    let read = set(text);
    assert_eq!((read.len(), read.to_fields_v1().as_str()), (9, text));
    let shown: Vec<String> = read.paths().iter().map(FieldPath::to_string).collect();
    assert_eq!(
        shown,
        [
            ".metadata.labels",
            ".metadata.labels.app",
            ".spec.ports",
            ".spec.finalizers[=\"a\"]",
            ".spec.list[1]",
            ".spec.list[10]",
            ".spec.ports[containerPort=80,protocol=\"TCP\"]",
            ".spec.ports[containerPort=443,protocol=\"TCP\"]",
            ".spec.ports[containerPort=80,protocol=\"TCP\"].name",
        ]
    );
    assert_eq!(FieldSet::default().to_fields_v1(), "{}");
}

/// API-182: the same escapes as in jsoniter, inside of names and outside.
#[test]
fn special_characters_are_escaped_as_in_kubernetes() {
    let mut set = FieldSet::default();
    set.insert(&[field("a<\u{8}\"\n")]);
    set.insert(&[name_key("<&\u{1}é\"")]);
    set.insert(&[PathElement::Value(Arc::new(json!(1e21)))]);
    let text = concat!(
        r#"{"f:a<\u0008\"\n":{},"k:{\"name\":\"\\u003c\\u0026\\u0001é\\\"\"}":{},"#,
        r#""v:1e+21":{}}"#,
    );
    assert_eq!(set.to_fields_v1(), text);
    assert_eq!(FieldSet::from_fields_v1(text).unwrap(), set);
}

#[test]
fn invalid_fields_v1_is_refused() {
    for text in [
        "",
        "[]",
        "{\"f\":{}}",
        "{\"fx\":{}}",
        "{\"f:a\":1}",
        "{\"v:\":{}}",
        "{\"v:x\":{}}",
        "{\"k:[]\":{}}",
        "{\"i:x\":{}}",
        "{\"é:x\":{}}",
    ] {
        assert!(FieldSet::from_fields_v1(text).is_err(), "{text}");
    }
    let deep = format!("{}{}", "{\"f:a\":".repeat(130) + "{}", "}".repeat(130));
    assert!(FieldSet::from_fields_v1(&deep).is_err());
    // Elements of unknown kinds are skipped; null is a leaf.
    assert_eq!(set("{\"x:a\":{},\"f:a\":null}"), set("{\"f:a\":{}}"));
    assert_eq!(set("null"), FieldSet::default());
}

#[test]
fn sets_are_combined() {
    let one = set(r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{}}"#);
    let other = set(r#"{"f:a":{"f:b":{},"f:e":{}},"f:f":{}}"#);
    let union = r#"{"f:a":{".":{},"f:b":{},"f:c":{},"f:e":{}},"f:d":{},"f:f":{}}"#;
    assert_eq!(one.union(&other), set(union));
    assert_eq!(one.intersection(&other), set(r#"{"f:a":{"f:b":{}}}"#));
    assert_eq!(
        one.difference(&other),
        set(r#"{"f:a":{".":{},"f:c":{}},"f:d":{}}"#)
    );
    assert_eq!(one.difference(&one), FieldSet::default());
    // Fields below a member are removed with it only in the recursive difference.
    let above = set(r#"{"f:a":{}}"#);
    assert_eq!(
        one.difference(&above),
        set(r#"{"f:a":{"f:b":{},"f:c":{}},"f:d":{}}"#)
    );
    assert_eq!(one.recursive_difference(&above), set(r#"{"f:d":{}}"#));
    assert_eq!(one.leaves(), set(r#"{"f:a":{"f:b":{},"f:c":{}},"f:d":{}}"#));
    assert!(one.has(&[field("a")]) && one.has(&[field("a"), field("b")]));
    assert!(!other.has(&[field("a")]) && !one.has(&[field("x"), field("b")]) && !one.has(&[]));
    assert!(one.below(&field("a")).is_some() && one.below(&field("d")).is_none());
}

fn elements() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c\"<\u{1}é]{1,2}".prop_map(|name| field(&name)),
        "[a-c&]{1,2}".prop_map(|name| name_key(&name)),
        (0..9_i64, any::<bool>()).prop_map(|(port, tcp)| PathElement::key(vec![
            ("port".into(), json!(port)),
            ("tcp".into(), json!(tcp)),
        ])),
        any::<i32>().prop_map(|value| PathElement::Value(Arc::new(json!(value)))),
        (-1e15..1e15_f64).prop_map(|value| PathElement::Value(Arc::new(json!(value)))),
        (-1..3_i64).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = Vec<Vec<PathElement>>> {
    prop::collection::vec(prop::collection::vec(elements(), 1..4), 0..12)
}

fn of(paths: &[Vec<PathElement>]) -> FieldSet {
    FieldSet::of(paths.iter().map(Vec::as_slice))
}

/// The intersection of few fields with many looks the few up.
#[test]
fn small_sets_are_looked_up_in_large_ones() {
    let numbers = |numbers: &mut dyn Iterator<Item = i64>| {
        let paths: Vec<_> = numbers
            .map(|number| vec![PathElement::Index(number)])
            .collect();
        of(&paths)
    };
    let large = numbers(&mut (0..1000).map(|number| 2 * number));
    for few in [
        vec![],
        vec![0],
        vec![1998],
        vec![-1, 0, 1, 2, 3, 700, 701, 1998, 1999],
    ] {
        let small = numbers(&mut few.iter().copied());
        let is_common = |number: &&i64| **number % 2 == 0;
        let common = numbers(&mut few.iter().filter(is_common).copied());
        assert_eq!(small.intersection(&large), common);
        assert_eq!(large.intersection(&small), common);
        assert_eq!(small.recursive_difference(&large), small.difference(&large));
        assert_eq!(small.difference(&large).len() + common.len(), few.len());
        assert_eq!(large.difference(&small).len() + common.len(), 1000);
    }
}

/// Reading with and without a JSON tree has the same result.
#[test]
fn both_ways_of_reading_agree() {
    for text in [
        "{}",
        "null",
        "[]",
        r#"{"f:a":null}"#,
        r#"{".":{},"f:b":{".":{}},"f:a":{".":{},"f:c":{}},"v:1":{},"i:3":{}}"#,
        r#"{"x:new":{"y":1},"f:a":{"x:new":[]}}"#,
        r#"{"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{}},"k:{\"port\":80}":{}}"#,
        r#"{"f:a":1}"#,
        r#"{"f":{}}"#,
        r#"{"fa":{}}"#,
        r#"{"k:x":{}}"#,
        r#"{"i:x":{}}"#,
    ] {
        let tree: Value = serde_json::from_str(text).unwrap();
        let by_tree = FieldSet::from_fields_v1_value(&tree);
        assert_eq!(FieldSet::from_fields_v1(text), by_tree, "{text}");
    }
}

proptest! {
    #[test]
    fn texts_come_back(paths in sets()) {
        let set = of(&paths);
        let text = set.to_fields_v1();
        prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        let read = FieldSet::from_fields_v1(&text).unwrap();
        prop_assert_eq!(&read, &set);
        prop_assert_eq!(read.to_fields_v1(), text);
    }

    #[test]
    fn operations_are_those_of_sets(ones in sets(), others in sets()) {
        let (one, other) = (of(&ones), of(&others));
        let both = [ones, others].concat();
        let union = one.union(&other);
        let mut added = one.clone();
        added.add(&other);
        prop_assert_eq!(&added, &union);
        let whole = FieldSet::union_of(&[&other, &FieldSet::default(), &one, &union]);
        prop_assert_eq!(&whole, &union);
        prop_assert_eq!(union.len(), union.paths().len());
        prop_assert!(one.is_subset(&union) && other.is_subset(&union));
        prop_assert_eq!(one.is_subset(&other), one.difference(&other).is_empty());
        let intersection = one.intersection(&other);
        let difference = one.difference(&other);
        let recursive = one.recursive_difference(&other);
        for path in &both {
            prop_assert!(union.has(path));
            let (in_one, in_other) = (one.has(path), other.has(path));
            prop_assert_eq!(intersection.has(path), in_one && in_other);
            prop_assert_eq!(difference.has(path), in_one && !in_other);
            let is_covered = (1..=path.len()).any(|end| other.has(&path[..end]));
            prop_assert_eq!(recursive.has(path), in_one && !is_covered);
        }
        // Sets have no empty nodes, so equal sets are equal trees.
        for set in [&intersection, &difference, &recursive, &union, &one.leaves()] {
            let paths = set.paths();
            prop_assert_eq!(&FieldSet::of(paths.iter().map(|path| &**path)), set);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[{}\":,.fkvi0\\[\\]]{0,40}") {
        let read = FieldSet::from_fields_v1(&text);
        // A tree keeps only the last of equal names.
        let tree: Result<Value, _> = serde_json::from_str(&text);
        let written = tree.as_ref().map(Value::to_string).unwrap_or_default();
        if let (Ok(tree), true) = (&tree, written == text) {
            prop_assert_eq!(read, FieldSet::from_fields_v1_value(tree));
        }
    }
}
