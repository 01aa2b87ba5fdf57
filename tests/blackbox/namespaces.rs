//! Namespaces: the system's own, refusals in missing and terminating ones, deletion that finishes.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Call, Client, Daemon, body, deployment};

async fn create(client: &Client, name: &str) {
    let namespace = json!({ "metadata": { "name": name } });
    client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await
        .expect(201);
}

async fn gone(client: &Client, name: &str) {
    let path = format!(
        "/api/v1/namespaces?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name={name}"
    );
    let mut watch = client.watch(&path).await;
    loop {
        let event = watch.event().await;
        // Already away when the watch began, or now.
        if event["type"] == "DELETED" {
            return;
        }
        if event["type"] == "BOOKMARK" {
            let path = format!("/api/v1/namespaces/{name}");
            if client.call(Call::get(&path)).await.status == 404 {
                return;
            }
        }
    }
}

#[tokio::test]
async fn the_systems_namespaces_exist_from_the_first_start() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let path = format!("/api/v1/namespaces/{name}");
        let namespace = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(namespace["status"]["phase"], "Active");
        assert_eq!(
            namespace["metadata"]["labels"]["kubernetes.io/metadata.name"],
            name
        );
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    }
}

#[tokio::test]
async fn the_systems_namespaces_are_not_deleted() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        client
            .call(Call::delete(&path))
            .await
            .refusal(403, "Forbidden");
    }
}

#[tokio::test]
async fn deleting_a_namespace_deletes_its_contents_and_finishes() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    create(&client, "doomed").await;
    create(&client, "doomed-not").await;
    for number in 0..50 {
        for (path, object) in [
            (
                "/api/v1/namespaces/doomed/configmaps",
                body(&format!("a{number}"), "1"),
            ),
            (
                "/api/v1/namespaces/doomed/secrets",
                json!({ "metadata": { "name": format!("a{number}") } }),
            ),
            (
                "/apis/apps/v1/namespaces/doomed/deployments",
                deployment(&format!("a{number}")),
            ),
        ] {
            client.call(Call::post(path, &object)).await.expect(201);
        }
    }
    let other = "/api/v1/namespaces/doomed-not/configmaps";
    client
        .call(Call::post(other, &body("stays", "1")))
        .await
        .expect(201);
    let marked = client
        .call(Call::delete("/api/v1/namespaces/doomed"))
        .await
        .expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    gone(&client, "doomed").await;
    for path in [
        "/api/v1/namespaces/doomed/configmaps",
        "/api/v1/namespaces/doomed/secrets",
        "/apis/apps/v1/namespaces/doomed/deployments",
    ] {
        let list = client.call(Call::get(path)).await.expect(200);
        assert_eq!(list["items"], json!([]), "{path}");
    }
    client
        .call(Call::get(&format!("{other}/stays")))
        .await
        .expect(200);
    // The name can be used again, and what was in it is not back.
    create(&client, "doomed").await;
    let list = client
        .call(Call::get("/api/v1/namespaces/doomed/configmaps"))
        .await
        .expect(200);
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a_namespace_waits_for_the_finalizers_of_its_contents_over_a_restart() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    create(&client, "held").await;
    let path = "/api/v1/namespaces/held/configmaps";
    let object = json!({ "metadata": { "name": "h", "finalizers": ["example.com/hold"] } });
    client.call(Call::post(path, &object)).await.expect(201);
    client
        .call(Call::delete("/api/v1/namespaces/held"))
        .await
        .expect(200);

    // What is in it gets deleted, so marked, and holds the namespace.
    let watch = format!("{path}?watch=true&resourceVersion=0&timeoutSeconds=60");
    let mut watch = client.watch(&watch).await;
    loop {
        let event = watch.event_within(Duration::from_secs(30)).await.unwrap();
        if event["object"]["metadata"]["deletionTimestamp"].is_string() {
            break;
        }
    }
    let refused = client.call(Call::post(path, &body("late", "1"))).await;
    let refused = refused.refusal(403, "Forbidden");
    assert_eq!(
        refused["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );

    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    let namespace = client
        .call(Call::get("/api/v1/namespaces/held"))
        .await
        .expect(200);
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let release = json!({ "metadata": { "finalizers": null } });
    client
        .call(Call::merge_patch(&format!("{path}/h"), &release))
        .await
        .expect(200);
    gone(&client, "held").await;
}

#[tokio::test]
async fn creating_in_a_missing_namespace_is_not_found() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = "/api/v1/namespaces/none/configmaps";
    let status = client
        .call(Call::post(path, &body("a", "1")))
        .await
        .refusal(404, "NotFound");
    assert_eq!(status["message"], "namespaces \"none\" not found");
    let list = client.call(Call::get(path)).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

/// As in kube-apiserver, with the path of an older form.
#[tokio::test]
async fn only_namespaces_with_a_label_have_claims_with_admin_access() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let key = "resource.kubernetes.io/admin-access";
    for (name, value) in [("privileged", "true"), ("ordinary", "false")] {
        let namespace = json!({"metadata": {"name": name, "labels": {key: value}}});
        client
            .call(Call::post("/api/v1/namespaces", &namespace))
            .await
            .expect(201);
    }
    let exactly = json!({"deviceClassName": "c", "adminAccess": true});
    let spec = json!({"devices": {"requests": [{"name": "a", "exactly": exactly}]}});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "a"}, "spec": spec,
    });
    let path =
        |namespace: &str| format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims");
    client
        .call(Call::post(&path("privileged"), &claim))
        .await
        .expect(201);
    let refused = client.call(Call::post(&path("ordinary"), &claim)).await;
    assert_eq!(refused.status, 422);
    let refused = refused.json();
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        "spec.devices.requests[0].adminAccess"
    );

    // Nor may the status of a claim give it.
    let mut plain = claim.clone();
    plain["spec"]["devices"]["requests"][0]["exactly"] = json!({"deviceClassName": "c"});
    let result = json!({
        "request": "a", "driver": "d.example.com", "pool": "p", "device": "x", "adminAccess": true,
    });
    let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    plain["metadata"]["name"] = json!("b");
    for (namespace, code) in [("privileged", 200), ("ordinary", 422)] {
        let path = path(namespace);
        client.call(Call::post(&path, &plain)).await.expect(201);
        let patch = Call::merge_patch(&format!("{path}/b/status"), &status);
        let answer = client.call(patch).await.expect(code);
        let field = &answer["details"]["causes"][0]["field"];
        let expected = match code {
            200 => json!(null),
            _ => json!("status.allocation.devices.results[0].adminAccess"),
        };
        assert_eq!(*field, expected);
    }
}
