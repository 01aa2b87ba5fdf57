//! CustomResourceDefinitions: the versions in which objects may be stored (http.md 6.2), and their
//! deletion (CRD-68).

use api::object::{Object, put, whole_seconds};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::definition_conditions::{Condition, set_condition};

/// The finalizer of definitions whose objects are deleted first (CRD-68).
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition for deletion for the first time: its objects are deleted before it.
pub fn mark_definition(definition: &mut Object, now: Timestamp) {
    definition.set_meta("deletionTimestamp", &whole_seconds(now));
    let mut finalizers: Vec<Value> = definition
        .finalizers()
        .into_iter()
        .map(Value::from)
        .collect();
    if !finalizers.contains(&CLEANUP.into()) {
        finalizers.push(CLEANUP.into());
    }
    put(definition, &["metadata", "finalizers"], finalizers.into());
    let terminating = Condition::new(
        "Terminating",
        true,
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    set_condition(definition, &terminating, now);
}

/// Returns whether anything but finalizers keeps a marked definition, which nothing does.
pub fn is_definition_held(_: &Object) -> bool {
    false
}

const STORED: &[&str] = &["status", "storedVersions"];

/// Resets the status of a new definition, and records its storage version.
pub fn prepare_create(object: &mut Object) {
    put(object, &["status"], json!({}));
    add_stored_version(object);
}

/// Adds the current storage version to the recorded ones.
pub fn prepare_update(object: &mut Object, _: &Object) {
    add_stored_version(object);
}

fn add_stored_version(object: &mut Object) {
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten();
    let stored = versions.find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let Some(name) = stored.and_then(|version| version.get("name")) else {
        return;
    };
    let known = object.at(STORED).and_then(Value::as_array);
    let mut known = known.cloned().unwrap_or_default();
    if !known.contains(name) {
        known.push(name.clone());
        put(object, STORED, known.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_versions_are_never_forgotten() {
        let mut object = Object::default();
        let versions = |stored: &str| {
            let version = |name: &str| json!({"name": name, "storage": name == stored});
            json!([version("v1"), version("v2")])
        };
        put(&mut object, &["spec", "versions"], versions("v1"));
        prepare_create(&mut object);
        assert_eq!(object.at(STORED), Some(&json!(["v1"])));
        let before = object.clone();
        put(&mut object, &["spec", "versions"], versions("v2"));
        prepare_update(&mut object, &before);
        assert_eq!(object.at(STORED), Some(&json!(["v1", "v2"])));
    }
}
