//! The bodies, names, annotations and stages in audit events, and the names in the access log, for
//! every encoding.

use std::path::Path;

use api::protobuf::write_document;
use http::StatusCode;
use kinds::types::TYPES;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::upgrades::Asked;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Protocol, pod_spec};

const AGENT: &str = "auditor/1.0";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A daemon that records requests by one rule, and its log.
struct Audited {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Audited {
    async fn start(rules: &str, further: &[&str]) -> Audited {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.yaml");
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: {rules}\n");
        std::fs::write(&policy, text).unwrap();
        let policy = format!("--audit-policy-file={}", policy.display());
        let log = format!("--audit-log-path={}", log(folder.path()));
        let flags = [&[policy.as_str(), log.as_str()], further].concat();
        let daemon = Daemon::with(&flags).await;
        Audited { daemon, folder }
    }

    fn client(&self) -> Client {
        self.daemon.target().client_over(Protocol::Http1)
    }

    /// The events of requests of the test, after the daemon has stopped.
    async fn events(mut self) -> Vec<Value> {
        self.daemon.stop(Signal::TERM).await;
        let text = std::fs::read_to_string(log(self.folder.path())).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|event: &Value| event["userAgent"] == AGENT)
            .collect()
    }
}

fn log(folder: &Path) -> String {
    folder.join("audit.log").display().to_string()
}

fn at<'e>(events: &'e [Value], stage: &str) -> Vec<&'e Value> {
    let events = events.iter();
    events.filter(|event| event["stage"] == stage).collect()
}

fn call(method: &str, path: &str) -> Call {
    Call::new(method, path).header("User-Agent", AGENT)
}

/// A document in an encoding. YAML of JSON is JSON in other words.
fn encoded(media_type: &str, document: &Value) -> Vec<u8> {
    let text = document.to_string();
    let mut body = Vec::new();
    match media_type {
        PROTOBUF => assert!(write_document(&TYPES, text.as_bytes(), &mut body)),
        _ => body = text.into_bytes(),
    }
    body
}

async fn send(client: &Client, method: &str, path: &str, media_type: &str, body: &Value) {
    let call = call(method, path).header("Accept", media_type);
    let answer = client
        .call(call.body(media_type, encoded(media_type, body)))
        .await;
    assert!(answer.status.is_success(), "{}", answer.text());
}

