//! The audit log and the log lines about requests.
//!
//! `fixtures/audit/reference.jsonl` has the events that kube-apiserver 1.36 recorded for the same
//! requests under the same policy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::harness::daemon::taffrail;
use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol, body, configmap};

const SOON: Duration = Duration::from_secs(20);
const AGENT: &str = "auditor/1.0";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/audit");
    folder.join(name)
}

async fn daemon(policy: &Path, log: &Path, further: &[&str]) -> Daemon {
    let policy = format!("--audit-policy-file={}", policy.display());
    let log = format!("--audit-log-path={}", log.display());
    let flags = [&[policy.as_str(), log.as_str()], further].concat();
    Daemon::with(&flags).await
}

fn call(method: &str, path: &str) -> Call {
    Call::new(method, path).header("User-Agent", AGENT)
}

fn send(method: &str, path: &str, body: &str) -> Call {
    call(method, path).body("application/json", body.to_owned())
}

/// The requests of the fixture, in its order.
fn requests() -> Vec<Call> {
    let aud = configmap("aud");
    let object = |kind: &str, value: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"aud"}}{value}}}"#)
    };
    let patch = r#"{"data":{"k":"3"}}"#.to_owned();
    let options = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}"#;
    let secret = object("Secret", r#","stringData":{"k":"topsecret"}"#);
    let generated = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"aud-"}}"#;
    vec![
        send(
            "POST",
            CONFIGMAPS,
            &object("ConfigMap", r#","data":{"k":"1"}"#),
        ),
        call("GET", &aud),
        call("GET", &configmap("none")),
        call("GET", &format!("{CONFIGMAPS}?limit=1")),
        send("PUT", &aud, &object("ConfigMap", r#","data":{"k":"2"}"#)),
        call("PATCH", &aud).body("application/merge-patch+json", patch),
        call(
            "GET",
            &format!("{CONFIGMAPS}?watch=true&timeoutSeconds=1&resourceVersion=0"),
        ),
        send("POST", CONFIGMAPS, "{\"nonsense"),
        send("DELETE", &aud, options),
        call("DELETE", &aud),
        send("POST", SECRETS, &secret),
        send("POST", SECRETS, generated),
        call("GET", &format!("{SECRETS}/aud")),
        call("DELETE", &format!("{SECRETS}/aud")),
        send("POST", ACCOUNTS, &object("ServiceAccount", "")),
        call("DELETE", &format!("{ACCOUNTS}/aud")),
        call("GET", "/version"),
        call("GET", "/healthz/ping"),
        call("GET", "/nosuch"),
        call("GET", "/apis/apps/v1"),
        call("GET", CONFIGMAPS)
            .header("Impersonate-User", "bob")
            .header("Impersonate-Group", "crew"),
        call("GET", CONFIGMAPS).header("Authorization", "Bearer wrong"),
        call("GET", CONFIGMAPS).header("Authorization", ""),
        call("DELETE", &format!("{CONFIGMAPS}?labelSelector=x%3Dy")),
        call("GET", CONFIGMAPS).header("Audit-ID", "my-own"),
    ]
}

/// The events of these requests, without what differs between any two servers.
fn events(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    lines
        .filter(|event: &Value| event["userAgent"] == AGENT)
        .map(|mut event| {
            for time in ["requestReceivedTimestamp", "stageTimestamp"] {
                let text = event[time].as_str().unwrap();
                assert_eq!(text.len(), "2026-11-23T14:43:00.333024Z".len(), "{text}");
                event.as_object_mut().unwrap().remove(time);
            }
            let count = ids.len();
            let id = event["auditID"].as_str().unwrap().to_owned();
            let is_own = id == "my-own";
            let number = *ids.entry(id).or_insert(count);
            if !is_own {
                event["auditID"] = number.into();
            }
            event["user"].as_object_mut().unwrap().remove("uid");
            blank(&mut event);
            event
        })
        .collect()
}

/// Blanks uids, versions and times of objects.
fn blank(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if matches!(
                    name.as_str(),
                    "uid" | "resourceVersion" | "creationTimestamp"
                ) {
                    *member = "".into();
                }
                blank(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
    }
}

async fn read(log: &Path, daemon: &mut Daemon) -> String {
    daemon.stop(Signal::TERM).await;
    std::fs::read_to_string(log).unwrap()
}

#[tokio::test]
async fn events_are_those_of_kube_apiserver() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut daemon = daemon(&fixture("policy.yaml"), &log, &[]).await;
    let target = daemon.target();
    for request in requests() {
        let authorization = |(name, _): &&(String, String)| name == "Authorization";
        let token = request.headers.iter().find(authorization).cloned();
        let target = match token.as_ref().map(|(_, value)| value.as_str()) {
            None => target.clone(),
            Some("") => target.anonymous(),
            Some(value) => target.with_token(value.trim_start_matches("Bearer ")),
        };
        let mut request = request;
        request.headers.retain(|(name, _)| name != "Authorization");
        // Over HTTP/1.1, each on a connection of its own, they are answered in their order.
        let client = target.client_over(Protocol::Http1);
        if request.path.contains("watch=true") {
            client.lines(request).await.unwrap().whole().await.unwrap();
        } else {
            client.attempt(request).await.unwrap();
        }
    }
    let ours = read(&log, &mut daemon).await;
    assert!(
        !ours.contains("topsecret") && !ours.contains("Bearer"),
        "{ours}"
    );
    assert!(!ours.contains(&daemon.token()));
    let theirs = std::fs::read_to_string(fixture("reference.jsonl")).unwrap();
    let (ours, theirs) = (events(&ours), events(&theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(comparable(ours), comparable(theirs));
    }
    assert_eq!(ours.len(), theirs.len());
}

/// An event without the words of a JSON parser, which are those of another library.
fn comparable(event: &Value) -> Value {
    let mut event = event.clone();
    for part in ["responseStatus", "responseObject"] {
        let message = event[part]["message"].as_str().unwrap_or_default();
        if let Some((start, _)) = message.split_once("json parse error") {
            event[part]["message"] = start.to_owned().into();
        }
    }
    event
}

#[tokio::test]
async fn a_log_that_is_full_begins_a_new_file_and_metrics_count() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let limits = ["--audit-log-maxsize=1", "--audit-log-maxbackup=1"];
    let policy = folder.path().join("policy.yaml");
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n";
    std::fs::write(&policy, text).unwrap();
    let mut daemon = daemon(&policy, &log, &limits).await;
    let client = daemon.client();
    let large = "x".repeat(400_000);
    for number in 0..12 {
        let body = json!({ "metadata": { "name": format!("a{number}") }, "data": { "k": large } });
        client.call(Call::post(CONFIGMAPS, &body)).await.expect(201);
    }
    let page = client.call(Call::get("/metrics")).await.text();
    for line in [
        "apiserver_audit_level_total{level=\"Request\"} ",
        "apiserver_audit_event_total ",
        "apiserver_audit_error_total{plugin=\"log\"} 0",
        "apiserver_audit_requests_rejected_total 0",
    ] {
        assert!(page.contains(line), "{line}");
    }
    let last = read(&log, &mut daemon).await;
    assert!(last.len() < 1 << 20, "{}", last.len());
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<_> = names.filter(|name| name.starts_with("audit-")).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let before = std::fs::read_to_string(folder.path().join(&names[0])).unwrap();
    for line in before.lines().chain(last.lines()) {
        assert_eq!(
            serde_json::from_str::<Value>(line).unwrap()["kind"],
            "Event"
        );
    }
}

#[tokio::test]
async fn settings_of_the_audit_log_that_can_not_be_used_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = fixture("policy.yaml");
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "kind: Policy\n").unwrap();
    let versioned = folder.path().join("versioned.yaml");
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
                rules: [{level: None, resources: [{group: apps/v1}]}]\n";
    std::fs::write(&versioned, text).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let log = path(&folder.path().join("audit.log"));
    for (policy, log, told) in [
        (path(&bad), log.clone(), "--audit-policy-file="),
        (
            "/nosuch".to_owned(),
            log.clone(),
            "--audit-policy-file=/nosuch: ",
        ),
        (path(&versioned), log.clone(), "group \"apps/v1\""),
        (path(&good), path(folder.path()), "--audit-log-path="),
        (path(&good), String::new(), "audit-log-path"),
    ] {
        let data = folder.path().join("data");
        let run = move || {
            taffrail()
                .args(["--data-dir", data.to_str().unwrap(), "--secure-port=0"])
                .args(["--metrics-bind-address=0", "--audit-policy-file", &policy])
                .args(["--audit-log-path", &log])
                .output()
                .unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(told), "{told}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

async fn until(daemon: &Daemon, text: &str) -> String {
    let begun = Instant::now();
    loop {
        let log = daemon.stderr();
        if let Some(line) = log.lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        assert!(begun.elapsed() < SOON, "no {text:?} in {log}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_log_tells_of_failures_of_all_requests_or_of_none() {
    let failures = Daemon::start().await;
    let nobody = failures.target().anonymous().client();
    let denied = Call::get(CONFIGMAPS).header("Audit-ID", "denied-one");
    nobody.call(denied).await.refusal(403, "Forbidden");
    failures
        .client()
        .call(Call::get(&configmap("none")))
        .await
        .refusal(404, "NotFound");
    let line = until(&failures, "denied-one").await;
    for part in [
        "request",
        "user=\"system:anonymous\"",
        "verb=list",
        "resource=\"configmaps\"",
        "namespace=\"default\"",
        "code=403",
        "milliseconds=",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!failures.stderr().contains("code=404"));

    let all = Daemon::with(&["--access-log=all", "--log-format=json"]).await;
    let found = Call::get(CONFIGMAPS).header("Audit-ID", "an-ordinary-one");
    all.client().call(found).await.expect(200);
    let line: Value = serde_json::from_str(&until(&all, "an-ordinary-one").await).unwrap();
    let outcome = (&line["code"], &line["user"]);
    assert_eq!(outcome, (&json!(200), &json!("admin")));

    let off = Daemon::with(&["--access-log=off"]).await;
    let nobody = off.target().anonymous().client();
    nobody
        .call(Call::get(CONFIGMAPS))
        .await
        .refusal(403, "Forbidden");
    assert!(!off.stderr().contains("code=403"));
}

/// Sends a request and goes away after a while.
async fn leave_after(daemon: &Daemon, call: &Call, while_waiting: Duration) {
    let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    let head = format!(
        "{} {} HTTP/1.1\r\nhost: a\r\nuser-agent: {AGENT}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        call.method,
        call.path,
        daemon.token(),
        call.body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&call.body).await.unwrap();
    stream.flush().await.unwrap();
    tokio::time::sleep(while_waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_write_is_recorded_though_its_client_is_gone() {
    const ROUNDS: u32 = 30;
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, text).unwrap();
    let daemon = daemon(&policy, &log, &[]).await;
    let client = daemon.client();
    // Small bodies are read by the thread of their connection, large ones elsewhere.
    for (sort, bytes, step) in [("s", 100, 100), ("l", 200_000, 3_000)] {
        for round in 0..ROUNDS {
            let name = format!("{sort}{round}");
            let wait = Duration::from_micros(step) * round;
            let value = |first: &str| body(&name, &first.repeat(bytes));
            let create = send("POST", CONFIGMAPS, &value("1").to_string());
            leave_after(&daemon, &create, wait).await;
            let (kept, gone) = (format!("kept-{name}"), format!("gone-{name}"));
            for name in [&kept, &gone] {
                let object = body(name, "1");
                client
                    .call(Call::post(CONFIGMAPS, &object))
                    .await
                    .expect(201);
            }
            let put = body(&kept, &"2".repeat(bytes)).to_string();
            let put = send("PUT", &configmap(&kept), &put);
            leave_after(&daemon, &put, wait).await;
            leave_after(&daemon, &call("DELETE", &configmap(&gone)), wait).await;
        }
    }
    let since = Instant::now();
    let ended = loop {
        let log = std::fs::read_to_string(&log).unwrap();
        let events: Vec<Value> = events(&log);
        let at = |stage: &str| {
            events
                .iter()
                .filter(|event| event["stage"] == stage)
                .count()
        };
        if at("RequestReceived") == at("ResponseComplete") {
            break events;
        }
        assert!(since.elapsed() < SOON, "requests without an outcome");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // Whatever is not written now is not written later.
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let stored = |name: &str| {
        let mut items = list["items"].as_array().unwrap().iter();
        items.find(|item| item["metadata"]["name"] == name)
    };
    let mut codes: BTreeMap<(String, u64), u32> = BTreeMap::new();
    for event in ended
        .iter()
        .filter(|event| event["stage"] == "ResponseComplete")
    {
        let (verb, reference) = (event["verb"].as_str().unwrap(), &event["objectRef"]);
        let code = event["responseStatus"]["code"].as_u64().unwrap();
        *codes.entry((verb.to_owned(), code)).or_default() += 1;
        // A client that left in the middle of its body has not named anything.
        let Some(name) = reference["name"].as_str() else {
            continue;
        };
        let is_done = match verb {
            "create" => stored(name).is_some(),
            "update" => stored(name).unwrap()["data"] != json!({ "k": "1" }),
            "delete" => stored(name).is_none(),
            other => panic!("{other}"),
        };
        assert_eq!(code < 300, is_done, "{verb} of {name}: {code}");
        // A body that was cut is refused before anybody knows that the client is gone.
        let is_refused = code == 499 || (code == 400 && verb == "update");
        assert!(is_done || is_refused, "{verb} of {name}: {code}");
    }
    assert!(codes.keys().any(|(_, code)| *code < 300), "{codes:?}");
}
