//! Acknowledged writes survive any end of the daemon, at the same resourceVersion.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap, version};

/// Every namespace and ConfigMap with its version.
async fn everything(daemon: &Daemon) -> Vec<Value> {
    let client = daemon.client();
    let mut all = Vec::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/configmaps",
        "/api/v1/secrets",
    ] {
        let list = client.call(Call::get(path)).await.expect(200);
        all.extend(list["items"].as_array().unwrap().iter().cloned());
    }
    all
}

async fn survives(end: Option<Signal>) {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    for number in 0..20 {
        let name = format!("a{number}");
        client
            .call(Call::post(CONFIGMAPS, &body(&name, "1")))
            .await
            .expect(201);
    }
    client
        .call(Call::put(&configmap("a3"), &body("a3", "2")))
        .await
        .expect(200);
    client
        .call(Call::delete(&configmap("a4")))
        .await
        .expect(200);
    let before = everything(&daemon).await;
    let newest = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    match end {
        Some(signal) => daemon.stop(signal).await,
        None => daemon.kill().await,
    }

    daemon.restart().await;
    assert_eq!(everything(&daemon).await, before);
    let client = daemon.client();
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert!(
        version(&list) >= newest,
        "the version went back from {newest}: {list}"
    );
    let new = client
        .call(Call::post(CONFIGMAPS, &body("new", "1")))
        .await
        .expect(201);
    assert!(version(&new) > newest, "a version was used again: {new}");
}

#[tokio::test]
async fn objects_keep_their_versions_over_sigterm() {
    survives(Some(Signal::TERM)).await;
}

#[tokio::test]
async fn objects_keep_their_versions_over_sigint() {
    survives(Some(Signal::INT)).await;
}

#[tokio::test]
async fn objects_keep_their_versions_over_kill_9() {
    survives(None).await;
}

#[tokio::test]
async fn a_watch_resumed_after_a_restart_goes_on_without_a_gap() {
    // API-132, API-316.
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let start = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    client
        .call(Call::put(&configmap("a"), &body("a", "2")))
        .await
        .expect(200);
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    client
        .call(Call::put(&configmap("a"), &body("a", "3")))
        .await
        .expect(200);
    client.call(Call::delete(&configmap("a"))).await.expect(200);

    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={start}");
    let mut watch = client.watch(&path).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = watch.event().await;
        seen.push((event["type"].clone(), event["object"]["data"]["k"].clone()));
    }
    let wanted = [
        ("ADDED", "1"),
        ("MODIFIED", "2"),
        ("MODIFIED", "3"),
        ("DELETED", "3"),
    ];
    assert_eq!(
        seen,
        wanted.map(|(kind, value)| (json!(kind), json!(value)))
    );
}

#[tokio::test]
async fn sigterm_ends_watches_politely_with_a_last_bookmark() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let newest = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={newest}&allowWatchBookmarks=true");
    let mut watch = client.watch(&path).await;
    let created = client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    assert_eq!(watch.event().await["type"], "ADDED");
    daemon.signal(Signal::TERM);
    let rest = tokio::time::timeout(Duration::from_secs(20), watch.rest())
        .await
        .unwrap();
    let last = rest.last().expect("a bookmark before the end");
    assert_eq!(last["type"], "BOOKMARK");
    assert!(version(&last["object"]) >= version(&created), "{last}");
    assert!(daemon.ended().await.success());
}

/// A request whose body never ends.
async fn unfinished(daemon: &Daemon) -> impl Sized + use<> {
    use tokio::io::AsyncWriteExt;
    let target = daemon.target();
    let mut stream = target.tls(&[b"http/1.1"]).await.unwrap();
    let token = target.token.unwrap();
    let head = format!(
        "POST {CONFIGMAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Until the body is being read. The daemon answers only at its end.
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream
}

#[tokio::test]
async fn stopping_waits_for_requests_only_until_its_deadline() {
    let mut daemon = Daemon::with(&["--shutdown-timeout", "1s"]).await;
    let request = unfinished(&daemon).await;
    let start = Instant::now();
    daemon.signal(Signal::TERM);
    daemon.ended().await;
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    drop(request);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut daemon = Daemon::with(&["--shutdown-timeout", "5m"]).await;
    let request = unfinished(&daemon).await;
    daemon.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let start = Instant::now();
    daemon.signal(Signal::TERM);
    daemon.ended().await;
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    drop(request);
}

#[tokio::test]
async fn the_store_in_memory_serves_and_forgets() {
    let mut daemon = Daemon::with(&["--storage-backend", "memory"]).await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    client
        .call(Call::put(&configmap("a"), &body("a", "2")))
        .await
        .expect(200);
    daemon.stop(Signal::TERM).await;
    daemon.restart().await;
    daemon
        .client()
        .call(Call::get(&configmap("a")))
        .await
        .refusal(404, "NotFound");
}

#[tokio::test]
async fn a_second_daemon_on_the_same_data_says_who_holds_it() {
    // The credentials are there whatever the store.
    for backend in ["embedded", "memory"] {
        let arguments = ["--storage-backend", backend];
        let daemon = Daemon::with(&arguments).await;
        let kubeconfig = std::fs::read(daemon.kubeconfig()).unwrap();
        let mut command = crate::harness::daemon::command(daemon.folder().path(), 0);
        command.args(arguments);
        let second = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), second).await;
        let output = ended.expect("it runs").unwrap();
        assert!(!output.status.success());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(&daemon.pid().to_string()), "{stderr}");
        assert_eq!(std::fs::read(daemon.kubeconfig()).unwrap(), kubeconfig);
    }
}

/// An empty text takes no bytes in protobuf, so a sort by position does not say where it stands.
#[tokio::test]
async fn long_lists_with_empty_texts_keep_their_order_in_every_stored_form_kv_25() {
    for form in ["json", "yaml", "vnd.kubernetes.protobuf"] {
        let flag = format!("--storage-media-type=application/{form}");
        let mut daemon = Daemon::with(&[&flag]).await;
        let client = daemon.client();
        let texts = ["", "-v", "x"].repeat(30);
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i", "args": texts}]},
        });
        let pods = "/api/v1/namespaces/default/pods";
        let created = client.call(Call::post(pods, &pod)).await.expect(201);
        assert_eq!(created["spec"]["containers"][0]["args"], json!(texts));
        daemon.kill().await;
        daemon.restart().await;
        let read = daemon.client().call(Call::get(&format!("{pods}/p"))).await;
        let read = read.expect(200);
        assert_eq!(
            read["spec"]["containers"][0]["args"],
            json!(texts),
            "{form}"
        );
    }
}
