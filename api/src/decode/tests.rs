use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::field_validation::strict_decoding_error;
use crate::samples::{configmaps, deployments, leases};
use crate::status::{Status, StatusReason};

fn json_value(text: &str) -> Result<Value, String> {
    decode_value(text.as_bytes(), BodyFormat::Json).map(|(value, _)| value)
}

fn yaml(text: &str) -> Result<Value, String> {
    decode_value(text.as_bytes(), BodyFormat::Yaml).map(|(value, _)| value)
}

fn refusal(body: &str, format: BodyFormat, definition: &ResourceDefinition) -> String {
    let error = decode_object(body.as_bytes(), format, definition).unwrap_err();
    let status = Status::from(error);
    assert_eq!(
        (status.code, status.reason),
        (400, StatusReason::BAD_REQUEST)
    );
    status.message
}

fn decoded(body: &str, definition: &ResourceDefinition) -> Value {
    let decoded = decode_object(body.as_bytes(), BodyFormat::Json, definition);
    Value::Object(decoded.unwrap().object.0)
}

/// http.md 3.2 step 6.
#[test]
fn kind_and_version_are_filled_in() {
    let wanted = json!({"kind": "Deployment", "apiVersion": "apps/v1", "spec": {"x": 1}});
    for body in [
        r#"{"spec":{"x":1}}"#,
        r#"{"kind":"","apiVersion":null,"spec":{"x":1}}"#,
        r#"{"kind":"Deployment","apiVersion":"apps/v1","spec":{"x":1}}"#,
    ] {
        assert_eq!(decoded(body, &deployments()), wanted);
    }
    let empty = json!({"kind": "ConfigMap", "apiVersion": "v1"});
    assert_eq!(decoded("null", &configmaps()), empty);
}

/// API-88.
#[test]
fn another_kind_or_version_is_refused() {
    let json = BodyFormat::Json;
    let kind = refusal(
        r#"{"apiVersion":"v1","kind":"Secret"}"#,
        json,
        &configmaps(),
    );
    assert!(kind.starts_with("Secret in version \"v1\" cannot be handled as a ConfigMap: "));
    let grouped = refusal(
        r#"{"apiVersion":"apps/v1","kind":"X"}"#,
        json,
        &configmaps(),
    );
    assert!(grouped.starts_with("X in version \"v1\" cannot be handled as a ConfigMap: "));
    assert_eq!(
        refusal(
            r#"{"apiVersion":"v1","kind":"Deployment"}"#,
            json,
            &deployments()
        ),
        "the API version in the data (v1) does not match the expected API version (apps/v1)"
    );
    assert_eq!(
        refusal(
            r#"{"apiVersion":"a/b/c","metadata":{"name":"a"}}"#,
            json,
            &configmaps()
        ),
        "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion \
         string: a/b/c ({\"apiVersion\":\"a/b/c\",\"metadat ...)"
    );
}

/// API-89: unreadable bodies, with the beginning of the body.
#[test]
fn unreadable_json_is_unrecognized() {
    let cases = [
        ("", "<empty>"),
        ("{", "{"),
        ("[]", "5b5d"),
        ("\"text\"", "227465787422"),
        ("17", "3137"),
        (" ", "20"),
        (
            "{\"metadata\":{\"name\":\"a\"}",
            "{\"metadata\":{\"name\":\"a\"}",
        ),
        (
            "{\"metadata\":{\"name\":\"a\"}} x",
            "{\"metadata\":{\"name\":\"a\"}} x",
        ),
        (
            "{\"metadata\":{\"name\":\"a\",}}",
            "{\"metadata\":{\"name\":\"a\",}}",
        ),
        ("{metadata:{name:a}", "{metadata:{name:a}"),
        (
            "{\"kind\":5,\"metadata\":{\"name\":\"a\"}}",
            "{\"kind\":5,\"metadata\":{\"name\":\" ...",
        ),
    ];
    let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
                 version/kind; json parse error: ";
    for (body, summary) in cases {
        let message = refusal(body, BodyFormat::Json, &configmaps());
        assert!(message.starts_with(start), "{message}");
        assert!(message.ends_with(&format!(" ({summary})")), "{message}");
    }
}

