use std::collections::BTreeMap;
use std::sync::Arc;

use api::object::{Object, put};
use api::resource::{GenerationRule, ResourceDefinition};
use serde_json::{Value, json};

use super::*;

/// kube-apiserver iterates over Go maps for these kinds, so their warnings have a random order.
const UNORDERED: [&str; 2] = ["customresourcedefinitions", "csistoragecapacities"];

fn definition(path: &str) -> Arc<ResourceDefinition> {
    let mut parts = path.rsplit('/');
    let plural = parts.next().expect("a resource");
    let group = match path.strip_prefix("/apis/") {
        Some(rest) => rest.split('/').next().unwrap_or_default(),
        None => "",
    };
    let mut built_in = crate::built_in().into_iter();
    let found = built_in.find(|row| row.plural == plural && row.group == group);
    found.unwrap_or_else(|| panic!("{path}"))
}

fn filled(value: &Value, row: &ResourceDefinition) -> Object {
    let mut object = Object::of(value.as_object().expect("an object").clone());
    object.set_type(&row.kind, &format!("{}/{}", row.group, row.version));
    row.fill_in(&mut object);
    object
}

fn created(value: &Value, row: &ResourceDefinition) -> (Object, Vec<String>) {
    let mut object = filled(value, row);
    row.canonicalize(&mut object);
    let kind = &row.behaviour;
    let mut warnings = kind.warnings_before_create(&object);
    kind.drop_disabled(&mut object, None);
    kind.prepare_for_create(&mut object);
    row.canonicalize(&mut object);
    if let GenerationRule::OnChangeOf(_) = row.rules().generation {
        put(&mut object, &["metadata", "generation"], 1.into());
    }
    warnings.extend(kind.warnings_on_create(&object));
    (object, warnings)
}

fn updated(case: &Value, row: &ResourceDefinition) -> Vec<String> {
    let (stored, _) = created(&case["old"], row);
    let mut object = filled(&case["body"], row);
    row.canonicalize(&mut object);
    if let Some(generation) = stored.at(&["metadata", "generation"]) {
        put(&mut object, &["metadata", "generation"], generation.clone());
    }
    let part = case.get("subresource").and_then(Value::as_str);
    let part = part.map_or("", |path| path.trim_start_matches('/'));
    let kind = &row.behaviour;
    for path in &row.rules().endpoint(part).keeps {
        api::object::keep(&mut object, &stored, path);
    }
    kind.drop_disabled(&mut object, Some(&stored));
    kind.prepare_for_update(part, &mut object, &stored);
    row.canonicalize(&mut object);
    if let GenerationRule::OnChangeOf(paths) = &row.rules().generation
        && paths.iter().any(|path| object.at(path) != stored.at(path))
    {
        put(&mut object, &["metadata", "generation"], 2.into());
    }
    kind.warnings_on_update(part, &object, &stored)
}

/// API-94, API-103: warnings recorded from kube-apiserver 1.36.
#[test]
fn writers_are_warned_as_by_kubernetes() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../recorded/warnings.json")).expect("JSON");
    let mut differences = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &cases {
        let path = case["path"].as_str().expect("a path");
        let row = definition(path);
        let listed = Warnings::default();
        let given = match case.get("old") {
            None => created(&case["body"], &row).1,
            Some(_) => updated(case, &row),
        };
        given.into_iter().for_each(|text| listed.add(text));
        let mut ours = listed.take();
        let theirs = case["warnings"].as_array().expect("warnings");
        let mut theirs: Vec<String> = theirs
            .iter()
            .filter_map(|text| text.as_str().map(str::to_owned))
            // Handlers add it to every request for this kind.
            .filter(|text| !text.starts_with("v1 Endpoints is deprecated"))
            .collect();
        *counts.entry(path).or_default() += theirs.len();
        if UNORDERED.iter().any(|plural| path.ends_with(plural)) {
            ours.sort();
            theirs.sort();
        }
        if ours != theirs {
            differences.push(format!(
                "{}:\n  ours:   {ours:#?}\n  theirs: {theirs:#?}",
                case["name"]
            ));
        }
    }
    let (found, all) = (differences.len(), cases.len());
    assert!(
        differences.is_empty(),
        "{found} of {all} differ\n{}",
        differences.join("\n")
    );
    assert!(
        counts.values().filter(|count| **count > 0).count() > 25,
        "{counts:?}"
    );
}

