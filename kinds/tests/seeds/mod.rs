//! The inputs of random tests: a seed that can be replayed, and recorded inputs.
#![allow(dead_code)]

use std::io::Read as _;

use api::protobuf::{Envelope, write_message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use kinds::types::object_type;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};

use crate::checks::byte_of;

/// Bodies of all kinds with the answers of kube-apiserver.
const SWEEP: &[u8] = include_bytes!("../../../tests/fixtures/sweep.json.gz");

/// Requests that kube-apiserver refused.
const ERRORS: &str = include_str!("../../../tests/fixtures/errors.json");

/// Objects with every field set, as JSON and as protobuf.
const EVERY_FIELD: &[u8] = include_bytes!("../../recorded/every-field.json.gz");

/// Runs a test for many inputs. `TAFFRAIL_SEED` replays a run, `TAFFRAIL_BODIES` sets the number of
/// inputs.
pub fn run<S: Strategy>(
    inputs: u64,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("TAFFRAIL_SEED").unwrap_or_else(seed_of_now);
    println!("TAFFRAIL_SEED={seed}");
    let config = ProptestConfig {
        cases: u32::try_from(number("TAFFRAIL_BODIES").unwrap_or(inputs)).unwrap(),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("TAFFRAIL_SEED={seed}: {error}");
    }
}

fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

/// Returns an input that begins with the byte of its kind.
fn of_kind(object: &Value, rest: &[u8]) -> Option<Vec<u8>> {
    let text = |name: &str| object[name].as_str();
    let byte = byte_of(text("apiVersion")?, text("kind")?)?;
    Some([&[byte], rest].concat())
}

/// Returns objects with every field set, and the largest body of each kind in the sweep.
fn objects() -> Vec<Value> {
    let every: Vec<Value> = serde_json::from_str(&unpacked(EVERY_FIELD)).unwrap();
    let swept = unpacked(SWEEP);
    let swept = swept.lines().filter_map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let is_whole = matches!(case["case"].as_str(), Some("minimal" | "full"));
        is_whole.then(|| case["body"].clone())
    });
    let every = every.into_iter().map(|example| example["json"].clone());
    let all = every.chain(swept).chain(unstored()).chain(malformed());
    all.filter(Value::is_object).collect()
}

