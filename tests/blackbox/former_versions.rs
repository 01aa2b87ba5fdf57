//! Values of old versions in an etcd, as clusters leave them: the daemon returns each as
//! kube-apiserver 1.36 does, and none makes its list fail.

use std::sync::Arc;

use actors::engine::Engine as _;
use serde_json::{Value, json};
use taffrail::kinds::definitions::built_in;

use crate::backups::{done, path, restored};
use crate::encryption::rotation::{begin, end};
use crate::harness::{Call, Client, Daemon};
use crate::overrides::{cluster, other, put, raw};

/// Values with their keys, and the answers of kube-apiserver 1.36 to reads of them.
const RECORDED: &str = include_str!("../../kinds/recorded/old-versions.json");

struct Case {
    name: String,
    /// Without the prefix of the store.
    key: String,
    stored: Value,
    /// The paths of its object, and what is shown there. None if it can't be read.
    shown: Vec<(Place, Value)>,
}

/// Where an object is shown.
pub struct Place {
    pub collection: String,
    pub object: String,
}

pub fn place(api_version: &str, kind: &str, name: &str) -> Place {
    let rows = built_in();
    let is_this = |row: &&Arc<taffrail::api::resource::ResourceDefinition>| {
        row.kind == kind && row.api_version() == api_version
    };
    let row = rows.iter().find(is_this).unwrap();
    let root = if row.group.is_empty() { "api" } else { "apis" };
    let namespace = if row.is_namespaced() {
        "/namespaces/default"
    } else {
        ""
    };
    let collection = format!("/{root}/{api_version}{namespace}/{}", row.plural);
    Place {
        object: format!("{collection}/{name}"),
        collection,
    }
}

fn cases() -> Vec<Case> {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |case: &Value| {
        let shown = case["shown"].as_array().into_iter().flatten();
        let shown = shown.map(|shown| {
            let (version, kind) = (text(&shown["apiVersion"]), text(&shown["kind"]));
            let place = place(&version, &kind, &text(&shown["metadata"]["name"]));
            (place, shown.clone())
        });
        Case {
            name: text(&case["name"]),
            key: text(&case["key"]).replace("/registry/", ""),
            stored: case["stored"].clone(),
            shown: shown.collect(),
        }
    };
    recorded.iter().map(of).collect()
}

pub fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    object
}

/// Objects are alike, but for what lists leave out.
pub fn is_item(item: &Value, shown: &Value) -> bool {
    let mut shown = shown.clone();
    for name in ["kind", "apiVersion"] {
        shown.as_object_mut().unwrap().remove(name);
    }
    without_version(item) == shown
}

/// Everything is shown as it was recorded: alone, in lists, and in watches.
async fn all_are_shown(client: &Client, cases: &[Case]) {
    for case in cases {
        for (place, shown) in &case.shown {
            let found = client.call(Call::get(&place.object)).await.expect(200);
            assert_eq!(&without_version(&found), shown, "{}", case.name);
            for query in ["", "?resourceVersion=0"] {
                let list = format!("{}{query}", place.collection);
                let list = client.call(Call::get(&list)).await.expect(200);
                let mut items = list["items"].as_array().unwrap().iter();
                assert!(items.any(|item| is_item(item, shown)), "{}", case.name);
            }
            let name = shown["metadata"]["name"].as_str().unwrap();
            let watch = format!(
                "{}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3D{name}",
                place.collection
            );
            let event = client.watch(&watch).await.event().await;
            assert_eq!(event["type"], "ADDED", "{}", case.name);
            assert_eq!(&without_version(&event["object"]), shown, "{}", case.name);
        }
    }
}

/// KV-27, KV-28, ST-60.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_old_versions_are_shown_and_rewritten_kv_27_kv_28() {
    let cluster = cluster().await;
    let etcd = other(&cluster);
    let mut cases = cases();
    cases.retain(|case| !case.shown.is_empty());
    for case in &cases {
        let value = format!("{}\n", case.stored);
        put(&etcd, &case.key, value.as_bytes()).await;
    }
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    // No repair of addresses takes the IPAddress away, of which there is no Service.
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    all_are_shown(&client, &cases).await;

    // They move as they are, and are shown alike elsewhere.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    done(&["backup", path(&file), "--from=etcd", &servers]).await;
    let (elsewhere, _) = restored(&file, &[]).await;
    all_are_shown(&elsewhere.client(), &cases).await;
    drop(elsewhere);

    // A patch that changes nothing writes what is stored today, if today's rules take the object.
    let mut patched = 0;
    for case in &cases {
        let (place, shown) = &case.shown[0];
        let patch = Call::merge_patch(&place.object, &json!({}));
        let answer = client.call(patch).await;
        if answer.status != 200 {
            assert_eq!(answer.status, 422, "{}: {}", case.name, answer.text());
            continue;
        }
        let stored: Value = serde_json::from_slice(&raw(&etcd, &case.key).await).unwrap();
        let is_json_always = case.key.starts_with("apiextensions.k8s.io/");
        if !is_json_always && !case.key.starts_with("mutatingadmission") {
            assert_eq!(stored["apiVersion"], shown["apiVersion"], "{}", case.name);
        }
        patched += 1;
    }
    assert!(patched > cases.len() / 2, "{patched}");

    // Everything else is rewritten at once.
    let output = end(begin(&daemon)).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    for case in &cases {
        let stored = raw(&etcd, &case.key).await;
        let stored: Value = serde_json::from_slice(&stored).unwrap();
        let (place, shown) = &case.shown[0];
        let is_stored_so = shown["apiVersion"] == stored["apiVersion"]
            || case.key.starts_with("apiextensions.k8s.io/")
            || case.key.starts_with("mutatingadmission");
        assert!(is_stored_so, "{}: {stored}", case.name);
        client.call(Call::get(&place.object)).await.expect(200);
    }
    etcd.close().await;
}

/// KV-27, PF-20, WA-33: a version that kube-apiserver 1.36 does not know is unreadable. A plain
/// deletion removes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_versions_that_nobody_knows_are_unreadable_kv_27() {
    let cluster = cluster().await;
    let etcd = other(&cluster);
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    let rows = built_in();
    let mut cases = cases();
    cases.retain(|case| case.shown.is_empty());
    assert!(cases.len() > 30, "{}", cases.len());
    for case in &cases {
        let (prefix, _) = case.key.split_once('/').unwrap();
        let mut below = rows.iter().filter(|row| row.key_prefix == prefix);
        let row = below.next().unwrap();
        let name = case.stored["metadata"]["name"].as_str().unwrap_or("bad");
        let place = place(&row.api_version(), &row.kind, name);
        let list = client.call(Call::get(&place.collection)).await.expect(200);
        let watch = format!(
            "{}?watch=true&resourceVersion={}",
            place.collection,
            list["metadata"]["resourceVersion"].as_str().unwrap()
        );
        let mut watch = client.watch(&watch).await;
        put(&etcd, &case.key, case.stored.to_string().as_bytes()).await;
        let event = watch.event().await;
        assert_eq!(event["type"], "ERROR", "{}: {event}", case.name);
        for path in [&place.object, &place.collection] {
            let refused = client.call(Call::get(path)).await;
            let refused = refused.refusal(500, "InternalError");
            let message = refused["message"].as_str().unwrap();
            assert!(message.contains(&case.key), "{}: {message}", case.name);
        }
        client.call(Call::delete(&place.object)).await.expect(200);
        client.call(Call::get(&place.collection)).await.expect(200);
    }
    etcd.close().await;
}