/// API-89: the messages of kube-apiserver.
#[test]
fn members_of_a_wrong_type_are_named() {
    let cases = [
        (
            "\"text\"",
            "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            "[]",
            "array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            r#"{"name":5}"#,
            "number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"labels":[]}"#,
            "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            r#"{"labels":{"a":1}}"#,
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            r#"{"annotations":"x"}"#,
            "string into Go struct field ObjectMeta.metadata.annotations of type \
             map[string]string",
        ),
        (
            r#"{"finalizers":"x"}"#,
            "string into Go struct field ObjectMeta.metadata.finalizers of type []string",
        ),
        (
            r#"{"finalizers":[1]}"#,
            "number into Go struct field ObjectMeta.metadata.finalizers of type string",
        ),
        (
            r#"{"ownerReferences":{}}"#,
            "object into Go struct field ObjectMeta.metadata.ownerReferences of type \
             []v1.OwnerReference",
        ),
        (
            r#"{"ownerReferences":[1]}"#,
            "number into Go struct field ObjectMeta.metadata.ownerReferences of type \
             v1.OwnerReference",
        ),
        (
            r#"{"ownerReferences":[{"controller":"x"}]}"#,
            "string into Go struct field OwnerReference.metadata.ownerReferences.controller of \
             type bool",
        ),
        (
            r#"{"generation":"1"}"#,
            "string into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"generation":1.5}"#,
            "number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"deletionGracePeriodSeconds":true}"#,
            "bool into Go struct field ObjectMeta.metadata.deletionGracePeriodSeconds of type \
             int64",
        ),
        (
            r#"{"creationTimestamp":5}"#,
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            r#"{"managedFields":[{"time":5}]}"#,
            "number into Go struct field ManagedFieldsEntry.metadata.managedFields.time of type \
             string",
        ),
    ];
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot \
                 unmarshal ";
    for (metadata, why) in cases {
        let body = format!("{{\"metadata\":{metadata}}}");
        let message = refusal(&body, BodyFormat::Json, &configmaps());
        assert_eq!(message, format!("{start}{why}"));
    }
}

/// API-89: members with types in the definition.
#[test]
fn typed_members_are_checked() {
    let cases = [
        (
            r#""data":{"a":1}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            r#""data":[]"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#""binaryData":{"a":"!"}"#,
            "illegal base64 data at input byte 0",
        ),
        (
            r#""immutable":"x""#,
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
    ];
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    for (member, why) in cases {
        let message = refusal(&format!("{{{member}}}"), BodyFormat::Json, &configmaps());
        assert_eq!(message, format!("{start}{why}"));
    }
    let kept = decoded(
        r#"{"binaryData":{"a":"aGVs\nbG8=","b":""},"other":[null],"data":{}}"#,
        &configmaps(),
    );
    assert_eq!(kept["binaryData"], json!({"a": "aGVsbG8=", "b": ""}));
    assert_eq!((kept.get("other"), kept.get("data")), (None, None));
}

/// API-89: Go reads lists of numbers as bytes, too. kube-rs writes the patches of webhooks so.
#[test]
fn bytes_may_be_lists_of_numbers() {
    let body = |value: &str| format!("{{\"binaryData\":{{\"a\":{value}}}}}");
    let definition = configmaps();
    let (schema, id) = definition.object_type().found().unwrap();
    for (value, base64) in [("[1,2,255]", "AQL/"), ("[]", ""), ("[null,3]", "AAM=")] {
        let read = decoded(&body(value), &configmaps());
        assert_eq!(read["binaryData"]["a"], base64);
        let mut members = serde_json::from_str(&body(value)).unwrap();
        super::unstructured::from_unstructured(schema, id, &mut members).unwrap();
        assert_eq!(members["binaryData"]["a"], base64);
    }
    for (value, found) in [
        ("[256]", "number 256"),
        ("[-1]", "number -1"),
        ("[1.5]", "number 1.5"),
        ("[1,\"x\",300]", "string"),
        ("[true]", "bool"),
        ("[[1]]", "array"),
        ("[{}]", "object"),
    ] {
        let message = refusal(&body(value), BodyFormat::Json, &configmaps());
        let end = format!(
            "json: cannot unmarshal {found} into Go struct field ConfigMap.binaryData of type uint8"
        );
        assert!(message.ends_with(&end), "{value}: {message}");
        let mut members = serde_json::from_str(&body(value)).unwrap();
        super::unstructured::from_unstructured(schema, id, &mut members).unwrap_err();
    }
}

/// API-89: Go's position of a fault in base64.
#[test]
fn faults_in_base64_have_their_place() {
    let cases = [
        ("YQ", 0),
        ("YWJjYQ", 4),
        ("YQ=", 3),
        ("YQ=x", 2),
        ("YQ==x", 4),
        ("YWI==", 4),
        ("=", 0),
        ("Y=", 1),
        ("Y\\nQ", 1),
        ("Y\\nQ\\n%", 4),
        ("YQ\\n=", 4),
        ("YQ==\\nYQ==", 5),
        ("YWJjYQ\\n", 5),
    ];
    for (text, at) in cases {
        let body = format!("{{\"binaryData\":{{\"a\":\"{text}\"}}}}");
        let message = refusal(&body, BodyFormat::Json, &configmaps());
        let end = format!("illegal base64 data at input byte {at}");
        assert!(message.ends_with(&end), "{text}: {message}");
    }
}

/// As in kube-apiserver, times of leases have exactly six decimals.
#[test]
fn lease_times_have_six_decimals() {
    let renewed = |time: &str| format!(r#"{{"spec":{{"renewTime":"{time}"}}}}"#);
    let lease = decoded(&renewed("2024-01-02T03:04:05.123456+01:00"), &leases());
    assert_eq!(lease["spec"]["renewTime"], "2024-01-02T02:04:05.123456Z");
    for bad in [
        "2024-01-02T03:04:05Z",
        "2024-01-02T03:04:05.12345Z",
        "2024-01-02T03:04:05.1234567Z",
        "2024-01-02 03:04:05.123456Z",
        "2024-13-02T03:04:05.123456Z",
        "",
    ] {
        let message = refusal(&renewed(bad), BodyFormat::Json, &leases());
        let start = "Lease in version \"v1\" cannot be handled as a Lease: parsing time";
        assert!(message.starts_with(start), "{message}");
    }
    let seconds = refusal(
        r#"{"spec":{"leaseDurationSeconds":3000000000}}"#,
        BodyFormat::Json,
        &leases(),
    );
    assert!(seconds.ends_with(
        "cannot unmarshal number 3000000000 into Go struct field \
         LeaseSpec.spec.leaseDurationSeconds of type int32"
    ));
    let absent = decoded(
        r#"{"spec":{"renewTime":null,"holderIdentity":"x"}}"#,
        &leases(),
    );
    assert_eq!(absent["spec"], json!({"holderIdentity": "x"}));
}

/// API-62: whole seconds of UTC.
#[test]
fn times_of_metadata_are_whole_seconds_of_utc() {
    let created = |time: &str| format!(r#"{{"metadata":{{"creationTimestamp":"{time}"}}}}"#);
    for accepted in ["2001-02-03T04:05:06Z", "2001-02-03T05:35:06.789+01:30"] {
        let object = decoded(&created(accepted), &configmaps());
        assert_eq!(
            object["metadata"]["creationTimestamp"],
            "2001-02-03T04:05:06Z"
        );
    }
    for bad in [
        "yesterday",
        "",
        "2001-02-03",
        "2001-02-03T04:05:06",
        "2001-02-30T04:05:06Z",
        "2001-02-03T04:05:06.Z",
    ] {
        refusal(&created(bad), BodyFormat::Json, &configmaps());
    }
}

/// Null members count as absent. Inside maps and lists null is the zero value.
#[test]
fn null_counts_as_absent() {
    let object = decoded(
        r#"{"metadata":{"name":"a","labels":null,"finalizers":null,"ownerReferences":[null],
        "creationTimestamp":null,"annotations":{"a":null}},"data":null,"binaryData":{"b":null}}"#,
        &configmaps(),
    );
    assert_eq!(
        object,
        json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "a", "ownerReferences": [{}], "annotations": {"a": ""}},
            "binaryData": {"b": ""},
        })
    );
    let bare = decoded(r#"{"metadata":null}"#, &configmaps());
    assert_eq!(bare, json!({"kind": "ConfigMap", "apiVersion": "v1"}));
}

