//! Strategic merge patches of a Deployment, compared with results of kube-apiserver 1.36.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use api::decode::{BodyFormat, decode_object};
use api::options::FieldValidation;
use api::patch::{Patch, PatchKind};
use api::resource::ResourceDefinition;
use api::status::Status;
use serde_json::{Value, json};

fn deployments() -> Arc<ResourceDefinition> {
    let mut rows = kinds::definitions::built_in().into_iter();
    rows.find(|row| row.plural == "deployments").unwrap()
}

fn patched(patch: &Value, validation: FieldValidation) -> Result<Value, (u16, String)> {
    let row = deployments();
    let env: Vec<Value> = "ABCDEFGH"
        .chars()
        .map(|name| json!({"name": name.to_string(), "value": "1"}))
        .collect();
    let body = json!({
        "metadata": {"name": "d", "labels": {"l": "1"}, "finalizers": ["ex.com/a", "ex.com/b"]},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"spec": {
            "containers": [{"name": "a", "image": "i:1", "env": env}, {"name": "b", "image": "i:1"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }}},
    });
    let object = decode_object(body.to_string().as_bytes(), BodyFormat::Json, &row).unwrap();
    let patch = Patch::parse(PatchKind::Strategic, patch.to_string().as_bytes()).unwrap();
    match patch.apply(&object.object, &row, validation) {
        Ok(patched) => Ok(Value::Object(patched.object.0)),
        Err(error) => {
            let status = Status::from(error);
            Err((status.code, status.message))
        }
    }
}

fn in_pod(pod: Value) -> Value {
    json!({"spec": {"template": {"spec": pod}}})
}

/// Returns the names of a container's environment variables after a patch of it. `-B` deletes.
fn env(container: &str, order: &str, items: &str) -> String {
    let mut list = Vec::new();
    let mut is_deletion = false;
    for name in items.chars() {
        if name == '-' {
            is_deletion = true;
            continue;
        }
        let name = name.to_string();
        list.push(if std::mem::take(&mut is_deletion) {
            json!({"name": name, "$patch": "delete"})
        } else {
            json!({"name": name, "value": "2"})
        });
    }
    let order: Vec<Value> = order
        .chars()
        .map(|name| json!({"name": name.to_string()}))
        .collect();
    let patch = json!({"name": container, "env": list, "$setElementOrder/env": order});
    let object = patched(
        &in_pod(json!({"containers": [patch]})),
        FieldValidation::Warn,
    )
    .unwrap();
    let containers = object["spec"]["template"]["spec"]["containers"].clone();
    let mut containers = containers.as_array().unwrap().iter();
    let container = containers.find(|found| found["name"] == container).unwrap();
    let env = container["env"].as_array().unwrap().iter();
    env.map(|item| item["name"].as_str().unwrap()).collect()
}

/// API-167: the order of a merged list when items are deleted and added.
#[test]
fn merged_lists_are_in_the_order_of_kube_apiserver_api_167() {
    for (order, items, wanted) in [
        ("X", "-BX", "ACDEFGHX"),
        ("XA", "-BX", "CDEFGHXA"),
        ("", "-BX", "ACDEFGHX"),
        ("", "XY", "ABCDEFGHYX"),
        ("XY", "-B-CXY", "ADEFGHXY"),
        ("XY", "-G-HXY", "ABCDEFXY"),
        ("HXA", "X", "BCDEFGHXA"),
        ("HA", "-HH", "BCDEFGHA"),
        ("", "AX", "XABCDEFGH"),
        ("X", "-A-AX", "BCDEFGHX"),
        ("X", "X", "XABCDEFGH"),
        ("D", "-D", "ABCEFGH"),
        ("", "-D", "ABCEFGH"),
    ] {
        assert_eq!(env("a", order, items), wanted, "{order} {items}");
    }
    for (order, items, wanted) in [
        ("", "XYZ", "ZYX"),
        ("", "-XY", "Y"),
        ("ZYX", "ZYX", "ZYX"),
        ("Y", "-XY-Z", "Y"),
    ] {
        assert_eq!(env("b", order, items), wanted, "{order} {items}");
    }
}

