//! Owners and namespaces of custom objects: what is collected, what stays, and what is waited for
//! (API-114, API-225).

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, conditioned, definition, establish, gone, lamp, lamps, over_each,
    over_each_with, path_of, schema, until, version,
};
use crate::harness::{Answer, CONFIGMAPS, Call, Client, Daemon, configmap};

const HALLS: &str = "/apis/example.com/v1/halls";

/// How long something must stay that is not to be collected.
const WHILE: Duration = Duration::from_millis(1500);

/// A definition of a resource of the cluster.
fn halls() -> Value {
    let mut halls = definition("halls", "Hall", &json!([version("v1", true, &schema())]));
    halls["spec"]["scope"] = json!("Cluster");
    halls
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}

fn owned(mut object: Value, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    object["metadata"]["ownerReferences"] = json!(references);
    object
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    client.call(Call::post(path, object)).await.expect(201)
}

async fn new_lamp(client: &Client, name: &str, owners: &[&Value]) -> Value {
    let made = owned(lamp(name, json!({"colour": "red"})), owners);
    create(client, LAMPS, &made).await
}

async fn new_map(client: &Client, name: &str, owners: &[&Value]) -> Value {
    let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    create(client, CONFIGMAPS, &owned(made, owners)).await
}

fn at(name: &str) -> String {
    format!("{LAMPS}/{name}")
}

async fn delete(client: &Client, path: &str, policy: &str) {
    let path = format!("{path}?propagationPolicy={policy}");
    client.call(Call::delete(&path)).await.expect(200);
}

async fn stays(client: &Client, path: &str) {
    client.call(Call::get(path)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_and_built_in_objects_own_each_other_api_114() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        establish(&client, &halls()).await;
        let hall = json!({"apiVersion": "example.com/v1", "kind": "Hall",
            "metadata": {"name": "h"}, "spec": {"colour": "red"}});
        let hall = create(&client, HALLS, &hall).await;

        // In the background: a hall, its lamp, the map of the lamp, and a lamp of that map.
        let lit = new_lamp(&client, "lit", &[&hall]).await;
        let map = new_map(&client, "of-lit", &[&lit]).await;
        new_lamp(&client, "of-map", &[&map]).await;
        let other = new_map(&client, "other", &[]).await;
        new_lamp(&client, "shared", &[&lit, &other]).await;
        delete(&client, &format!("{HALLS}/h"), "Background").await;
        gone(&client, &at("lit")).await;
        gone(&client, &configmap("of-lit")).await;
        gone(&client, &at("of-map")).await;
        let is_left = |answer: &Answer| {
            answer.json()["metadata"]["ownerReferences"] == json!([reference(&other)])
        };
        until(&client, || Call::get(&at("shared")), is_left).await;

        // In the foreground the owner waits for a dependent that something holds.
        let owner = new_lamp(&client, "owner", &[]).await;
        let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "finalizers": ["example.com/f"]}});
        create(&client, CONFIGMAPS, &owned(held, &[&owner])).await;
        delete(&client, &at("owner"), "Foreground").await;
        let is_marked =
            |answer: &Answer| answer.json()["metadata"]["deletionTimestamp"] != json!(null);
        until(&client, || Call::get(&configmap("held")), is_marked).await;
        let waits = client.call(Call::get(&at("owner"))).await.expect(200);
        assert_eq!(
            waits["metadata"]["finalizers"],
            json!(["foregroundDeletion"])
        );
        let release = json!({"metadata": {"finalizers": null}});
        let release = Call::merge_patch(&configmap("held"), &release);
        client.call(release).await.expect(200);
        gone(&client, &at("owner")).await;

        // Orphans lose their owner and stay, in both directions.
        let owner = new_lamp(&client, "owner", &[]).await;
        new_map(&client, "orphan", &[&owner]).await;
        let map = new_map(&client, "owner", &[]).await;
        new_lamp(&client, "orphan", &[&map]).await;
        delete(&client, &at("owner"), "Orphan").await;
        delete(&client, &configmap("owner"), "Orphan").await;
        gone(&client, &at("owner")).await;
        gone(&client, &configmap("owner")).await;
        for orphan in [at("orphan"), configmap("orphan")] {
            let orphan = client.call(Call::get(&orphan)).await.expect(200);
            assert_eq!(orphan["metadata"].get("ownerReferences"), None);
        }
        // A lamp can't own an object of the cluster.
        tokio::time::sleep(WHILE).await;
        stays(&client, &at("shared")).await;
        stays(&client, &at("orphan")).await;
        stays(&client, &configmap("orphan")).await;
    })
    .await;
}

