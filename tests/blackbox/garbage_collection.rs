//! Collection of objects whose owners are gone, without a controller manager (API-114, API-209,
//! SF-16).

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Kubectl, configmap};
use crate::servers::etcd::Cluster;

/// For busy machines. What is awaited takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long something must stay that is not to be collected.
const WHILE: Duration = Duration::from_millis(1500);

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A reference to an object.
fn reference(owner: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
    })
}

/// A reference to an object that never was.
fn absent(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name,
        "uid": "11111111-2222-3333-4444-555555555555"})
}

async fn create(client: &Client, name: &str, owners: &[Value]) -> Value {
    create_at(client, CONFIGMAPS, name, owners).await
}

async fn create_at(client: &Client, path: &str, name: &str, owners: &[Value]) -> Value {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    client.call(Call::post(path, &object)).await.expect(201)
}

async fn delete(client: &Client, name: &str, policy: &str) -> Value {
    let path = format!("{}?propagationPolicy={policy}", configmap(name));
    client.call(Call::delete(&path)).await.expect(200)
}

async fn is_there(client: &Client, path: &str) -> bool {
    let status = client.call(Call::get(path)).await.status.as_u16();
    assert!(matches!(status, 200 | 404), "{path}: {status}");
    status == 200
}

async fn gone(client: &Client, path: &str) {
    let begun = Instant::now();
    while is_there(client, path).await {
        assert!(begun.elapsed() < PATIENCE, "{path} was never collected");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn all_gone(client: &Client, names: &[&str]) {
    for name in names {
        gone(client, &configmap(name)).await;
    }
}

async fn all_stay(client: &Client, names: &[&str]) {
    tokio::time::sleep(WHILE).await;
    for name in names {
        assert!(is_there(client, &configmap(name)).await, "{name} is gone");
    }
}

async fn owners(client: &Client, name: &str) -> Value {
    let object = client.call(Call::get(&configmap(name))).await.expect(200);
    object["metadata"]["ownerReferences"].clone()
}

/// Waits until an object has as many owners.
async fn has_owners(client: &Client, name: &str, count: usize) {
    let begun = Instant::now();
    while owners(client, name).await.as_array().map_or(0, Vec::len) != count {
        assert!(
            begun.elapsed() < PATIENCE,
            "{name} never had {count} owners"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn dependents_go_after_their_owner_in_the_background() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    let other = create(&client, "other", &[]).await;
    let child = create(&client, "child", &[reference(&owner, true)]).await;
    create(&client, "grandchild", &[reference(&child, false)]).await;
    create_at(&client, SECRETS, "s", &[reference(&owner, false)]).await;
    let both = [reference(&owner, true), reference(&other, false)];
    create(&client, "shared", &both).await;
    all_stay(&client, &["child", "grandchild", "shared"]).await;
    let answer = delete(&client, "owner", "Background").await;
    assert_eq!(answer["kind"], "Status", "it is gone at once");
    all_gone(&client, &["owner", "child", "grandchild"]).await;
    gone(&client, &format!("{SECRETS}/s")).await;
    // The owner that is left keeps it, and the reference to the other one is taken away.
    has_owners(&client, "shared", 1).await;
    all_stay(&client, &["shared", "other"]).await;
    assert!(daemon.count("workqueue_adds_total").await > 0);
}

#[tokio::test]
async fn an_owner_waits_in_the_foreground_for_those_that_block_it_api_209() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/f"],
        "ownerReferences": [reference(&owner, true)]}});
    client.call(Call::post(CONFIGMAPS, &held)).await.expect(201);
    let held = json!({"metadata": {"name": "free", "finalizers": ["example.com/f"],
        "ownerReferences": [reference(&owner, false)]}});
    client.call(Call::post(CONFIGMAPS, &held)).await.expect(201);
    create(&client, "blocks", &[reference(&owner, true)]).await;
    let marked = delete(&client, "owner", "Foreground").await;
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    gone(&client, &configmap("blocks")).await;
    all_stay(&client, &["owner", "held", "free"]).await;
    let release = json!({"metadata": {"finalizers": null}});
    let call = Call::merge_patch(&configmap("held"), &release);
    client.call(call).await.expect(200);
    // The one that doesn't block is being deleted, and its owner doesn't wait for it.
    all_gone(&client, &["held", "owner"]).await;
    let free = client.call(Call::get(&configmap("free"))).await.expect(200);
    assert!(free["metadata"]["deletionTimestamp"].is_string(), "{free}");
}