/// API-63: the last of two equal members is used, and both are reported.
#[test]
fn duplicate_members_are_reported() {
    let body = r#"{"a":1,"a":2,"b":{"c":[0,{"d":1,"d":2,"d":3}],"c":[{"e":1,"e":2}]},"x":"y"}"#;
    let (value, duplicates) = decode_value(body.as_bytes(), BodyFormat::Json).unwrap();
    assert_eq!(value, json!({"a": 2, "b": {"c": [{"e": 2}]}, "x": "y"}));
    let paths = |faults: Vec<StrictDecodingError>| -> Vec<String> {
        let path = |fault| match fault {
            StrictDecodingError::Duplicate(path)
            | StrictDecodingError::Unknown(path)
            | StrictDecodingError::Repeated(path) => path,
            StrictDecodingError::OfJsonPatch(fault) => fault.to_string(),
        };
        faults.into_iter().map(path).collect()
    };
    assert_eq!(paths(duplicates), ["a", "b.c[1].d", "b.c[0].e", "b.c"]);
    let (value, duplicates) =
        decode_value(b"a: {k: 1, k: 2}\nb: 1\nb: 2\n", BodyFormat::Yaml).unwrap();
    assert_eq!(value, json!({"a": {"k": 2}, "b": 2}));
    let of = |line, name| format!("line {line}: key \"{name}\" already set in map");
    assert_eq!(paths(duplicates), [of(1, "k"), of(3, "b")]);
    let many: String = (0..500)
        .map(|i| format!("\"k{i}\":1,\"k{i}\":2,"))
        .collect();
    let body = format!("{{{}}}", many.trim_end_matches(','));
    let (_, duplicates) = decode_value(body.as_bytes(), BodyFormat::Json).unwrap();
    assert_eq!(duplicates.len(), 100);
}

