//! Measures the cost of defaults for values that are read from a shared store (KV-30). Values of
//! three kinds are decoded as for a cache, with their defaults and as if their kinds had none.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Key, Revision};
use jiff::Timestamp;
use serde_json::{Value, json};
use taffrail::api::object::Object;
use taffrail::api::resource::{Declared, ResourceDefinition};
use taffrail::kinds::definitions::{apps, core};
use taffrail::storage::codec::{Codec, MediaType, StoredForm, TypeName};

use crate::report::{figure, part};

/// The number of values of each kind.
const VALUES: usize = 20_000;
/// The number of rounds. The smallest result counts.
const ROUNDS: usize = 5;

/// Returns the CPU time that this thread has used.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("it begins with a number"))
}

/// Returns an object with typical metadata.
fn object(kind: &str, api_version: &str, rest: Value) -> Object {
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {}});
    let entry = json!({"manager": "kubectl", "operation": "Update", "apiVersion": api_version,
        "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
    let metadata = json!({"name": "web-7d4b9c6f5-x2x7k", "namespace": "default",
        "uid": "6f8d0b5e-3a43-4be5-8c11-0f8b3c9c2b77", "labels": {"app": "web"},
        "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": [entry]});
    let mut members = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    let rest = rest.as_object().unwrap().clone();
    members.as_object_mut().unwrap().extend(rest);
    Object::of(members.as_object().unwrap().clone())
}

fn container() -> Value {
    json!({
        "name": "web",
        "image": "registry.example.com/team/web:1.2.3",
        "args": ["--port=8080"],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "LEVEL", "value": "info"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
    })
}

fn objects() -> [(ResourceDefinition, Object); 3] {
    let volumes = json!([{"name": "config", "configMap": {"name": "web"}}]);
    let spec = json!({"containers": [container()], "volumes": volumes, "nodeName": "node-1",
        "serviceAccountName": "web"});
    let status = json!({"phase": "Running", "podIP": "10.0.0.7", "hostIP": "10.1.0.7",
        "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "containerStatuses": [{"name": "web", "ready": true, "restartCount": 0,
            "image": "registry.example.com/team/web:1.2.3", "imageID": "sha256:0",
            "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let selector = json!({"matchLabels": {"app": "web"}});
    let data = json!({"data": {"settings": "x".repeat(900)}});
    [
        (core::configmaps(), object("ConfigMap", "v1", data)),
        (
            core::pods(),
            object("Pod", "v1", json!({"spec": spec, "status": status})),
        ),
        (
            apps::deployments(),
            object(
                "Deployment",
                "apps/v1",
                json!({"spec": {"selector": selector, "template": template}}),
            ),
        ),
    ]
}

/// Returns the same resource as if it had no defaults.
fn without_defaults(row: &ResourceDefinition) -> ResourceDefinition {
    let behaviour = &row.behaviour;
    row.clone().with(Declared {
        rules: behaviour.rules().clone(),
        columns: behaviour.columns().to_vec(),
        selectable_fields: behaviour.selectable_fields().to_vec(),
        object_type: behaviour.object_type().clone(),
    })
}

/// Returns the CPU time for decoding the value [`VALUES`] times.
fn decode(codec: &Codec, value: &[u8]) -> Duration {
    let key = Key::new("/registry/things/default/web-7d4b9c6f5-x2x7k");
    let start = used();
    for revision in 1..=VALUES {
        let revision = Revision(revision as u64);
        let now = || Timestamp::UNIX_EPOCH;
        let read = codec.decode_foreign(&key, revision, black_box(value), true, now);
        black_box(read.unwrap());
    }
    used() - start
}

/// Measures the decoding of values in each form.
pub fn values() {
    part(&format!("{VALUES} values read from a shared store, CPU"));
    for (row, mut object) in objects() {
        row.fill_in_stored(&mut object, Timestamp::UNIX_EPOCH);
        let plain = Codec::new(without_defaults(&row));
        let row = Arc::new(row);
        let codec = Codec::new(row.clone());
        let name = TypeName::of(&row);
        let in_protobuf = Codec::new(row.clone()).stored_as(StoredForm {
            media_type: MediaType::Protobuf,
            stored: name.clone(),
            served: name,
            read: Vec::new(),
        });
        for (form, value) in [
            ("JSON", codec.encode(&object)),
            ("protobuf", in_protobuf.encode(&object)),
        ] {
            let (mut with, mut without) = (Duration::MAX, Duration::MAX);
            for _ in 0..ROUNDS {
                without = without.min(decode(&plain, &value));
                with = with.min(decode(&codec, &value));
            }
            let each = |all: Duration| all.as_secs_f64() * 1e6 / VALUES as f64;
            let of = format!("{} of {} bytes in {form}", row.kind, value.len());
            figure(&of, each(with), "µs", "");
            let ratio = with.as_secs_f64() / without.as_secs_f64();
            figure(
                &format!("{of}, to that without defaults"),
                ratio,
                "",
                "<= 1.1",
            );
        }
    }
}