/// The objects of a deleted definition take their dependents with them, though their kind is
/// unknown by then. An owner of a kind that is not known yet keeps its dependents until it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_with_a_definition_and_wait_for_one_api_114() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        for round in 0..5 {
            establish(&client, &lamps()).await;
            let owner = new_lamp(&client, "owner", &[]).await;
            let maps: Vec<String> = (0..3).map(|map| format!("m{round}-{map}")).collect();
            for map in &maps {
                new_map(&client, map, &[&owner]).await;
            }
            let path = path_of(&lamps());
            client.call(Call::delete(&path)).await.expect(200);
            gone(&client, &path).await;
            for map in &maps {
                gone(&client, &configmap(map)).await;
            }
        }
        let absent = json!({"apiVersion": "example.com/v1", "kind": "Ball",
            "metadata": {"name": "never", "uid": "11111111-2222-3333-4444-555555555555"}});
        new_map(&client, "waits", &[&absent]).await;
        tokio::time::sleep(WHILE).await;
        stays(&client, &configmap("waits")).await;
        let balls = json!([version("v1", true, &schema())]);
        establish(&client, &definition("balls", "Ball", &balls)).await;
        gone(&client, &configmap("waits")).await;
    })
    .await;
}

/// After its definition is removed, a kind is unknown as it is to kube-controller-manager:
/// dependents of an object that it had are collected, and those of one that nobody has seen wait
/// until the kind is known again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_of_a_removed_kind_is_absent_only_if_it_existed_api_114() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let owner = new_lamp(&client, "owner", &[]).await;
        let path = path_of(&lamps());
        client.call(Call::delete(&path)).await.expect(200);
        gone(&client, &path).await;
        gone(&client, LAMPS).await;
        let mut unseen = owner.clone();
        unseen["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
        let mut never = unseen.clone();
        never["metadata"]["name"] = json!("never");
        new_map(&client, "unseen", &[&unseen]).await;
        new_map(&client, "never", &[&never]).await;
        new_map(&client, "both", &[&owner, &never]).await;
        new_map(&client, "late", &[&owner]).await;
        gone(&client, &configmap("late")).await;
        tokio::time::sleep(WHILE).await;
        for map in ["unseen", "never", "both"] {
            stays(&client, &configmap(map)).await;
        }
        establish(&client, &lamps()).await;
        for map in ["unseen", "never", "both"] {
            gone(&client, &configmap(map)).await;
        }
    })
    .await;
}

/// No deletion is missed while another cache takes over, with a watch cache or without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_during_a_change_of_the_definition_are_seen_api_114() {
    let flags = ["--watch-cache-sizes=halls.example.com#0"];
    over_each_with(&flags, async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        establish(&client, &halls()).await;
        for round in 0..10 {
            let (lit, hall, map) = (
                format!("lit{round}"),
                format!("hall{round}"),
                format!("map{round}"),
            );
            let made = json!({"apiVersion": "example.com/v1", "kind": "Hall",
                "metadata": {"name": hall}, "spec": {"colour": "red"}});
            let owner = create(&client, HALLS, &made).await;
            let lamp = new_lamp(&client, &lit, &[]).await;
            new_map(&client, &map, &[&lamp]).await;
            new_map(&client, &format!("of-{hall}"), &[&owner]).await;
            let mut schema = schema();
            schema["properties"]["spec"]["properties"]["more"] =
                json!({"type": "integer", "default": round});
            let change = json!({"spec": {"versions": [version("v1", true, &schema)]}});
            for definition in [lamps(), halls()] {
                let change = Call::merge_patch(&path_of(&definition), &change);
                client.call(change).await.expect(200);
            }
            tokio::time::sleep(Duration::from_millis(round * 3)).await;
            let ended = |answer: &Answer| answer.status == 200;
            until(&client, || Call::delete(&at(&lit)), ended).await;
            let hall = format!("{HALLS}/{hall}");
            until(&client, || Call::delete(&hall), ended).await;
        }
        for round in 0..10 {
            gone(&client, &configmap(&format!("map{round}"))).await;
            gone(&client, &configmap(&format!("of-hall{round}"))).await;
        }
    })
    .await;
}

