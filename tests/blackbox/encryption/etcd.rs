//! Two daemons with the same keys over a real etcd.

use actors::engine::{At, DataEngine, Engine as _, Prefix, RangeRequest};
use base64::Engine as _;
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};

use super::*;
use crate::encryption::rotation::{begin, end};
use crate::servers::etcd::Cluster;

/// What etcd holds of the secrets.
async fn stored(cluster: &Cluster) -> Vec<Vec<u8>> {
    let engine = EtcdEngine::open(EtcdOptions::new(cluster.urls())).unwrap();
    let request = RangeRequest {
        prefix: Prefix::new("/registry/secrets/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let items = engine.range(request).await.unwrap().items;
    engine.close().await;
    items.iter().map(|item| item.value.to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_on_one_etcd_share_keys_and_change_them_together_en_1_st_56() {
    const TEXT: &str = "correct horse battery staple";
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = cluster.await.unwrap();
    let keys = Keys::new(&[("secrets", &["aesgcm:old=1"])]);
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let arguments = [servers.as_str(), &keys.flag()];
    let (first, mut second) = (
        Daemon::with(&arguments).await,
        Daemon::with(&arguments).await,
    );
    let mut created = Vec::new();
    for number in 0..30 {
        created.push(
            create(
                &first.client(),
                SECRETS,
                &secret(&format!("s{number}"), TEXT),
            )
            .await,
        );
    }
    for value in stored(&cluster).await {
        assert!(value.starts_with(b"k8s:enc:aesgcm:v1:old:"), "{value:?}");
        let encoded = BASE64_STANDARD.encode(TEXT);
        for clear in [TEXT.as_bytes(), encoded.as_bytes()] {
            assert!(!value.windows(clear.len()).any(|window| window == clear));
        }
    }
    let read = second
        .client()
        .call(Call::get(&secret_path("s7")))
        .await
        .expect(200);
    assert_eq!(read, created[7]);

    // First both learn to read by the new key, then they write by it.
    for providers in [
        ["aesgcm:old=1", "secretbox:new=2"],
        ["secretbox:new=2", "aesgcm:old=1"],
    ] {
        keys.write(&[("secrets", &providers)]);
        reload(&first, "has been reloaded").await;
        reload(&second, "has been reloaded").await;
    }
    let output = end(begin(&second)).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains(" resources, rewrote 30\n"), "{stdout}");
    // Etcd's history is not one daemon's to forget.
    assert!(
        stdout.contains("The history of base needs the old keys until its servers have"),
        "{stdout}"
    );
    for value in stored(&cluster).await {
        assert!(value.starts_with(b"k8s:enc:secretbox:v1:new:"), "{value:?}");
    }

    keys.write(&[("secrets", &["secretbox:new=2"])]);
    reload(&first, "has been reloaded").await;
    second.kill().await;
    second.restart().await;
    for daemon in [&first, &second] {
        let list = until(&daemon.client(), || Call::get(SECRETS), 200).await;
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 30);
        assert!(items.iter().all(|item| item["data"] == created[0]["data"]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_lacks_a_key_shows_nothing_wrong_and_recovers_once_it_has_it_pf_20() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = cluster.await.unwrap();
    let known = Keys::new(&[("secrets", &["aesgcm:old=1"])]);
    let ahead = Keys::new(&[("secrets", &["aesgcm:new=2", "aesgcm:old=1"])]);
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let behind = Daemon::with(&[&servers, &known.flag()]).await;
    let first = Daemon::with(&[&servers, &ahead.flag()]).await;
    create(&behind.client(), SECRETS, &secret("a", "1")).await;
    let list = behind.client().call(Call::get(SECRETS)).await.expect(200);
    let watch = format!("{SECRETS}?watch=1&resourceVersion={}", version(&list));
    let mut watch = behind.client().watch(&watch).await;

    // Written by a key that one of them has never heard of.
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let patched = first
        .client()
        .call(Call::merge_patch(&secret_path("a"), &patch))
        .await;
    let patched = patched.expect(200);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(500))
    );
    let message = event["object"]["message"].as_str().unwrap();
    assert!(
        message.contains("k8s:enc:aesgcm:v1:new: this key is not"),
        "{message}"
    );
    let client = behind.client();
    client
        .call(Call::get(&secret_path("a")))
        .await
        .refusal(500, "InternalError");
    client
        .call(Call::get(SECRETS))
        .await
        .refusal(500, "InternalError");
    let patch = Call::merge_patch(&secret_path("a"), &json!({"data": null}));
    client.call(patch).await.refusal(500, "InternalError");

    known.write(&[("secrets", &["aesgcm:new=2", "aesgcm:old=1"])]);
    reload(&behind, "has been reloaded").await;
    let list = until(&client, || Call::get(SECRETS), 200).await;
    assert_eq!(version(&list["items"][0]), version(&patched));
    let watch = format!("{SECRETS}?watch=1&resourceVersion={}", version(&list));
    let mut watch = client.watch(&watch).await;
    first
        .client()
        .call(Call::delete(&secret_path("a")))
        .await
        .expect(200);
    assert_eq!(watch.event().await["type"], "DELETED");
}
