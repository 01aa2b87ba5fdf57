//! Resources in other etcds (SF-2, OP-11, OP-23).

use etcd_client::{Client, GetOptions};
use serde_json::json;

use crate::harness::{Call, Daemon};
use crate::servers::etcd::Cluster;
use crate::turn;

/// The keys that a cluster holds below the daemon's prefix.
async fn keys(cluster: &Cluster) -> Vec<String> {
    let mut etcd = Client::connect(cluster.urls(), None).await.unwrap();
    let options = GetOptions::new().with_prefix().with_keys_only();
    let read = etcd.get("/registry/", Some(options)).await.unwrap();
    let keys = read.kvs().iter().map(|kv| kv.key_str().unwrap().to_owned());
    keys.collect()
}

async fn create_both(daemon: &Daemon) {
    let client = daemon.client();
    let configmap = json!({ "metadata": { "name": "a" } });
    let path = "/api/v1/namespaces/default/configmaps";
    client.call(Call::post(path, &configmap)).await.expect(201);
    let event = json!({
        "metadata": { "name": "e" },
        "involvedObject": { "namespace": "default" },
    });
    let path = "/api/v1/namespaces/default/events";
    client.call(Call::post(path, &event)).await.expect(201);
    let list = client.call(Call::get(path)).await.expect(200);
    assert_eq!(list["items"][0]["metadata"]["name"], "e");
}

/// Beside a base in etcd, and beside the embedded engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_kept_by_servers_of_their_own_sf_2_op_11_op_23() {
    let _turn = turn().await;
    let start = || tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let (base, other) = (start().await.unwrap(), start().await.unwrap());
    // The same servers, in another order and twice, are one store.
    let url = &other.urls()[0];
    let overrides = format!("--etcd-servers-overrides=/events#{url};{url},/pods#{url}");
    let servers = format!("--etcd-servers={}", base.urls()[0]);

    let daemon = Daemon::with(&[&servers, &overrides]).await;
    create_both(&daemon).await;
    let is_event = |key: &String| key.starts_with("/registry/events/");
    let in_base = keys(&base).await;
    assert!(in_base.contains(&"/registry/configmaps/default/a".to_owned()));
    assert!(!in_base.iter().any(is_event), "{in_base:?}");
    assert_eq!(keys(&other).await, ["/registry/events/default/e"]);
    let health = daemon
        .client()
        .call(Call::get("/readyz?verbose"))
        .await
        .text();
    for check in [
        "[+]etcd ok",
        "[+]etcd-readiness ok",
        "[+]etcd-override-0 ok",
        "[+]etcd-override-readiness-0 ok",
    ] {
        assert!(health.contains(check), "no {check} in {health}");
    }
    assert!(!health.contains("override-1"), "{health}");
    drop(daemon);

    let path = "/api/v1/namespaces/default/events/e";
    let daemon = Daemon::with(&[&overrides]).await;
    daemon.client().call(Call::delete(path)).await.expect(200);
    create_both(&daemon).await;
    assert_eq!(keys(&other).await, ["/registry/events/default/e"]);
    let health = daemon
        .client()
        .call(Call::get("/readyz?verbose"))
        .await
        .text();
    assert!(health.contains("[+]storage ok"), "{health}");
    assert!(health.contains("[+]etcd-override-0 ok"), "{health}");
}