/// Integers are exact as int64 and uint64, whole floats become integers, and others are float64.
#[test]
fn numbers_keep_their_value() {
    let cases = [
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("18446744073709551615", json!(u64::MAX)),
        ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
        ("1.0", json!(1)),
        ("1e3", json!(1000)),
        ("-0", json!(0)),
        ("-0.0", json!(0)),
        ("1.5", json!(1.5)),
        ("0.1", json!(0.1)),
        ("1e300", json!(1e300)),
    ];
    for (text, value) in cases {
        assert_eq!(json_value(text), Ok(value.clone()), "{text}");
        assert_eq!(
            yaml(&format!("a: {text}")),
            Ok(json!({"a": value})),
            "{text}"
        );
    }
    assert!(json_value("1e400").is_err());
    // Members that are not kept are not decoded.
    let unknown = r#"{"metadata":{"name":"a"},"unknown":[1e400,{"a":-1e400}]}"#;
    decoded(unknown, &configmaps());
    assert!(yaml("a: .inf").is_err());
}

/// D-51
#[test]
fn lists_below_a_merge_key_are_merged() {
    let merged = |list: &str| yaml(&format!("a: &a {{b: 1}}\nl: &l [*a]\nx: {{<<: {list}}}"));
    for list in ["*a", "[*a]", "*l", "[[*a]]"] {
        assert_eq!(merged(list).unwrap()["x"], json!({"b": 1}), "{list}");
    }
    assert!(merged("[1]").is_err() && yaml("a: !!timestamp 2001-12-14").is_err());
}

/// API-63
#[test]
fn byte_order_marks_in_yaml_are_letters() {
    for (text, value) in [
        ("\u{feff}a: \u{feff}x", json!({"a": "\u{feff}x"})),
        ("a: x\u{feff}y", json!({"a": "x\u{feff}y"})),
        (
            " \u{feff}a: [\u{feff}1]",
            json!({"\u{feff}a": ["\u{feff}1"]}),
        ),
        ("a: 1\n\u{feff}# c\n\u{feff}\nb: 2", json!({"a": 1, "b": 2})),
    ] {
        assert_eq!(yaml(text), Ok(value), "{text:?}");
    }
    assert!(yaml("a: 1\n\u{feff}b: 2").is_err());
}

#[test]
fn deep_yaml_is_read_in_place_on_a_small_stack() {
    let deep = format!("a: {}{}", "[".repeat(90), "]".repeat(90));
    let reading = std::thread::Builder::new().stack_size(128 * 1024);
    let reader = reading.spawn(move || yaml(&deep).map(|_| ())).unwrap();
    assert_eq!(reader.join().unwrap(), Ok(()));
}

/// Kubernetes' YAML reader and the booleans of YAML 1.1, as recorded from kube-apiserver.
#[test]
fn yaml_is_decoded_as_in_kubernetes() {
    let cases = [
        ("a: 0644", json!({"a": 420})),
        ("a: 0o644", json!({"a": 420})),
        ("a: 010", json!({"a": 8})),
        ("a: 09", json!({"a": 9})),
        ("a: 0x1F", json!({"a": 31})),
        ("a: 0b101", json!({"a": 5})),
        ("a: 1_000", json!({"a": 1000})),
        ("a: 99999999999999999999", json!({"a": 1e20})),
        ("a: yes", json!({"a": true})),
        ("a: Off", json!({"a": false})),
        ("a: y", json!({"a": true})),
        ("a: \"yes\"", json!({"a": "yes"})),
        ("a: ~", json!({"a": null})),
        ("a:", json!({"a": null})),
        ("a: 2001-01-01", json!({"a": "2001-01-01"})),
        ("a: 12:30:45", json!({"a": "12:30:45"})),
        ("a: !!str 5", json!({"a": "5"})),
        ("a: !!binary aGVsbG8=", json!({"a": "hello"})),
        ("a: !foo bar", json!({"a": "bar"})),
        ("1: x", json!({"1": "x"})),
        ("true: x", json!({"true": "x"})),
        ("a: -.5", json!({"a": -0.5})),
        ("<<: {a: 1}\nb: 2", json!({"a": 1, "b": 2})),
        (
            "base: &b {a: 1, c: 3}\nx:\n  <<: *b\n  a: 2",
            json!({"base": {"a": 1, "c": 3}, "x": {"a": 2, "c": 3}}),
        ),
        ("a: &x [1]\nb: *x", json!({"a": [1], "b": [1]})),
        (
            "a: |\n  two\n  lines\nb: >-\n  one\n  line",
            json!({"a": "two\nlines\n", "b": "one line"}),
        ),
        ("{\"a\": [1, 2,]}", json!({"a": [1, 2]})),
        ("\u{feff}a: 1", json!({"a": 1})),
        ("%YAML 1.1\n---\na: 1", json!({"a": 1})),
        ("", json!(null)),
        ("# nothing", json!(null)),
        ("---\n...\n", json!(null)),
    ];
    for (text, value) in cases {
        assert_eq!(yaml(text), Ok(value), "{text}");
    }
    let bad = [
        "a: b: c",
        "\tx: y",
        " \n \tx: y",
        "a:\n\tb: c",
        "a: [",
        "a: *nope",
        "a: %x",
        "a: @x",
        "~: x",
        "? [a]\n: x",
    ];
    for text in bad {
        assert!(yaml(text).unwrap_err().starts_with("yaml: "), "{text}");
    }
    assert!(decode_value(b"a: \xff", BodyFormat::Yaml).is_err());
    for text in ["- a", "just text", "5"] {
        refusal(text, BodyFormat::Yaml, &configmaps());
    }
}

