//! What every test here stands on: a real daemon, a client that can send anything, real kubectls.

pub mod client;
pub mod daemon;
pub mod frames;
pub mod kubectl;
pub mod streams;

use serde_json::{Value, json};

pub use client::{Call, Client, Protocol, Target};
pub use daemon::{Daemon, Options};
pub use kubectl::{Kubectl, cache};

/// The collection of ConfigMaps of the namespace that is always there.
pub const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The path of a ConfigMap of the namespace that is always there.
pub fn configmap(name: &str) -> String {
    format!("{CONFIGMAPS}/{name}")
}

/// A ConfigMap with one datum.
pub fn body(name: &str, value: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "k": value } })
}

/// `metadata.resourceVersion` of an object or a list as the number it is.
#[track_caller]
pub fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no version in {object}"))
}
