//! The subresources `ephemeralcontainers` and `resize` of pods (API-222).

use api::object::{Object, put};
use serde_json::{Map, Value};

/// The fields of a container that a resize may change.
const RESIZED: [&str; 2] = ["resources", "resizePolicy"];

/// Keeps the stored spec of a pod except its ephemeral containers.
pub fn prepare_ephemeral_containers(object: &mut Object, stored: &Object) {
    const CONTAINERS: &str = "ephemeralContainers";
    let mut spec = members(stored.at(&["spec"]));
    replace(&mut spec, CONTAINERS, object.at(&["spec", CONTAINERS]));
    put(object, &["spec"], Value::Object(spec));
}

/// Keeps the stored spec of a pod except the resources of its containers. If containers are added,
/// removed or renamed, the list stays as sent and validation refuses it.
pub fn prepare_resize(object: &mut Object, stored: &Object) {
    let mut spec = members(stored.at(&["spec"]));
    for list in ["containers", "initContainers"] {
        let of = |pod: &Object| {
            let containers = pod.at(&["spec", list]).and_then(Value::as_array);
            containers.cloned().unwrap_or_default()
        };
        let (new, old) = (of(object), of(stored));
        if new.len() != old.len() {
            return;
        }
        if !new.is_empty() {
            spec.insert(list.to_owned(), Value::Array(resized(new, old)));
        }
    }
    replace(&mut spec, "resources", object.at(&["spec", "resources"]));
    put(object, &["spec"], Value::Object(spec));
}

fn resized(new: Vec<Value>, old: Vec<Value>) -> Vec<Value> {
    let mut pairs = new.iter().zip(&old);
    if pairs.any(|(new, old)| new.get("name") != old.get("name")) {
        return new;
    }
    let pairs = new.iter().zip(old);
    let containers = pairs.map(|(new, old)| {
        let mut container = members(Some(&old));
        for part in RESIZED {
            replace(&mut container, part, new.get(part));
        }
        Value::Object(container)
    });
    containers.collect()
}

fn members(value: Option<&Value>) -> Map<String, Value> {
    let members = value.and_then(Value::as_object);
    members.cloned().unwrap_or_default()
}

fn replace(members: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    match value {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
}
