//! The first use of a custom resource after a start: until then nothing of it is in memory but its
//! names and paths (docs/design.md 1).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, PATIENCE, definition, establish, gone, lamp, lamps, path_of, schema, until,
    version,
};
use crate::harness::{Answer, Call, Client, Daemon};

const INSPECT: &str = "/taffrail/v1/inspect";
const NO_COLLECTOR: &str = "--enable-garbage-collector=false";

fn others(count: usize) -> Vec<Value> {
    let versions = json!([version("v1", true, &schema())]);
    let one = |at| definition(&format!("other{at}s"), &format!("Other{at}"), &versions);
    (0..count).map(one).collect()
}

/// Returns the custom resources whose caches are in use.
async fn in_use(client: &Client) -> BTreeSet<String> {
    let inspected = client.call(Call::get(INSPECT)).await.expect(200);
    let actors = inspected["actors"].as_array().unwrap().clone();
    let names = actors.iter().filter_map(|actor| {
        let name = actor["name"].as_str()?.strip_prefix("cacher/")?;
        name.ends_with(".example.com").then(|| name.to_owned())
    });
    names.collect()
}

/// Waits until exactly the caches of these resources are in use. One that was used is shown a
/// moment later.
async fn only_in_use<const COUNT: usize>(client: &Client, plurals: [&str; COUNT]) {
    let names = plurals.map(|plural| format!("{plural}.example.com"));
    let expected = BTreeSet::from(names);
    let begun = Instant::now();
    while in_use(client).await != expected {
        assert!(begun.elapsed() < PATIENCE, "{:?}", in_use(client).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Creates lamps with these numbers.
async fn create(client: &Client, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let made = lamp(&format!("l{number:04}"), json!({"colour": "red"}));
        client.call(Call::post(LAMPS, &made)).await.expect(201);
    }
}

/// Waits until the definitions of the start are served.
async fn served(client: &Client) {
    let paths = || Call::get("/apis/example.com/v1");
    until(client, paths, |answer| answer.status == 200).await;
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    let names = items.iter().map(|item| item["metadata"]["name"].as_str());
    names.map(Option::unwrap).collect()
}

/// After a restart all paths are there, and only the resource with objects has a cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_fills_the_caches_of_resources_with_objects_only() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    for one in others(20).iter().chain([&lamps()]) {
        establish(&client, one).await;
    }
    assert_eq!(in_use(&client).await, BTreeSet::new());
    create(&client, 0..5).await;
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    let one = format!("{LAMPS}/l0003");
    let found = until(&client, || Call::get(&one), |answer| answer.status == 200).await;
    assert_eq!(found.json()["spec"]["watts"], 5);
    let resources = client.call(Call::get("/apis/example.com/v1")).await;
    assert_eq!(
        resources.expect(200)["resources"].as_array().unwrap().len(),
        21
    );
    only_in_use(&client, ["lamps"]).await;
    // Who looks for anything in a namespace finds nothing, and fills no cache for that.
    let empty = "/apis/example.com/v1/namespaces/default/other7s";
    let list = client.call(Call::get(&format!("{empty}?limit=500"))).await;
    let list = list.expect(200);
    assert_eq!(names(&list), [""; 0]);
    only_in_use(&client, ["lamps"]).await;
    // A watch from there misses nothing.
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let from = format!("{empty}?watch=true&resourceVersion={version}");
    let mut watch = client.watch(&from).await;
    let made = json!({"apiVersion": "example.com/v1", "kind": "Other7",
        "metadata": {"name": "a"}, "spec": {"colour": "red"}});
    client.call(Call::post(empty, &made)).await.expect(201);
    let event = watch.event().await;
    assert_eq!(
        [&event["type"], &event["object"]["metadata"]["name"]],
        ["ADDED", "a"]
    );
    only_in_use(&client, ["lamps", "other7s"]).await;
}

/// Many clients use a resource for the first time at once, in all ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_share_the_first_use() {
    let mut daemon = Daemon::with(&[NO_COLLECTOR]).await;
    establish(&daemon.client(), &lamps()).await;
    create(&daemon.client(), 0..300).await;
    daemon.stop(Signal::TERM).await;
    daemon.restart().await;
    let client = daemon.client();
    served(&client).await;
    assert_eq!(in_use(&client).await, BTreeSet::new());
    let users = (0..60).map(|number| {
        let client = daemon.client();
        async move {
            match number % 4 {
                0 => {
                    let list = client.call(Call::get(LAMPS)).await.expect(200);
                    let all = names(&list);
                    let old = all.iter().filter(|name| name.starts_with("l0"));
                    assert_eq!(old.count(), 300);
                }
                1 => {
                    let red = format!("{LAMPS}?watch=true&resourceVersion=0");
                    let mut watch = client.watch(&red).await;
                    let mut seen = BTreeSet::new();
                    while seen.len() < 300 {
                        let event = watch.event().await;
                        assert_eq!(event["type"], "ADDED");
                        let name = event["object"]["metadata"]["name"].as_str().unwrap();
                        if name.starts_with("l0") {
                            assert!(seen.insert(name.to_owned()), "{name} came twice");
                        }
                    }
                }
                2 => {
                    let made = lamp(&format!("new{number}"), json!({"colour": "blue"}));
                    client.call(Call::post(LAMPS, &made)).await.expect(201);
                    let list = client.call(Call::get(LAMPS)).await.expect(200);
                    let name = format!("new{number}");
                    assert!(names(&list).contains(&&*name), "{name} is not listed");
                }
                _ => {
                    let one = format!("{LAMPS}/l0{:03}", number * 3);
                    let patch = json!({"spec": {"watts": number + 7}});
                    let patched = client.call(Call::merge_patch(&one, &patch)).await;
                    assert_eq!(patched.expect(200)["spec"]["watts"], number + 7);
                    let read = client.call(Call::get(&one)).await.expect(200);
                    assert_eq!(read["spec"]["watts"], number + 7);
                }
            }
        }
    });
    join_all(users).await;
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    assert_eq!(names(&list).len(), 315);
}

