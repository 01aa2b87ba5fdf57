//! CustomResourceDefinitions: the versions that objects are stored in (http.md 6.2).

use api::object::{Object, put};
use serde_json::{Value, json};

const STORED: &[&str] = &["status", "storedVersions"];

/// A new definition has objects in no version but that which it stores now.
pub fn prepare_create(object: &mut Object) {
    put(object, &["status"], json!({}));
    add_stored_version(object);
}

/// The version that it stores now is added to those that it stored before.
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