#[tokio::test]
async fn orphans_stay_without_a_reference() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    let other = create(&client, "other", &[]).await;
    create(&client, "a", &[reference(&owner, true)]).await;
    create(
        &client,
        "b",
        &[reference(&owner, true), reference(&other, false)],
    )
    .await;
    let marked = delete(&client, "owner", "Orphan").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    gone(&client, &configmap("owner")).await;
    // They were released before their owner went.
    assert_eq!(owners(&client, "a").await, Value::Null);
    assert_eq!(
        owners(&client, "b").await,
        json!([reference(&other, false)])
    );
    all_stay(&client, &["a", "b", "other"]).await;
    // A ReplicationController says nothing and orphans (API-114).
    let path = "/api/v1/namespaces/default/replicationcontrollers";
    let spec = json!({"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": crate::harness::pod_spec()}});
    let controller = json!({"metadata": {"name": "rc"}, "spec": spec});
    let controller = client.call(Call::post(path, &controller)).await.expect(201);
    let mut owned = reference(&controller, true);
    owned["kind"] = json!("ReplicationController");
    create(&client, "c", &[owned]).await;
    let path = format!("{path}/rc");
    client.call(Call::delete(&path)).await.expect(200);
    gone(&client, &path).await;
    assert_eq!(owners(&client, "c").await, Value::Null);
}

/// A dependent is released that was written a moment before its owner is deleted.
#[tokio::test]
async fn no_orphan_is_overlooked() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for round in 0..50 {
        let name = format!("owner{round}");
        let owner = create(&client, &name, &[]).await;
        let child = format!("child{round}");
        create_at(&client, SECRETS, &child, &[reference(&owner, true)]).await;
        delete(&client, &name, "Orphan").await;
    }
    for round in 0..50 {
        gone(&client, &configmap(&format!("owner{round}"))).await;
    }
    tokio::time::sleep(WHILE).await;
    for round in 0..50 {
        let path = format!("{SECRETS}/child{round}");
        let child = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(child["metadata"]["ownerReferences"], Value::Null, "{round}");
    }
}

#[tokio::test]
async fn an_owner_is_known_by_its_uid_and_a_kind_that_is_not_served_is_left_alone() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    create(&client, "never-was", &[absent("nobody")]).await;
    // An object of that name is there, and it is another one.
    create(&client, "wrong-uid", &[absent("owner")]).await;
    let mut unserved = reference(&owner, true);
    unserved["apiVersion"] = json!("example.com/v1");
    unserved["kind"] = json!("Widget");
    create(&client, "unserved", &[unserved.clone()]).await;
    create(&client, "unserved-too", &[absent("nobody"), unserved]).await;
    let mut version = reference(&owner, true);
    version["apiVersion"] = json!("v2");
    create(&client, "unserved-version", &[version]).await;
    all_gone(&client, &["never-was", "wrong-uid"]).await;
    let left = ["owner", "unserved", "unserved-too", "unserved-version"];
    all_stay(&client, &left).await;
}

