//! Defaults of objects read from storage (KV-30): the scan that decides whether an object needs
//! defaulting, compared with defaulting itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stored;

use std::collections::BTreeMap;

use api::object::Object;
use api::protobuf::check_complete;
use api::resource::ResourceDefinition;
use api::schema::Empty;
use jiff::Timestamp;
use kinds::built_in;
use serde_json::{Value, json};
use stored::{bodies, typed};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().expect("a time")
}

/// Reports whether the scan accepts an object as complete.
fn is_complete(row: &ResourceDefinition, object: &Object) -> bool {
    let Some(completeness) = row.behaviour.completeness() else {
        return !row.behaviour.has_defaults();
    };
    let (schema, id) = row.object_type().found().expect("a type");
    let text = serde_json::to_vec(&object.0).expect("JSON");
    check_complete(schema, id, &text, completeness).unwrap_or(false)
}

fn filled(row: &ResourceDefinition, object: &Object) -> Object {
    let mut object = object.clone();
    if row.behaviour.has_defaults() {
        row.fill_in_stored(&mut object, now());
    }
    object
}

/// Checks that the scan does not accept an object that defaulting changes. Returns whether it
/// accepted this one.
fn check(row: &ResourceDefinition, object: &Object) -> bool {
    if !is_complete(row, object) {
        return false;
    }
    let mut canonical = object.clone();
    row.canonicalize_with(&mut canonical, Empty::Printed);
    let filled = filled(row, object);
    assert_eq!(
        canonical, filled,
        "{row:?}: a scan takes this for complete: {:?}",
        object.0
    );
    true
}

/// Collects the paths of all members and items.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    let mut visit = |name: String, below: &Value| {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        found.push(path.clone());
        paths(below, &path, found);
    };
    match value {
        Value::Object(members) => {
            let members = members.iter();
            members.for_each(|(name, below)| visit(name.clone(), below));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(place, below)| visit(place.to_string(), below));
        }
        _ => {}
    }
}

fn remove(value: &mut Value, path: &str) {
    let (parent, name) = path.rsplit_once('/').expect("a path");
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&name);
        }
        Some(Value::Array(items)) => {
            let place: usize = name.parse().expect("a place");
            if place < items.len() {
                items.remove(place);
            }
        }
        _ => {}
    }
}

/// Returns other values of the same type.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::String(_) => [
            "",
            "x",
            "ClientIP",
            "RollingUpdate",
            "LoadBalancer",
            "1000m",
        ]
        .map(Value::from)
        .to_vec(),
        Value::Number(_) => vec![json!(0), json!(-1), json!(7)],
        Value::Bool(value) => vec![json!(!value)],
        Value::Array(_) => vec![json!([])],
        Value::Object(_) => vec![json!({})],
        Value::Null => Vec::new(),
    }
}

fn object(value: &Value) -> Object {
    Object::of(value.as_object().expect("an object").clone())
}

/// KV-30: each kind with defaults has a description of complete objects.
#[test]
fn each_kind_with_defaults_says_what_its_objects_have_kv_30() {
    for row in built_in() {
        let (schema, id) = row.object_type().found().expect("a type");
        let of = schema.get(id).expect("a struct");
        let needs_one = row.behaviour.has_defaults() && of.is_message_throughout;
        let is_own_form = row.has_own_form();
        let has_one = row.behaviour.completeness().is_some();
        assert_eq!(has_one, needs_one && !is_own_form, "{row:?}");
    }
}

/// KV-30: the scan accepts defaulted objects, so they are not decoded into trees.
#[test]
fn objects_that_were_filled_in_are_taken_for_complete_kv_30() {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (row, body) in bodies() {
        let Some(body) = typed(&row, &body) else {
            continue;
        };
        if row.behaviour.completeness().is_none() {
            continue;
        }
        let filled = filled(&row, &body);
        let (complete, all) = counts.entry(row.qualified()).or_default();
        *complete += usize::from(check(&row, &filled));
        *all += 1;
    }
    println!("{counts:#?}");
    assert!(counts.len() > 30, "{counts:?}");
    for (row, (complete, all)) in counts {
        // Exceptions are Jobs without labels, pods with pod-level resources and quantities below 1
        // milli. The few CustomResourceDefinitions have schemas that the scan does not examine.
        let is_definition = row.starts_with("customresourcedefinitions.");
        assert!(
            is_definition || complete * 10 >= all * 7,
            "{row}: {complete} of {all}"
        );
    }
}

