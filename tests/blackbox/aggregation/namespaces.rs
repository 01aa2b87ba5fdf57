//! Deleted namespaces: the daemon's own namespace controller empties them at extensions, too, and
//! waits for extensions that are not available (CN-25).

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::extension::{APISERVICES, Asked, Extension};
use super::{GROUP, PATIENCE, api_service, install_at, until_has, until_reason};
use crate::custom_resources::gone;
use crate::harness::hostile_server::{Act, HostileServer, http};
use crate::harness::{Call, Client, Daemon};

fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

/// The objects of the extension in a namespace.
fn flunders(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/flunders")
}

/// Creates a namespace with the ConfigMap `here`.
async fn create(client: &Client, name: &str) {
    let body = json!({"metadata": {"name": name}});
    client
        .call(Call::post("/api/v1/namespaces", &body))
        .await
        .expect(201);
    let at = format!("{}/configmaps", namespace(name));
    let body = json!({"metadata": {"name": "here"}});
    client.call(Call::post(&at, &body)).await.expect(201);
}

/// Waits until a namespace is gone. Extensions that hold it are asked at growing intervals.
async fn until_ended(client: &Client, name: &str) {
    let begun = Instant::now();
    while client.call(Call::get(&namespace(name))).await.status != 404 {
        assert!(begun.elapsed() < PATIENCE, "{name} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn delete(client: &Client, name: &str) {
    client
        .call(Call::delete(&namespace(name)))
        .await
        .expect(200);
}

async fn until_emptied_here(client: &Client, name: &str) {
    gone(client, &format!("{}/configmaps/here", namespace(name))).await;
}

/// A condition of a namespace: its status, reason and message.
fn condition(object: &Value, kind: &str) -> [String; 3] {
    let conditions = object["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    let found = conditions.find(|one| one["type"] == kind);
    let found = found.unwrap_or_default();
    ["status", "reason", "message"].map(|name| found[name].as_str().unwrap_or_default().to_owned())
}

/// Waits until a condition of a namespace is True, and returns its reason and message.
async fn until_true(client: &Client, name: &str, kind: &str) -> [String; 2] {
    let at = namespace(name);
    let is_true = |object: &Value| condition(object, kind)[0] == "True";
    let found = until_has(client, || Call::get(&at), is_true).await;
    let [_, reason, message] = condition(&found, kind);
    [reason, message]
}

/// Creates an object of the extension.
async fn add_flunder(client: &Client, namespace: &str, metadata: &Value) {
    let body = json!({"metadata": metadata});
    client
        .call(Call::post(&flunders(namespace), &body))
        .await
        .expect(201);
}

/// The deletions that an extension was asked for below a path.
fn deletions(extension: &Extension, path: &str) -> Vec<Asked> {
    let mut asked = extension.asked(path);
    asked.retain(|one| one.method == Method::DELETE);
    asked
}

/// An extension with an APIService that is available.
async fn installed(client: &Client) -> Extension {
    let extension = Extension::start(GROUP).await;
    extension.install(client, GROUP).await;
    until_reason(client, &format!("v1.{GROUP}"), "Passed").await;
    extension
}

#[tokio::test]
async fn an_extension_that_is_not_available_holds_namespaces_cn_25() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    let mut body = extension.api_service(GROUP, "v1");
    body["spec"]["service"]["name"] = "missing".into();
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    create(&client, "a").await;
    delete(&client, "a").await;
    let stale = format!(
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
         server APIs: {GROUP}/v1: stale GroupVersion discovery: {GROUP}/v1"
    );
    let found = until_true(&client, "a", "NamespaceDeletionDiscoveryFailure").await;
    assert_eq!(found, ["DiscoveryFailed".to_owned(), stale]);
    // All else is deleted meanwhile.
    until_emptied_here(&client, "a").await;
    let held = client.call(Call::get(&namespace("a"))).await.expect(200);
    let [status, reason, _] = condition(&held, "NamespaceDeletionContentFailure");
    assert_eq!([status, reason], ["False", "ContentDeleted"]);
    let at = api_service(&format!("v1.{GROUP}"));
    client.call(Call::delete(&at)).await.expect(200);
    until_ended(&client, "a").await;
    assert!(deletions(&extension, "/").is_empty());
}

#[tokio::test]
async fn a_namespace_ends_when_it_is_empty_at_its_extension_cn_25() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = installed(&client).await;
    extension.tell(|told| told.keeps_objects = true);
    for name in ["a", "b"] {
        create(&client, name).await;
        for flunder in ["one", "two"] {
            let metadata = json!({"name": flunder, "finalizers": ["example.com/held"]});
            add_flunder(&client, name, &metadata).await;
        }
    }
    delete(&client, "a").await;
    let [reason, message] = until_true(&client, "a", "NamespaceContentRemaining").await;
    let remain = "Some resources are remaining: flunders.a.example has 2 resource instances";
    assert_eq!([&*reason, &*message], ["SomeResourcesRemain", remain]);
    let [_, message] = until_true(&client, "a", "NamespaceFinalizersRemaining").await;
    assert!(
        message.ends_with("example.com/held in 2 resource instances"),
        "{message}"
    );
    until_emptied_here(&client, "a").await;
    let asked = deletions(&extension, "/");
    let first = asked.first().unwrap();
    assert!(asked.iter().all(|one| one.path == flunders("a")));
    assert_eq!(first.header("x-remote-user"), "system:taffrail:namespaces");
    assert_eq!(first.header("x-remote-group"), "system:masters");
    assert!(first.certificate.is_some());
    let options: Value = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(options["propagationPolicy"], "Background");
    extension.tell(|told| told.keeps_objects = false);
    until_ended(&client, "a").await;
    let left = client.call(Call::get(&flunders("b"))).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 2);
    assert!(deletions(&extension, &flunders("b")).is_empty());
}