fn warnings(path: &str, body: &Value) -> Vec<String> {
    created(body, &definition(path)).1
}

/// Stored objects may have addresses that are invalid in new ones.
#[test]
fn old_forms_of_addresses_are_named() {
    let body = json!({"spec": {"clusterIP": "1.2.3.04", "clusterIPs": ["1.2.3.04"],
        "loadBalancerSourceRanges": ["::ffff:1.2.3.0/120", "1.2.3.4/24", "1.2.3.0/024"]}});
    assert_eq!(
        warnings("/api/v1/namespaces/n/services", &body),
        [
            "spec.clusterIPs[0]: non-standard IP address \"1.2.3.04\" is invalid: use \"1.2.3.4\"",
            "spec.loadBalancerSourceRanges[0]: non-standard CIDR value \"::ffff:1.2.3.0/120\" is \
             invalid: use \"1.2.3.0/120\"",
            "spec.loadBalancerSourceRanges[1]: CIDR value \"1.2.3.4/24\" is ambiguous in this \
             context (should be \"1.2.3.0/24\" or \"1.2.3.4/32\"?)",
            "spec.loadBalancerSourceRanges[2]: non-standard CIDR value \"1.2.3.0/024\" is invalid: \
             use \"1.2.3.0/24\"",
        ]
    );
}

/// The warnings about a large object take less than quadratic time.
#[test]
fn many_ports_and_paths_are_soon_looked_at() {
    let many = 20_000;
    let ports: Vec<Value> = (0..many)
        .map(|n| json!({"containerPort": 1, "hostPort": n % 60_000 + 1, "hostIP": "1.1.1.1"}))
        .collect();
    let same = vec![json!({"containerPort": 2}); many];
    let items: Vec<Value> = (0..many)
        .map(|n| json!({"path": format!("p{n}")}))
        .collect();
    let below: Vec<Value> = (0..many)
        .map(|n| json!({"path": format!("a{}", n % 2)}))
        .collect();
    let body = json!({"metadata": {"name": "a"}, "spec": {
        "containers": [{"name": "a", "ports": ports}, {"name": "b", "ports": same}],
        "volumes": [
            {"name": "a", "configMap": {"name": "a", "items": items}},
            {"name": "b", "configMap": {"name": "b", "items": below}},
        ],
    }});
    let object = Object::of(body.as_object().unwrap().clone());
    let started = std::time::Instant::now();
    let given = pods::of_pod(&object, None);
    assert!(started.elapsed().as_secs() < 60);
    assert!(given.len() > 10 && given.len() < 1000, "{}", given.len());
}

/// Paths with many folders were once compared with all others, which took quadratic time.
#[test]
fn paths_with_many_folders_are_soon_looked_at() {
    let deep = |end: &str| json!({"path": "a/".repeat(300_000) + end});
    let items = [
        deep("b"),
        deep("c"),
        json!({"path": "a"}),
        json!({"path": "a"}),
    ];
    let body = json!({"metadata": {"name": "a"}, "spec": {
        "containers": [{"name": "a"}],
        "volumes": [{"name": "v", "configMap": {"name": "m", "items": items}}],
    }});
    let object = Object::of(body.as_object().unwrap().clone());
    let started = std::time::Instant::now();
    let given = pods::of_pod(&object, None);
    assert!(started.elapsed().as_secs() < 60);
    // Both long paths are cut to the same text.
    assert_eq!(given.len(), 2);
    let same = "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a\" with \"a\"";
    assert_eq!(given[1], same);
}

/// A stored CronJob may have a schedule with a time zone.
#[test]
fn time_zones_in_stored_schedules_are_named() {
    let body = json!({"metadata": {"name": "a"}, "spec": {"schedule": "TZ=UTC * * * * *"}});
    let object = Object::of(body.as_object().unwrap().clone());
    let given = batch::of_cronjob(&object, Some(&object));
    assert_eq!(given.len(), 1);
    assert!(given[0].starts_with("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone"));
}
