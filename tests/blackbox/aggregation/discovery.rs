//! Discovery with the groups of extensions (CN-13, CN-20 to CN-24).

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};

use super::extension::{APISERVICES, Extension};
use super::{api_service, until_has};
use crate::custom_resources::{definition, establish, gone, until, version};
use crate::harness::{Call, Client, Daemon};

const GROUP: &str = "wardle.example.com";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn aggregated() -> Call {
    Call::get("/apis").header("accept", AGGREGATED)
}

fn version_of<'d>(document: &'d Value, group: &str) -> Option<&'d Value> {
    let mut items = document["items"].as_array()?.iter();
    let item = items.find(|item| item["metadata"]["name"] == group)?;
    item["versions"].get(0)
}

async fn until_version(client: &Client, group: &str, is: impl Fn(&Value) -> bool) -> Value {
    let is = |document: &Value| version_of(document, group).is_some_and(&is);
    let document = until_has(client, aggregated, is).await;
    version_of(&document, group).unwrap().clone()
}

fn is_current(version: &Value) -> bool {
    version["freshness"] == "Current" && version["resources"].is_array()
}

fn stale() -> Value {
    json!({"version": "v1", "freshness": "Stale"})
}

#[tokio::test]
async fn the_groups_of_extensions_are_listed_by_their_priorities_cn_20() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    let mut body = extension.api_service(GROUP, "v1");
    body["spec"]["service"]["name"] = "none".into();
    body["spec"]["groupPriorityMinimum"] = 17_790.into();
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    // It is not available, and listed all the same.
    let list = client.call(Call::get("/apis")).await.expect(200);
    let names = list["groups"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(
        names[..4],
        ["apiregistration.k8s.io", "apps", GROUP, "events.k8s.io"]
    );
    let mut second = extension.api_service(GROUP, "v2");
    second["spec"]["versionPriority"] = 16.into();
    client
        .call(Call::post(APISERVICES, &second))
        .await
        .expect(201);
    let group = client
        .call(Call::get(&format!("/apis/{GROUP}")))
        .await
        .expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v2");
    assert_eq!(group["versions"][1]["version"], "v1");
    let by_slash = client
        .call(Call::get(&format!("/apis/{GROUP}/")))
        .await
        .expect(200);
    assert_eq!(by_slash, group);
    for version in ["v1", "v2"] {
        let at = api_service(&format!("{version}.{GROUP}"));
        client.call(Call::delete(&at)).await.expect(200);
    }
    gone(&client, &format!("/apis/{GROUP}")).await;
}

#[tokio::test]
async fn the_aggregated_form_is_asked_for_as_the_aggregator_cn_21_cn_24() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    // Its other groups are left out.
    extension.tell(|told| {
        told.groups.insert("apps".to_owned(), vec!["v1".to_owned()]);
        told.groups
            .insert("other.example.com".to_owned(), vec!["v1".to_owned()]);
    });
    let before = client.call(aggregated()).await;
    extension.install(&client, GROUP).await;
    let found = until_version(&client, GROUP, is_current).await;
    let flunders = &found["resources"][0];
    assert_eq!(flunders["resource"], "flunders");
    assert_eq!(flunders["shortNames"], json!(["fl"]));
    assert_eq!(flunders["subresources"][0]["subresource"], "status");
    let document = client.call(aggregated()).await;
    assert!(version_of(&document.json(), "other.example.com").is_none());
    let apps = version_of(&document.json(), "apps").unwrap()["resources"].clone();
    assert_eq!(
        apps,
        version_of(&before.json(), "apps").unwrap()["resources"]
    );
    let asked = extension.asked("/apis");
    let first = asked.iter().find(|one| one.path == "/apis").unwrap();
    assert_eq!(first.header("x-remote-user"), "system:kube-aggregator");
    assert_eq!(first.header("x-remote-group"), "system:masters");
    let v2beta1 = AGGREGATED.replace("v=v2;", "v=v2beta1;");
    assert_eq!(first.header("accept"), format!("{AGGREGATED},{v2beta1}"));
    assert!(first.certificate.is_some() && first.header("authorization").is_empty());
    // The tag of the own document changes with what the extension says.
    let tag = |answer: &crate::harness::Answer| answer.header("etag").unwrap().to_owned();
    assert_ne!(tag(&before), tag(&document));
    let known = aggregated().header("if-none-match", &tag(&document));
    assert_eq!(client.call(known).await.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn one_server_is_asked_once_for_all_its_versions_cn_21() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.tell(|told| {
        told.groups
            .insert("more.example.com".to_owned(), vec!["v1".to_owned()]);
    });
    extension.install(&client, GROUP).await;
    until_version(&client, GROUP, is_current).await;
    let body = extension.api_service("more.example.com", "v1");
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    until_version(&client, "more.example.com", is_current).await;
    assert!(is_current(
        version_of(&client.call(aggregated()).await.json(), GROUP).unwrap()
    ));
    // A version that the server has not is there without resources.
    let body = extension.api_service(GROUP, "v7");
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    let has_three = |document: &Value| {
        let mut items = document["items"].as_array().unwrap().iter();
        let item = items
            .find(|item| item["metadata"]["name"] == GROUP)
            .unwrap();
        item["versions"][0] == json!({"version": "v7", "freshness": "Current"})
    };
    until_has(&client, aggregated, has_three).await;
}

