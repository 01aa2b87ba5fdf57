//! The recorded bodies of built-in kinds.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use api::decode::type_value;
use api::object::Object;
use api::resource::ResourceDefinition;
use api::schema::Empty;
use kinds::built_in;
use serde_json::Value;

/// Cases with a path and a body.
const RECORDED: &[&str] = &[
    include_str!("../../recorded/admissionregistration.json"),
    include_str!("../../recorded/autoscaling.json"),
    include_str!("../../recorded/batch.json"),
    include_str!("../../recorded/containers.json"),
    include_str!("../../recorded/core.json"),
    include_str!("../../recorded/endpoints.json"),
    include_str!("../../recorded/flowcontrol.json"),
    include_str!("../../recorded/limits.json"),
    include_str!("../../recorded/networking.json"),
    include_str!("../../recorded/nodes.json"),
    include_str!("../../recorded/pod_defaults.json"),
    include_str!("../../recorded/pod_spec.json"),
    include_str!("../../recorded/pod_status.json"),
    include_str!("../../recorded/pod_update.json"),
    include_str!("../../recorded/rbac.json"),
    include_str!("../../recorded/resource.json"),
    include_str!("../../recorded/resource_status.json"),
    include_str!("../../recorded/scheduling.json"),
    include_str!("../../recorded/services.json"),
    include_str!("../../recorded/storage.json"),
    include_str!("../../recorded/storage_classes.json"),
    include_str!("../../recorded/storage_status.json"),
    include_str!("../../recorded/workloads.json"),
    include_str!("../../../tools/facts/full_bodies.json"),
    include_str!("../../../tools/facts/manifests.json"),
];

/// Bodies by path.
const SWEEP: &str = include_str!("../../../tools/facts/sweep_bodies.json");

/// Objects with every field set.
const EVERY_FIELD: &[u8] = include_bytes!("../../recorded/every-field.json.gz");

/// Returns rows with bodies of their kinds.
pub fn bodies() -> Vec<(Arc<ResourceDefinition>, Value)> {
    let rows = built_in();
    let mut bodies = Vec::new();
    let mut add = |path: &str, body: &Value| {
        let row = rows.iter().find(|row| is_path_of(path, row));
        bodies.extend(row.map(|row| (row.clone(), body.clone())));
    };
    for text in RECORDED {
        let cases: Vec<Value> = serde_json::from_str(text).expect("JSON");
        for case in cases {
            let path = case["path"].as_str().expect("a path");
            for member in ["body", "old"] {
                if case[member].is_object() {
                    add(path, &case[member]);
                }
            }
        }
    }
    let sweep: BTreeMap<String, Vec<Value>> = serde_json::from_str(SWEEP).expect("JSON");
    for (path, bodies) in sweep {
        bodies.iter().for_each(|body| add(&path, body));
    }
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(EVERY_FIELD);
    reader.read_to_string(&mut text).expect("compressed text");
    let objects: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    for object in objects {
        let object = &object["json"];
        let is_this = |row: &&Arc<ResourceDefinition>| {
            object["kind"] == row.kind && object["apiVersion"] == row.api_version()
        };
        let row = rows.iter().find(is_this);
        bodies.extend(row.map(|row| (row.clone(), object.clone())));
    }
    assert!(bodies.len() > 2000, "{}", bodies.len());
    bodies
}

/// Reports whether a path is that of a resource: `/apis/apps/v1/namespaces/default/deployments`.
fn is_path_of(path: &str, row: &ResourceDefinition) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return false,
    };
    let plural = match rest {
        ["namespaces", _, plural, ..] => plural,
        [plural, ..] => plural,
        [] => return false,
    };
    version == row.api_version() && *plural == row.plural
}

/// Decodes a body into canonical form. Returns `None` if it does not match its type.
pub fn typed(row: &ResourceDefinition, body: &Value) -> Option<Object> {
    let read = type_value(body, row.object_type()).ok()?;
    let Value::Object(members) = read.value else {
        return None;
    };
    read.refusal.is_none().then_some(())?;
    let mut object = Object::of(members);
    object.set_type(&row.kind, &row.api_version());
    row.canonicalize_with(&mut object, Empty::Printed);
    Some(object)
}
