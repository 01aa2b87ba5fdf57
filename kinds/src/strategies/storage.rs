//! PersistentVolumes and PersistentVolumeClaims: the initial status, and the data source of a claim
//! (http.md 6.2).

use api::object::{Object, put, remove, whole_seconds};
use jiff::Timestamp;
use serde_json::{Value, json};

const SOURCE: &[&str] = &["spec", "dataSource"];
const REFERENCE: &[&str] = &["spec", "dataSourceRef"];

/// Sets the status of a new volume to Pending, since its creation.
pub fn prepare_volume(object: &mut Object) {
    let created = object.meta("creationTimestamp");
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": created});
    put(object, &["status"], status);
}

/// Sets the time of the last phase change: the time that the update has, or else the current time
/// if the update changes the phase.
pub fn stamp_phase(object: &mut Object, stored: &Object, now: Timestamp) {
    let (phase, time) = (["status", "phase"], ["status", "lastPhaseTransitionTime"]);
    let (given, known) = (object.at(&time), stored.at(&time));
    let is_same_phase = object.text(&phase) == stored.text(&phase);
    match known {
        Some(known) if is_same_phase && given.is_none() => put(object, &time, known.clone()),
        _ if !is_same_phase && (given.is_none() || given == known) => {
            put(object, &time, whole_seconds(now).into());
        }
        _ => {}
    }
}

/// Prepares a new claim, whose phase is Pending.
pub fn prepare_claim(object: &mut Object) {
    put(object, &["status"], json!({"phase": "Pending"}));
    prepare_sources(object, None);
}

/// Prepares an update of a claim.
pub fn prepare_claim_update(object: &mut Object, stored: &Object) {
    prepare_sources(object, Some(stored));
}

/// Drops data sources that a claim cannot have, unless the stored claim has them. Then mirrors
/// `dataSource`, the older field, and `dataSourceRef` if one of them is set.
fn prepare_sources(object: &mut Object, stored: Option<&Object>) {
    // A claim that already has a reference may set a namespace, which validation checks.
    let had_reference = stored.is_some_and(|stored| stored.at(REFERENCE).is_some());
    if is_elsewhere(object) && !had_reference {
        remove(object, REFERENCE);
    }
    let has_source =
        |stored: &Object| stored.at(SOURCE).is_some() || stored.at(REFERENCE).is_some();
    let is_known = stored.is_some_and(has_source) || object.at(REFERENCE).is_some();
    if !is_known && !object.at(SOURCE).is_some_and(is_claim_or_snapshot) {
        remove(object, SOURCE);
    }
    match (object.at(SOURCE).cloned(), object.at(REFERENCE).cloned()) {
        (Some(source), None) => put(object, REFERENCE, source),
        (None, Some(Value::Object(mut reference))) if !is_elsewhere(object) => {
            reference.remove("namespace");
            put(object, SOURCE, reference.into());
        }
        _ => {}
    }
}

/// Reports whether the source is in another namespace, which requires a disabled feature gate.
fn is_elsewhere(object: &Object) -> bool {
    let reference = object.at(REFERENCE).and_then(|of| of.get("namespace"));
    reference
        .and_then(Value::as_str)
        .is_some_and(|namespace| !namespace.is_empty())
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let text = |name| source.get(name).and_then(Value::as_str).unwrap_or_default();
    matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(source: &Value, reference: &Value, stored: Option<&Object>) -> [Value; 2] {
        let mut object = Object::default();
        for (path, value) in [(SOURCE, source), (REFERENCE, reference)] {
            if !value.is_null() {
                put(&mut object, path, value.clone());
            }
        }
        prepare_sources(&mut object, stored);
        [SOURCE, REFERENCE].map(|path| object.at(path).cloned().unwrap_or_default())
    }

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn sources_of_claims_are_unified() {
        let none = Value::Null;
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "x"});
        let api_group = "snapshot.storage.k8s.io";
        let snapshot = json!({"apiGroup": api_group, "kind": "VolumeSnapshot", "name": "x"});
        let other = json!({"apiGroup": "e.com", "kind": "X", "name": "x"});
        let elsewhere = json!({"apiGroup": "e.com", "kind": "X", "name": "x", "namespace": "n"});
        let here = json!({"apiGroup": "e.com", "kind": "X", "name": "x", "namespace": ""});
        let cases = [
            (&claim, &none, [&claim, &claim]),
            (&snapshot, &none, [&snapshot, &snapshot]),
            (&other, &none, [&none, &none]),
            (&none, &claim, [&claim, &claim]),
            (&none, &other, [&other, &other]),
            (&none, &elsewhere, [&none, &none]),
            (&none, &here, [&other, &here]),
            (&other, &other, [&other, &other]),
            (&claim, &other, [&claim, &other]),
        ];
        for (source, reference, expected) in cases {
            let found = sources(source, reference, None);
            assert_eq!(found.each_ref(), expected, "{source} {reference}");
        }
        let mut stored = Object::default();
        put(&mut stored, SOURCE, other.clone());
        assert_eq!(
            sources(&other, &none, Some(&stored)),
            [other.clone(), other]
        );
    }

    #[test]
    fn volumes_are_pending_since_their_creation() {
        let mut volume = Object::default();
        volume.set_meta("creationTimestamp", "2024-01-01T00:00:00Z");
        prepare_volume(&mut volume);
        let time = ["status", "lastPhaseTransitionTime"];
        assert_eq!(volume.text(&time), "2024-01-01T00:00:00Z");
        let (created, now) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
        let given = "2023-01-01T00:00:00Z";
        for (phase, set, expected) in [
            ("Pending", None, created),
            ("Pending", Some(given), given),
            ("Bound", None, now),
            ("Bound", Some(created), now),
            ("Bound", Some(given), given),
        ] {
            let mut changed = volume.clone();
            put(&mut changed, &["status", "phase"], phase.into());
            remove(&mut changed, &time);
            if let Some(set) = set {
                put(&mut changed, &time, set.into());
            }
            stamp_phase(&mut changed, &volume, now.parse().expect("a time"));
            assert_eq!(changed.text(&time), expected, "{phase} {set:?}");
        }
    }
}