/// KV-30: each member of each recorded object is removed and replaced.
#[test]
fn a_scan_takes_nothing_for_complete_that_defaults_change_kv_30() {
    let (mut complete, mut all) = (0_usize, 0_usize);
    for (number, (row, body)) in bodies().into_iter().enumerate() {
        if row.behaviour.completeness().is_none() {
            continue;
        }
        let Some(body) = typed(&row, &body) else {
            continue;
        };
        for object_given in [filled(&row, &body), body] {
            let value = Value::Object(object_given.0.clone());
            let mut found = Vec::new();
            paths(&value, "", &mut found);
            for (place, path) in found.into_iter().enumerate() {
                // Most bodies have much in common, so a part of the paths suffices.
                if (place + number) % 32 != 0 && place > 8 {
                    continue;
                }
                let mut pruned = value.clone();
                remove(&mut pruned, &path);
                complete += usize::from(check(&row, &object(&pruned)));
                let given = value.pointer(&path).expect("a value");
                for other in others(given) {
                    let mut changed = value.clone();
                    *changed.pointer_mut(&path).expect("a value") = other;
                    complete += usize::from(check(&row, &object(&changed)));
                    all += 1;
                }
                all += 1;
            }
        }
    }
    println!("{complete} of {all} were taken for complete");
    assert!(all > 20_000 && complete > all / 10, "{complete} of {all}");
}

/// KV-30: several members at once.
#[test]
fn a_scan_of_any_part_of_an_object_agrees_with_filling_it_in_kv_30() {
    let mut seed: u64 = 36;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for (row, body) in bodies() {
        if row.behaviour.completeness().is_none() {
            continue;
        }
        let Some(body) = typed(&row, &body) else {
            continue;
        };
        let value = Value::Object(filled(&row, &body).0);
        let mut found = Vec::new();
        paths(&value, "", &mut found);
        for _ in 0..8 {
            let mut pruned = value.clone();
            for _ in 0..=random(5) {
                remove(&mut pruned, &found[random(found.len())]);
            }
            check(&row, &object(&pruned));
        }
    }
}

/// Returns a new object as it is stored: defaulted, prepared, and defaulted again.
fn written(row: &ResourceDefinition, body: &Object) -> Object {
    let mut object = body.clone();
    object.set_meta("creationTimestamp", "2026-01-02T03:04:05Z");
    object.set_meta("uid", "6f8d0b5e-3a43-4be5-8c11-0f8b3c9c2b77");
    row.fill_in(&mut object);
    row.behaviour.complete_owned(&mut object);
    row.behaviour.drop_disabled(&mut object, None);
    row.behaviour.prepare_for_create(&mut object);
    row.fill_in(&mut object);
    row.canonicalize(&mut object);
    object
}

/// KV-31: objects stored by this version need no defaulting when they are read.
#[test]
fn objects_that_are_written_lack_nothing_kv_31() {
    let mut checked = 0;
    for (row, body) in bodies() {
        let Some(body) = typed(&row, &body) else {
            continue;
        };
        let mut errors = 0;
        let written = written(&row, &body);
        let found = api::error_list::ErrorList::of(|list| row.behaviour.validate(&written, list));
        errors += usize::from(!found.is_empty());
        if errors > 0 || row.has_own_form() {
            continue;
        }
        let mut read = filled(&row, &written);
        row.canonicalize(&mut read);
        assert_eq!(read, written, "{row:?}");
        checked += 1;
    }
    assert!(checked > 1000, "{checked}");
}

/// For each kind, the version of the defaults, and hashes of bodies and of the defaulted objects.
const VERSIONS: &str = include_str!("../recorded/defaults.txt");

