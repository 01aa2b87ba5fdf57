//! Values in the store: in the configured form, in another form, or unreadable.

use std::sync::Arc;

use actors::engine::{
    At, Change, Engine, Expect, Key, LeaseId, Mutation, Origin, Outcome, Prepared,
};
use bytes::Bytes;
use rustix::process::Signal;
use serde_json::{Value, json};
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::harness::{CONFIGMAPS, Call, Daemon, Kubectl, Options, body, configmap, version};

/// Stops the daemon and opens its store instead.
async fn opened(daemon: &mut Daemon) -> Arc<dyn Engine> {
    daemon.stop(Signal::TERM).await;
    EmbeddedEngine::open(EmbeddedOptions::new(daemon.data())).unwrap()
}

fn key(name: &str) -> Key {
    Key::new(format!("/registry/configmaps/default/{name}"))
}

async fn raw(engine: &dyn Engine, name: &str) -> Bytes {
    let answer = engine.get(key(name), At::Latest).await.unwrap();
    answer.item.unwrap().value
}

async fn put(engine: &dyn Engine, name: &str, value: &[u8]) {
    put_at(engine, key(name), value).await;
}

async fn put_at(engine: &dyn Engine, key: Key, value: &[u8]) {
    let current = engine.get(key.clone(), At::Latest).await.unwrap().item;
    let mutation = Mutation {
        key,
        expect: current.map_or(Expect::Absent, |item| Expect::Unchanged(item.revision)),
        change: Change::Put {
            value: Bytes::copy_from_slice(value),
            lease: LeaseId::default(),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    let outcome = engine.commit(mutation).await.unwrap();
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_store_of_one_form_is_served_in_another_and_moves_over_by_writes_kv_23_st_60() {
    let mut daemon = Daemon::with(&["--storage-media-type=application/yaml"]).await;
    let client = daemon.client();
    let mut versions = Vec::new();
    for name in ["a", "b", "c"] {
        let created = client
            .call(Call::post(CONFIGMAPS, &body(name, "yes")))
            .await;
        versions.push(version(&created.expect(201)));
    }
    let engine = opened(&mut daemon).await;
    let yaml = String::from_utf8(raw(&*engine, "a").await.to_vec()).unwrap();
    assert!(
        yaml.starts_with("apiVersion: v1\n") && !yaml.contains("resourceVersion"),
        "{yaml}"
    );
    engine.close().await;
    drop(engine);

    let mut daemon = Options::default().over(daemon.folder()).start().await;
    let client = daemon.client();
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.iter().map(version).collect::<Vec<_>>(), versions);
    assert_eq!(items[0]["data"]["k"], "yes");
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={}", version(&list));
    let mut watch = client.watch(&path).await;
    // A PUT of what is there already, and no more than one of them writes.
    let mut same = items[0].clone();
    same["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let first = client
        .call(Call::put(&configmap("a"), &same))
        .await
        .expect(200);
    let second = client
        .call(Call::put(&configmap("a"), &same))
        .await
        .expect(200);
    assert!(version(&first) > versions[0]);
    assert_eq!(version(&second), version(&first));
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], version(&event["object"])),
        (&json!("MODIFIED"), version(&first))
    );
    let patch = json!({ "data": { "k": "no" } });
    let patched = client
        .call(Call::merge_patch(&configmap("b"), &patch))
        .await;
    assert_eq!(patched.expect(200)["data"]["k"], "no");
    let engine = opened(&mut daemon).await;
    for (name, is_json) in [("a", true), ("b", true), ("c", false)] {
        assert_eq!(
            raw(&*engine, name).await.starts_with(b"{"),
            is_json,
            "{name}"
        );
    }
    engine.close().await;
}

/// The start of what kube-apiserver stores unless it is told otherwise.
const PROTOBUF: &[u8] = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x00\x1a\x00\x22\x00";

