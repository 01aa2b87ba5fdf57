//! Generated requests of all built-in kinds, and kube-apiserver's responses to them.
//!
//! `creates` plays bodies that are made from the types, `updates` changes each part of an object.
//! This file compares responses and reads lists of gaps.

mod creates;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

/// How many connections share the cases.
const CONNECTIONS: usize = 4;

/// How many differences are shown; the file has all of them.
const SHOWN: usize = 20;

/// What a server sets as it likes: the plural, the path within
/// the object, the reason. Both objects are compared without it, unless the body says it.
const UNSET: &[(&str, &str, &str)] = &[
    (
        "resourceslices",
        "spec.devices.taints.timeAdded",
        "it is the time of the write",
    ),
    (
        "services",
        "spec.clusterIP",
        "API-228: addresses are allocated",
    ),
    (
        "services",
        "spec.clusterIPs",
        "API-228: addresses are allocated",
    ),
    (
        "services",
        "spec.healthCheckNodePort",
        "API-228: ports are allocated",
    ),
    (
        "services",
        "spec.ports.nodePort",
        "API-228: ports are allocated",
    ),
];

struct Difference {
    kind: String,
    case: String,
    field: String,
    text: String,
}

/// Recorded cases: a compressed file with a line for each.
fn cases(packed: &[u8]) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The plural in a name such as `deployments.v1.apps`.
fn plural(kind: &str) -> &str {
    kind.split('.').next().unwrap_or_default()
}

/// An answer without what was added to odd names, which is random.
fn without_random_names(found: &str) -> Value {
    const ODD: &str = "-Not Valid-";
    let is_random = |text: &&str| {
        text.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    let mut parts = found.split(ODD);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let random = part.get(..5).filter(is_random);
        kept += ODD;
        kept += part.strip_prefix(random.unwrap_or_default()).unwrap();
    }
    serde_json::from_str(&kept).unwrap()
}

/// Takes away a name that is a random UUID (API-230).
fn without_uuid(object: &mut Value) {
    let metadata = &mut object["metadata"];
    if uuid::Uuid::parse_str(text(metadata, "name")).is_ok() {
        metadata["name"] = "a UUID".into();
    }
}

/// What is compared of an answer, in the form in which the others were recorded. The mark stands
/// for the object's identifier.
fn compared(code: u16, mut found: Value, mark: &str) -> Value {
    if code >= 300 {
        let mut kept = json!({
            "code": code,
            "reason": text(&found, "reason"),
            "message": text(&found, "message"),
        });
        if let Some(causes) = found["details"].get("causes") {
            kept["causes"] = causes.clone();
        }
        return kept;
    }
    without_uuid(&mut found);
    let uid = text(&found["metadata"], "uid").to_owned();
    if let Some(metadata) = found["metadata"].as_object_mut() {
        for name in [
            "uid",
            "creationTimestamp",
            "managedFields",
            "resourceVersion",
        ] {
            metadata.remove(name);
        }
    }
    remove(&mut found, "status.lastPhaseTransitionTime");
    remove(&mut found, "status.conditions.lastTransitionTime");
    // Selectors of Jobs have the identifier of the object.
    let mut object = found.to_string();
    if !uid.is_empty() {
        object = object.replace(&uid, mark);
    }
    json!({ "code": code, "object": serde_json::from_str::<Value>(&object).unwrap() })
}

/// Whether a body says something at this path.
fn says(body: &Value, path: &str) -> bool {
    match (body, path.split_once('.')) {
        (Value::Array(items), _) => items.iter().any(|item| says(item, path)),
        (_, Some((first, rest))) => says(&body[first], rest),
        (_, None) => body
            .get(path)
            .is_some_and(|value| ![Value::Null, json!(""), json!([])].contains(value)),
    }
}

fn remove(object: &mut Value, path: &str) {
    match (object, path.split_once('.')) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| remove(item, path)),
        (Value::Object(members), Some((first, rest))) => {
            if let Some(inner) = members.get_mut(first) {
                remove(inner, rest);
            }
        }
        (Value::Object(members), None) => {
            members.remove(path);
        }
        _ => {}
    }
}

