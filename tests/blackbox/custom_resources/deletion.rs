//! The end of definitions (CRD-68 to CRD-72).

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, condition, conditioned, definition, establish, gone, lamp, lamps,
    over_each, path_of, schema, until, version,
};
use crate::harness::{Call, Daemon};

/// CRD-68, CRD-72, CRD-217: objects go first, watches see that, and the next one starts empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_go_before_their_definition_crd_68_crd_72() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        for name in ["a", "b"] {
            let made = lamp(name, json!({"colour": "red"}));
            client.call(Call::post(LAMPS, &made)).await.expect(201);
        }
        let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
        for _ in 0..2 {
            assert_eq!(watch.event().await["type"], "ADDED");
        }
        let path = path_of(&lamps());
        let wrong = json!({"preconditions": {"uid": "other"}});
        client
            .call(Call::json("DELETE", &path, &wrong))
            .await
            .expect(409);
        let dry = client
            .call(Call::delete(&format!("{path}?dryRun=All")))
            .await
            .expect(200);
        assert_eq!(
            condition(&dry, "Terminating").unwrap()["reason"],
            "InstanceDeletionPending"
        );
        client
            .call(Call::get(&format!("{LAMPS}/a")))
            .await
            .expect(200);
        let deleted = client.call(Call::delete(&path)).await.expect(200);
        assert_eq!(
            deleted["metadata"]["finalizers"],
            json!(["customresourcecleanup.apiextensions.k8s.io"])
        );
        let terminating = condition(&deleted, "Terminating").unwrap();
        assert_eq!(
            [&terminating["status"], &terminating["reason"]],
            ["True", "InstanceDeletionPending"]
        );
        gone(&client, &path).await;
        gone(&client, LAMPS).await;
        let events = watch.rest().await;
        let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["DELETED", "DELETED"]);
        establish(&client, &lamps()).await;
        let list = client.call(Call::get(LAMPS)).await.expect(200);
        assert_eq!(list["items"], json!([]));
        assert_eq!(list["kind"], "LampList");
    })
    .await;
}

/// CRD-70, CRD-84, CRD-100: an object with a finalizer keeps its definition, and stays writable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finalizer_keeps_the_definition_crd_70_crd_84() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let mut held = lamp("held", json!({"colour": "red"}));
        held["metadata"]["finalizers"] = json!(["example.com/f"]);
        client.call(Call::post(LAMPS, &held)).await.expect(201);
        let path = path_of(&lamps());
        client.call(Call::delete(&path)).await.expect(200);
        let one = format!("{LAMPS}/held");
        let is_marked = |answer: &crate::harness::Answer| {
            answer.json()["metadata"]["deletionTimestamp"].is_string()
        };
        until(&client, || Call::get(&one), is_marked).await;
        let new = lamp("new", json!({"colour": "red"}));
        let refused = client
            .call(Call::post(LAMPS, &new))
            .await
            .refusal(403, "Forbidden");
        assert!(
            refused["message"]
                .as_str()
                .unwrap()
                .ends_with("create not allowed while custom resource definition is terminating"),
            "{refused}"
        );
        let apply = Call::new("PATCH", &format!("{LAMPS}/new?fieldManager=m&dryRun=All"));
        let apply = apply.body("application/apply-patch+yaml", new.to_string());
        client.call(apply).await.expect(403);
        let resources = client
            .call(Call::get("/apis/example.com/v1"))
            .await
            .expect(200);
        assert_eq!(
            resources["resources"][0]["verbs"],
            json!(["delete", "deletecollection", "get", "list", "watch"])
        );
        let release = json!({"metadata": {"finalizers": null}});
        client
            .call(Call::merge_patch(&one, &release))
            .await
            .expect(200);
        gone(&client, &path).await;
    })
    .await;
}

/// CRD-71: a definition that was never established goes at once, and keeps its objects.
#[tokio::test]
async fn a_definition_that_never_was_established_goes_crd_71() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    let other = definition("lights", "Lamp", &json!([version("v1", true, &schema())]));
    client
        .call(Call::post(DEFINITIONS, &other))
        .await
        .expect(201);
    conditioned(&client, &path_of(&other), "NamesAccepted", "False").await;
    client
        .call(Call::delete(&path_of(&other)))
        .await
        .expect(200);
    gone(&client, &path_of(&other)).await;
    client.call(Call::get(LAMPS)).await.expect(200);
}

/// CRD-69: kill -9 at any time, and the deletion goes on.
#[tokio::test]
async fn a_deletion_goes_on_after_a_crash_crd_69() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    for at in 0..50 {
        let made = lamp(&format!("l{at}"), json!({"colour": "red"}));
        client.call(Call::post(LAMPS, &made)).await.expect(201);
    }
    client
        .call(Call::delete(&path_of(&lamps())))
        .await
        .expect(200);
    daemon.kill().await;
    daemon.relaunch().await;
    let client = daemon.client();
    gone(&client, &path_of(&lamps())).await;
    establish(&client, &lamps()).await;
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    assert_eq!(list["items"], json!([]));
}
