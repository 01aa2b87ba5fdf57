//! Names, conditions and discovery of definitions (crd.md 3 and 5).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, condition, conditioned, definition, establish, gone, has, lamp, lamps,
    over_each, path_of, schema, until, version,
};
use crate::harness::{Call, Daemon, lacks_effect};

/// CRD-60, CRD-61, CRD-81, CRD-100, CRD-101: a definition is established, and its resource served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_established_and_served_crd_60() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        assert_eq!(client.call(Call::get(LAMPS)).await.status, 404);
        let created = client.call(Call::post(DEFINITIONS, &lamps())).await;
        assert!(!created.header("warning").is_some_and(lacks_effect));
        let created = created.expect(201);
        assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
        let established = conditioned(&client, &path_of(&lamps()), "Established", "True").await;
        let names = condition(&established, "NamesAccepted").unwrap();
        assert_eq!(
            [&names["status"], &names["reason"], &names["message"]],
            ["True", "NoConflicts", "no conflicts found"]
        );
        let condition = condition(&established, "Established").unwrap();
        assert_eq!(
            [&condition["reason"], &condition["message"]],
            [
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ]
        );
        assert_eq!(established["metadata"]["generation"], 1);
        assert_eq!(
            established["status"]["acceptedNames"],
            json!({"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"})
        );
        let resources = client.call(Call::get("/apis/example.com/v1")).await;
        let resources = resources.expect(200);
        let first = &resources["resources"][0];
        assert_eq!(first["kind"], "Lamp");
        let hash = first["storageVersionHash"].as_str().unwrap();
        assert_eq!(hash.len(), 12);
        let made = client
            .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
            .await;
        assert_eq!(made.expect(201)["spec"]["watts"], 5);
        // A condition of a client changes nothing (CRD-8, CRD-91).
        let path = path_of(&lamps());
        let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
        assert_eq!(watch.event().await["type"], "ADDED");
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        client
            .call(Call::merge_patch(&path, &label))
            .await
            .expect(200);
        client
            .call(Call::post(LAMPS, &lamp("b", json!({"colour": "red"}))))
            .await
            .expect(201);
        assert_eq!(watch.event().await["object"]["metadata"]["name"], "b");
    })
    .await;
}

/// A definition is established, and its first object stored, within milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_served_at_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut fastest = Duration::MAX;
    for at in 0..10 {
        let plural = format!("lamp{at}s");
        let kind = format!("Lamp{at}");
        let lamps = definition(&plural, &kind, &json!([version("v1", true, &schema())]));
        let objects = format!("/apis/example.com/v1/namespaces/default/{plural}");
        let begun = Instant::now();
        client
            .call(Call::post(DEFINITIONS, &lamps))
            .await
            .expect(201);
        let object = json!({"apiVersion": "example.com/v1", "kind": kind,
            "metadata": {"name": "a"}, "spec": {"colour": "red"}});
        let create = || Call::post(&objects, &object);
        until(&client, create, |answer| answer.status == 201).await;
        fastest = fastest.min(begun.elapsed());
    }
    assert!(fastest < Duration::from_millis(500), "{fastest:?}");
}

/// CRD-62, CRD-63: a name belongs to the first that asks, and then to the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_gets_a_name_that_becomes_free_crd_63() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let versions = json!([version("v1", true, &schema())]);
        let other = definition("lights", "Lamp", &versions);
        client
            .call(Call::post(DEFINITIONS, &other))
            .await
            .expect(201);
        let path = path_of(&other);
        let refused = conditioned(&client, &path, "NamesAccepted", "False").await;
        let names = condition(&refused, "NamesAccepted").unwrap();
        // Both kinds of names clash, and the last check wins.
        assert_eq!(
            [&names["reason"], &names["message"]],
            ["ListKindConflict", "\"LampList\" is already in use"]
        );
        let established = condition(&refused, "Established").unwrap();
        assert_eq!(
            [&established["status"], &established["reason"]],
            ["False", "NotAccepted"]
        );
        assert_eq!(refused["status"]["acceptedNames"]["plural"], "lights");
        let lights = "/apis/example.com/v1/namespaces/default/lights";
        let absent = client.call(Call::get(lights)).await;
        assert_eq!(
            (absent.status.as_u16(), &*absent.text()),
            (404, "404 page not found\n")
        );
        client
            .call(Call::delete(&path_of(&lamps())))
            .await
            .expect(200);
        conditioned(&client, &path, "Established", "True").await;
        client.call(Call::get(lights)).await.expect(200);
        gone(&client, LAMPS).await;
    })
    .await;
}

