use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::samples::{configmaps, object};
use crate::status::{Status, StatusReason};

fn parsed(kind: PatchKind, body: &str) -> Result<Patch, Box<Status>> {
    Patch::parse(kind, body.as_bytes()).map_err(Into::into)
}

fn configmap() -> Object {
    object(
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"l":"1"},
        "finalizers":["ex.com/a"]},"data":{"k":"1","m":"1"}}"#,
    )
}

fn applied(kind: PatchKind, body: &str) -> Result<Value, Box<Status>> {
    let patch = parsed(kind, body).unwrap();
    let result = patch.apply(&configmap(), &configmaps(), FieldValidation::Warn);
    let patched = result.map_err(Box::<Status>::from)?;
    Ok(Value::Object(patched.object.0))
}

fn by_json(body: &str) -> Result<Value, Box<Status>> {
    applied(PatchKind::Json, body)
}

fn by_merge(body: &str) -> Result<Value, Box<Status>> {
    applied(PatchKind::Merge, body)
}

/// API-161: the operations of RFC 6902.
#[test]
fn json_patches_change_the_named_members() {
    let patched = by_json(
        r#"[{"op":"test","path":"/data/k","value":"1"},
        {"op":"replace","path":"/data/k","value":"2"},
        {"op":"add","path":"/data/n","value":"3"},
        {"op":"copy","from":"/data/n","path":"/data/p"},
        {"op":"move","from":"/data/m","path":"/data/q"},
        {"op":"remove","path":"/metadata/labels/l"},
        {"op":"add","path":"/metadata/labels/ex.com~1x","value":"~"},
        {"op":"add","path":"/metadata/finalizers/-","value":"ex.com/z"},
        {"op":"add","path":"/metadata/finalizers/0","value":"ex.com/0"}]"#,
    )
    .unwrap();
    assert_eq!(
        patched["data"],
        json!({"k": "2", "n": "3", "p": "3", "q": "1"})
    );
    assert_eq!(patched["metadata"]["labels"], json!({"ex.com/x": "~"}));
    let finalizers = json!(["ex.com/0", "ex.com/a", "ex.com/z"]);
    assert_eq!(patched["metadata"]["finalizers"], finalizers);
    assert_eq!(by_json("[]").unwrap(), Value::Object(configmap().0));
    assert_eq!(by_json("null").unwrap(), Value::Object(configmap().0));
}

