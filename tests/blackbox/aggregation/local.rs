//! The APIServices of what the server itself serves (CN-8 to CN-12).

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::extension::APISERVICES;
use super::{api_service, until_has};
use crate::custom_resources::{DEFINITIONS, definition, establish, gone, one_etcd, until, version};
use crate::harness::{Call, Client, Daemon};

const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
const OF_LAMPS: &str = "v1.example.com";

fn lamps() -> Value {
    let schema = json!({"type": "object"});
    let (one, other) = (version("v1", true, &schema), version("v2", false, &schema));
    definition("lamps", "Lamp", &json!([one, other]))
}

async fn groups(client: &Client) -> Vec<String> {
    let list = client.call(Call::get("/apis")).await.expect(200);
    let groups = list["groups"].as_array().unwrap().iter();
    groups
        .map(|group| group["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn relabel(client: &Client, name: &str, labels: Value) {
    let patch = json!({"metadata": {"labels": labels}});
    let call = Call::merge_patch(&api_service(name), &patch);
    client.call(call).await.expect(200);
}

/// CN-8: one for each group version, with the priorities of kube-apiserver, before `/readyz`
/// passes.
#[tokio::test]
async fn each_built_in_group_version_has_one_when_the_daemon_is_ready_cn_8() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = format!("{APISERVICES}?labelSelector={LABEL}%3Donstart");
    let list = client.call(Call::get(&path)).await.expect(200);
    let found = list["items"].as_array().unwrap().iter().map(|item| {
        let spec = &item["spec"];
        assert!(spec.get("service").is_none());
        assert_eq!(item["status"]["conditions"][0]["reason"], "Local", "{item}");
        let name = item["metadata"]["name"].as_str().unwrap();
        let number = |member: &str| spec[member].as_u64().unwrap();
        format!(
            "{name} {} {}",
            number("groupPriorityMinimum"),
            number("versionPriority")
        )
    });
    let expected = [
        "v1. 18000 1",
        "v1.admissionregistration.k8s.io 16700 15",
        "v1.apiextensions.k8s.io 16700 15",
        "v1.apps 17800 15",
        "v1.authentication.k8s.io 17700 15",
        "v1.authorization.k8s.io 17600 15",
        "v1.autoscaling 17500 15",
        "v1.batch 17400 15",
        "v1.certificates.k8s.io 17300 15",
        "v1.coordination.k8s.io 16500 15",
        "v1.discovery.k8s.io 16200 15",
        "v1.events.k8s.io 17750 15",
        "v1.flowcontrol.apiserver.k8s.io 16100 21",
        "v1.networking.k8s.io 17200 15",
        "v1.node.k8s.io 16300 15",
        "v1.policy 17100 15",
        "v1.rbac.authorization.k8s.io 17000 15",
        "v1.resource.k8s.io 16200 21",
        "v1.scheduling.k8s.io 16600 15",
        "v1.storage.k8s.io 16800 15",
        "v2.autoscaling 17500 30",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// CN-9, CN-12: between two starts they belong to users, and each start puts them right.
#[tokio::test]
async fn built_in_ones_are_put_right_at_each_start_cn_9_cn_12() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let [apps, batch, policy] = ["v1.apps", "v1.batch", "v1.policy"].map(api_service);
    client.call(Call::delete(&apps)).await.expect(200);
    let priority = json!({"spec": {"groupPriorityMinimum": 20_000}});
    client
        .call(Call::merge_patch(&batch, &priority))
        .await
        .expect(200);
    client
        .call(Call::merge_patch(&policy, &priority))
        .await
        .expect(200);
    relabel(&client, "v1.policy", json!({LABEL: null})).await;
    let mut spurious = json!({"metadata": {"name": "v9.apps", "labels": {LABEL: "onstart"}},
        "spec": {"group": "apps", "version": "v9", "groupPriorityMinimum": 1,
            "versionPriority": 1}});
    client
        .call(Call::post(APISERVICES, &spurious))
        .await
        .expect(201);
    spurious["metadata"] = json!({"name": "v8.apps"});
    spurious["spec"]["version"] = "v8".into();
    client
        .call(Call::post(APISERVICES, &spurious))
        .await
        .expect(201);
    // The plain list follows them, everything else stays.
    let listed = groups(&client).await;
    assert_eq!(listed[..3], ["apiregistration.k8s.io", "batch", "policy"]);
    let group = client.call(Call::get("/apis/apps")).await.expect(200);
    let versions = group["versions"].as_array().unwrap().iter();
    let versions: Vec<&str> = versions
        .map(|one| one["version"].as_str().unwrap())
        .collect();
    assert_eq!(versions, ["v9", "v8"]);
    for path in ["/apis/apps/v1", "/apis/apps/v1/deployments"] {
        client.call(Call::get(path)).await.expect(200);
    }
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = Call::get("/apis").header("accept", accept);
    let aggregated = client.call(aggregated).await.expect(200);
    assert_eq!(aggregated["items"][1]["metadata"]["name"], "apps");
    client
        .call(Call::get("/apis/apps/v9"))
        .await
        .refusal(404, "NotFound");

    daemon.stop(Signal::TERM).await;
    daemon.restart().await;
    let client = daemon.client();
    client.call(Call::get(&apps)).await.expect(200);
    let batch = client.call(Call::get(&batch)).await.expect(200);
    assert_eq!(batch["spec"]["groupPriorityMinimum"], 17_400);
    let policy = client.call(Call::get(&policy)).await.expect(200);
    assert_eq!(policy["spec"]["groupPriorityMinimum"], 20_000);
    client
        .call(Call::get(&api_service("v9.apps")))
        .await
        .refusal(404, "NotFound");
    client
        .call(Call::get(&api_service("v8.apps")))
        .await
        .expect(200);
    let listed = groups(&client).await;
    assert_eq!(
        listed[..4],
        ["apiregistration.k8s.io", "policy", "apps", "events.k8s.io"]
    );
}

/// CN-10: those of definitions come and go with what is served, and are kept.
#[tokio::test]
async fn those_of_definitions_are_kept_cn_10() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = format!("{DEFINITIONS}/lamps.example.com");
    establish(&client, &lamps()).await;
    let at = api_service(OF_LAMPS);
    let made = until_has(&client, || Call::get(&at), |_| true).await;
    assert_eq!(made["metadata"]["labels"], json!({LABEL: "true"}));
    let spec = json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000,
        "versionPriority": 100});
    assert_eq!(made["spec"], spec);
    let other = api_service("v2.example.com");
    until_has(&client, || Call::get(&other), |_| true).await;

    let patch = json!({"metadata": {"labels": {"own": "1"}}, "spec": {"versionPriority": 7}});
    client
        .call(Call::merge_patch(&at, &patch))
        .await
        .expect(200);
    let is_back = |found: &Value| found["spec"] == spec;
    let restored = until_has(&client, || Call::get(&at), is_back).await;
    assert_eq!(restored["metadata"]["labels"]["own"], "1");
    assert_eq!(restored["metadata"]["uid"], made["metadata"]["uid"]);
    client.call(Call::delete(&at)).await.expect(200);
    let again = until_has(&client, || Call::get(&at), |_| true).await;
    assert_ne!(again["metadata"]["uid"], made["metadata"]["uid"]);

    let unserved = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    let patch = Call::new("PATCH", &path).body("application/json-patch+json", unserved.to_string());
    client.call(patch).await.expect(200);
    gone(&client, &other).await;
    client.call(Call::delete(&path)).await.expect(200);
    gone(&client, &at).await;
    assert!(!groups(&client).await.contains(&"example.com".to_owned()));
}