/// Returns bodies of requests that do not store an object of their own.
fn unstored() -> Vec<Value> {
    let of = |api_version: &str, kind: &str, mut members: Value| {
        members["apiVersion"] = api_version.into();
        members["kind"] = kind.into();
        members
    };
    let metadata = json!({"name": "a", "namespace": "d", "uid": "u"});
    let resource = json!({"verb": "get", "group": "apps", "version": "v1", "namespace": "d",
        "resource": "pods", "subresource": "log", "name": "a",
        "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "fieldSelector": {"rawSelector": "a=b"}});
    let path = json!({"verb": "get", "path": "/x"});
    let options = json!({"gracePeriodSeconds": 7, "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"}, "dryRun": ["All"]});
    let token = json!({"audiences": ["a"], "expirationSeconds": 3607,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u"}});
    let (access, identity) = ("authorization.k8s.io/v1", "authentication.k8s.io/v1");
    vec![
        of(
            "v1",
            "Binding",
            json!({"metadata": metadata,
            "target": {"kind": "Node", "name": "n", "fieldPath": "a.b"}}),
        ),
        of(
            "policy/v1",
            "Eviction",
            json!({"metadata": metadata, "deleteOptions": options}),
        ),
        of(
            "autoscaling/v1",
            "Scale",
            json!({"metadata": metadata, "spec": {"replicas": 3},
            "status": {"replicas": 2, "selector": "a=b"}}),
        ),
        of(
            identity,
            "TokenRequest",
            json!({"metadata": metadata, "spec": token,
            "status": {"token": "t", "expirationTimestamp": "2026-11-25T00:00:00Z"}}),
        ),
        of(
            identity,
            "TokenReview",
            json!({"spec": {"token": "t", "audiences": ["a"]},
            "status": {"authenticated": true, "user": {"username": "u", "extra": {"a": ["b"]}}}}),
        ),
        of(
            identity,
            "SelfSubjectReview",
            json!({"status": {"userInfo": {"groups": ["g"]}}}),
        ),
        of(
            access,
            "SubjectAccessReview",
            json!({"spec": {"user": "u", "uid": "7", "groups": ["g"],
            "extra": {"a": ["b"]}, "resourceAttributes": resource}}),
        ),
        of(
            access,
            "LocalSubjectAccessReview",
            json!({"metadata": {"namespace": "d"},
            "spec": {"user": "u", "resourceAttributes": resource}}),
        ),
        of(
            access,
            "SelfSubjectAccessReview",
            json!({"spec": {"nonResourceAttributes": path}}),
        ),
        of(
            access,
            "SelfSubjectRulesReview",
            json!({"spec": {"namespace": "d"}, "status": {
            "resourceRules": [{"verbs": ["*"]}], "nonResourceRules": [{"verbs": ["get"]}],
            "incomplete": true}}),
        ),
    ]
}

/// Returns objects with incomplete or malformed owners, finalizers and references.
fn malformed() -> Vec<Value> {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
        "controller": true, "blockOwnerDeletion": true});
    let mut other = owner.clone();
    other["uid"] = "v".into();
    let metadata = [
        json!({"ownerReferences": [owner, other, owner]}),
        json!({"ownerReferences": [{}, {"uid": ""}, {"apiVersion": "a/b/c", "name": "/"}]}),
        json!({"ownerReferences": [null, {"apiVersion": null, "controller": null}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": 7}]}),
        json!({"ownerReferences": {"uid": "u"}}),
        json!({"ownerReferences": "u"}),
        json!({"ownerReferences": [[owner]]}),
        json!({"ownerReferences": [{"controller": "yes", "uid": "u"}]}),
        json!({"finalizers": ["", "a", "a/", "/b", "A B/c", "orphan", "foregroundDeletion"]}),
        json!({"finalizers": ["orphan", "orphan", "a.b/c", "a.b/c"]}),
        json!({"finalizers": [null, 7, {}]}),
        json!({"finalizers": {"a": "b"}}),
        json!({"finalizers": "a.b/c"}),
        json!({"finalizers": ["x".repeat(300)], "deletionTimestamp": "2026-11-25T00:00:00Z",
            "deletionGracePeriodSeconds": -1}),
    ];
    let bodies = metadata.into_iter().flat_map(|metadata| {
        let kinds = [
            ("v1", "ConfigMap"),
            ("v1", "Pod"),
            ("v1", "Binding"),
            ("policy/v1", "Eviction"),
        ];
        kinds.map(|(api_version, kind)| {
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        })
    });
    let bodies = bodies.chain([
        json!({"apiVersion": "v1", "kind": "Binding", "target": {"kind": 7, "name": null}}),
        json!({"apiVersion": "v1", "kind": "Binding", "target": [{"name": "n"}]}),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "other"}, "target": {}}),
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": [1]}),
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {
            "gracePeriodSeconds": -5, "dryRun": ["Some"], "orphanDependents": "yes",
            "preconditions": {"uid": 7}, "propagationPolicy": "Sideways"}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "audiences": [null, ""], "expirationSeconds": -9_000_000_000_i64,
            "boundObjectRef": {"kind": "Deployment", "apiVersion": "a/b/c"}}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "audiences": "a", "expirationSeconds": "long", "boundObjectRef": []}}),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": -1}}),
    ]);
    bodies.collect()
}

pub fn json_bodies() -> Vec<Vec<u8>> {
    let of = |object: &Value| of_kind(object, object.to_string().as_bytes());
    objects().iter().filter_map(of).collect()
}

pub fn yaml_bodies() -> Vec<Vec<u8>> {
    let of = |object: &Value| of_kind(object, yaml(object, 0).as_bytes());
    objects().iter().filter_map(of).collect()
}