/// Only the first document of a stream is decoded.
#[test]
fn the_first_document_of_a_stream_counts() {
    let cases = [
        "a: 1\n---\na: 2\n",
        "---\na: 1\n---\n[broken\n",
        "# c\n---\na: 1\n...\nrest: [",
        "--- {a: 1}\n--- x",
        "\n\n---\r\na: 1\r\n---\r\na: 2",
    ];
    for text in cases {
        assert_eq!(yaml(text), Ok(json!({"a": 1})), "{text}");
    }
    assert_eq!(yaml("a: |\n  ---\n  x\n"), Ok(json!({"a": "---\nx\n"})));
    assert_eq!(
        yaml("a: ----\nb: ..."),
        Ok(json!({"a": "----", "b": "..."}))
    );
}

/// Depth is limited in both formats, here by the stack of the thread.
#[test]
fn nesting_is_limited() {
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for levels in [1, 99, deep::SHALLOW] {
        let value = json_value(&nested(levels)).unwrap();
        assert_eq!(yaml(&nested(levels)), Ok(value.clone()), "{levels}");
        assert!(!is_deeper_than(&value, levels));
        assert!(is_deeper_than(&value, levels - 1));
    }
    for levels in [128, 1000, 1_000_000] {
        assert!(json_value(&nested(levels)).is_err(), "{levels}");
        assert!(yaml(&nested(levels)).is_err(), "{levels}");
        assert!(json_value(&"[".repeat(levels)).is_err());
        assert!(json_value(&"{\"a\":".repeat(levels)).is_err());
        assert!(yaml(&"{a: ".repeat(levels)).is_err());
        assert!(yaml(&"- ".repeat(levels)).is_err());
    }
    let blocks: String = (0..2000)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect();
    assert!(yaml(&blocks).is_err());
}

/// Aliases cannot expand a body beyond the limit, neither with many small values nor with a few
/// large ones.
#[test]
fn alias_bombs_are_refused() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..10 {
        let above = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{above}]\n"));
    }
    assert!(yaml(&laughs).is_err());
    let large = format!(
        "a: &a \"{}\"\nb: [{}]",
        "x".repeat(100_000),
        "*a, ".repeat(1000)
    );
    assert!(yaml(&large).is_err());
    let merges = format!(
        "a: &a {{k: \"{}\"}}\n{}",
        "x".repeat(100_000),
        (0..1000)
            .map(|i| format!("m{i}: {{<<: *a}}\n"))
            .collect::<String>()
    );
    assert!(yaml(&merges).is_err());
    let itself = "a: &a [*a]";
    assert!(yaml(itself).is_err());
    let fine = format!("a: &a {{x: 1}}\nb: [{}]", "*a, ".repeat(500));
    let value = yaml(&fine).unwrap();
    assert_eq!(value["b"].as_array().map(Vec::len), Some(500));
}

/// A body of the maximum size is decoded in both formats.
#[test]
fn large_bodies_are_read() {
    let text = "x".repeat(3 << 20);
    let body = format!("{{\"data\":{{\"k\":\"{text}\"}}}}");
    for format in [BodyFormat::Json, BodyFormat::Yaml] {
        let decoded = decode_object(body.as_bytes(), format, &configmaps()).unwrap();
        assert_eq!(decoded.object.text(&["data", "k"]).len(), text.len());
    }
    let numbers = format!("[{}1]", "0,".repeat(1_000_000));
    assert!(json_value(&numbers).is_ok());
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no others", |f| f.is_finite())
            .prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,5}", inner, 0..5)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// Returns whether values are equal. A float that is whole equals the integer.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((k, a), (l, b))| k == l && same(a, b))
        }
        _ => one == other,
    }
}