/// CN-10: without its label it stays as it is.
#[tokio::test]
async fn one_without_its_label_is_left_alone_cn_10() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    let at = api_service(OF_LAMPS);
    until_has(&client, || Call::get(&at), |_| true).await;
    relabel(&client, OF_LAMPS, json!({LABEL: null})).await;
    let patch = json!({"spec": {"versionPriority": 7}});
    client
        .call(Call::merge_patch(&at, &patch))
        .await
        .expect(200);
    let path = format!("{DEFINITIONS}/lamps.example.com");
    client.call(Call::delete(&path)).await.expect(200);
    // Its sibling goes, so the registrar has seen the deletion.
    gone(&client, &api_service("v2.example.com")).await;
    let left = client.call(Call::get(&at)).await.expect(200);
    assert_eq!(left["spec"]["versionPriority"], 7);
    assert!(groups(&client).await.contains(&"example.com".to_owned()));
}

/// CN-11: one that is there first stays, and two definitions share one.
#[tokio::test]
async fn definitions_share_one_and_an_earlier_one_stays_cn_11() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let own = json!({"metadata": {"name": OF_LAMPS}, "spec": {"group": "example.com",
        "version": "v1", "groupPriorityMinimum": 1200, "versionPriority": 30}});
    client.call(Call::post(APISERVICES, &own)).await.expect(201);
    establish(&client, &lamps()).await;
    let candles = definition(
        "candles",
        "Candle",
        &json!([version("v1", true, &json!({"type": "object"}))]),
    );
    establish(&client, &candles).await;
    let other = api_service("v2.example.com");
    until_has(&client, || Call::get(&other), |_| true).await;
    let at = api_service(OF_LAMPS);
    let found = client.call(Call::get(&at)).await.expect(200);
    assert_eq!(found["spec"]["versionPriority"], 30);
    // Its version is the preferred one by its priority, whatever the other one is.
    let group = client
        .call(Call::get("/apis/example.com"))
        .await
        .expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v2");
    client.call(Call::delete(&at)).await.expect(200);
    let is_own = |found: &Value| found["spec"]["versionPriority"] == 100;
    until_has(&client, || Call::get(&at), is_own).await;
    let path = |plural: &str| format!("{DEFINITIONS}/{plural}.example.com");
    client.call(Call::delete(&path("lamps"))).await.expect(200);
    gone(&client, &other).await;
    client.call(Call::get(&at)).await.expect(200);
    client
        .call(Call::delete(&path("candles")))
        .await
        .expect(200);
    gone(&client, &at).await;
}

