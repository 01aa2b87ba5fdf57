//! The harness of the black-box tests.
//!
//! It has a real daemon, a client that can send anything, HTTP/2 frames and streams, and real
//! kubectls, also in a terminal. Tests pass it flags and requests, and get responses and events. It
//! does not know the daemon's code or any single test.

pub mod client;
pub mod daemon;
pub mod frames;
pub mod hook_server;
pub mod hostile_server;
pub mod kubectl;
pub mod kubelet;
// Suites that have no harness take it from `servers`.
#[allow(clippy::duplicate_mod)]
#[path = "../../servers/not_run.rs"]
pub mod not_run;
pub mod own_network;
pub mod streams;
pub mod terminal;
pub mod upgrades;
pub mod webhook;

use serde_json::{Value, json};

pub use client::{Answer, Call, Client, Lines, Protocol, Target};
pub use daemon::{AS_INSTALLED, Daemon, Options};
pub use kubectl::{Kubectl, cache};

/// Claims and volumes get finalizers, as by kube-apiserver.
pub const PROTECTED: &str = "--enable-admission-plugins=StorageObjectInUseProtection";

/// Nobody takes the finalizers of volumes away, fills aggregated roles or checks policies, as with
/// a kube-apiserver that stands alone.
pub const HELD: &str = "--controllers=*,-clusterrole-aggregation,\
                        -persistentvolumeclaim-protection-controller,\
                        -persistentvolume-protection-controller,\
                        -volumeattributesclass-protection-controller,\
                        -validatingadmissionpolicy-status-controller";

/// Whether a warning says that an object has no effect yet (D-92).
pub fn lacks_effect(warning: &str) -> bool {
    warning.contains("nothing enforces or serves what it says yet")
}

/// The path of the ConfigMaps in the namespace that always exists.
pub const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The least that a deployment has.
pub fn deployment(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": pod_spec() },
    } })
}

/// The least that the spec of a pod has.
pub fn pod_spec() -> Value {
    json!({ "containers": [{ "name": "c", "image": "i" }] })
}

/// The path of a ConfigMap in the namespace that always exists.
pub fn configmap(name: &str) -> String {
    format!("{CONFIGMAPS}/{name}")
}

/// A ConfigMap with one value.
pub fn body(name: &str, value: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "k": value } })
}

/// `metadata.resourceVersion` of an object or a list as a number.
#[track_caller]
pub fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no version in {object}"))
}