#[tokio::test]
async fn circles_go_when_they_are_deleted_and_stay_otherwise() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (one, policy) in [
        ("a", "Background"),
        ("b", "Foreground"),
        ("c", "Foreground"),
    ] {
        let names = [1, 2, 3].map(|number| format!("{one}{number}"));
        // Two or three objects that own each other and block each other's deletion.
        let names = if one == "c" { &names[..] } else { &names[..2] };
        let mut objects = Vec::new();
        for name in names {
            objects.push(create(&client, name, &[]).await);
        }
        for (at, name) in names.iter().enumerate() {
            let owner = &objects[(at + 1) % objects.len()];
            let patch = json!({"metadata": {"ownerReferences": [reference(owner, true)]}});
            let call = Call::merge_patch(&configmap(name), &patch);
            client.call(call).await.expect(200);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        all_stay(&client, &names).await;
        delete(&client, names[0], policy).await;
        if one == "b" {
            // Both wait for each other, which is for ever in Kubernetes.
            let path = format!("{}?propagationPolicy={policy}", configmap(names[1]));
            let answer = client.call(Call::delete(&path)).await;
            assert!(
                matches!(answer.status.as_u16(), 200 | 404),
                "{}",
                answer.text()
            );
        }
        all_gone(&client, &names).await;
    }
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_absent_and_an_event_says_so() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    let path = "/api/v1/namespaces/kube-public/configmaps";
    create_at(&client, path, "child", &[reference(&owner, false)]).await;
    gone(&client, &format!("{path}/child")).await;
    let events = "/api/v1/namespaces/kube-public/events";
    let found = client.call(Call::get(events)).await.expect(200);
    let event = &found["items"][0];
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace", "{found}");
    assert_eq!(event["involvedObject"]["name"], "child");
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: kube-public, name: owner, uid: {uid}] does not exist \
         in namespace \"kube-public\""
    );
    assert_eq!(event["message"], message);

    // A cluster-scoped object can't have an owner in a namespace, and is left alone.
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"name": "low", "ownerReferences": [reference(&owner, false)]},
        "value": 1});
    client.call(Call::post(classes, &class)).await.expect(201);
    // It may own objects in namespaces.
    let class = json!({"metadata": {"name": "high"}, "value": 1});
    let class = client.call(Call::post(classes, &class)).await.expect(201);
    let mut owned = reference(&class, false);
    owned["apiVersion"] = json!("scheduling.k8s.io/v1");
    owned["kind"] = json!("PriorityClass");
    create(&client, "of-class", &[owned]).await;
    all_stay(&client, &["of-class"]).await;
    delete(&client, "owner", "Background").await;
    let path = format!("{classes}/high");
    client.call(Call::delete(&path)).await.expect(200);
    gone(&client, &configmap("of-class")).await;
    tokio::time::sleep(WHILE).await;
    assert!(is_there(&client, &format!("{classes}/low")).await);
}

#[tokio::test]
async fn a_deleted_collection_takes_its_dependents_along() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for policy in ["Background", "Foreground", "Orphan"] {
        for number in 0..20 {
            let owner = create(&client, &format!("owner{number}"), &[]).await;
            let labelled = json!({"metadata": {"labels": {"a": "b"}}});
            let call = Call::merge_patch(&configmap(&format!("owner{number}")), &labelled);
            client.call(call).await.expect(200);
            for child in ["x", "y"] {
                let name = format!("{policy}{child}{number}").to_lowercase();
                create(&client, &name, &[reference(&owner, true)]).await;
            }
        }
        let path = format!("{CONFIGMAPS}?labelSelector=a%3Db");
        let options = json!({"propagationPolicy": policy});
        let call = Call::json("DELETE", &path, &options);
        client.call(call).await.expect(200);
        let expected = if policy == "Orphan" { 40 } else { 0 };
        let begun = Instant::now();
        loop {
            let left = client.call(Call::get(CONFIGMAPS)).await.expect(200);
            let left = left["items"].as_array().unwrap().clone();
            let is_owned = |object: &Value| !object["metadata"]["ownerReferences"].is_null();
            if left.len() == expected && !left.iter().any(is_owned) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{policy}: {} left", left.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_restart_goes_on_with_what_was_begun() {
    let mut daemon = Daemon::with(&["--controllers=-garbage-collector"]).await;
    let client = daemon.client();
    // With the collector elsewhere, the finalizers are set, and nothing happens here.
    let owner = create(&client, "waits", &[]).await;
    create(&client, "blocks", &[reference(&owner, true)]).await;
    let orphaning = create(&client, "orphaning", &[]).await;
    create(&client, "orphan", &[reference(&orphaning, true)]).await;
    let owner = create(&client, "goes", &[]).await;
    create(&client, "left", &[reference(&owner, true)]).await;
    delete(&client, "waits", "Foreground").await;
    delete(&client, "orphaning", "Orphan").await;
    delete(&client, "goes", "Background").await;
    all_stay(&client, &["waits", "blocks", "orphaning", "orphan", "left"]).await;
    daemon.stop(Signal::TERM).await;
    let daemon = crate::harness::Options::default().over(daemon.folder());
    let daemon = daemon.start().await;
    let client = daemon.client();
    all_gone(&client, &["waits", "blocks", "orphaning", "left"]).await;
    assert_eq!(owners(&client, "orphan").await, Value::Null);
}

#[tokio::test]
async fn a_killed_daemon_collects_the_rest_when_it_is_back() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    for number in 0..300 {
        create(
            &client,
            &format!("child{number}"),
            &[reference(&owner, true)],
        )
        .await;
    }
    delete(&client, "owner", "Foreground").await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    gone(&client, &configmap("owner")).await;
    let left = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert_eq!(left["items"], json!([]));
}

