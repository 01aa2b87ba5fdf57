//! Several daemons on one etcd, which all know the same extension (CN-14 to CN-16, AC-13).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::availability::{forwarded_from, patch};
use super::extension::{APISERVICES, Extension};
use super::{GROUP, PATIENCE, api_service, available, until, until_has};
use crate::custom_resources::one_etcd;
use crate::harness::{Call, Client, Daemon, version};

const NAME: &str = "v1.a.example";
const ECHO: &str = "/apis/a.example/v1/namespaces/default/echoes/e";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const MAP: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// The address of the extension. The test closes the way to it.
const ADDRESS: &str = "127.201.7.9";

/// The ends of the messages of its conditions.
const UP: &str = "all checks passed";
const DOWN: &str = "connect: connection refused";

/// Waits until a daemon runs the controllers, and returns its index.
async fn leader(daemons: &[Daemon]) -> usize {
    let begun = Instant::now();
    loop {
        for (index, daemon) in daemons.iter().enumerate() {
            if daemon.count("taffrail_upkeep_leading").await == 1 {
                return index;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "nobody takes over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the condition has this message at all daemons, and requests get this code. Returns
/// the object, which must stay the same while its Service changes.
async fn all_say(daemons: &[Daemon], message: &str, code: u16) -> Value {
    let clients: Vec<Client> = daemons.iter().map(Daemon::client).collect();
    let touch = async |client: &Client, how: &str| {
        let again = json!({"metadata": {"annotations": {"again": format!("{message}-{how}")}}});
        patch(client, &format!("{SERVICES}/extension"), again).await;
    };
    // A server that comes back is checked without this, but in half a minute.
    touch(&clients[0], "first").await;
    for client in &clients {
        let says = |object: &Value| {
            let said = available(object)["message"].as_str().map(str::to_owned);
            said.is_some_and(|said| said.ends_with(message))
        };
        until_has(client, || Call::get(&api_service(NAME)), says).await;
        until(client, || Call::get(ECHO), |answer| answer.status == code).await;
    }
    let now = async |client: &Client| client.call(Call::get(&api_service(NAME))).await.expect(200);
    let object = now(&clients[0]).await;
    for (round, client) in clients.iter().chain(&clients).enumerate() {
        touch(client, &round.to_string()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for client in &clients {
            assert_eq!(now(client).await, object, "{message}");
        }
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_on_one_etcd_agree_about_an_extension_and_write_once_cn_14_cn_16() {
    let Some((_cluster, servers)) = one_etcd().await else {
        return;
    };
    let mut daemons = Vec::new();
    for _ in 0..3 {
        daemons.push(Daemon::with(&[&servers]).await);
    }
    let extension = Extension::start(GROUP).await;
    let mut way = forwarded_from(ADDRESS, extension.port).await;
    let client = daemons[1].client();
    let service = json!({"metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": ADDRESS}});
    client
        .call(Call::post(SERVICES, &service))
        .await
        .expect(201);
    let body = extension.api_service(GROUP, "v1");
    let created = client.call(Call::post(APISERVICES, &body)).await;
    let created = created.expect(201);

    // Up, down and up again.
    let first = all_say(&daemons, UP, 200).await;
    let checks = extension.asked("/apis/a.example/v1");
    let users = checks.iter().map(|one| one.header("x-remote-user"));
    assert!(
        users
            .into_iter()
            .any(|user| user == "system:kube-aggregator")
    );
    way.shutdown().await;
    all_say(&daemons, DOWN, 503).await;
    let mut way = forwarded_from(ADDRESS, extension.port).await;
    all_say(&daemons, UP, 200).await;

    // The certificates of all front proxies are published, and no daemon removes that of another.
    let has_all = |map: &Value| {
        let authorities = map["data"]["requestheader-client-ca-file"].as_str();
        authorities.is_some_and(|all| all.matches("BEGIN CERTIFICATE").count() == 3)
    };
    let map = until_has(&client, || Call::get(MAP), has_all).await;

    // Another daemon takes over, which changes nothing by itself.
    daemons.remove(leader(&daemons).await).kill().await;
    leader(&daemons).await;
    let client = daemons[0].client();
    all_say(&daemons, UP, 200).await;
    way.shutdown().await;
    all_say(&daemons, DOWN, 503).await;
    let _way = forwarded_from(ADDRESS, extension.port).await;
    let last = all_say(&daemons, UP, 200).await;
    assert_eq!(client.call(Call::get(MAP)).await.expect(200), map);

    // Each change was written once. A connection that was open may say first that it broke.
    let since = &created["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!(
        "{APISERVICES}?watch=true&resourceVersion={since}&fieldSelector=metadata.name%3D{NAME}"
    );
    let mut history = client.watch(&path).await;
    let mut conditions: Vec<Value> = Vec::new();
    loop {
        let event = history.event().await;
        assert_eq!(event["type"], "MODIFIED");
        let object = &event["object"];
        let condition = available(object);
        assert_ne!(conditions.last(), Some(&condition));
        conditions.push(condition);
        if version(object) >= version(&last) {
            break;
        }
    }
    conditions.dedup_by(|one, other| one["reason"] == other["reason"]);
    let reasons = conditions.iter().map(|one| one["reason"].as_str().unwrap());
    let [up, down] = ["Passed", "FailedDiscoveryCheck"];
    // A daemon may learn of the APIService before it learns of its Service.
    let reasons = reasons.skip_while(|reason| *reason != up);
    assert_eq!(reasons.collect::<Vec<_>>(), [up, down, up, down, up]);
    assert!(version(&first) < version(&last));
}