#[tokio::test]
async fn bodies_are_recorded_as_they_were_understood_whatever_their_encoding() {
    let audited = Audited::start("[{level: RequestResponse}]", &[]).await;
    let client = audited.client();
    let encodings = [JSON, YAML, PROTOBUF];
    for media_type in encodings {
        let secret = json!({ "kind": "Secret", "apiVersion": "v1",
            "metadata": { "name": "a" }, "stringData": { "k": "v" } });
        send(&client, "POST", SECRETS, media_type, &secret).await;
        let path = format!("{SECRETS}/a");
        send(&client, "PUT", &path, media_type, &secret).await;
        let list = call("GET", SECRETS).header("Accept", media_type);
        client.call(list).await;
        let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1",
            "gracePeriodSeconds": 0 });
        send(&client, "DELETE", &path, media_type, &options).await;
        let missing = call("GET", &path).header("Accept", media_type);
        assert_eq!(client.call(missing).await.status, StatusCode::NOT_FOUND);
    }
    let events = audited.events().await;
    let events = at(&events, "ResponseComplete");
    let mut requests = events.chunks(5);
    for media_type in encodings {
        let [create, update, list, delete, missing] = requests.next().unwrap() else {
            panic!("events are missing: {events:?}");
        };
        let shown = json!({ "kind": "Secret", "apiVersion": "v1", "type": "Opaque",
            "metadata": { "name": "a" }, "data": { "k": "dg==" } });
        for event in [create, update] {
            assert_eq!(event["objectRef"]["name"], "a", "{media_type}");
            assert_eq!(event["requestObject"], shown, "{media_type}");
            let response = &event["responseObject"];
            assert_eq!(response["kind"], "Secret", "{media_type}: {event}");
            assert_eq!(response["data"]["k"], "dg==", "{media_type}");
            assert!(response["metadata"]["uid"].is_string(), "{media_type}");
        }
        assert_eq!(list["responseObject"]["kind"], "SecretList", "{media_type}");
        let items = list["responseObject"]["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{media_type}");
        let options = json!({ "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "apiVersion": "meta.k8s.io/__internal" });
        assert_eq!(delete["requestObject"], options, "{media_type}");
        assert_eq!(
            delete["responseStatus"]["status"], "Success",
            "{media_type}"
        );
        assert_eq!(delete["responseObject"]["kind"], "Status", "{media_type}");
        assert_eq!(
            missing["responseStatus"]["reason"], "NotFound",
            "{media_type}"
        );
        assert_eq!(missing["responseObject"]["kind"], "Status", "{media_type}");
    }
}

/// As recorded from kube-apiserver: a deletion of a collection names no object, whatever it
/// selects, and a Namespace has its phase.
#[tokio::test]
async fn collections_have_no_name_and_namespaces_a_phase() {
    let audited = Audited::start("[{level: Request}]", &[]).await;
    let client = audited.client();
    let namespace = json!({ "kind": "Namespace", "apiVersion": "v1",
        "metadata": { "name": "a" } });
    send(&client, "POST", "/api/v1/namespaces", JSON, &namespace).await;
    let selected = format!("{CONFIGMAPS}?fieldSelector=metadata.name%3Da");
    for method in ["DELETE", "GET"] {
        client.call(call(method, &selected)).await.expect(200);
    }
    let events = audited.events().await;
    let [created, deleted, listed] = at(&events, "ResponseComplete")[..] else {
        panic!("events are missing: {events:?}");
    };
    assert_eq!(
        created["requestObject"]["status"],
        json!({ "phase": "Active" })
    );
    assert_eq!(deleted["verb"], "deletecollection");
    assert_eq!(deleted["objectRef"]["name"], Value::Null);
    assert_eq!(listed["objectRef"]["name"], "a");
}

/// Bodies are recorded as deep as the API takes them, in both texts.
#[tokio::test]
async fn deep_bodies_are_recorded() {
    const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
    const APPLY: &str = "application/apply-patch+yaml";
    let audited = Audited::start("[{level: Request}]", &[]).await;
    let client = audited.client();
    let json = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let yaml = format!("{}1", "- ".repeat(5_000));
    let one = format!("{REVISIONS}/a?fieldManager=b&force=true");
    for (method, path, form, value) in [
        ("POST", REVISIONS, JSON, &json),
        ("POST", REVISIONS, YAML, &yaml),
        ("PATCH", &one, APPLY, &json),
        ("PATCH", &one, APPLY, &yaml),
    ] {
        let body = match form {
            JSON => format!(
                r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","revision":1,
                "metadata":{{"name":"a"}},"data":{{"x":{value}}}}}"#
            ),
            _ => format!(
                "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {{name: a}}\n\
                 revision: 1\ndata:\n  x:\n    {value}\n"
            ),
        };
        let answer = client.call(call(method, path).body(form, body)).await;
        assert_ne!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text());
    }
    // The events are as deep, and so are looked at as text.
    let mut daemon = audited.daemon;
    daemon.stop(Signal::TERM).await;
    let text = std::fs::read_to_string(log(audited.folder.path())).unwrap();
    let events = text.lines().filter(|line| line.contains(AGENT));
    let complete: Vec<&str> = events
        .filter(|line| line.contains(r#""stage":"ResponseComplete""#))
        .collect();
    assert_eq!(complete.len(), 4);
    for event in complete {
        let beginning = &event[..event.len().min(300)];
        assert!(event.contains(&format!(r#""x":{json}"#)), "{beginning}");
    }
}

/// At the level Metadata nothing of the body is recorded but the name of the object and, of a
/// Status, what became of the request.
#[tokio::test]
async fn metadata_names_the_object_and_the_outcome_in_every_encoding_and_shows_no_body() {
    let audited = Audited::start("[{level: Metadata}]", &[]).await;
    let client = audited.client();
    for media_type in [JSON, YAML, PROTOBUF] {
        let secret = json!({ "kind": "Secret", "apiVersion": "v1",
            "metadata": { "name": "a" }, "stringData": { "k": "hidden" } });
        send(&client, "POST", SECRETS, media_type, &secret).await;
        let path = format!("{SECRETS}/a?pretty=true");
        let delete = call("DELETE", &path).header("Accept", media_type);
        assert_eq!(client.call(delete).await.status, StatusCode::OK);
    }
    let events = audited.events().await;
    for pair in at(&events, "ResponseComplete").chunks(2) {
        assert_eq!(pair[0]["objectRef"]["name"], "a");
        assert_eq!(pair[1]["responseStatus"]["status"], "Success");
        let text = format!("{pair:?}");
        let hidden = ["requestObject", "responseObject", "hidden", "aGlkZGVu"];
        assert!(!hidden.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[tokio::test]
async fn a_body_that_could_not_be_decoded_is_not_recorded_and_names_nothing() {
    let audited = Audited::start("[{level: RequestResponse}]", &[]).await;
    let client = audited.client();
    let bogus = r#"{"metadata":{"name":"a"},"bogus":1}"#;
    let strict = format!("{CONFIGMAPS}?fieldValidation=Strict");
    let wrong = r#"{"metadata":{"name":"a"},"data":1}"#;
    let other = r#"{"kind":"Pod","metadata":{"name":"a"}}"#;
    let options = r#"{"gracePeriodSeconds":"soon"}"#;
    for (method, path, body) in [
        ("POST", strict.as_str(), bogus),
        ("POST", CONFIGMAPS, wrong),
        ("POST", CONFIGMAPS, other),
        ("DELETE", CONFIGMAPS, options),
    ] {
        let sent = call(method, path).body(JSON, body);
        assert_eq!(client.call(sent).await.status, StatusCode::BAD_REQUEST);
    }
    let events = audited.events().await;
    let events = at(&events, "ResponseComplete");
    assert_eq!(events.len(), 4);
    for event in events {
        assert!(event.get("requestObject").is_none(), "{event}");
        assert!(event["objectRef"].get("name").is_none(), "{event}");
    }
}

#[tokio::test]
async fn only_objects_of_the_api_are_recorded_of_responses() {
    let audited = Audited::start("[{level: RequestResponse}]", &[]).await;
    let client = audited.client();
    let documents = [
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/version",
        "/",
        "/metrics",
        "/readyz?verbose",
    ];
    let objects = ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"];
    for path in documents.iter().chain(&objects) {
        let answer = client.call(call("GET", path)).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    client
        .call(call("GET", "/apis").header("Accept", aggregated))
        .await;
    let events = audited.events().await;
    let events = at(&events, "ResponseComplete");
    assert_eq!(events.len(), documents.len() + objects.len() + 1);
    let (without, with) = events.split_at(documents.len());
    for event in without {
        assert!(event.get("responseObject").is_none(), "{event}");
        assert!(event["annotations"].get("audit.k8s.io/truncated").is_none());
        assert!(event.to_string().len() < 2000, "{event}");
    }
    for event in with {
        assert!(event["responseObject"]["kind"].is_string(), "{event}");
    }
}

#[tokio::test]
async fn a_group_of_all_groups_has_every_resource() {
    let rules = "[{level: None, resources: [{group: '*', resources: [secrets, deployments]}]}, \
                 {level: Metadata}]";
    let audited = Audited::start(rules, &[]).await;
    let client = audited.client();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for path in [SECRETS, deployments, CONFIGMAPS] {
        client.call(call("GET", path)).await.expect(200);
    }
    let events = audited.events().await;
    let uris = events.iter().map(|event| event["requestURI"].clone());
    assert_eq!(uris.collect::<Vec<_>>(), [CONFIGMAPS, CONFIGMAPS]);
}

#[tokio::test]
async fn annotations_tell_of_deprecated_resources_and_of_the_policy_for_pods() {
    const PREFIX: &str = "pod-security.kubernetes.io";
    let audited = Audited::start("[{level: Metadata}]", &[]).await;
    let client = audited.client();
    for (name, labels) in [
        ("plain", json!({})),
        (
            "audited",
            json!({ (format!("{PREFIX}/audit")): "restricted" }),
        ),
        (
            "enforced",
            json!({ (format!("{PREFIX}/enforce")): "baseline",
                (format!("{PREFIX}/enforce-version")): "v1.30" }),
        ),
    ] {
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        let create = Call::post("/api/v1/namespaces", &namespace);
        client.call(create).await.expect(201);
        let mut spec = pod_spec();
        spec["hostNetwork"] = true.into();
        let pod = json!({ "metadata": { "name": "p" }, "spec": spec });
        let path = format!("/api/v1/namespaces/{name}/pods");
        let create = Call::post(&path, &pod).header("User-Agent", AGENT);
        let answer = client.call(create).await;
        let wanted = if name == "enforced" { 403 } else { 201 };
        assert_eq!(answer.status.as_u16(), wanted, "{}", answer.text());
    }
    let endpoints = "/api/v1/namespaces/default/endpoints";
    client.call(call("GET", endpoints)).await.expect(200);
    let watch = format!("{endpoints}?watch=true&timeoutSeconds=1");
    let lines = client.lines(call("GET", &watch)).await.unwrap();
    lines.whole().await.unwrap();
    let events = audited.events().await;
    let complete = at(&events, "ResponseComplete");
    let annotation = |place: usize, name: &str| complete[place]["annotations"][name].clone();
    let policy = |place| annotation(place, &format!("{PREFIX}/enforce-policy"));
    assert_eq!(policy(0), "privileged:latest");
    assert_eq!(policy(1), "privileged:latest");
    assert_eq!(policy(2), "baseline:v1.30");
    let violations = |place| annotation(place, &format!("{PREFIX}/audit-violations"));
    assert_eq!(violations(0), Value::Null);
    let told = violations(1).as_str().unwrap().to_owned();
    let start = "would violate PodSecurity \"restricted:latest\": ";
    assert!(told.starts_with(start), "{told}");
    assert_eq!(violations(2), Value::Null);
    for place in [3, 4] {
        assert_eq!(annotation(place, "k8s.io/deprecated"), "true");
    }
    for stage in ["RequestReceived", "ResponseStarted"] {
        for event in at(&events, stage) {
            let told = event["annotations"].get("k8s.io/deprecated");
            assert!(told.is_none(), "{event}");
        }
    }
}

#[tokio::test]
async fn long_running_requests_that_fail_have_all_three_stages() {
    let audited = Audited::start("[{level: RequestResponse}]", &[]).await;
    let client = audited.client();
    let paths = [
        ("GET", format!("{PODS}/none/log"), 404),
        ("POST", format!("{PODS}/none/exec?command=a"), 404),
        ("GET", format!("{PODS}/none/attach"), 404),
        ("POST", format!("{PODS}/none/portforward"), 404),
        (
            "GET",
            format!("{PODS}?watch=true&fieldSelector=bogus%3Da"),
            400,
        ),
        // Not a long-running one.
        ("GET", format!("{PODS}/none"), 404),
    ];
    for (method, path, code) in &paths {
        let answer = client.call(call(method, path)).await;
        assert_eq!(answer.status.as_u16(), *code, "{}", answer.text());
    }
    let nobody = audited.daemon.target().anonymous();
    let nobody = nobody.client_over(Protocol::Http1);
    let denied = nobody.call(call("GET", &format!("{PODS}/a/log"))).await;
    denied.refusal(403, "Forbidden");
    let events = audited.events().await;
    let stages = |uri: &str| -> Vec<&Value> {
        let of_it = events.iter().filter(|event| event["requestURI"] == uri);
        of_it.collect()
    };
    for (place, (_, path, code)) in paths.iter().enumerate() {
        let events = stages(path);
        let names: Vec<_> = events.iter().map(|event| &event["stage"]).collect();
        if place == paths.len() - 1 {
            assert_eq!(names, ["RequestReceived", "ResponseComplete"]);
            continue;
        }
        let all = ["RequestReceived", "ResponseStarted", "ResponseComplete"];
        assert_eq!(names, all, "{path}");
        for event in &events[1..] {
            assert_eq!(event["responseStatus"]["code"], *code, "{path}");
            assert_eq!(event["responseObject"]["kind"], "Status", "{path}");
        }
    }
    let denied = stages(&format!("{PODS}/a/log"));
    let names: Vec<_> = denied.iter().map(|event| &event["stage"]).collect();
    assert_eq!(
        names,
        ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    );
}

/// WA-7.
#[tokio::test]
async fn a_watch_over_websocket_has_all_three_stages() {
    let audited = Audited::start("[{level: Metadata}]", &[]).await;
    let path = format!("{PODS}?watch=true&resourceVersion=1");
    let asked = Asked::web_socket(&path)
        .header("Origin", "https://example.com")
        .header("User-Agent", AGENT);
    let mut watch = asked.send(&audited.daemon.target()).await.unwrap();
    watch.send(8, &[3, 232]).await;
    assert_eq!(watch.closed().await, 1000);
    let events = audited.events().await;
    let stages: Vec<_> = events.iter().map(|event| &event["stage"]).collect();
    let all = ["RequestReceived", "ResponseStarted", "ResponseComplete"];
    assert_eq!(stages, all);
    for event in &events[1..] {
        assert_eq!(event["responseStatus"]["code"], 101);
        assert_eq!(event["verb"], "watch");
    }
}

#[tokio::test]
async fn the_access_log_names_what_is_created() {
    let mut daemon = Daemon::with(&["--access-log=all", "--log-format=json"]).await;
    let client = daemon.client();
    let mut wanted = Vec::new();
    for (id, media_type, metadata) in [
        ("by-name", JSON, json!({ "name": "a" })),
        ("in-protobuf", PROTOBUF, json!({ "name": "b" })),
        ("generated", JSON, json!({ "generateName": "c-" })),
        ("taken", YAML, json!({ "name": "a" })),
    ] {
        let object = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata });
        let create = Call::new("POST", CONFIGMAPS).header("Audit-ID", id);
        let create = create.body(media_type, encoded(media_type, &object));
        let answer = client.call(create).await;
        let name = match id {
            "taken" => "a".to_owned(),
            _ => answer.expect(201)["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned(),
        };
        wanted.push((id, name));
    }
    daemon.stop(Signal::TERM).await;
    let log = daemon.stderr();
    for (id, name) in wanted {
        let line = log.lines().find(|line| line.contains(id)).unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["name"], name, "{id}");
    }
}