/// API-160: the message is the same for every failure.
#[test]
fn an_operation_that_fails_fails_the_patch() {
    let operations = [
        r#"{"op":"test","path":"/data/k","value":"2"}"#,
        r#"{"op":"test","path":"/data/k","value":1}"#,
        r#"{"op":"remove","path":"/data/none"}"#,
        r#"{"op":"remove","path":""}"#,
        r#"{"op":"add","path":"/none/below","value":"1"}"#,
        r#"{"op":"add","path":"/metadata/finalizers/5","value":"1"}"#,
        r#"{"op":"move","from":"/data/none","path":"/data/x"}"#,
        r#"{"op":"move","from":"/data","path":"/data/x"}"#,
        r#"{"op":"add","path":"data","value":"1"}"#,
        r#"{"op":"test","path":"/data/none","value":"1"}"#,
        r#"{"op":"test","path":"/none/none"}"#,
        r#"{"op":"replace","path":"/none/none","value":"1"}"#,
        r#"{"op":"replace","path":"/metadata/finalizers/5","value":"a/b"}"#,
        r#"{"op":"copy","from":"/none/none","path":"/data/x"}"#,
        r#"{"op":"add","value":"1"}"#,
        r#"{"op":"frob","path":"/data"}"#,
        "{}",
        "null",
    ];
    for operation in operations {
        let patch = format!(r#"[{{"op":"add","path":"/data/x","value":"1"}},{operation}]"#);
        assert_eq!(
            *by_json(&patch).unwrap_err(),
            Status::patch_failed(),
            "{operation}"
        );
    }
    let failed = Status::patch_failed();
    assert_eq!((failed.code, failed.reason), (422, StatusReason::INVALID));
    let message = "the server rejected our request due to an error in our request";
    assert_eq!(failed.message, message);
}

/// API-161: a missing member counts as null in replace, test and copy.
#[test]
fn missing_members_are_null() {
    let replaced = by_json(r#"[{"op":"replace","path":"/data/new","value":"1"}]"#).unwrap();
    assert_eq!(replaced["data"]["new"], "1");
    for test in [
        r#"[{"op":"test","path":"/data/new","value":null}]"#,
        r#"[{"op":"test","path":"/data/new"}]"#,
    ] {
        assert_eq!(
            by_json(test).unwrap(),
            Value::Object(configmap().0),
            "{test}"
        );
    }
    let copied = by_json(r#"[{"op":"copy","from":"/data/none","path":"/data/new"}]"#).unwrap();
    assert_eq!(copied["data"]["new"], "");
    let added = by_json(r#"[{"op":"add","path":"/data/k"}]"#).unwrap();
    assert_eq!(added["data"]["k"], "");
}

/// API-160: paths and indexes are parsed as in Kubernetes.
#[test]
fn paths_are_read_as_in_kubernetes() {
    let before = r#"{"metadata":{"finalizers":["a/a","a/b","a/c"]},"data":{"k":"1"}}"#;
    let before: Value = serde_json::from_str(before).unwrap();
    let items = |operation: &str| {
        let operation = operation.replace('@', "/metadata/finalizers");
        let Patch::Json(operations, _) =
            parsed(PatchKind::Json, &format!("[{operation}]")).unwrap()
        else {
            unreachable!()
        };
        let patched = apply_operations(before.clone(), &operations).ok()?;
        let items = patched["metadata"]["finalizers"].as_array().cloned();
        let items = items.into_iter().flatten();
        let mut items: Vec<String> = items
            .map(|item| item.as_str().unwrap().replace("a/", ""))
            .collect();
        for (name, value) in patched["data"].as_object().unwrap() {
            items.push(format!("{name}={}", value.as_str().unwrap_or_default()));
        }
        Some(items.join(" "))
    };
    let cases = [
        (
            r#"{"op":"add","path":"x/data/n","value":"2"}"#,
            Some("a b c k=1 n=2"),
        ),
        (
            r#"{"op":"copy","from":"x/data/k","path":"y/data/n"}"#,
            Some("a b c k=1 n=1"),
        ),
        (r#"{"op":"add","path":"data","value":"2"}"#, None),
        (r#"{"op":"add","path":"","value":{}}"#, None),
        (
            r#"{"op":"replace","path":"","value":{"data":{"n":"1"}}}"#,
            Some("n=1"),
        ),
        (
            r#"{"op":"add","path":"/data/a~2b","value":"2"}"#,
            Some("a b c a~2b=2 k=1"),
        ),
        (
            r#"{"op":"add","path":"/data/a~","value":"2"}"#,
            Some("a b c a~=2 k=1"),
        ),
        (r#"{"op":"remove","path":"@/-1"}"#, Some("a b k=1")),
        (r#"{"op":"remove","path":"@/-3"}"#, Some("b c k=1")),
        (r#"{"op":"remove","path":"@/-4"}"#, None),
        (r#"{"op":"remove","path":"@/01"}"#, Some("a c k=1")),
        (r#"{"op":"remove","path":"@/-"}"#, None),
        (
            r#"{"op":"replace","path":"@/-1","value":"a/z"}"#,
            Some("a b z k=1"),
        ),
        (
            r#"{"op":"replace","path":"@/-0","value":"a/z"}"#,
            Some("z b c k=1"),
        ),
        (
            r#"{"op":"add","path":"@/-1","value":"a/z"}"#,
            Some("a b c z k=1"),
        ),
        (
            r#"{"op":"add","path":"@/-2","value":"a/z"}"#,
            Some("a b z c k=1"),
        ),
        (
            r#"{"op":"add","path":"@/-4","value":"a/z"}"#,
            Some("z a b c k=1"),
        ),
        (r#"{"op":"add","path":"@/-5","value":"a/z"}"#, None),
        (
            r#"{"op":"add","path":"@/+1","value":"a/z"}"#,
            Some("a z b c k=1"),
        ),
        (r#"{"op":"add","path":"@/4","value":"a/z"}"#, None),
        (
            r#"{"op":"test","path":"@/-1","value":"a/c"}"#,
            Some("a b c k=1"),
        ),
        (r#"{"op":"test","path":"@/7","value":null}"#, None),
        (
            r#"{"op":"copy","from":"@/-1","path":"@/-1"}"#,
            Some("a b c c k=1"),
        ),
        // The target index counts without the item.
        (
            r#"{"op":"move","from":"@/0","path":"@/-1"}"#,
            Some("b c a k=1"),
        ),
        (
            r#"{"op":"move","from":"@/-1","path":"@/0"}"#,
            Some("c a b k=1"),
        ),
        (r#"{"op":"move","from":"/data","path":"/data/k"}"#, None),
        (
            r#"{"op":"move","from":"/data/k","path":"/data/k"}"#,
            Some("a b c k=1"),
        ),
    ];
    for (operation, wanted) in cases {
        assert_eq!(items(operation).as_deref(), wanted, "{operation}");
    }
}

/// API-160, API-162: bodies that are not patches.
#[test]
fn invalid_patches_are_a_400() {
    let json_bodies = [
        "",
        "[",
        "1",
        "\"text\"",
        "{}",
        r#"{"op":"remove"}"#,
        "[] x",
        "[1]",
        "[[]]",
        r#"[{"op":5,"path":"/x"}]"#,
        r#"[{"op":"add","path":5}]"#,
    ];
    for body in json_bodies {
        let status = parsed(PatchKind::Json, body).unwrap_err();
        assert_eq!(
            (status.code, status.reason),
            (400, StatusReason::BAD_REQUEST),
            "{body}"
        );
        assert!(
            status.message.starts_with("error decoding patch: "),
            "{}",
            status.message
        );
    }
    for body in ["", "{", "1", "[]", "null", "\"x\"", "{} x"] {
        let status = parsed(PatchKind::Merge, body).unwrap_err();
        assert_eq!(
            (status.code, status.reason),
            (400, StatusReason::BAD_REQUEST),
            "{body}"
        );
    }
}

/// API-159.
#[test]
fn the_number_of_operations_is_limited() {
    let many = |count: usize| {
        let one = r#"{"op":"test","path":"/data/k","value":"1"}"#;
        format!("[{}]", vec![one; count].join(","))
    };
    assert!(by_json(&many(10_000)).is_ok());
    let status = parsed(PatchKind::Json, &many(10_001)).unwrap_err();
    assert_eq!(
        (status.code, status.reason),
        (413, StatusReason::REQUEST_ENTITY_TOO_LARGE)
    );
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got \
         10001"
    );
}

/// API-159: copies may add at most 3 MiB in total.
#[test]
fn the_growth_by_copies_is_limited() {
    let text = "x".repeat(400_000);
    let copies = |count: usize| {
        let copies: String = (0..count)
            .map(|i| format!(r#",{{"op":"copy","from":"/data/big","path":"/data/b{i}"}}"#))
            .collect();
        format!(r#"[{{"op":"add","path":"/data/big","value":"{text}"}}{copies}]"#)
    };
    assert!(by_json(&copies(7)).is_ok());
    assert_eq!(*by_json(&copies(8)).unwrap_err(), Status::patch_failed());
    // Each operation doubles the document: 22 operations would make hundreds of megabytes.
    let doubling: String = (0..22)
        .map(|i| format!(r#",{{"op":"copy","from":"/x","path":"/x/{i}"}}"#))
        .collect();
    let patch = format!(
        r#"[{{"op":"add","path":"/x","value":{{"y":"{}"}}}}{doubling}]"#,
        "y".repeat(100)
    );
    assert_eq!(*by_json(&patch).unwrap_err(), Status::patch_failed());
}

/// The result of a patch must be shallow enough to be decoded again and to be dropped.
#[test]
fn the_depth_that_a_patch_builds_is_limited() {
    let nested = format!("{}{}", "[".repeat(122), "]".repeat(122));
    let deep = |path: &str| format!(r#"[{{"op":"add","path":"{path}","value":{nested}}}]"#);
    assert!(by_json(&deep("/x")).is_ok());
    let below = r#"[{"op":"add","path":"/a","value":{"b":{"c":{"d":{"e":{}}}}}},"#;
    let patch = format!("{below}{}", &deep("/a/b/c/d/e/f")[1..]);
    assert_eq!(*by_json(&patch).unwrap_err(), Status::patch_failed());
    // Each copy nests the whole document one level deeper in itself.
    let wrap: String = (0..500)
        .map(|_| r#",{"op":"copy","from":"/x","path":"/x/y"}"#)
        .collect();
    let patch = format!(r#"[{{"op":"add","path":"/x","value":{{}}}}{wrap}]"#);
    assert_eq!(*by_json(&patch).unwrap_err(), Status::patch_failed());
    let moves: String = (1..500)
        .map(|i| {
            let new = format!(r#"{{"op":"add","path":"/y{i}","value":{{}}}}"#);
            let before = i - 1;
            format!(r#",{new},{{"op":"move","from":"/y{before}","path":"/y{i}/z"}}"#)
        })
        .collect();
    let patch = format!(r#"[{{"op":"add","path":"/y0","value":{{}}}}{moves}]"#);
    assert_eq!(*by_json(&patch).unwrap_err(), Status::patch_failed());
    let merged = format!(
        r#"{{"x":{}{}}}"#,
        r#"{"x":"#.repeat(98),
        "{}".to_owned() + &"}".repeat(98)
    );
    assert!(by_merge(&merged).is_ok());
}

/// Ten thousand insertions at the front of a long list would take seconds.
#[test]
fn the_work_inside_lists_is_limited() {
    let long = format!("[{}0]", "0,".repeat(300_000));
    let inserts = |count: usize| {
        let insert = r#",{"op":"add","path":"/x/0","value":1}"#.repeat(count);
        format!(r#"[{{"op":"add","path":"/x","value":{long}}}{insert}]"#)
    };
    assert!(by_json(&inserts(50)).is_ok());
    assert_eq!(
        *by_json(&inserts(5_000)).unwrap_err(),
        Status::patch_failed()
    );
}

/// These operations used to be counted as if each moved the whole list.
#[test]
fn operations_that_move_no_items_are_free() {
    let item = |number: usize, operation: &str, place: &str| {
        format!(r#",{{"op":"{operation}","path":"/x/{place}","value":{number}}}"#)
    };
    let numbers: Vec<String> = (0..4_500).map(|number| number.to_string()).collect();
    let start = format!(
        r#"[{{"op":"add","path":"/x","value":[{}]}}"#,
        numbers.join(",")
    );
    let operations = (0..4_500).map(|number| {
        let place = number.to_string();
        item(number, "test", &place) + &item(number + 1, "replace", &place)
    });
    let appended: String = (0..900).map(|number| item(number, "add", "-")).collect();
    let last = item(899, "test", "5399");
    let patch = start + &operations.collect::<String>() + &appended + &last + "]";
    assert!(by_json(&patch).is_ok());
}

/// API-162.
#[test]
fn merge_patches_merge_and_delete() {
    let patched = by_merge(
        r#"{"metadata":{"labels":{"l":null,"x":"2"},"finalizers":["ex.com/b"]},
        "data":{"k":null,"n":"3"},"immutable":true}"#,
    )
    .unwrap();
    assert_eq!(patched["data"], json!({"m": "1", "n": "3"}));
    assert_eq!(patched["metadata"]["labels"], json!({"x": "2"}));
    assert_eq!(patched["metadata"]["finalizers"], json!(["ex.com/b"]));
    assert_eq!(patched["immutable"], json!(true));
    assert_eq!(by_merge("{}").unwrap(), Value::Object(configmap().0));
    let gone = by_merge(r#"{"data":null,"none":null,"metadata":{"labels":null}}"#).unwrap();
    assert_eq!(gone.get("data"), None);
    assert_eq!(gone["metadata"].get("labels"), None);
}

/// API-162: in lists and in new values, nulls are dropped, as in kube-apiserver.
#[test]
fn nulls_within_the_values_of_merge_patches_are_dropped() {
    let patched = by_merge(
        r#"{"metadata":{"labels":{"l":"1"},"annotations":{"a":null,"b":"1"},
        "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":null}]}}"#,
    )
    .unwrap();
    let metadata = &patched["metadata"];
    assert_eq!(metadata["annotations"], json!({"b": "1"}));
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    assert_eq!(metadata["ownerReferences"], json!([owner]));
}

/// API-156: the last of duplicate members counts. Faults of the patch come before those of its
/// result.
#[test]
fn unknown_and_duplicate_members_of_patches_are_reported() {
    let faults = |kind, body: &str| {
        let patch = parsed(kind, body).unwrap();
        let patched = patch.apply(&configmap(), &configmaps(), FieldValidation::Warn);
        let patched = patched.unwrap();
        assert_eq!(patched.object.text(&["data", "a"]), "2");
        let strict = patch.apply(&configmap(), &configmaps(), FieldValidation::Strict);
        let texts: Vec<String> = patched.faults.iter().map(ToString::to_string).collect();
        let expected = format!("strict decoding error: {}", texts.join(", "));
        let refused = Status::from(strict.unwrap_err());
        assert_eq!(refused.code, 422);
        assert!(refused.message.contains(&expected), "{}", refused.message);
        texts
    };
    let merge = r#"{"data":{"a":"1","a":"2"},"more":1}"#;
    assert_eq!(
        faults(PatchKind::Merge, merge),
        [r#"duplicate field "data.a""#, r#"unknown field "more""#]
    );
    let operations = r#"[{"op":"add","path":"/more","value":1,"foo":2},
        {"op":"add","op":"add","path":"/data/a","value":"2"}]"#;
    assert_eq!(
        faults(PatchKind::Json, operations),
        [
            r#"json patch unknown field "[0].foo""#,
            r#"json patch duplicate field "[1].op""#,
            r#"unknown field "more""#
        ]
    );
}

/// API-161, API-162: a result of a wrong type is a 422 about `patch` that names no kind.
#[test]
fn results_must_be_objects_of_the_kind() {
    let merges = [
        r#"{"data":5}"#,
        r#"{"data":{"a":5}}"#,
        r#"{"metadata":"x"}"#,
        r#"{"metadata":{"labels":5}}"#,
        r#"{"metadata":{"generation":"x"}}"#,
        r#"{"immutable":"x"}"#,
        r#"{"binaryData":{"a":"!"}}"#,
        r#"{"kind":"Secret"}"#,
        r#"{"kind":5}"#,
        r#"{"apiVersion":"v2"}"#,
    ];
    for merge in merges {
        let status = by_merge(merge).unwrap_err();
        assert_eq!(
            (status.code, status.reason),
            (422, StatusReason::INVALID),
            "{merge}"
        );
        assert!(
            status
                .message
                .starts_with(" \"\" is invalid: patch: Invalid value: \"{")
        );
        let details = status.details.unwrap();
        assert_eq!((details.kind.as_str(), details.name.as_str()), ("", ""));
        assert_eq!(details.causes.len(), 1);
        assert_eq!(details.causes[0].field, "patch");
        assert_eq!(details.causes[0].reason, "FieldValueInvalid");
    }
    let number = by_json(r#"[{"op":"replace","path":"","value":5}]"#).unwrap_err();
    assert_eq!(number.code, 422);
}

/// Kind and apiVersion are restored when a patch removes them. Null texts become empty.
#[test]
fn missing_kind_and_version_are_restored() {
    let same = by_merge(r#"{"kind":null}"#).unwrap();
    assert_eq!(same, Value::Object(configmap().0));
    // Without an apiVersion it is decoded by the internal type, which has none of its members.
    let nothing = by_merge(r#"{"kind":"","apiVersion":null}"#).unwrap();
    assert_eq!(nothing, json!({"kind": "ConfigMap", "apiVersion": "v1"}));
    let empty = by_json(r#"[{"op":"replace","path":"","value":{}}]"#).unwrap();
    assert_eq!(empty, json!({"kind": "ConfigMap", "apiVersion": "v1"}));
    let null = by_json(r#"[{"op":"add","path":"/data/x","value":null}]"#).unwrap();
    assert_eq!(null["data"]["x"], "");
    let no_metadata = by_merge(r#"{"metadata":null}"#).unwrap();
    assert_eq!(no_metadata.get("metadata"), None);
}

fn operation() -> impl Strategy<Value = Value> {
    let path = "(/(data|metadata|labels|k|m|x|0|-|finalizers)){0,4}";
    let op = prop_oneof!["add", "remove", "replace", "move", "copy", "test", "other"];
    let value = prop_oneof![
        Just(json!({"x": {}})),
        Just(json!("1")),
        Just(json!([1])),
        Just(json!(null))
    ];
    (op, path, path, value).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    )
}

proptest! {
    /// API-160: any list of operations results in an object of the kind or a 422, and in the same
    /// one again.
    #[test]
    fn any_operations_give_an_object_or_a_422(
        operations in prop::collection::vec(operation(), 0..12),
    ) {
        let body = Value::Array(operations).to_string();
        match by_json(&body) {
            Ok(patched) => {
                prop_assert_eq!(&patched["kind"], "ConfigMap");
                prop_assert!(!crate::decode::is_deeper_than(&patched, crate::deep::SHALLOW));
            }
            Err(status) => prop_assert_eq!(status.code, 422),
        }
    }

    /// API-162, RFC 7396: applying a merge patch twice has the same result as once.
    #[test]
    fn merging_twice_is_merging_once(
        data in prop::collection::btree_map("[a-e]", prop_oneof![Just(json!(null)), "[a-c]".prop_map(Value::from)], 0..5),
    ) {
        let patch = Patch::parse(PatchKind::Merge, json!({"data": data}).to_string().as_bytes()).unwrap();
        let once = patch.apply(&configmap(), &configmaps(), FieldValidation::Warn).unwrap();
        let twice = patch.apply(&once.object, &configmaps(), FieldValidation::Warn).unwrap();
        prop_assert_eq!(once, twice);
    }

    /// API-160: no bytes cause a panic.
    #[test]
    fn any_bytes_are_a_patch_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40), text in "[\\[\\]{}\":,a-z0-9]{0,40}") {
        for kind in [PatchKind::Json, PatchKind::Merge] {
            let _ = Patch::parse(kind, &bytes);
            let _ = Patch::parse(kind, text.as_bytes());
        }
    }
}

#[test]
fn a_patch_touches_the_version_if_its_result_may_depend_on_it() {
    let touches = |kind, body: &str| {
        Patch::parse(kind, body.as_bytes())
            .unwrap()
            .touches_version()
    };
    for (body, expected) in [
        (r#"{"data":{"resourceVersion":"1"}}"#, false),
        (r#"{"metadata":{"labels":{"a":"b"}}}"#, false),
        (r#"{"metadata":{"resourceVersion":"7"}}"#, true),
        (r#"{"metadata":{"resourceVersion":null}}"#, true),
        (r#"{"metadata":null}"#, true),
    ] {
        assert_eq!(touches(PatchKind::Merge, body), expected, "{body}");
    }
    for (operation, expected) in [
        (
            r#""op":"add","path":"/metadata/labels/a","value":"b""#,
            false,
        ),
        (r#""op":"test","path":"/data/k","value":"v""#, false),
        (r#""op":"copy","from":"/data/a","path":"/data/b""#, false),
        (
            r#""op":"test","path":"/metadata/resourceVersion","value":"7""#,
            true,
        ),
        (r#""op":"remove","path":"/metadata/resourceVersion""#, true),
        (
            r#""op":"copy","from":"/metadata/resourceVersion","path":"/data/k""#,
            true,
        ),
        (r#""op":"move","from":"/metadata","path":"/data""#, true),
        (r#""op":"copy","from":"","path":"/data""#, false),
        (r#""op":"replace","path":"","value":{}"#, true),
    ] {
        let body = format!("[{{{operation}}}]");
        assert_eq!(touches(PatchKind::Json, &body), expected, "{body}");
    }
}

/// As recorded from kube-apiserver 1.36: numbers in patches count as they are spelled, and two of
/// different spelling differ (API-160, API-162).
#[test]
fn numbers_of_patches_count_as_they_are_written() {
    let lease = object(
        r#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1",
        "metadata":{"name":"a"},"spec":{"leaseDurationSeconds":1}}"#,
    );
    let code = |kind, body: &str| {
        let patch = parsed(kind, body).unwrap();
        match patch.apply(&lease, &crate::samples::leases(), FieldValidation::Warn) {
            Ok(_) => 200,
            Err(error) => Status::from(error).code,
        }
    };
    let cases = [
        ("1", 200),
        ("-0", 200),
        ("1.0", 422),
        ("1e0", 422),
        ("1.5", 422),
        ("3e9", 422),
    ];
    for (number, expected) in cases {
        let merge = format!(r#"{{"spec":{{"leaseDurationSeconds":{number}}}}}"#);
        assert_eq!(code(PatchKind::Merge, &merge), expected, "{merge}");
        let replace =
            format!(r#"[{{"op":"replace","path":"/spec/leaseDurationSeconds","value":{number}}}]"#);
        assert_eq!(code(PatchKind::Json, &replace), expected, "{replace}");
    }
    for (number, expected) in [("1", 200), ("1.0", 422), ("1e0", 422), ("2", 422)] {
        let test =
            format!(r#"[{{"op":"test","path":"/spec/leaseDurationSeconds","value":{number}}}]"#);
        assert_eq!(code(PatchKind::Json, &test), expected, "{test}");
    }
}