/// Right after a start the collector and the namespaces wait until all objects are known.
#[tokio::test]
async fn after_a_restart_orphans_stay_and_namespaces_are_emptied_api_114_api_225() {
    let mut daemon = Daemon::start().await;
    for round in 0..3 {
        let client = daemon.client();
        if round == 0 {
            establish(&client, &lamps()).await;
        }
        let (owner, orphan) = (format!("owner{round}"), format!("orphan{round}"));
        let map = new_map(&client, &owner, &[]).await;
        new_lamp(&client, &orphan, &[&map]).await;
        let space = format!("doomed{round}");
        let made = json!({"metadata": {"name": space}});
        create(&client, "/api/v1/namespaces", &made).await;
        let place = format!("/apis/example.com/v1/namespaces/{space}/lamps");
        let mut held = lamp("in", json!({"colour": "red"}));
        held["metadata"]["finalizers"] = json!(["example.com/f"]);
        create(&client, &place, &held).await;
        delete(&client, &configmap(&owner), "Orphan").await;
        let space = format!("/api/v1/namespaces/{space}");
        client.call(Call::delete(&space)).await.expect(200);
        daemon.kill().await;
        daemon.restart().await;
        let client = daemon.client();
        gone(&client, &configmap(&owner)).await;
        tokio::time::sleep(WHILE).await;
        let kept = client.call(Call::get(&at(&orphan))).await.expect(200);
        assert_eq!(kept["metadata"].get("ownerReferences"), None);
        stays(&client, &space).await;
        let release = json!({"metadata": {"finalizers": null}});
        let release = Call::merge_patch(&format!("{place}/in"), &release);
        client.call(release).await.expect(200);
        gone(&client, &space).await;
    }
}

/// API-225: custom objects are deleted with their namespace, and its conditions name them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_waits_for_its_custom_objects_and_says_so_api_225() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let made = json!({"metadata": {"name": "doomed"}});
        create(&client, "/api/v1/namespaces", &made).await;
        let place = "/apis/example.com/v1/namespaces/doomed/lamps";
        for number in 0..5 {
            let made = lamp(&format!("l{number}"), json!({"colour": "red"}));
            create(&client, place, &made).await;
        }
        let mut held = lamp("held", json!({"colour": "red"}));
        held["metadata"]["finalizers"] = json!(["example.com/f"]);
        create(&client, place, &held).await;
        let space = "/api/v1/namespaces/doomed";
        client.call(Call::delete(space)).await.expect(200);
        let message = |namespace: &Value, kind: &str| {
            let conditions = namespace["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let found = conditions.find(|one| one["type"] == kind)?;
            Some(found["message"].as_str()?.to_owned())
        };
        let is_told = |answer: &Answer| {
            let remaining = message(&answer.json(), "NamespaceContentRemaining");
            remaining
                .is_some_and(|text| text.contains("lamps.example.com has 1 resource instances"))
        };
        let waits = until(&client, || Call::get(space), is_told).await.json();
        assert_eq!(
            message(&waits, "NamespaceContentRemaining").unwrap(),
            "Some resources are remaining: lamps.example.com has 1 resource instances"
        );
        assert_eq!(
            message(&waits, "NamespaceFinalizersRemaining").unwrap(),
            "Some content in the namespace has finalizers remaining: example.com/f in 1 resource \
             instances"
        );
        let late = lamp("late", json!({"colour": "red"}));
        let refused = client.call(Call::post(place, &late)).await;
        let refused = refused.refusal(403, "Forbidden");
        assert_eq!(
            refused["details"]["causes"][0]["reason"],
            "NamespaceTerminating"
        );
        // Their definition may go meanwhile, and waits for the same object.
        let path = path_of(&lamps());
        client.call(Call::delete(&path)).await.expect(200);
        conditioned(&client, &path, "Terminating", "True").await;
        let release = json!({"metadata": {"finalizers": null}});
        let release = Call::merge_patch(&format!("{place}/held"), &release);
        client.call(release).await.expect(200);
        gone(&client, space).await;
        gone(&client, &path).await;
        let list = client.call(Call::get(DEFINITIONS)).await.expect(200);
        assert_eq!(list["items"], json!([]));
    })
    .await;
}
