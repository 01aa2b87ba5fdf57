//! What random tests begin with: a seed that replays, and recorded inputs.
#![allow(dead_code)]

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};

use crate::checks::byte_of;

/// Bodies of all kinds with what kube-apiserver answered to them.
const SWEEP: &[u8] = include_bytes!("../../../tests/fixtures/sweep.json.gz");

/// Requests that kube-apiserver refused.
const ERRORS: &str = include_str!("../../../tests/fixtures/errors.json");

/// Objects with every field set, as JSON and as protobuf.
const EVERY_FIELD: &[u8] = include_bytes!("../../recorded/every-field.json.gz");

/// Runs a test for many inputs. `TAFFRAIL_SEED` plays a run again, `TAFFRAIL_BODIES` sets their
/// number.
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

/// An input that begins with the byte of its kind.
fn of_kind(object: &Value, rest: &[u8]) -> Option<Vec<u8>> {
    let text = |name: &str| object[name].as_str();
    let byte = byte_of(text("apiVersion")?, text("kind")?)?;
    Some([&[byte], rest].concat())
}

/// Objects with every field set, and the largest body of each kind that was swept.
fn objects() -> Vec<Value> {
    let every: Vec<Value> = serde_json::from_str(&unpacked(EVERY_FIELD)).unwrap();
    let swept = unpacked(SWEEP);
    let swept = swept.lines().filter_map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let is_whole = matches!(case["case"].as_str(), Some("minimal" | "full"));
        is_whole.then(|| case["body"].clone())
    });
    let every = every.into_iter().map(|example| example["json"].clone());
    every.chain(swept).filter(Value::is_object).collect()
}

pub fn json_bodies() -> Vec<Vec<u8>> {
    let of = |object: &Value| of_kind(object, object.to_string().as_bytes());
    objects().iter().filter_map(of).collect()
}

pub fn yaml_bodies() -> Vec<Vec<u8>> {
    let of = |object: &Value| of_kind(object, yaml(object, 0).as_bytes());
    objects().iter().filter_map(of).collect()
}

/// A document in block style, as people write it.
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

/// Objects, each with patches made of it.
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

/// Sets of fields with each form of a path.
const FIELDS: [&str; 4] = [
    r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{}}}"#,
    r#"{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}}}}"#,
    r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}},"f:list":{"i:0":{},"i:12":{}}}"#,
    "{}",
];

pub fn fields_v1() -> Vec<Vec<u8>> {
    FIELDS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Two sets, divided by a zero byte.
pub fn field_sets() -> Vec<Vec<u8>> {
    let pairs = FIELDS.iter().flat_map(|one| {
        let others = FIELDS.iter();
        others.map(move |other| format!("{one}\0{other}").into_bytes())
    });
    pairs.collect()
}

/// The parameters of recorded requests, as they were sent.
fn recorded_queries() -> Vec<String> {
    let table: Value = serde_json::from_str(ERRORS).unwrap();
    let cases = table["cases"].as_array().unwrap();
    let queries = cases.iter().filter_map(|case| {
        let (_, query) = case["request"].as_str()?.split_once('?')?;
        Some(query.to_owned())
    });
    queries.collect()
}

/// Paths of all kinds of requests, each with a byte that chooses the method.
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
    bodies.collect()
}
