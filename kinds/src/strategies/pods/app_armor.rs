//! AppArmor profiles, which were annotations before they became fields.

use std::collections::HashMap;

use serde_json::{Value, json};

use api::field::Field;
use api::object::Object;

use crate::defaults::{items, member, member_or_new};

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Copies the profiles of annotations to containers that have none, unless the pod's profile is the
/// same.
pub(super) fn apply(object: &mut Object) {
    if object.text(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let annotations = object
        .at(&["metadata", "annotations"])
        .and_then(Value::as_object);
    let profiles: HashMap<String, Value> = annotations
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let container = key.strip_prefix(ANNOTATION)?;
            Some((container.to_owned(), profile(value.as_str()?)?))
        })
        .collect();
    if profiles.is_empty() {
        return;
    }
    let of_pod = object
        .at(&["spec", "securityContext", "appArmorProfile"])
        .cloned();
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, list) {
            let name = container.get("name").and_then(Value::as_str);
            let found = name.and_then(|name| profiles.get(name));
            let Some(profile) = found.filter(|profile| Some(*profile) != of_pod.as_ref()) else {
                continue;
            };
            let context = container.get("securityContext");
            if context.is_some_and(|context| context.get("appArmorProfile").is_some()) {
                continue;
            }
            if let Some(context) = member_or_new(container, "securityContext") {
                context.insert("appArmorProfile".to_owned(), profile.clone());
            }
        }
    }
}

/// Returns the names of containers of a new pod whose profile is in an annotation only, in order. A
/// container whose annotation repeats the profile of the pod is left out.
pub fn profiles_of_annotations(object: &Object) -> Vec<String> {
    let spec = Field::of(object, "spec");
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    if annotations.is_empty() || object.text(&["spec", "os", "name"]) == "windows" {
        return Vec::new();
    }
    let of_pod = object.at(&["spec", "securityContext", "appArmorProfile"]);
    let mut found = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.member(list).items() {
            let own = container.member("securityContext");
            let name = container.member("name").text();
            let key = format!("{ANNOTATION}{name}");
            let annotation = annotations.value().and_then(|all| all.get(&key)?.as_str());
            let Some(annotation) = annotation else {
                continue;
            };
            let profile = profile(annotation);
            let is_of_pod = profile.is_some() && profile.as_ref() == of_pod;
            if !own.member("appArmorProfile").is_set() && !is_of_pod {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// Returns the profile field that an annotation corresponds to.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        "unconfined" => Some(json!({"type": "Unconfined"})),
        other => {
            let path = other
                .strip_prefix("localhost/")
                .filter(|path| !path.is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": path}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn writers_are_warned_of_annotations_that_no_field_repeats() {
        let warned = |annotation: &str, own: Value, of_pod: Value| {
            let key = format!("{ANNOTATION}c");
            let pod = json!({
                "metadata": {"annotations": {key: annotation}},
                "spec": {
                    "securityContext": {"appArmorProfile": of_pod},
                    "containers": [{"name": "c", "securityContext": {"appArmorProfile": own}}],
                },
            });
            let pod = Object::of(pod.as_object().expect("an object").clone());
            !profiles_of_annotations(&pod).is_empty()
        };
        let unconfined = json!({"type": "Unconfined"});
        assert!(warned("unconfined", Value::Null, Value::Null));
        assert!(!warned("unconfined", unconfined.clone(), Value::Null));
        assert!(!warned("unconfined", Value::Null, unconfined.clone()));
        assert!(warned("runtime/default", Value::Null, unconfined.clone()));
        // An invalid profile gets a warning and is refused.
        assert!(warned("bad", Value::Null, Value::Null));
        assert!(warned("localhost/", Value::Null, Value::Null));
        assert!(!warned("bad", unconfined, Value::Null));
    }
}
