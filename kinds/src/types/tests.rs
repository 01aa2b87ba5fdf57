use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use api::schema::{Shape, StructId, Type};
use serde_json::Value;

use super::*;
use crate::definitions::built_in;

/// Bodies of all kinds with the answers of kube-apiserver.
const SWEEP: &[u8] = include_bytes!("../../../tests/fixtures/sweep.json.gz");

/// Fields that no accepted body has, by struct, and the reason.
const NEVER: &[(&str, &str, &str)] = &[
    (
        "apiextensions.v1.JSONSchemaProps",
        "$ref $schema additionalItems dependencies id",
        "definitions in v1 forbid them",
    ),
    (
        "core.v1.EphemeralContainer",
        "lifecycle livenessProbe ports readinessProbe resizePolicy resources restartPolicy \
         restartPolicyRules startupProbe",
        "ephemeral containers must not have them (API-222)",
    ),
    (
        "events.v1.Event",
        "deprecatedFirstTimestamp deprecatedLastTimestamp",
        "new events must not have them",
    ),
    (
        "meta.v1.ObjectMeta",
        "resourceVersion",
        "creates must not say it, and updates say the one that they have read",
    ),
    (
        "resource.v1.DeviceRequestAllocationResult",
        "adminAccess",
        "only namespaces with a label have it, and the default one has none",
    ),
];

#[test]
fn the_types_of_all_packages_can_be_read() {
    let texts: Vec<&str> = PACKAGES.into_iter().chain([FORMER]).collect();
    let schema = Schema::read(&texts).unwrap();
    assert_eq!(schema.structs().count(), TYPES.structs().count());
    for name in [
        "core.v1.Pod",
        "apps.v1.StatefulSet",
        "autoscaling.v2.HorizontalPodAutoscaler",
    ] {
        assert!(schema.find(name).is_some(), "{name}");
    }
}

#[test]
fn the_type_of_each_resource_is_that_of_its_kind() {
    for definition in built_in() {
        let (schema, id) = definition.object_type().found().unwrap();
        let kind = schema.get(id).unwrap().kind.as_ref().unwrap();
        let own = definition.group_version_kind();
        assert_eq!(
            (&*kind.group, &*kind.version, &*kind.kind),
            (own.group, own.version, own.kind),
        );
    }
}

/// Returns the struct of a value, or of the items of its lists or values of its maps.
fn struct_below(of: &Type) -> Option<StructId> {
    match &of.shape {
        Shape::List(item) | Shape::Map(item) => struct_below(item),
        Shape::Struct(id) => Some(*id),
        _ => None,
    }
}

/// Collects all structs that a struct contains.
fn gather(id: StructId, into: &mut BTreeMap<String, StructId>) {
    let of = TYPES.get(id).unwrap();
    if into
        .insert(format!("{}.{}", of.package, of.name), id)
        .is_none()
    {
        let below = of
            .fields()
            .iter()
            .filter_map(|field| struct_below(&field.of));
        below.for_each(|id| gather(id, into));
    }
}

/// Records the fields that a value has.
fn note(value: &Value, of: &Type, into: &mut BTreeSet<(String, String)>) {
    match (&of.shape, value) {
        (Shape::List(item), Value::Array(items)) => {
            items.iter().for_each(|value| note(value, item, into));
        }
        (Shape::Map(item), Value::Object(members)) => {
            members.values().for_each(|value| note(value, item, into));
        }
        (Shape::Struct(id), Value::Object(_)) => note_struct(value, *id, into),
        _ => {}
    }
}

fn note_struct(value: &Value, id: StructId, into: &mut BTreeSet<(String, String)>) {
    let of = TYPES.get(id).unwrap();
    for field in of.fields() {
        let found = &value[&field.name];
        if !found.is_null() {
            into.insert((format!("{}.{}", of.package, of.name), field.name.clone()));
            note(found, &field.of, into);
        }
    }
}

/// The sweep compares defaulting, validation and pruning of a field only if one of its bodies has
/// the field.
#[test]
fn nearly_every_field_is_in_a_body_that_kube_apiserver_accepted() {
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(SWEEP);
    reader.read_to_string(&mut text).unwrap();
    let mut noted = BTreeSet::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let body = &case["body"];
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let id = TYPES.object_kind(text("apiVersion"), text("kind"));
        if let Some(id) = id.filter(|_| case["answer"]["code"].as_u64().unwrap() < 300) {
            note_struct(body, id, &mut noted);
        }
    }
    let mut structs = BTreeMap::new();
    for definition in built_in() {
        let (_, id) = definition.object_type().found().unwrap();
        gather(id, &mut structs);
    }
    let mut never = Vec::new();
    let mut count = 0;
    for (name, id) in structs {
        let fields = TYPES.get(id).unwrap().fields().iter();
        let fields: Vec<&str> = fields.map(|field| &*field.name).collect();
        count += fields.len();
        let is_missing = |field: &&str| !noted.contains(&(name.clone(), (*field).to_owned()));
        let missing: Vec<&str> = fields.into_iter().filter(is_missing).collect();
        if !missing.is_empty() {
            never.push((name, missing.join(" ")));
        }
    }
    assert!(count > 1800, "{count} fields");
    let listed = NEVER
        .iter()
        .map(|(name, fields, _)| ((*name).to_owned(), (*fields).to_owned()));
    assert_eq!(never, listed.collect::<Vec<_>>());
}