/// Takes away the requester of a certificate, who is another one.
fn remove_requester(object: &mut Value) {
    if object["kind"] == "CertificateSigningRequest" {
        for path in ["spec.username", "spec.uid", "spec.groups"] {
            remove(object, path);
        }
    }
}

/// The paths at which two values differ, with both.
pub fn differing(ours: &Value, theirs: &Value, path: &str, into: &mut String) {
    if ours == theirs {
        return;
    }
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let left = left.get(name).unwrap_or(&Value::Null);
                let right = right.get(name).unwrap_or(&Value::Null);
                differing(left, right, &format!("{path}.{name}"), into);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (number, (left, right)) in left.iter().zip(right).enumerate() {
                differing(left, right, &format!("{path}[{number}]"), into);
            }
        }
        _ => {
            let _ = write!(
                into,
                "\n    {path}:\n      ours:   {ours}\n      theirs: {theirs}"
            );
        }
    }
}

/// Compares two answers in the form of `compared`.
fn difference(case: &Value, mut ours: Value, mut theirs: Value) -> Option<Difference> {
    for answer in [&mut ours, &mut theirs] {
        if let Some(object) = answer.get_mut("object") {
            without_uuid(object);
            remove_requester(object);
        }
    }
    for (of, path, _) in UNSET {
        if plural(text(case, "kind")) == *of && !says(&case["body"], path) {
            for object in [&mut ours, &mut theirs] {
                if let Some(object) = object.get_mut("object") {
                    remove(object, path);
                }
            }
        }
    }
    let mut difference = String::new();
    differing(&ours, &theirs, "", &mut difference);
    if difference.is_empty() {
        return None;
    }
    Some(Difference {
        kind: text(case, "kind").to_owned(),
        case: text(case, "case").to_owned(),
        field: text(case, "field").to_owned(),
        text: difference,
    })
}

impl Difference {
    /// What the gaps call it.
    fn title(&self) -> String {
        let Difference {
            kind, case, field, ..
        } = self;
        match field.as_str() {
            "" => format!("{kind}: {case}"),
            field => format!("{kind}: {case}: {field}"),
        }
    }
}

/// Writes all differences into a file of this name and shows what fits on a screen.
fn report(differences: &[&Difference], name: &str) -> String {
    let mut counts = BTreeMap::new();
    let mut whole = String::new();
    let mut shown = String::new();
    for (number, difference) in differences.iter().enumerate() {
        *counts.entry(difference.kind.as_str()).or_insert(0) += 1;
        let line = format!("{}{}\n", difference.title(), difference.text);
        if number < SHOWN {
            shown += &line;
        }
        whole += &line;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, whole).unwrap();
    for (kind, count) in counts {
        let _ = writeln!(shown, "{count} of {kind}");
    }
    format!("{shown}all of them are in {}", file.display())
}

/// Refuses differences that are not listed, and listed gaps that no longer exist. A list of gaps
/// has a line for each case with another answer than kube-apiserver's, as the report shows it,
/// below a line with the reason.
#[track_caller]
fn only_gaps(differences: &[Difference], gaps: &str, name: &str) {
    let titles: BTreeSet<String> = differences.iter().map(Difference::title).collect();
    let gaps: BTreeSet<&str> = gaps.lines().filter(|line| !line.starts_with('#')).collect();
    let unknown: Vec<&Difference> = differences
        .iter()
        .filter(|difference| !gaps.contains(&*difference.title()))
        .collect();
    assert!(
        unknown.is_empty(),
        "{} differ:\n{}",
        unknown.len(),
        report(&unknown, name)
    );
    let closed: Vec<&&str> = gaps.iter().filter(|gap| !titles.contains(**gap)).collect();
    assert!(
        closed.is_empty(),
        "listed gaps that no longer exist: {closed:#?}"
    );
}