/// Returns a hash that is the same on every machine (FNV-1a).
fn hash(before: u64, text: &str) -> u64 {
    let bytes = text.bytes();
    bytes.fold(before, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// KV-31: a change of a kind's defaults needs a new version number.
#[test]
fn recorded_bodies_are_filled_in_as_this_version_says() {
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (row, body) in bodies() {
        let Some(body) = typed(&row, &body) else {
            continue;
        };
        if !row.behaviour.has_defaults() {
            continue;
        }
        let (given, filled_in) = found
            .entry(format!("{} {}", row.qualified(), row.version))
            .or_insert((0xcbf2_9ce4_8422_2325, 0xcbf2_9ce4_8422_2325));
        let json = |object: &Object| Value::Object(object.0.clone()).to_string();
        *given = hash(*given, &json(&body));
        let read = filled(&row, &body);
        *filled_in = hash(*filled_in, &json(&read));
        *filled_in = hash(*filled_in, &json(&written(&row, &body)));
    }
    let version = kinds::defaults::VERSION;
    let lines = found.iter().map(|(kind, (given, filled_in))| {
        format!("{kind} {version} {given:016x} {filled_in:016x}")
    });
    let lines: Vec<String> = lines.collect();
    let (mut are_same, mut wanted) = (true, Vec::new());
    for line in &lines {
        let parts: Vec<&str> = line.split(' ').collect();
        let recorded = VERSIONS
            .lines()
            .map(|line| line.split(' ').collect::<Vec<&str>>())
            .find(|recorded| recorded[..2] == parts[..2]);
        let Some(recorded) = recorded else {
            are_same = false;
            wanted.push(line.clone());
            continue;
        };
        let same = (recorded[3] == parts[3], recorded[4] == parts[4]);
        let recorded_version: u32 = recorded[2].parse().expect("a number");
        assert!(
            same != (true, false) || version > recorded_version,
            "{}: the same bodies are filled in otherwise than by version {recorded_version}. Raise \
             kinds::defaults::VERSION, so that stores of older versions are filled in when they \
             are read, and record this test's lines again",
            parts[0]
        );
        are_same &= same == (true, true);
        wanted.push(match same {
            (true, true) => recorded.join(" "),
            _ => line.clone(),
        });
    }
    let count = VERSIONS.lines().count();
    assert!(
        are_same && count == lines.len(),
        "bodies were added or changed, or the version is new. If only bodies changed, or VERSION \
         was raised, record in kinds/recorded/defaults.txt:\n{}",
        wanted.join("\n")
    );
}

/// Stored objects without their defaults, and the objects that kube-apiserver 1.36 returns for
/// them, for each kind with defaults.
const BARE: &str = include_str!("../../tests/fixtures/bare-objects.json");

/// KV-30: stored objects without defaults are shown with the defaults of kube-apiserver.
#[test]
fn stored_objects_of_each_kind_are_filled_in_kv_30() {
    let cases: Vec<Value> = serde_json::from_str(BARE).expect("JSON");
    let rows = built_in();
    let mut kinds = std::collections::BTreeSet::new();
    for case in &cases {
        let stored = &case["stored"];
        let is_this = |row: &&std::sync::Arc<ResourceDefinition>| {
            stored["kind"] == row.kind && stored["apiVersion"] == row.api_version()
        };
        let row = rows.iter().find(is_this).expect("a kind");
        let body = object(stored);
        assert!(!is_complete(row, &body), "{row:?}");
        let filled = filled(row, &body);
        assert!(is_complete(row, &filled), "{row:?}");
        assert_eq!(Value::Object(filled.0), case["shown"], "{row:?}");
        kinds.insert(row.qualified());
    }
    for row in rows {
        // Their values are of v1beta1 (KV-27), or only have quantities.
        let is_other = matches!(
            &*row.plural,
            "customresourcedefinitions"
                | "mutatingadmissionpolicies"
                | "mutatingadmissionpolicybindings"
                | "csistoragecapacities"
                | "volumeattachments"
                | "resourceslices"
        );
        let is_tested = kinds.contains(&row.qualified());
        assert_eq!(
            is_tested,
            row.behaviour.has_defaults() && !is_other,
            "{row:?}"
        );
    }
}
