//! Namespaces: the system's own, refused requests in missing and terminating ones, and their
//! deletion.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, body, deployment, pod_spec, version};

/// The conditions of a namespace of which nothing is left, in their order.
const ENDED: [[&str; 4]; 5] = [
    [
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    [
        "NamespaceContentRemaining",
        "False",
        "ContentRemoved",
        "All content successfully removed",
    ],
    [
        "NamespaceFinalizersRemaining",
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ],
];

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

/// Waits until a namespace is as it has to be.
async fn until(client: &Client, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    let (begun, path) = (Instant::now(), format!("/api/v1/namespaces/{name}"));
    loop {
        let found = client.call(Call::get(&path)).await.expect(200);
        if is(&found) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn has_conditions(namespace: &Value) -> bool {
    namespace["status"]["conditions"].is_array()
}

/// Type, status, reason and message of the conditions of a namespace, in their order.
fn conditions(namespace: &Value) -> Vec<[&str; 4]> {
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    let members = ["type", "status", "reason", "message"];
    conditions
        .iter()
        .map(|one| members.map(|name| one[name].as_str().unwrap()))
        .collect()
}

/// API-225: what holds a namespace is told as by kube-controller-manager 1.36, and written only
/// when it changes.
#[tokio::test]
async fn a_held_namespace_says_in_its_conditions_by_what() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    create(&client, "held").await;
    let of = |rest: &str| format!("/api/v1/namespaces/held/{rest}");
    let deployments = "/apis/apps/v1/namespaces/held/deployments";
    let with = |mut object: Value, finalizers: &[&str]| {
        object["metadata"]["finalizers"] = json!(finalizers);
        object
    };
    let both = ["example.com/a", "example.com/b"];
    let about = json!({"namespace": "held"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": about});
    for (path, object) in [
        (of("configmaps"), with(body("a", "1"), &both)),
        (of("configmaps"), with(body("b", "1"), &both[..1])),
        (of("configmaps"), body("c", "1")),
        (of("events"), with(event, &both[1..])),
        (deployments.to_owned(), with(deployment("d"), &both[1..])),
    ] {
        client.call(Call::post(&path, &object)).await.expect(201);
    }
    let namespace = "/api/v1/namespaces/held";
    client.call(Call::delete(namespace)).await.expect(200);
    let first = until(&client, "held", has_conditions).await;
    let [.., content, holders] = conditions(&first)[..] else {
        panic!("no conditions: {first}");
    };
    assert_eq!(conditions(&first)[..3], ENDED[..3]);
    let message = "Some resources are remaining: configmaps. has 2 resource instances, \
                   deployments.apps has 1 resource instances, events. has 1 resource instances, \
                   events.events.k8s.io has 1 resource instances";
    assert_eq!(
        content,
        [
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            message
        ]
    );
    let message = "Some content in the namespace has finalizers remaining: example.com/a in 2 \
                   resource instances, example.com/b in 4 resource instances";
    assert_eq!(
        holders,
        [
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            message
        ]
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    let later = client.call(Call::get(namespace)).await.expect(200);
    assert_eq!(version(&later), version(&first), "nothing has changed");

    // Fewer are left: the message changes, and the time of the condition doesn't.
    let release = json!({"metadata": {"finalizers": null}});
    for path in [of("configmaps/a"), of("events/e")] {
        client
            .call(Call::merge_patch(&path, &release))
            .await
            .expect(200);
    }
    let fewer = "Some resources are remaining: configmaps. has 1 resource instances, \
                 deployments.apps has 1 resource instances";
    let says = |namespace: &Value| conditions(namespace)[3][3] == fewer;
    let then = until(&client, "held", says).await;
    let time =
        |namespace: &Value| namespace["status"]["conditions"][3]["lastTransitionTime"].clone();
    assert!(
        time(&then).is_string() && time(&then) == time(&first),
        "{then}"
    );
    for path in [of("configmaps/b"), format!("{deployments}/d")] {
        client
            .call(Call::merge_patch(&path, &release))
            .await
            .expect(200);
    }
    gone(&client, "held").await;
}

/// API-225: the conditions are written once, before the namespace is released.
#[tokio::test]
async fn a_namespace_that_ends_at_once_is_written_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    create(&client, "n").await;
    let path = "/api/v1/namespaces/n/configmaps";
    client
        .call(Call::post(path, &body("a", "1")))
        .await
        .expect(201);
    let watch = "/api/v1/namespaces?watch=true&resourceVersion=0&fieldSelector=metadata.name=n";
    let mut watch = client.watch(watch).await;
    assert_eq!(watch.event().await["type"], "ADDED");
    client
        .call(Call::delete("/api/v1/namespaces/n"))
        .await
        .expect(200);
    let marked = watch.event().await;
    assert!(!has_conditions(&marked["object"]), "{marked}");
    let judged = watch.event().await;
    assert_eq!(judged["type"], "MODIFIED");
    assert_eq!(conditions(&judged["object"]), ENDED);
    assert_eq!(judged["object"]["status"]["phase"], "Terminating");
    let ended = watch.event().await;
    assert_eq!(ended["type"], "DELETED");
    assert_eq!(conditions(&ended["object"]), ENDED);
}

/// API-225: while a pod runs, nothing else is deleted in its namespace.
#[tokio::test]
async fn pods_end_before_all_else_in_their_namespace() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    create(&client, "n").await;
    let of = |rest: &str| format!("/api/v1/namespaces/n/{rest}");
    let mut spec = pod_spec();
    spec["nodeName"] = json!("node");
    spec["terminationGracePeriodSeconds"] = json!(4);
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    client.call(Call::post(&of("pods"), &pod)).await.expect(201);
    let object = body("c", "1");
    client
        .call(Call::post(&of("configmaps"), &object))
        .await
        .expect(201);
    client
        .call(Call::delete("/api/v1/namespaces/n"))
        .await
        .expect(200);
    let held = until(&client, "n", has_conditions).await;
    assert_eq!(conditions(&held), ENDED, "pods are not counted");
    let pod = client.call(Call::get(&of("pods/p"))).await.expect(200);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 4);
    // No kubelet ends it in its time.
    let has_failed = |namespace: &Value| conditions(namespace)[2][1] == "True";
    let held = until(&client, "n", has_failed).await;
    let message = "Failed to delete all resource types, 1 remaining: unexpected items still \
                   remain in namespace: n for gvr: /v1, Resource=pods";
    let failed = [
        "NamespaceDeletionContentFailure",
        "True",
        "ContentDeletionFailed",
        message,
    ];
    assert_eq!(conditions(&held)[2..], [failed, ENDED[3], ENDED[4]]);
    client
        .call(Call::get(&of("configmaps/c")))
        .await
        .expect(200);
    let now = json!({"gracePeriodSeconds": 0});
    client
        .call(Call::json("DELETE", &of("pods/p"), &now))
        .await
        .expect(200);
    gone(&client, "n").await;
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