/// CRD-67: the condition about approval.
#[tokio::test]
async fn definitions_in_groups_of_kubernetes_need_approval_crd_67() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut rings = definition("rings", "Ring", &json!([version("v1", true, &schema())]));
    rings["metadata"] = json!({"name": "rings.a.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}});
    rings["spec"]["group"] = json!("a.k8s.io");
    let established = establish(&client, &rings).await;
    let kind = "KubernetesAPIApprovalPolicyConformant";
    let approval = condition(&established, kind).unwrap();
    assert_eq!(
        [
            &approval["status"],
            &approval["reason"],
            &approval["message"]
        ],
        [
            "False",
            "UnapprovedAnnotation",
            "not approved: \"unapproved, for a test\""
        ]
    );
    let given = json!({"metadata": {"annotations": {
        "api-approved.kubernetes.io": "https://example.com/1"}}});
    client
        .call(Call::merge_patch(&path_of(&rings), &given))
        .await
        .expect(200);
    conditioned(&client, &path_of(&rings), kind, "True").await;
}

/// CRD-66, CRD-81: without certificates that can be read, a definition is served but not
/// established.
#[tokio::test]
async fn a_definition_with_a_bad_bundle_is_not_established_crd_66() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut lamps = lamps();
    lamps["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com", "caBundle": "QUFB"}}});
    let created = client.call(Call::post(DEFINITIONS, &lamps)).await;
    assert_eq!(created.header("warning"), None);
    created.expect(201);
    let is = |answer: &crate::harness::Answer| {
        let reason = condition(&answer.json(), "Established").map(|one| one["reason"].clone());
        reason == Some(json!("InvalidCABundle"))
    };
    until(&client, || Call::get(&path_of(&lamps)), is).await;
    client.call(Call::get(LAMPS)).await.expect(200);
    // Its APIService has the group listed (CN-20), but not its version.
    assert_eq!(
        client.call(Call::get("/apis/example.com/v1")).await.status,
        404
    );
}

/// CRD-104: a built-in group hides custom resources in it.
#[tokio::test]
async fn a_built_in_group_hides_custom_resources_crd_104() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut lamps = definition("lamps", "Lamp", &json!([version("v9", true, &schema())]));
    lamps["metadata"] = json!({"name": "lamps.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"}});
    lamps["spec"]["group"] = json!("networking.k8s.io");
    establish(&client, &lamps).await;
    let group = client
        .call(Call::get("/apis/networking.k8s.io"))
        .await
        .expect(200);
    assert!(!group.to_string().contains("v9"), "{group}");
    let hidden = "/apis/networking.k8s.io/v9/namespaces/default/lamps";
    assert_eq!(client.call(Call::get(hidden)).await.status, 404);
    client
        .call(Call::delete(&path_of(&lamps)))
        .await
        .expect(200);
    gone(&client, &path_of(&lamps)).await;
}

/// CRD-5, CRD-22, CRD-91: the versions in which objects may be stored.
#[tokio::test]
async fn stored_versions_grow_with_the_storage_version_crd_5() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    let path = path_of(&lamps());
    let versions = json!([
        version("v1", false, &schema()),
        version("v2", true, &schema())
    ]);
    let patched = client.call(Call::merge_patch(
        &path,
        &json!({"spec": {"versions": versions}}),
    ));
    let patched: Value = patched.await.expect(200);
    assert_eq!(patched["status"]["storedVersions"], json!(["v1", "v2"]));
    let only = json!({"spec": {"versions": [version("v2", true, &schema())]}});
    client
        .call(Call::merge_patch(&path, &only))
        .await
        .expect(422);
    let status = format!("{path}/status");
    let shrunk = json!({"status": {"storedVersions": ["v2"]}});
    client
        .call(Call::merge_patch(&status, &shrunk))
        .await
        .expect(200);
    let patched = client
        .call(Call::merge_patch(&path, &only))
        .await
        .expect(200);
    assert!(has(&patched, "Established", "True"));
    gone(&client, LAMPS).await;
}