#[tokio::test]
async fn a_plain_list_is_turned_into_the_aggregated_form_cn_22() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.tell(|told| told.aggregates = false);
    extension.install(&client, GROUP).await;
    let found = until_version(&client, GROUP, is_current).await;
    let kind = json!({"group": "", "version": "", "kind": "Flunder"});
    let resource = &found["resources"][0];
    assert_eq!(resource["responseKind"], kind);
    assert_eq!(resource["scope"], "Namespaced");
    assert_eq!(resource["subresources"][0]["responseKind"], kind);
    assert_eq!(
        resource["subresources"][0]["verbs"],
        json!(["get", "patch", "update"])
    );
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_stale_and_harms_nobody_cn_23_cn_24() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.install(&client, GROUP).await;
    until_version(&client, GROUP, is_current).await;
    // It is asked again when it changes, and forgets what it said.
    extension.tell(|told| told.answer = Some((503, "tired".to_owned())));
    let at = api_service(&format!("v1.{GROUP}"));
    let patch = json!({"spec": {"insecureSkipTLSVerify": true, "caBundle": null}});
    client
        .call(Call::merge_patch(&at, &patch))
        .await
        .expect(200);
    until_version(&client, GROUP, |version| *version == stale()).await;
    extension.tell(|told| told.answer = None);
    until_version(&client, GROUP, is_current).await;
    // One that never answers holds nobody up.
    extension.tell(|told| told.delay = Duration::from_secs(60));
    let patch = json!({"spec": {"insecureSkipTLSVerify": false, "caBundle": extension.ca_bundle}});
    client
        .call(Call::merge_patch(&at, &patch))
        .await
        .expect(200);
    let begun = Instant::now();
    until_version(&client, GROUP, |version| *version == stale()).await;
    for path in [
        "/apis",
        "/api/v1",
        "/apis/apps/v1",
        &format!("/apis/{GROUP}"),
    ] {
        client.call(Call::get(path)).await.expect(200);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    client.call(Call::delete(&at)).await.expect(200);
    until_has(&client, aggregated, |document| {
        version_of(document, GROUP).is_none()
    })
    .await;
}

#[tokio::test]
async fn answers_that_are_wrong_or_too_long_count_as_none_cn_23() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.tell(|told| told.answer = Some((200, "{\"kind\": [".to_owned())));
    extension.install(&client, GROUP).await;
    until_version(&client, GROUP, |version| *version == stale()).await;
    let asked = || extension.asked(&format!("/apis/{GROUP}/v1")).len();
    let begun = Instant::now();
    while asked() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let long = format!(
        "{{\"kind\": \"APIGroupDiscoveryList\", \"items\": \"{}\"}}",
        "x".repeat(5 << 20)
    );
    extension.tell(|told| told.answer = Some((200, long)));
    let before = extension.asked("/apis").len();
    while extension.asked("/apis").len() < before + 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let document = client.call(aggregated()).await.expect(200);
    assert_eq!(*version_of(&document, GROUP).unwrap(), stale());
    extension.tell(|told| told.drops = true);
    extension.tell(|told| told.answer = None);
    extension.tell(|told| told.drops = false);
    until_version(&client, GROUP, is_current).await;
}

/// CN-13: a remote APIService in the place of a definition hides it everywhere, until it is local.
#[tokio::test]
async fn a_remote_one_takes_the_place_of_a_definition_cn_11_cn_13() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let lamps = definition(
        "lamps",
        "Lamp",
        &json!([version("v1", true, &json!({"type": "object"}))]),
    );
    establish(&client, &lamps).await;
    let at = api_service("v1.example.com");
    until(&client, || Call::get(&at), |answer| answer.status == 200).await;
    let extension = Extension::start("example.com").await;
    extension.add_service(&client).await;
    let body = extension.api_service("example.com", "v1");
    let label = json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
        "spec": body["spec"]});
    client
        .call(Call::merge_patch(&at, &label))
        .await
        .expect(200);
    let of_extension =
        |version: &Value| is_current(version) && version["resources"][0]["resource"] == "flunders";
    let found = until_version(&client, "example.com", of_extension).await;
    assert_eq!(found["resources"].as_array().unwrap().len(), 1);
    let patch = json!({"spec": {"service": null, "caBundle": null}});
    client
        .call(Call::merge_patch(&at, &patch))
        .await
        .expect(200);
    let of_definition = |version: &Value| version["resources"][0]["resource"] == "lamps";
    until_version(&client, "example.com", of_definition).await;
}
