//! Panels that tell resources apart show a custom resource, too, once it is used.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::board::{self, Target};
use crate::harness::{Call, Client, Daemon};
use crate::prometheus::{Prometheus, Tools};
use crate::{assert_none, load, queries};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/example.com/v1/lamps";
const LAMPS: &str = "/apis/example.com/v1/namespaces/default/lamps";

/// Longer than some scrapes and rounds of the load take on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

async fn define(client: &Client) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]},
    });
    let created = client.call(Call::post(DEFINITIONS, &definition)).await;
    created.expect(201);
    load::until("the resource is served", async || {
        client.call(Call::get(LAMPS)).await.status == 200
    })
    .await;
}

fn lamp(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": name},
        "spec": {"colour": colour}})
}

/// Reads, watches and writes of the custom resource. The last lamp of each round stays.
async fn round(client: &Client, number: usize, first: &str) {
    let name = format!("lamp-{number}");
    let path = format!("{LAMPS}/{name}");
    let created = client.call(Call::post(LAMPS, &lamp(&name, "red"))).await;
    created.expect(201);
    let initial = format!(
        "{LAMPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan"
    );
    let mut watch = client.watch(&initial).await;
    watch.event().await;
    for read in [
        path.clone(),
        LAMPS.to_owned(),
        ALL.to_owned(),
        format!("{LAMPS}?limit=1"),
        format!("{LAMPS}?resourceVersion=0"),
        // The rings no longer hold it.
        format!("{ALL}?resourceVersionMatch=Exact&resourceVersion={first}"),
    ] {
        client.call(Call::get(&read)).await.expect(200);
    }
    for colour in ["green", "blue"] {
        let patch = json!({"spec": {"colour": colour}});
        let patched = client.call(Call::merge_patch(&path, &patch)).await;
        patched.expect(200);
    }
    watch.event().await;
    let begun = format!("{LAMPS}?watch=true&resourceVersion={first}");
    client.watch(&begun).await.event().await;
}

/// Returns the queries with a series for each resource, except those that are empty in good health.
fn by_resource() -> Vec<Target> {
    let of_trouble = queries::of_trouble();
    let mut targets = board::targets();
    targets.retain(|target| {
        let name = (target.panel.clone(), target.ref_id.clone());
        target.legend.contains("{{resource}}") && !of_trouble.contains(&name)
    });
    targets
}

/// ME-8 to ME-10: every query by resource has a series of the custom one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panels_by_resource_show_custom_resources_me_8() {
    let Some(tools) = Tools::find() else { return };
    let targets = by_resource();
    assert!(targets.len() > 10, "only {} queries", targets.len());
    let daemon = Daemon::with(&load::FLAGS).await;
    let client = daemon.client();
    define(&client).await;
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    let first = list["metadata"]["resourceVersion"].as_str().unwrap();
    let first = first.to_owned();
    let scrapes = json!([{
        "job_name": "taffrail",
        "static_configs": [{ "targets": [daemon.metrics_address().to_string()] }],
    }]);
    let prometheus = Prometheus::start(&tools, &scrapes, &[]).await;
    let loading = tokio::spawn(async move {
        for number in 0.. {
            round(&client, number, &first).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let begun = Instant::now();
    loop {
        let missing = queries::without(&prometheus, &targets, "resource", "lamps").await;
        assert!(
            !loading.is_finished(),
            "a request of the load has failed, see above"
        );
        if missing.is_empty() {
            break;
        }
        if begun.elapsed() > WITHIN {
            assert_none("queries without the custom resource", &missing);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    loading.abort();
}