/// CRD-68, CRD-72: a definition goes with its objects, though nobody used it since the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_nobody_used_goes_with_its_objects_crd_68() {
    let mut daemon = Daemon::with(&[NO_COLLECTOR]).await;
    let unused = others(1);
    for one in unused.iter().chain([&lamps()]) {
        establish(&daemon.client(), one).await;
    }
    create(&daemon.client(), 0..30).await;
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    served(&client).await;
    assert_eq!(in_use(&client).await, BTreeSet::new());
    for one in [&lamps(), &unused[0]] {
        client.call(Call::delete(&path_of(one))).await.expect(200);
        gone(&client, &path_of(one)).await;
    }
    gone(&client, LAMPS).await;
    only_in_use(&client, []).await;
    establish(&client, &lamps()).await;
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    assert_eq!(names(&list), [""; 0]);
}

/// A kill while the first clients wait for the cache. The next start serves everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_during_the_first_fill_loses_nothing() {
    let mut daemon = Daemon::with(&[NO_COLLECTOR]).await;
    establish(&daemon.client(), &lamps()).await;
    create(&daemon.client(), 0..400).await;
    for milliseconds in [0, 1, 2, 4, 8, 16] {
        daemon.kill().await;
        daemon.restart().await;
        let client = daemon.client();
        served(&client).await;
        let users = (0..8).map(|_| {
            let client = daemon.client();
            tokio::spawn(async move {
                // The kill may cut the connection.
                client.attempt(Call::get(LAMPS)).await.ok()
            })
        });
        let users: Vec<_> = users.collect();
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        daemon.kill().await;
        for user in users {
            if let Some(answer) = user.await.unwrap() {
                assert_eq!(names(&answer.expect(200)).len(), 400);
            }
        }
        daemon.restart().await;
    }
    let client = daemon.client();
    let list = until(&client, || Call::get(LAMPS), |answer| answer.status == 200).await;
    assert_eq!(names(&list.json()).len(), 400);
}

/// The garbage collector and the namespace controller see objects of resources that nobody used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_see_objects_that_nobody_used() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let unused = others(10);
    for one in unused.iter().chain([&lamps()]) {
        establish(&client, one).await;
    }
    let namespace = json!({"metadata": {"name": "going"}});
    client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await
        .expect(201);
    let going = LAMPS.replace("default", "going");
    let made = lamp("a", json!({"colour": "red"}));
    client.call(Call::post(&going, &made)).await.expect(201);
    let owner = client.call(Call::post(LAMPS, &made)).await.expect(201);
    let mut owned = json!({"apiVersion": "example.com/v1", "kind": "Other3",
        "metadata": {"name": "owned"}, "spec": {"colour": "red"}});
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1",
        "kind": "Lamp", "name": "a", "uid": owner["metadata"]["uid"]}]);
    let dependents = "/apis/example.com/v1/namespaces/default/other3s";
    client
        .call(Call::post(dependents, &owned))
        .await
        .expect(201);
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    served(&client).await;
    client
        .call(Call::delete("/api/v1/namespaces/going"))
        .await
        .expect(200);
    client
        .call(Call::delete(&format!("{LAMPS}/a")))
        .await
        .expect(200);
    gone(&client, &format!("{dependents}/owned")).await;
    gone(&client, "/api/v1/namespaces/going").await;
    let is_empty = |answer: &Answer| names(&answer.json()).is_empty();
    until(&client, || Call::get(&going), is_empty).await;
    // An object of a resource that was empty at the start, with an owner that is gone.
    owned["kind"] = json!("Other5");
    let dependents = "/apis/example.com/v1/namespaces/default/other5s";
    client
        .call(Call::post(dependents, &owned))
        .await
        .expect(201);
    gone(&client, &format!("{dependents}/owned")).await;
    only_in_use(&client, ["lamps", "other3s", "other5s"]).await;
}

/// CRD-91: the definition changes while nobody uses its objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_changes_before_its_first_use_crd_91() {
    let mut daemon = Daemon::with(&[NO_COLLECTOR]).await;
    establish(&daemon.client(), &lamps()).await;
    create(&daemon.client(), 0..3).await;
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    served(&client).await;
    let mut changed = schema();
    changed["properties"]["spec"]["properties"]["shade"] =
        json!({"type": "string", "default": "round"});
    let versions = json!([
        version("v1", true, &changed),
        version("v2", false, &changed)
    ]);
    let change = json!({"spec": {"versions": versions}});
    client
        .call(Call::merge_patch(&path_of(&lamps()), &change))
        .await
        .expect(200);
    let newer = LAMPS.replace("/v1/", "/v2/");
    let list = until(&client, || Call::get(&newer), |answer| answer.status == 200).await;
    let list = list.json();
    assert_eq!(names(&list), ["l0000", "l0001", "l0002"]);
    for item in list["items"].as_array().unwrap() {
        assert_eq!(item["spec"]["shade"], "round");
    }
    client.call(Call::get(DEFINITIONS)).await.expect(200);
}