/// API-164: lists of texts.
#[test]
fn lists_of_texts_are_merged_ordered_and_shortened_api_164() {
    for (patch, wanted) in [
        (
            json!({"finalizers": ["ex.com/n", "ex.com/b", "ex.com/n"]}),
            json!(["ex.com/n", "ex.com/a", "ex.com/b"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["z", "ex.com/b", "ex.com/n", "ex.com/a"],
                   "finalizers": ["ex.com/n"]}),
            json!(["ex.com/b", "ex.com/n", "ex.com/a"]),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["ex.com/a"]}),
            json!(["ex.com/b"]),
        ),
        (json!({"finalizers": []}), json!(["ex.com/a", "ex.com/b"])),
        (json!({"finalizers": null}), Value::Null),
    ] {
        let object = patched(&json!({"metadata": patch}), FieldValidation::Warn).unwrap();
        assert_eq!(object["metadata"]["finalizers"], wanted, "{patch}");
    }
}

/// API-164: directives in objects and in items of lists.
#[test]
fn directives_replace_delete_and_keep_api_164() {
    let labels = |patch: Value| {
        let patch = json!({"metadata": {"labels": patch}});
        patched(&patch, FieldValidation::Warn).unwrap()["metadata"]["labels"].clone()
    };
    assert_eq!(
        labels(json!({"$patch": "replace", "only": "this"})),
        json!({"only": "this"})
    );
    // Until the object is stored, a value that was sent empty stays.
    assert_eq!(labels(json!({"$patch": "delete"})), json!({}));
    assert_eq!(labels(json!({"l": null, "m": "2"})), json!({"m": "2"}));
    let pod = |patch: Value| {
        let object = patched(&in_pod(patch), FieldValidation::Warn).unwrap();
        object["spec"]["template"]["spec"].clone()
    };
    let one = pod(json!({"containers": [{"name": "b", "$patch": "delete"}]}));
    assert_eq!(one["containers"].as_array().unwrap().len(), 1);
    let other = pod(json!({"containers": [{"$patch": "replace"}, {"name": "z", "image": "i"}]}));
    assert_eq!(other["containers"], json!([{"name": "z", "image": "i"}]));
    let volumes = pod(json!({"volumes": [{"name": "v", "configMap": {"name": "m"},
        "$retainKeys": ["name", "configMap"]}]}));
    assert_eq!(
        volumes["volumes"],
        json!([{"name": "v", "configMap": {"name": "m"}}])
    );
    // A directive in a new value is dropped together with it.
    let new = pod(json!({"affinity": {"$patch": "replace"}}));
    assert_eq!(new.get("affinity"), None);
    // `kind` and `apiVersion` in the patch have no effect.
    let same = patched(
        &json!({"kind": "Foo", "apiVersion": "v7"}),
        FieldValidation::Warn,
    )
    .unwrap();
    assert_eq!(
        (&same["kind"], &same["apiVersion"]),
        (&json!("Deployment"), &json!("apps/v1"))
    );
}