/// Formats a document in YAML's block style, as people write it.
fn yaml(value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) if !members.is_empty() => {
            let member = |(name, value): (&String, &Value)| {
                format!("\n{indent}{name:?}: {}", yaml(value, depth + 1))
            };
            members.iter().map(member).collect()
        }
        Value::Array(items) if !items.is_empty() => {
            let item = |value: &Value| format!("\n{indent}- {}", yaml(value, depth + 1));
            items.iter().map(item).collect()
        }
        other => other.to_string(),
    }
}

pub fn protobuf_bodies() -> Vec<Vec<u8>> {
    let every: Vec<Value> = serde_json::from_str(&unpacked(EVERY_FIELD)).unwrap();
    let of = |example: &Value| {
        let body = STANDARD.decode(example["protobuf"].as_str()?).ok()?;
        of_kind(&example["json"], &body)
    };
    every.iter().filter_map(of).collect()
}

/// Returns objects, each with patches made from it.
fn patches(of: impl Fn(&Value) -> Vec<Value>) -> Vec<Vec<u8>> {
    let all = objects();
    let inputs = all.iter().flat_map(|object| {
        let patch = |patch: Value| of_kind(object, format!("{object}\0{patch}").as_bytes());
        of(object).into_iter().filter_map(patch).collect::<Vec<_>>()
    });
    inputs.collect()
}

pub fn json_patches() -> Vec<Vec<u8>> {
    patches(|object| {
        let spec = object.get("spec").cloned().unwrap_or_default();
        vec![json!([
            {"op": "test", "path": "/metadata/name", "value": object["metadata"]["name"]},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
            {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/c"},
            {"op": "move", "from": "/metadata/labels/c", "path": "/metadata/labels/d"},
            {"op": "remove", "path": "/metadata/labels/d"},
            {"op": "replace", "path": "/spec", "value": spec},
        ])]
    })
}

pub fn merge_patches() -> Vec<Vec<u8>> {
    patches(|object| {
        let labels = json!({"metadata": {"labels": {"a": null, "b": "c"}}});
        vec![labels, object.clone(), json!({"spec": null, "status": {}})]
    })
}

/// Field sets with each form of a path element.
const FIELDS: [&str; 4] = [
    r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{}}}"#,
    r#"{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}}}}"#,
    r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}},"f:list":{"i:0":{},"i:12":{}}}"#,
    "{}",
];