proptest! {
    /// API-63: decoding keeps every JSON document unchanged.
    #[test]
    fn documents_survive(value in tree()) {
        let text = value.to_string();
        let read = json_value(&text).unwrap();
        prop_assert!(same(&read, &value), "{read} {value}");
        let again = json_value(&read.to_string()).unwrap();
        prop_assert_eq!(again, read);
    }

    /// API-89: no bytes cause a panic, in either format.
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            "[\\[\\]{}:,\"a0-9.eE\\\\ -]{0,40}".prop_map(String::into_bytes),
            "[\\[\\]{}:,\"'&*!|>%@a-c0-9.~<?# \n\t-]{0,60}".prop_map(String::into_bytes),
        ],
    ) {
        for format in [BodyFormat::Json, BodyFormat::Yaml] {
            if let Ok((value, _)) = decode_value(&bytes, format) {
                prop_assert!(!is_deeper_than(&value, deep::SHALLOW));
            }
            if let Err(error) = decode_object(&bytes, format, &configmaps()) {
                prop_assert_eq!(Status::from(error).code, 400);
            }
        }
    }

    /// API-89: any metadata is accepted or refused, and accepted metadata is accepted again
    /// unchanged.
    #[test]
    fn accepted_objects_are_accepted_again(
        name in prop_oneof![
            Just("name"), Just("labels"), Just("finalizers"), Just("ownerReferences"),
            Just("generation"), Just("creationTimestamp"), Just("managedFields"),
        ],
        value in tree(),
        data in tree(),
    ) {
        let body = json!({"metadata": {name: value}, "data": data, "binaryData": data});
        let body = body.to_string();
        if let Ok(decoded) = decode_object(body.as_bytes(), BodyFormat::Json, &configmaps()) {
            let text = Value::Object(decoded.object.0.clone()).to_string();
            let again = decode_object(text.as_bytes(), BodyFormat::Json, &configmaps());
            prop_assert_eq!(again.unwrap().object, decoded.object);
        }
    }
}