/// Daemons on one etcd make the same objects, and none writes what another one has written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_on_one_etcd_do_not_fight_cn_10() {
    let Some((_cluster, servers)) = one_etcd().await else {
        return;
    };
    let (one, other) = (
        Daemon::with(&[&servers]).await,
        Daemon::with(&[&servers]).await,
    );
    let (client, there) = (one.client(), other.client());
    for _ in 0..3 {
        establish(&client, &lamps()).await;
        let at = api_service(OF_LAMPS);
        let made = until_has(&there, || Call::get(&at), |_| true).await;
        // Whoever disagrees would write within this time.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let later = client.call(Call::get(&at)).await.expect(200);
        assert_eq!(later, made);
        let path = format!("{DEFINITIONS}/lamps.example.com");
        there.call(Call::delete(&path)).await.expect(200);
        for client in [&client, &there] {
            until(client, || Call::get(&at), |answer| answer.status == 404).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.call(Call::get(&at)).await.refusal(404, "NotFound");
    }
}

/// Hundreds of versions cost one object each, and a change writes one of them.
#[tokio::test]
async fn many_definitions_have_one_each_and_a_change_concerns_one_cn_10() {
    const COUNT: usize = 100;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let of = |number: usize| {
        let mut one = lamps();
        one["metadata"]["name"] = format!("lamps.g{number}.example.com").into();
        one["spec"]["group"] = format!("g{number}.example.com").into();
        one
    };
    for number in 0..COUNT {
        client
            .call(Call::post(DEFINITIONS, &of(number)))
            .await
            .expect(201);
    }
    let path = format!("{APISERVICES}?labelSelector={LABEL}%3Dtrue");
    let has_all = |list: &Value| list["items"].as_array().unwrap().len() == 2 * COUNT;
    let before = until_has(&client, || Call::get(&path), has_all).await;
    client
        .call(Call::delete(&api_service("v1.g7.example.com")))
        .await
        .expect(200);
    let after = until_has(
        &client,
        || Call::get(&path),
        |list| has_all(list) && list["metadata"] != before["metadata"],
    )
    .await;
    let versions = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                item["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect::<Vec<_>>()
    };
    let (before, after) = (versions(&before), versions(&after));
    let changed = before
        .iter()
        .zip(&after)
        .filter(|(one, other)| one != other);
    assert_eq!(changed.count(), 1);
}