pub fn fields_v1() -> Vec<Vec<u8>> {
    FIELDS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns pairs of sets, separated by a zero byte.
pub fn field_sets() -> Vec<Vec<u8>> {
    let pairs = FIELDS.iter().flat_map(|one| {
        let others = FIELDS.iter();
        others.map(move |other| format!("{one}\0{other}").into_bytes())
    });
    pairs.collect()
}

/// Returns the parameters of recorded requests.
fn recorded_queries() -> Vec<String> {
    let table: Value = serde_json::from_str(ERRORS).unwrap();
    let cases = table["cases"].as_array().unwrap();
    let queries = cases.iter().filter_map(|case| {
        let (_, query) = case["request"].as_str()?.split_once('?')?;
        Some(query.to_owned())
    });
    queries.collect()
}

/// Returns paths of all kinds of requests, each after a byte that selects the method.
pub fn paths() -> Vec<Vec<u8>> {
    let all = [
        "/api/v1/namespaces/default/pods/a/log",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/finalize",
        "/api/v1/watch/namespaces/default/configmaps",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/apps/v1/deployments",
        "/api/v1/nodes/n/proxy/a/b?c=d",
        "/api/v1/proxy/nodes/n",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        "/openapi/v3/apis/apps/v1",
        "//api//v1//pods/",
        "/readyz/etcd",
    ];
    let numbered = all.iter().enumerate();
    let of = |(number, path): (usize, &&str)| [&[number as u8], path.as_bytes()].concat();
    numbered.map(of).collect()
}

pub fn queries() -> Vec<Vec<u8>> {
    recorded_queries()
        .into_iter()
        .map(String::into_bytes)
        .collect()
}

pub fn tokens() -> Vec<Vec<u8>> {
    let token = |query: String| {
        let query = api::options::Query::parse(&query);
        query.first("continue").map(|text| text.as_bytes().to_vec())
    };
    recorded_queries().into_iter().filter_map(token).collect()
}

pub fn selectors() -> Vec<Vec<u8>> {
    let all = [
        ("", "metadata.name=a,metadata.namespace!=b"),
        ("a=b,c!=d,e,!f", "spec.nodeName=n,status.phase==Running"),
        ("a in (b,c), d notin (e), g>1,h<2", "metadata.name=a\\,b"),
    ];
    let pods = byte_of("v1", "Pod").unwrap();
    let of = |(labels, fields): &(&str, &str)| {
        [&[pods], labels.as_bytes(), b"\0", fields.as_bytes()].concat()
    };
    all.iter().map(of).collect()
}

pub fn delete_options() -> Vec<Vec<u8>> {
    let table: Value = serde_json::from_str(ERRORS).unwrap();
    let cases = table["cases"].as_array().unwrap();
    let bodies = cases.iter().filter_map(|case| {
        case["request"].as_str()?.strip_prefix("DELETE ")?;
        let body = case.get("body")?;
        let text = body
            .as_str()
            .map_or_else(|| body.to_string(), str::to_owned);
        Some([b"\0", text.as_bytes()].concat())
    });
    let of = |document: Value| [b"\0", document.to_string().as_bytes()].concat();
    let eviction = unstored()
        .into_iter()
        .find(|body| body["kind"] == "Eviction");
    let options = eviction.expect("one of them")["deleteOptions"].take();
    bodies
        .chain([of(options.clone()), in_protobuf(&options)])
        .collect()
}

/// Encodes delete options as protobuf.
fn in_protobuf(options: &Value) -> Vec<u8> {
    let of = object_type("meta.v1.DeleteOptions");
    let (schema, id) = of.found().unwrap();
    let mut raw = Vec::new();
    write_message(schema, id, options, &mut raw).unwrap();
    let envelope = Envelope {
        api_version: "v1",
        kind: "DeleteOptions",
        raw: &raw,
    };
    let mut body = vec![2];
    envelope.write(&mut body);
    body
}

/// The recorded objects of custom resources with their schemas.
const CUSTOM_OBJECTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../api/tests/recorded/custom-objects.json"
));

/// Returns schemas with an object of each, separated by a zero byte.
pub fn custom_objects() -> Vec<Vec<u8>> {
    let groups: Vec<Value> = serde_json::from_str(CUSTOM_OBJECTS).unwrap();
    let pairs = groups.iter().flat_map(|group| {
        let cases = group["cases"].as_array().unwrap().iter();
        cases.map(|case| format!("{}\0{}", group["schema"], case["body"]).into_bytes())
    });
    pairs.collect()
}

/// Expressions, each with a zero byte and no object.
pub fn expressions() -> Vec<Vec<u8>> {
    let cases = include_str!("../../../api/src/cel/eval/cases.txt").lines();
    let texts = cases.filter(|line| !line.starts_with('#'));
    let texts = texts.filter_map(|line| line.split(" ~ ").next());
    let texts = texts.filter(|text| !text.is_empty());
    texts.map(|text| format!("{text}\0").into_bytes()).collect()
}

/// Returns expressions of policies.
pub fn policies() -> Vec<Vec<u8>> {
    let texts = [
        "object.data.k == 'v' && has(request.name)",
        "variables.v == 1 || size(request.userInfo.groups) > 0",
        "object.data.map(k, k + object.data[k]).join(',')",
        "authorizer.group('').resource('pods').namespace('n').check('get').allowed()",
        "namespaceObject.metadata.?labels.?a.orValue('none')",
        "Object{metadata: Object.metadata{labels: {'a': object.metadata.name}}}",
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: 'i'}]}}",
        "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: [1, 'x']}]",
        "lists.range(100).map(x, JSONPatch{op: 'test', path: '/data', value: object.data})",
    ];
    let texts = texts.into_iter();
    texts.map(|text| format!("{text}\0").into_bytes()).collect()
}