/// Paths of duplicates can be as long as the names in them, and their number has no natural limit.
#[test]
fn faults_are_limited_by_the_room_in_a_response_api_90() {
    let name = "n".repeat(1 << 20);
    let members: String = (0..200).map(|n| format!(r#""{n}":1,"{n}":1,"#)).collect();
    let body = format!(r#"{{"{name}":{{"{name}":{{{members}"x":1}}}},"metadata":{{"{name}":1}}}}"#);
    let decoded = decode_object(body.as_bytes(), BodyFormat::Json, &configmaps()).unwrap();
    let faults: Vec<String> = decoded
        .faults
        .iter()
        .map(StrictDecodingError::to_string)
        .collect();
    let bytes: usize = faults.iter().map(String::len).sum();
    assert!(
        !faults.is_empty() && bytes < 32 * 1024,
        "{} faults, {bytes}",
        faults.len()
    );
    assert!(faults.iter().all(|fault| fault.len() < 2 * 1024));
}

/// The same path is reported once. Names are quoted as in Go.
#[test]
fn paths_of_duplicates_are_whole_and_quoted_api_90() {
    let body = r#"{"a":{"x":1,"x":2},"a":{"x":1,"x":2,"y\"":[{"z":1,"z":1}]}}"#;
    let untyped = ResourceDefinition::named("ex.com", "v1", "Thing", "things");
    let decoded = decode_object(body.as_bytes(), BodyFormat::Json, &untyped).unwrap();
    let faults: Vec<String> = decoded
        .faults
        .iter()
        .map(StrictDecodingError::to_string)
        .collect();
    assert_eq!(
        faults,
        [
            "duplicate field \"a.x\"",
            "duplicate field \"a.y\\\"[0].z\"",
            "duplicate field \"a\"",
        ]
    );
}

/// The texts of kube-apiserver 1.36: line numbers of values in the whole body, duplicates of inner
/// members first, and unknown members after all duplicates.
#[test]
fn duplicates_of_yaml_have_lines_api_90() {
    let body = "# c\n---\nmetadata: {name: b}\ndata:\n  k: v\ndata:\n  k: c\n  \"k\": d\n\
                foo: 1\nfoo: 2\n";
    let decoded = decode_object(body.as_bytes(), BodyFormat::Yaml, &configmaps()).unwrap();
    assert_eq!(
        strict_decoding_error(&decoded.faults),
        "strict decoding error: yaml: unmarshal errors:\n  line 8: key \"k\" already set in map\n  \
         line 7: key \"data\" already set in map\n  line 10: key \"foo\" already set in map, \
         unknown field \"foo\""
    );
}

/// A body of some megabytes can expand to a tree of hundreds of megabytes.
#[test]
fn a_document_of_countless_small_objects_is_refused() {
    let body = |item: &str| {
        format!(
            "[{}0]",
            format!("{item},").repeat((3 << 20) / (item.len() + 1))
        )
    };
    for (item, fits) in [
        (r#"{"":0}"#, false),
        (r#"[{"a":{}}]"#, false),
        ("1", true),
        (r#""""#, true),
        (
            r#"{"name":"A_VARIABLE_NAME","value":"and its value, which is usually longer"}"#,
            true,
        ),
    ] {
        let read = json_value(&body(item));
        assert_eq!(read.is_ok(), fits, "{item}");
        if let Err(why) = read {
            assert!(
                why.contains("the document expands to too much data"),
                "{why}"
            );
        }
    }
    // The tree of a short document may take forty times its size, and little more.
    let short = |item: &str, bytes: usize| format!("[{}0]", item.repeat(bytes / item.len()));
    assert!(json_value(&short(r#"[{"a":{}}],"#, 600 << 10)).is_ok());
    assert!(json_value(&short(r#"[{"a":{}}],"#, 900 << 10)).is_err());
    let tree = json!({"a": [1, "b", {}, {"c": null, "d": {"e": true}}], "f": "g"});
    assert_eq!(
        tree_bytes(&tree),
        10 * size_of::<Value>() + 3 * 640 + 2 * 106 + 7 + 7 * 16
    );
}

/// As recorded from kube-apiserver 1.36: a YAML name that is a number or a boolean becomes the text
/// of its value, and a float becomes a 32-bit one (API-63).
#[test]
fn names_in_yaml_are_texts_of_their_values() {
    let cases = [
        ("on", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("N", "false"),
        ("TRUE", "true"),
        ("\"on\"", "on"),
        ("!!str on", "on"),
        ("!!bool yes", "true"),
        ("014", "12"),
        ("-014", "-12"),
        ("0o14", "12"),
        ("0x1F", "31"),
        ("+0x1F", "31"),
        ("0b11", "3"),
        ("09", "9"),
        ("1_000", "1000"),
        ("+1", "1"),
        ("-0", "0"),
        ("-0.0", "-0"),
        ("1e3", "1000"),
        ("1.0", "1"),
        ("1.50", "1.5"),
        (".5", "0.5"),
        ("1e-7", "1e-07"),
        ("1e21", "1e+21"),
        ("1234567.5", "1.2345675e+06"),
        ("0.1234567890123", "0.12345679"),
        ("18446744073709551616", "1.8446744e+19"),
        (".INF", ".inf"),
        ("-.inf", "-.inf"),
        (".NaN", ".nan"),
        ("2001-01-01", "2001-01-01"),
        ("12:30", "12:30"),
    ];
    for (written, name) in cases {
        let text = format!("a:\n  {written}: x\n");
        assert_eq!(yaml(&text), Ok(json!({"a": {name: "x"}})), "{written}");
    }
    for refused in ["~", "null", "9223372036854775808", "? [a]\n", "? {a: b}\n"] {
        assert!(yaml(&format!("{refused}: x")).is_err(), "{refused}");
    }
}

/// API-90: two names are duplicates if their values and types are equal.
#[test]
fn names_in_yaml_are_compared_by_value() {
    let of = |text: &str| {
        let (_, faults) = decode_value(text.as_bytes(), BodyFormat::Yaml).unwrap();
        faults
            .iter()
            .map(StrictDecodingError::to_string)
            .collect::<Vec<_>>()
    };
    let cases = [
        ("on: 1\nyes: 2", vec!["line 2: key true already set in map"]),
        ("on: 1\n\"true\": 2", vec![]),
        ("1: a\n1.0: b", vec![]),
        (
            "1.5: a\n1.50: b",
            vec!["line 2: key 1.5 already set in map"],
        ),
        ("a: 1\na: 2", vec!["line 2: key \"a\" already set in map"]),
    ];
    for (text, faults) in cases {
        assert_eq!(of(text), faults, "{text}");
    }
}

/// API-90, as recorded from kube-apiserver 1.36: a struct, a map or a list is decoded into the
/// value of an earlier member of the same name; other values replace it.
#[test]
fn a_later_member_is_read_into_the_earlier_one() {
    let cases = [
        (
            r#""data":{"x":"1"},"data":{"y":"2"}"#,
            json!({"data": {"x": "1", "y": "2"}}),
        ),
        (
            r#""data":{"x":"1"},"data":{"x":null}"#,
            json!({"data": {"x": ""}}),
        ),
        (r#""data":{"x":"1"},"data":null"#, json!({})),
        (
            r#""data":{"x":"1"},"data":null,"data":{"y":"2"}"#,
            json!({"data": {"y": "2"}}),
        ),
        (r#""data":{"x":"1"},"data":{}"#, json!({"data": {"x": "1"}})),
        (
            r#""metadata":{"name":"a","labels":{"a":"1"}},"metadata":{"labels":{"b":"2"}}"#,
            json!({"metadata": {"name": "a", "labels": {"a": "1", "b": "2"}}}),
        ),
        (
            r#""metadata":{"name":"a"},"metadata":null"#,
            json!({"metadata": {"name": "a"}}),
        ),
        (
            r#""metadata":{"name":"a","name":null,"namespace":"b"},"metadata":{"namespace":""}"#,
            json!({"metadata": {"name": "a"}}),
        ),
        (
            r#""metadata":{"finalizers":["a","b"],"finalizers":["c"]}"#,
            json!({"metadata": {"finalizers": ["c"]}}),
        ),
        (
            r#""metadata":{"finalizers":["a","b"],"finalizers":[null]}"#,
            json!({"metadata": {"finalizers": ["a"]}}),
        ),
        (
            r#""metadata":{"ownerReferences":[{"name":"x","controller":true},{"name":"y"}],
                "ownerReferences":[{"name":"z"}]}"#,
            json!({"metadata": {"ownerReferences": [{"name": "z", "controller": true}]}}),
        ),
        (
            r#""metadata":{"ownerReferences":[{"name":"x"}],"ownerReferences":[],
                "ownerReferences":[{"uid":"u"}]}"#,
            json!({"metadata": {"ownerReferences": [{"uid": "u"}]}}),
        ),
        // D-53.
        (
            r#""metadata":{"ownerReferences":[{"name":"x"},{"name":"y"}],"ownerReferences":[{}],
                "ownerReferences":[{},{"uid":"u"}]}"#,
            json!({"metadata": {"ownerReferences": [{"name": "x"}, {"uid": "u"}]}}),
        ),
        (r#""immutable":true,"immutable":null"#, json!({})),
        (
            r#""immutable":true,"immutable":false"#,
            json!({"immutable": false}),
        ),
    ];
    for (members, mut expected) in cases {
        let body = format!("{{{members}}}");
        let read = decode_object(body.as_bytes(), BodyFormat::Json, &configmaps()).unwrap();
        expected["kind"] = "ConfigMap".into();
        expected["apiVersion"] = "v1".into();
        assert_eq!(Value::Object(read.object.0), expected, "{body}");
        assert!(!read.faults.is_empty(), "{body}");
    }
    let open = ResourceDefinition::named("ex.com", "v1", "Thing", "things");
    let body = r#"{"metadata":{"name":"a","labels":{"a":"1"}},"metadata":{"name":"b"},
        "x":{"a":1},"x":{"b":2}}"#;
    let read = decoded(body, &open);
    assert_eq!(read["metadata"], json!({"name": "b"}));
    assert_eq!(read["x"], json!({"b": 2}));
}

/// Each small part used to be merged with all earlier ones.
#[test]
fn many_small_parts_of_a_large_map_are_merged_once_each() {
    let members = |begin: usize, end: usize| {
        let members = (begin..end).map(|number| format!(r#""k{number:06}":"v""#));
        members.collect::<Vec<_>>()
    };
    let parts = members(20_000, 40_000).into_iter();
    let parts: String = parts.map(|part| format!(r#","data":{{{part}}}"#)).collect();
    let body = format!(r#"{{"data":{{{}}}{parts}}}"#, members(0, 20_000).join(","));
    let before = crate::cost::counts();
    let read = decoded(&body, &configmaps());
    let counts = crate::cost::counts().since(before);
    assert_eq!(read["data"].as_object().unwrap().len(), 40_000);
    assert_eq!(counts.comparisons, 20_000);
    assert!(counts.nodes < 100_000, "{counts:?}");
}

/// API-62: the zero time becomes null (D-50), and a year may have five digits.
#[test]
fn the_first_and_the_last_times_are_read() {
    let renewed = |time: &str| {
        let body = format!(r#"{{"spec":{{"holderIdentity":"x","renewTime":"{time}"}}}}"#);
        decoded(&body, &leases())["spec"]["renewTime"].clone()
    };
    assert_eq!(renewed("0001-01-01T01:00:00.000000+01:00"), Value::Null);
    assert_eq!(
        renewed("0001-01-01T00:00:00.000001Z"),
        "0001-01-01T00:00:00.000001Z"
    );
    assert_eq!(
        renewed("9999-12-31T23:59:59.999999Z"),
        "9999-12-31T23:59:59.999999Z"
    );
    let last = renewed("9999-12-31T23:59:59,500000-01:00");
    assert_eq!(last, "10000-01-01T00:59:59.500000Z");
}

/// API-89: an integer has no decimal point and no exponent, but it may be `-0`.
#[test]
fn integers_are_written_as_whole_numbers() {
    let of = |number: &str| format!(r#"{{"spec":{{"leaseDurationSeconds":{number}}}}}"#);
    for refused in ["1.0", "1e0", "1.5", "10e-1", "3000000000"] {
        refusal(&of(refused), BodyFormat::Json, &leases());
    }
    assert_eq!(
        decoded(&of("-0"), &leases())["spec"]["leaseDurationSeconds"],
        0
    );
}

#[test]
fn decoding_a_long_body_stops_when_the_client_is_gone() {
    let request = std::sync::Arc::default();
    let list = |items: usize| format!("[{}1]", "1,".repeat(items));
    let read = |text: &str| crate::abandoned::within(Some(&request), || json_value(text));
    assert!(read(&list(5_000)).is_ok());
    request.give_up();
    assert!(read(&list(10)).is_ok());
    let stopped = read(&list(5_000)).unwrap_err();
    assert!(stopped.contains("the client is gone"), "{stopped}");
    let yaml = || yaml(&list(5_000));
    let stopped = crate::abandoned::within(Some(&request), yaml).unwrap_err();
    assert!(stopped.contains("the client is gone"), "{stopped}");
}
