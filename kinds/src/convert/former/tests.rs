use std::collections::BTreeSet;
use std::sync::Arc;

use api::resource::ResourceDefinition;
use serde_json::{Map, Value, json};

use super::*;
use crate::definitions::built_in;

/// Stored values of old versions, and the objects that kube-apiserver 1.36 returns for them.
const RECORDED: &str = include_str!("../../../recorded/old-versions.json");

fn cases() -> Vec<Value> {
    serde_json::from_str(RECORDED).expect("JSON")
}

fn members(value: &Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

/// Returns the rows that can read a stored object.
fn reading(stored: &Value) -> Vec<Arc<ResourceDefinition>> {
    let text = |name: &str| stored[name].as_str().unwrap_or_default();
    let mut rows = built_in();
    rows.retain(|row| {
        let former = row.former_version(text("kind"), text("apiVersion"));
        former.is_some()
    });
    rows
}

/// KV-27: stored values of versions that are no longer served are read as in kube-apiserver.
#[test]
fn values_of_old_versions_are_read_as_kube_apiserver_reads_them_kv_27() {
    let mut read = BTreeSet::new();
    for case in cases() {
        let (name, stored) = (case["name"].as_str().expect("a name"), &case["stored"]);
        let rows = reading(stored);
        let Some(shown) = case["shown"].as_array() else {
            assert!(rows.is_empty(), "{name}");
            continue;
        };
        assert!(!rows.is_empty(), "{name}");
        for row in rows {
            let text = |name: &str| stored[name].as_str().unwrap_or_default();
            let former = row.former_version(text("kind"), text("apiVersion"));
            let former = former.expect("a version");
            let object = former.read(members(stored), &row).expect(name);
            let own = shown
                .iter()
                .find(|shown| shown["apiVersion"] == row.api_version());
            assert_eq!(Some(&Value::Object(object.0)), own, "{name}");
            read.insert((
                row.qualified(),
                row.version.clone(),
                former.api_version.clone(),
            ));
        }
    }
    let rows = built_in();
    let is_served = |former: &&FormerVersion| {
        rows.iter()
            .any(|row| row.api_version() == former.api_version)
    };
    for row in &rows {
        for former in row
            .behaviour
            .former_versions()
            .iter()
            .filter(|former| !is_served(former))
        {
            let one = (
                row.qualified(),
                row.version.clone(),
                former.api_version.clone(),
            );
            assert!(read.contains(&one), "{one:?} has no sample");
        }
    }
}

/// API-255: a served version that is read as another one gets its own defaults first.
#[test]
fn autoscalers_of_the_newer_version_are_read_as_the_older_one() {
    let row = crate::definitions::autoscaling::horizontalpodautoscalers_v1();
    let body = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}});
    let former = &row.behaviour.former_versions()[0];
    let object = former.read(members(&body), &row).expect("an object");
    let spec = &object.0["spec"];
    assert_eq!(object.api_version(), "autoscaling/v1");
    assert_eq!(spec["targetCPUUtilizationPercentage"], 80);
    assert_eq!(spec["minReplicas"], 1);
}
