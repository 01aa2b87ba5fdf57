//! Compares the documents with those of kube-apiserver 1.36 (`tools/facts/openapi.py`).

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::*;

const FACTS: &[u8] =
    include_bytes!("../../../../tests/fixtures/kube-apiserver-1.36-openapi.json.gz");

/// The known differences: a document, or an operation or a schema of a document.
const GAPS: &str = include_str!("../../../../tests/fixtures/openapi-gaps.txt");

/// Removes the descriptions from a value.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, of)| *name != "description" || !of.is_string())
            .map(|(name, of)| (name.clone(), plain(of)))
            .collect(),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn digest(schema: &Value) -> Value {
    let hash = Sha256::digest(plain(schema).to_string());
    let digits: String = hash
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    digits.into()
}

/// Returns the parameters sorted by name, with references resolved.
fn parameters(document: &Value, listed: &Value) -> Value {
    let found = listed.as_array().into_iter().flatten().map(|one| {
        let reference = one.get("$ref").and_then(Value::as_str);
        let shared = reference.and_then(|place| document.pointer(place.trim_start_matches('#')));
        plain(shared.unwrap_or(one))
    });
    let mut found: Vec<Value> = found.collect();
    found.sort_by_key(|one| (one["name"].to_string(), one["in"].to_string()));
    found.into()
}

/// Returns the facts of a document, by their subjects.
fn facts(document: &Value) -> BTreeMap<String, Value> {
    let mut facts = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, of) in item.as_object().unwrap() {
            let mut fact = plain(of);
            if method == "parameters" {
                fact = parameters(document, of);
            } else if let Some(listed) = of.get("parameters") {
                fact["parameters"] = parameters(document, listed);
            }
            facts.insert(format!("{method} {path}"), fact);
        }
    }
    let schemas = document.get("definitions");
    let schemas = schemas.unwrap_or(&document["components"]["schemas"]);
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        facts.insert(name.clone(), digest(schema));
    }
    for (name, of) in document.as_object().unwrap() {
        if !["paths", "definitions", "parameters", "components"].contains(&&**name) {
            facts.insert(format!("rest {name}"), plain(of));
        }
    }
    facts
}

/// Returns the recorded facts of a document in the same form.
fn recorded_facts(of: &Value) -> BTreeMap<String, Value> {
    let part = |name: &str| of[name].as_object().unwrap().clone().into_iter();
    let rest = part("rest").map(|(name, of)| (format!("rest {name}"), of));
    part("operations")
        .chain(part("schemas"))
        .chain(rest)
        .collect()
}

/// API-39 to API-46: every operation and every schema of every document.
#[test]
fn documents_are_those_of_kube_apiserver_api_41_api_46() {
    let openapi = openapi();
    let mut differing = BTreeSet::new();
    let recorded = recorded(FACTS);
    for key in openapi.subjects(&Extensions::default()).keys() {
        assert!(recorded.contains_key(key), "{key}");
    }
    for (key, of) in &recorded {
        let own = match key.as_str() {
            "v2" => Some(openapi.v2(&HeaderMap::new(), &Extensions::default())),
            key => openapi.v3(key, &Query::parse(""), &HeaderMap::new()),
        };
        let Some(own) = own else {
            differing.insert(key.clone());
            continue;
        };
        let (own, of) = (facts(&json(own)), recorded_facts(of));
        let names: BTreeSet<&String> = own.keys().chain(of.keys()).collect();
        for name in names {
            if own.get(name) != of.get(name) {
                println!("{key} {name}: {:?}, not {:?}", own.get(name), of.get(name));
                differing.insert(format!("{key} {name}"));
            }
        }
    }
    let gaps: BTreeSet<String> = GAPS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let new: Vec<&String> = differing.difference(&gaps).collect();
    let closed: Vec<&String> = gaps.difference(&differing).collect();
    assert!(new.is_empty(), "new gaps: {new:#?}");
    assert!(
        closed.is_empty(),
        "known differences that no longer exist: {closed:#?}"
    );
}