#[tokio::test]
async fn an_extension_without_deletions_of_collections_is_emptied_one_by_one_cn_25() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.tell(|told| told.verbs = vec!["create", "delete", "get", "list"]);
    extension.install(&client, GROUP).await;
    until_reason(&client, &format!("v1.{GROUP}"), "Passed").await;
    create(&client, "a").await;
    for name in ["one", "t/w?o"] {
        add_flunder(&client, "a", &json!({"name": name})).await;
    }
    // One that remains for no reason is a failure.
    extension.tell(|told| told.keeps_objects = true);
    delete(&client, "a").await;
    let [reason, message] = until_true(&client, "a", "NamespaceDeletionContentFailure").await;
    assert_eq!(reason, "ContentDeletionFailed");
    let expected = "Failed to delete all resource types, 1 remaining: unexpected items still remain \
                    in namespace: a for gvr: a.example/v1, Resource=flunders";
    assert_eq!(message, expected);
    let mut paths: Vec<String> = deletions(&extension, "/")
        .into_iter()
        .map(|one| one.path)
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let wanted = ["one", "t%2Fw%3Fo"].map(|name| format!("{}/{name}", flunders("a")));
    assert_eq!(paths, wanted);
    // An APIService that goes holds nothing up.
    let at = api_service(&format!("v1.{GROUP}"));
    client.call(Call::delete(&at)).await.expect(200);
    until_ended(&client, "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_that_hangs_holds_nothing_but_the_end_of_namespaces_cn_25() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let server = HostileServer::start(|asked| {
        let resource = json!({"name": "flunders", "singularName": "flunder", "namespaced": true,
            "kind": "Flunder", "verbs": ["delete", "deletecollection", "list"]});
        let list = json!({"kind": "APIResourceList", "groupVersion": "a.example/v1",
            "resources": [resource]});
        match asked.path() {
            path if path.contains("/namespaces/refused/") => {
                let refusal = json!({"kind": "Status", "message": "x".repeat(10_000)});
                http(403, "", refusal.to_string())
            }
            path if path.contains("/namespaces/") => Act::Silence,
            _ => http(200, "Content-Type: application/json\r\n", list.to_string()),
        }
    })
    .await;
    let port = server.url.rsplit(':').next().unwrap().parse().unwrap();
    install_at(&client, GROUP, port).await;
    let names = ["a", "b", "c", "d", "e", "f", "refused"];
    for name in names {
        create(&client, name).await;
    }
    for name in names {
        delete(&client, name).await;
    }
    for name in names {
        until_emptied_here(&client, name).await;
    }
    let [_, message] = until_true(&client, "refused", "NamespaceDeletionContentFailure").await;
    assert!(
        message.contains("1 remaining: flunders.a.example: xxx"),
        "{message}"
    );
    assert!(message.len() < 1000, "{message}");
    let [_, message] = until_true(&client, "f", "NamespaceDeletionContentFailure").await;
    assert!(message.contains("deadline exceeded"), "{message}");
    let at = api_service(&format!("v1.{GROUP}"));
    client.call(Call::delete(&at)).await.expect(200);
    for name in names {
        until_ended(&client, name).await;
    }
    // A namespace that is deleted now waits for nobody.
    create(&client, "late").await;
    delete(&client, "late").await;
    until_ended(&client, "late").await;
}
