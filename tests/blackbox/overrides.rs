//! Resources in a real etcd while the daemon itself stores the rest, and values that other programs
//! write there at the same time.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    At, Change, DataEngine, Engine, Expect, Key, LeaseId, Mutation, Origin, Outcome, Prepared,
};
use bytes::Bytes;
use serde_json::{Value, json};
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body, configmap, version};
use crate::servers::etcd::Cluster;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const TIMEOUT: Duration = Duration::from_secs(30);

pub async fn cluster() -> Cluster {
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    starting.await.unwrap()
}

/// Another program on the same etcd.
pub fn other(cluster: &Cluster) -> Arc<EtcdEngine> {
    EtcdEngine::open(EtcdOptions::new(cluster.urls())).unwrap()
}

fn key(path: &str) -> Key {
    Key::new(format!("/registry/{path}"))
}

async fn exists(engine: &EtcdEngine, path: &str) -> bool {
    let answer = engine.get(key(path), At::Latest).await.unwrap();
    answer.item.is_some()
}

pub async fn put(engine: &EtcdEngine, path: &str, value: &[u8]) {
    let current = engine.get(key(path), At::Latest).await.unwrap().item;
    let mutation = Mutation {
        key: key(path),
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

/// The value of a key.
pub async fn raw(engine: &EtcdEngine, path: &str) -> Bytes {
    let answer = engine.get(key(path), At::Latest).await.unwrap();
    answer.item.unwrap().value
}

/// Sends requests until the answer has this status.
async fn until(client: &Client, path: &str, status: u16) -> Value {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    loop {
        let answer = client.call(Call::get(path)).await;
        if answer.status == status {
            return serde_json::from_str(&answer.text()).unwrap_or_default();
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_is_kept_by_servers_of_its_own_sf_2_sf_40_op_23() {
    let mut cluster = cluster().await;
    let url = cluster.urls().remove(0);
    let overrides = format!("--etcd-servers-overrides=/configmaps#{url},/events#{url}");
    let mut daemon = Daemon::with(&[&overrides]).await;
    let client = daemon.client();
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let created = created.expect(201);
    let secret = json!({ "metadata": { "name": "a" } });
    client.call(Call::post(SECRETS, &secret)).await.expect(201);
    let etcd = other(&cluster);
    assert!(exists(&etcd, "configmaps/default/a").await);
    assert!(!exists(&etcd, "secrets/default/a").await);
    assert!(!exists(&etcd, "namespaces/default").await);

    // Each has versions of its own store, and is watched by them.
    let path = |path: &str, after| format!("{path}?watch=true&resourceVersion={after}");
    let mut watch = client.watch(&path(CONFIGMAPS, version(&created))).await;
    for number in 2..5 {
        let patch = json!({ "data": { "k": number.to_string() } });
        let patched = client
            .call(Call::merge_patch(&configmap("a"), &patch))
            .await;
        let patched = patched.expect(200);
        assert_eq!(version(&watch.event().await["object"]), version(&patched));
    }
    let ready = client.call(Call::get("/readyz?verbose")).await.text();
    for check in ["storage", "etcd-override-0", "etcd-override-readiness-0"] {
        assert!(ready.contains(&format!("[+]{check} ok")), "{ready}");
    }

    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    let read = client.call(Call::get(&configmap("a"))).await.expect(200);
    assert_eq!(read["data"]["k"], "4");
    client
        .call(Call::get(&format!("{SECRETS}/a")))
        .await
        .expect(200);

    // Without its servers this resource can't be written, but all others can.
    cluster.members[0].kill();
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let patched = client
        .call(Call::merge_patch(&configmap("a"), &patch))
        .await;
    assert!(patched.status.is_server_error(), "{}", patched.text());
    let patched = client
        .call(Call::merge_patch(&format!("{SECRETS}/a"), &patch))
        .await;
    patched.expect(200);
    until(&client, "/readyz", 500).await;
    cluster.members[0].restart();
    until(&client, "/readyz", 200).await;
    let patched = client
        .call(Call::merge_patch(&configmap("a"), &patch))
        .await;
    patched.expect(200);
    etcd.close().await;
}

/// KV-21, PF-20, WA-33.
async fn values_of_others_come_and_go(further: &[&str]) {
    let cluster = cluster().await;
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&[servers.as_str()], further].concat()).await;
    let client = daemon.client();
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let created = created.expect(201);
    let etcd = other(&cluster);
    let readable = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"c\",\
        \"namespace\":\"default\",\"uid\":\"u\"},\"data\":{\"k\":\"1\"}}\n";

    let path = format!(
        "{CONFIGMAPS}?watch=true&resourceVersion={}",
        version(&created)
    );
    let mut watch = client.watch(&path).await;
    let mut elsewhere = client
        .watch(&path.replace("/default/", "/kube-system/"))
        .await;
    put(&etcd, "configmaps/default/c", b"k8s\0\x0a\x00").await;
    let event = watch.event().await;
    assert_eq!(event["type"], "ERROR");
    let message = event["object"]["message"].as_str().unwrap();
    assert!(
        message.contains("/registry/configmaps/default/c"),
        "{message}"
    );
    assert_eq!(watch.rest().await, Vec::<Value>::new());
    let refusal = client
        .call(Call::get(CONFIGMAPS))
        .await
        .refusal(500, "InternalError");
    let message = refusal["message"].as_str().unwrap();
    assert!(
        message.contains("/registry/configmaps/default/c"),
        "{message}"
    );
    client.call(Call::get(&configmap("a"))).await.expect(200);
    let own = client
        .call(Call::put(&configmap("a"), &body("a", "2")))
        .await;
    own.expect(200);

    // Whoever can read it writes it anew: with that everything is as it was.
    put(&etcd, "configmaps/default/c", readable.as_bytes()).await;
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={}", version(&list));
    let mut watch = client.watch(&path).await;
    let gone = client.call(Call::delete(&configmap("c"))).await;
    gone.expect(200);
    assert_eq!(watch.event().await["type"], "DELETED");
    // Watches of another namespace were not affected.
    let path = CONFIGMAPS.replace("/default/", "/kube-system/");
    let created = client.call(Call::post(&path, &body("x", "1"))).await;
    created.expect(201);
    assert_eq!(elsewhere.event().await["object"]["metadata"]["name"], "x");
    values_of_other_types_are_unreadable(&client, &etcd).await;
    etcd.close().await;
}

/// A value of the right kind is no object if a field has another type: it is shown in no form, and
/// a plain deletion removes it.
async fn values_of_other_types_are_unreadable(client: &Client, etcd: &EtcdEngine) {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let whole = |metadata: &str, rest: &str| {
        format!(
            "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"c\",\
             \"namespace\":\"default\",\"uid\":\"u\"{metadata}}}{rest}}}\n"
        )
    };
    let mut bytes = whole("", ",\"data\":{\"k\":\"??\"}").into_bytes();
    for byte in bytes.iter_mut().filter(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    for value in [
        whole("", ",\"data\":[1,2]").into_bytes(),
        whole("", ",\"data\":{\"k\":7}").into_bytes(),
        whole(",\"finalizers\":5", "").into_bytes(),
        whole(",\"labels\":{\"a\":[]}", "").into_bytes(),
        whole("", ",\"immutable\":\"yes\"").into_bytes(),
        whole("", ",\"data\":{\"k\":\"\\ud800\"}").into_bytes(),
        bytes,
    ] {
        let shown = String::from_utf8_lossy(&value).into_owned();
        let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
        let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={}", version(&list));
        let mut watch = client.watch(&path).await;
        put(etcd, "configmaps/default/c", &value).await;
        let event = watch.event().await;
        assert_eq!(event["type"], "ERROR", "{shown}: {event}");
        for accept in ["application/json", PROTOBUF, "application/yaml"] {
            let list = Call::get(CONFIGMAPS).header("accept", accept);
            let refused = client.call(list).await;
            assert_eq!(
                refused.status,
                500,
                "{shown} as {accept}: {}",
                refused.text()
            );
            let named = refused.text().contains("/registry/configmaps/default/c");
            assert!(named, "{shown} as {accept}: {}", refused.text());
        }
        client
            .call(Call::get(&configmap("c")))
            .await
            .refusal(500, "InternalError");
        client.call(Call::delete(&configmap("c"))).await.expect(200);
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_others_come_and_go_beside_a_cache() {
    values_of_others_come_and_go(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_others_come_and_go_without_a_cache() {
    values_of_others_come_and_go(&["--watch-cache=false"]).await;
}