/// API-165, API-166: patches that cannot be merged or have values of another type.
#[test]
fn mistakes_are_refused_in_the_words_of_kube_apiserver_api_165_api_166() {
    let labels = |value: Value| json!({"metadata": {"labels": value}});
    for (patch, code, text) in [
        (
            labels(json!({"$patch": "merge", "x": "y"})),
            500,
            "unknown patch type: merge in map: map[$patch:merge x:y]",
        ),
        (
            labels(json!({"$patch": {"a": 1}})),
            500,
            "unknown patch type: map[a:%!s(int64=1)] in map: map[$patch:map[a:1]]",
        ),
        (
            in_pod(json!({"containers": [{"name": "b", "$patch": "merge"}]})),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            in_pod(json!({"containers": [{"image": "i:9"}]})),
            500,
            "map: map[image:i:9] does not contain declared merge key: name",
        ),
        (
            in_pod(json!({"containers": [{"name": {"a": 1}}]})),
            500,
            "an object or a list cannot identify an item of a list",
        ),
        (
            in_pod(json!({"$retainKeys": "x"})),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            in_pod(json!({"$retainKeys": ["x"], "volumes": []})),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            in_pod(json!({"$setElementOrder/containers": "x"})),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            in_pod(json!({"$setElementOrder/containers": [{"name": "b"}],
            "containers": [{"name": "a"}]})),
            500,
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n\
             [map[name:b]]\n",
        ),
        (
            in_pod(json!({"$setElementOrder/containers": ["b"]})),
            500,
            "value for key 0 is not a map",
        ),
        (
            in_pod(json!({"$setElementOrder/containers": [{"nam": "b"}]})),
            500,
            "map: map[nam:b] does not contain declared merge key: name",
        ),
        (
            in_pod(json!({"$setElementOrder/nonsense": ["b"]})),
            500,
            "unable to find api field in struct PodSpec for the json field \"nonsense\"",
        ),
        (
            in_pod(json!({"$setElementOrder": ["b"]})),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            in_pod(json!({"$setElementOrder/imagePullSecrets": [], "imagePullSecrets": []})),
            500,
            "no elements in any of the given slices",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": ["a"]}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [5]}}),
            500,
            "list element types are not identical: [[ex.com/a ex.com/b] [5]]",
        ),
        (
            json!({"spec": {"selector": {"matchLabels": {"$setElementOrder/x": []}}}}),
            500,
            "merging an object in json but data type is not struct, instead is: map",
        ),
        (
            json!({"spec": "x"}),
            422,
            " \"\" is invalid: patch: Invalid value: \"map[spec:x]\": \
            cannot restore struct from: string",
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            422,
            " \"\" is invalid: patch: Invalid value: \
            \"map[spec:map[replicas:x]]\": unrecognized type: int32",
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            422,
            " \"\" is invalid: patch: Invalid value: \
            \"map[spec:map[replicas:1.5]]\": cannot convert float64 to int32",
        ),
        (
            labels(json!({"l": 5})),
            422,
            " \"\" is invalid: patch: Invalid value: \
            \"map[metadata:map[labels:map[l:5]]]\": cannot convert int64 to string",
        ),
        (
            labels(json!("x")),
            422,
            " \"\" is invalid: patch: Invalid value: \
            \"map[metadata:map[labels:x]]\": cannot restore map from string",
        ),
        (
            json!({"kind": 5}),
            422,
            " \"\" is invalid: patch: Invalid value: \"map[kind:5]\": \
            cannot convert int64 to string",
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}}),
            422,
            " \"\" is invalid: patch: Invalid value: \"map[spec:map[strategy:map[rollingUpdate:\
             map[maxSurge:1.5]]]]\": json: cannot unmarshal number 1.5 into Go value of type int32",
        ),
    ] {
        let found = patched(&patch, FieldValidation::Warn).unwrap_err();
        assert_eq!(found, (code, text.to_owned()), "{patch}");
    }
    let strict = json!({"zzz": 1, "spec": {"zoo": 1, "alpha": 1}});
    let (code, text) = patched(&strict, FieldValidation::Strict).unwrap_err();
    assert_eq!(code, 422);
    assert!(
        text.ends_with(
            "strict decoding error: unknown field \"spec.alpha\", unknown field \"spec.zoo\", \
             unknown field \"zzz\""
        ),
        "{text}"
    );
}

/// API-163: a patch that is the object itself changes nothing.
#[test]
fn a_patch_that_is_the_object_changes_nothing_api_163() {
    let object = patched(&json!({}), FieldValidation::Strict).unwrap();
    assert_eq!(patched(&object, FieldValidation::Strict).unwrap(), object);
}

/// A list of 30,000 items is merged in few passes, not in quadratic time.
#[test]
fn long_lists_are_merged() {
    let items: Vec<Value> = (0..30_000)
        .map(|n| json!({"name": n.to_string()}))
        .collect();
    let patch = in_pod(json!({"containers": [{"name": "a", "env": items,
        "$setElementOrder/env": items}]}));
    let object = patched(&patch, FieldValidation::Warn).unwrap();
    let env = &object["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env.as_array().unwrap().len(), 30_008);
}