/// SF-16: no finalizers, and no collector.
#[tokio::test]
async fn without_garbage_collection_every_policy_is_background_sf_16() {
    let daemon = Daemon::with(&["--enable-garbage-collector=false"]).await;
    let client = daemon.client();
    for policy in ["Foreground", "Orphan", "Background"] {
        let owner = create(&client, "owner", &[]).await;
        let child = policy.to_lowercase();
        create(&client, &child, &[reference(&owner, true)]).await;
        delete(&client, "owner", policy).await;
        assert!(!is_there(&client, &configmap("owner")).await, "{policy}");
    }
    all_stay(&client, &["foreground", "orphan", "background"]).await;
}

#[tokio::test]
async fn without_watch_caches_owners_are_collected_all_the_same() {
    let daemon = Daemon::with(&["--watch-cache=false"]).await;
    let client = daemon.client();
    let owner = create(&client, "owner", &[]).await;
    create(&client, "child", &[reference(&owner, true)]).await;
    delete(&client, "owner", "Foreground").await;
    all_gone(&client, &["child", "owner"]).await;
    let owner = create(&client, "owner", &[]).await;
    create(&client, "child", &[reference(&owner, true)]).await;
    all_stay(&client, &["child"]).await;
    delete(&client, "owner", "Background").await;
    gone(&client, &configmap("child")).await;
}

/// Both work on all objects, and one of them collects.
#[tokio::test]
async fn of_two_daemons_on_one_etcd_one_collects() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = cluster.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let mut first = Daemon::with(&[&servers]).await;
    let mut second = Daemon::with(&[&servers]).await;
    let (one, other) = (first.client(), second.client());
    let owner = create(&one, "owner", &[]).await;
    for number in 0..50 {
        let client = if number % 2 == 0 { &one } else { &other };
        create(
            client,
            &format!("child{number}"),
            &[reference(&owner, true)],
        )
        .await;
    }
    delete(&other, "owner", "Foreground").await;
    gone(&one, &configmap("owner")).await;
    gone(&other, &configmap("child49")).await;

    let owner = create(&one, "owner", &[]).await;
    create(&other, "child", &[reference(&owner, true)]).await;
    let leads = first.count("taffrail_upkeep_leading").await == 1;
    let (leading, left) = match leads {
        true => (&mut first, &mut second),
        false => (&mut second, &mut first),
    };
    assert_eq!(left.count("taffrail_upkeep_leading").await, 0);
    let client = left.client();
    delete(&client, "owner", "Orphan").await;
    leading.stop(Signal::TERM).await;
    gone(&client, &configmap("owner")).await;
    assert_eq!(owners(&client, "child").await, Value::Null);
    for daemon in [first, second] {
        assert!(!daemon.stderr().contains("ERROR"), "{}", daemon.stderr());
    }
}

async fn cascades(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let client = daemon.client();
    for cascade in ["background", "foreground", "orphan"] {
        let owner = create(&client, "owner", &[]).await;
        create(&client, "child", &[reference(&owner, true)]).await;
        let cascade_flag = format!("--cascade={cascade}");
        let said = kubectl
            .ok(&["delete", "configmap", "owner", &cascade_flag])
            .await;
        assert!(said.contains("configmap \"owner\" deleted"), "{said}");
        // kubectl has waited for it.
        assert!(!is_there(&client, &configmap("owner")).await, "{cascade}");
        match cascade {
            "foreground" => assert!(!is_there(&client, &configmap("child")).await),
            "background" => gone(&client, &configmap("child")).await,
            _ => {
                assert_eq!(owners(&client, "child").await, Value::Null);
                delete(&client, "child", "Background").await;
            }
        }
    }
}

#[tokio::test]
async fn kubectl_1_20_cascades() {
    cascades("1.20").await;
}

#[tokio::test]
async fn kubectl_1_32_cascades() {
    cascades("1.32").await;
}

#[tokio::test]
async fn kubectl_1_36_cascades() {
    cascades("1.36").await;
}
