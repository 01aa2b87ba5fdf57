//! Profiles of AppArmor: once annotations, now fields.

use serde_json::{Value, json};

use api::object::Object;

use crate::defaults::{items, member, member_or_new};

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Gives containers the profiles of their annotations, if they have none and the pod's is another
/// one.
pub(super) fn apply(object: &mut Object) {
    if object.text(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let annotations = object
        .at(&["metadata", "annotations"])
        .and_then(Value::as_object);
    let profiles: Vec<(String, Value)> = annotations
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
            let found = profiles.iter().find(|(of, _)| Some(of.as_str()) == name);
            let Some((_, profile)) = found.filter(|(_, profile)| Some(profile) != of_pod.as_ref())
            else {
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

/// The names of the containers of a new pod that get their profiles from annotations, in order.
pub fn profiles_of_annotations(object: &Object) -> Vec<String> {
    let annotations = object.at(&["metadata", "annotations"]);
    let annotations = annotations.and_then(Value::as_object);
    let mut keys = annotations.into_iter().flatten().map(|(key, _)| key);
    if !keys.any(|key| key.starts_with(ANNOTATION)) {
        return Vec::new();
    }
    let mut applied = object.clone();
    apply(&mut applied);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = |object: &Object, list: &str| {
        let found = object.at(&["spec", list]).and_then(Value::as_array);
        found.cloned().unwrap_or_default()
    };
    let changed = lists.iter().flat_map(|list| {
        let pairs = containers(object, list)
            .into_iter()
            .zip(containers(&applied, list));
        pairs.filter(|(before, after)| before != after)
    });
    let name = |container: &Value| container.get("name")?.as_str().map(str::to_owned);
    changed.filter_map(|(_, after)| name(&after)).collect()
}

/// The field that means the same as an annotation.
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
