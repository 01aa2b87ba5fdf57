//! Our daemon, and a real kube-apiserver, over the program.

use serde_json::json;

use super::*;
use crate::harness::{Call, Daemon, Target, version};
use crate::servers::etcd::{Cluster, OURS};
use crate::servers::kube_apiserver::{KubeApiserver, TOKEN};
use crate::servers::programs::named;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn configmap(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_daemon_keeps_its_objects_in_it() {
    let mut etcd = Etcd::start(&[]);
    let servers = format!("--etcd-servers={}", etcd.url());
    let daemon = Daemon::with(&[&servers, "--storage-backend=etcd3"]).await;
    let client = daemon.client();
    let mut watch = client
        .watch(&format!("{CONFIGMAPS}?watch=true&resourceVersion=0"))
        .await;
    let created = client.call(Call::post(CONFIGMAPS, &configmap("one"))).await;
    let created = created.expect(201);
    while watch.event().await["object"]["metadata"]["name"] != "one" {}
    assert_eq!(etcd.data_directory()["state"], "served");
    drop(daemon);
    etcd.kill();

    let again = Etcd::over(Arc::clone(&etcd.folder), &[]);
    let servers = format!("--etcd-servers={}", again.url());
    let daemon = Daemon::with(&[&servers, "--storage-backend=etcd3"]).await;
    let path = format!("{CONFIGMAPS}/one");
    let shown = daemon.client().call(Call::get(&path)).await.expect(200);
    assert_eq!(version(&shown), version(&created));
    assert_eq!(shown["metadata"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_keeps_its_objects_in_it() {
    let Some(program) = named("TAFFRAIL_KUBE_APISERVER") else {
        return;
    };
    let mut cluster = Cluster::single(OURS);
    let mut uid = Value::Null;
    for round in 0..2 {
        let mut server = KubeApiserver::spawn(&program, &cluster);
        let client = Target::new(server.address(), Some(TOKEN.to_owned()), None).client();
        let asked = async || client.attempt(Call::get("/readyz")).await;
        server
            .until(async || asked().await.is_ok_and(|answer| answer.status == 200))
            .await;
        let path = format!("{CONFIGMAPS}/kept");
        if round == 0 {
            let listed = client.call(Call::get(CONFIGMAPS)).await.expect(200);
            let from = version(&listed);
            let mut watch = client
                .watch(&format!("{CONFIGMAPS}?watch=true&resourceVersion={from}"))
                .await;
            let created = client
                .call(Call::post(CONFIGMAPS, &configmap("kept")))
                .await;
            uid = created.expect(201)["metadata"]["uid"].clone();
            let patch = json!({"data": {"a": "b"}});
            client
                .call(Call::merge_patch(&path, &patch))
                .await
                .expect(200);
            let gone = configmap("gone");
            client.call(Call::post(CONFIGMAPS, &gone)).await.expect(201);
            let deleted = client
                .call(Call::delete(&format!("{CONFIGMAPS}/gone")))
                .await;
            deleted.expect(200);
            let mut kinds = Vec::new();
            while kinds.last().is_none_or(|kind| kind != "DELETED") {
                kinds.push(watch.event().await["type"].as_str().unwrap().to_owned());
            }
            assert!(
                kinds.ends_with(&["ADDED".to_owned(), "DELETED".to_owned()]),
                "{kinds:?}"
            );
        }
        let kept = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(kept["metadata"]["uid"], uid);
        assert_eq!(kept["data"], json!({"a": "b"}));
        drop(server);
        cluster.members[0].restart();
        cluster.members[0].wait();
    }
}