/// KV-21, PF-20, RG-15, ME-8.
#[tokio::test]
async fn values_of_others_are_counted_and_deleted_by_name_and_never_lost_or_overwritten() {
    // Without the ConfigMap that an issuer brings.
    let mut daemon = Daemon::with(&["--service-account-issuer="]).await;
    let client = daemon.client();
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    created.expect(201);
    let engine = opened(&mut daemon).await;
    put(&*engine, "b", PROTOBUF).await;
    put(&*engine, "c", b"no object").await;
    engine.close().await;
    drop(engine);

    daemon.restart().await;
    let client = daemon.client();
    // These, and the one by which extensions know the daemon.
    let counted = "apiserver_storage_objects{resource=\"configmaps\"} 4";
    let begun = std::time::Instant::now();
    let objects = loop {
        // They are counted now and then, for the first time soon after the start.
        let page = client.call(Call::get("/metrics")).await.text();
        if page.contains(counted) {
            break page;
        }
        assert!(begun.elapsed().as_secs() < 30, "{page}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let unread = "taffrail_unreadable_values{group=\"\",resource=\"configmaps\"} 2";
    assert!(objects.contains(unread), "{objects}");
    assert!(daemon.stderr().contains("/registry/configmaps/default/b"));

    let says = |refusal: &Value, name: &str| {
        let message = refusal["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains(&format!("/configmaps/default/{name}")),
            "{message}"
        );
        message
    };
    let list = client.call(Call::get(CONFIGMAPS)).await;
    says(&list.refusal(500, "InternalError"), "b");
    let nameless = client.call(Call::get(&configmap("b"))).await;
    says(&nameless.refusal(500, "InternalError"), "b");
    for call in [
        Call::get(&configmap("c")),
        Call::put(&configmap("c"), &body("c", "1")),
        Call::merge_patch(&configmap("c"), &json!({ "data": {} })),
    ] {
        let refusal = client.call(call).await.refusal(500, "InternalError");
        says(&refusal, "c");
    }
    let taken = client.call(Call::post(CONFIGMAPS, &body("c", "1"))).await;
    taken.refusal(409, "AlreadyExists");
    client.call(Call::get(&configmap("a"))).await.expect(200);
    let mut watch = client.watch(&format!("{CONFIGMAPS}?watch=true")).await;
    let event = watch.event().await;
    assert_eq!(event["type"], "ERROR");
    says(&event["object"], "b");
    assert_eq!(watch.rest().await, Vec::<Value>::new());

    let list = client.call(Call::get(CONFIGMAPS)).await;
    let at = version(&client.call(Call::get(&configmap("a"))).await.expect(200)) + 2;
    list.refusal(500, "InternalError");
    let mut watch = client
        .watch(&format!(
            "{CONFIGMAPS}?watch=true&fieldSelector=metadata.name=a&resourceVersion={at}"
        ))
        .await;
    let kubectl = Kubectl::find("1.32", &daemon).expect("tests/run.sh fetches it");
    let said = kubectl.ok(&["delete", "configmap", "b"]).await;
    assert_eq!(said, "configmap \"b\" deleted\n");
    let gone = client.call(Call::delete(&configmap("c"))).await.expect(200);
    let (status, name) = (&gone["status"], &gone["details"]["name"]);
    assert_eq!((status, name), (&json!("Success"), &json!("c")));
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let created = client.call(Call::post(CONFIGMAPS, &body("c", "1"))).await;
    created.expect(201);
    // A watch of another object did not notice.
    let patch = json!({ "data": { "k": "2" } });
    let patched = client
        .call(Call::merge_patch(&configmap("a"), &patch))
        .await;
    let patched = patched.expect(200);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], version(&event["object"])),
        (&json!("MODIFIED"), version(&patched))
    );
}

/// A value that was stored under older rules stays, and new ones like it are refused (http.md 6.2).
#[tokio::test]
async fn what_is_stored_and_invalid_today_can_be_updated_and_not_made_anew_api_146() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = |name: &str, value: &str| {
        let values = json!([{ "key": "k", "operator": "In", "values": [value] }]);
        let term = json!({ "labelSelector": { "matchExpressions": values }, "topologyKey": "t" });
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        json!({
            "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "a": "b" } },
                "template": {
                    "metadata": { "labels": { "a": "b" } },
                    "spec": {
                        "containers": [{ "name": "c", "image": "i" }],
                        "affinity": { "podAffinity": { required: [term] } },
                    },
                },
            },
        })
    };
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    for name in ["old", "new"] {
        let call = Call::post(DEPLOYMENTS, &deployment(name, "valid-value"));
        client.call(call).await.expect(201);
    }
    let engine = opened(&mut daemon).await;
    let key = Key::new("/registry/deployments/default/old");
    let item = engine.get(key.clone(), At::Latest).await.unwrap().item;
    let text = String::from_utf8(item.unwrap().value.to_vec()).unwrap();
    let text = text.replace("valid-value", "-not valid-");
    put_at(&*engine, key, text.as_bytes()).await;
    engine.close().await;
    drop(engine);

    let daemon = Options::default().over(daemon.folder()).start().await;
    let client = daemon.client();
    let old = format!("{DEPLOYMENTS}/old");
    let scaled = json!({ "spec": { "replicas": 3 } });
    let answer = client.call(Call::merge_patch(&old, &scaled)).await;
    assert_eq!(answer.expect(200)["spec"]["replicas"], 3);
    // Another value of the same kind is as good.
    let mut other = deployment("old", "-not either-");
    client.call(Call::put(&old, &other)).await.expect(200);
    // Other faults count.
    other["spec"]["template"]["spec"]["containers"][0]["name"] = "-".into();
    client.call(Call::put(&old, &other)).await.expect(422);
    let new = format!("{DEPLOYMENTS}/new");
    let invalid = deployment("new", "-not valid-");
    let refused = client.call(Call::put(&new, &invalid)).await.expect(422);
    let at = "spec.template.spec.affinity.podAffinity.\
              requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.\
              matchExpressions[0].values[0]";
    assert_eq!(refused["details"]["causes"][0]["field"], at);
    let third = Call::post(DEPLOYMENTS, &deployment("third", "-not valid-"));
    client.call(third).await.expect(422);
}
