//! Features that Kubernetes has removed (`tests/deviations.md`, "Removed upstream").

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::daemon::command;
use crate::harness::{CONFIGMAPS, Call, Daemon, body};

/// Initializers are gone: the parameter says nothing, and their resource is not there.
#[tokio::test]
async fn initializers_are_gone() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    for value in ["true", "false", "nonsense"] {
        let path = format!("{CONFIGMAPS}?includeUninitialized={value}");
        let list = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{value}");
        let path = format!("{CONFIGMAPS}/a?includeUninitialized={value}");
        client.call(Call::get(&path)).await.expect(200);
    }
    let path = "/apis/admissionregistration.k8s.io/v1/initializerconfigurations";
    client.call(Call::get(path)).await.refusal(404, "NotFound");
}

/// The group `extensions` is gone, with all that was in it.
#[tokio::test]
async fn the_group_extensions_is_gone() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let paths = [
        "",
        "/namespaces/default/deployments",
        "/namespaces/default/ingresses",
    ];
    for path in paths {
        let path = format!("/apis/extensions/v1beta1{path}");
        let answer = client.call(Call::get(&path)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text().trim()),
            (404, "404 page not found")
        );
    }
    let groups = client.call(Call::get("/apis")).await.expect(200);
    let groups = groups["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["name"] != "extensions"));
}

/// API-91: no object and no list has a link to itself, whatever a client sends.
#[tokio::test]
async fn nothing_links_to_itself() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut sent = body("a", "1");
    sent["metadata"]["selfLink"] = CONFIGMAPS.into();
    let created = client.call(Call::post(CONFIGMAPS, &sent)).await.expect(201);
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let one = client
        .call(Call::get(&format!("{CONFIGMAPS}/a")))
        .await
        .expect(200);
    for metadata in [&created["metadata"], &one["metadata"], &list["metadata"]] {
        assert_eq!(metadata.get("selfLink"), None);
    }
    assert_eq!(list["items"][0]["metadata"].get("selfLink"), None);
}

/// Paths that once answered with the place of a node or a service are paths of nothing.
#[tokio::test]
async fn nothing_redirects() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for path in ["nodes/n", "namespaces/default/services/kubernetes"] {
        let path = format!("/api/v1/redirect/{path}");
        client.call(Call::get(&path)).await.refusal(404, "NotFound");
    }
}

/// Versions are chosen by a flag: the variable that once did so is told to be without effect.
#[tokio::test]
async fn a_variable_chooses_no_versions() {
    let folder = tempfile::tempdir().unwrap();
    let started = std::process::Stdio::piped();
    let mut daemon = command(folder.path(), 0)
        .args(["--log-format=json"])
        .env("KUBE_API_VERSIONS", "v1")
        .stdout(started)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The announcement comes when it is ready.
    let mut first = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(daemon.stdout.take().unwrap()),
        &mut first,
    )
    .unwrap();
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let output = daemon.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> = lines
        .filter(|line| {
            line["message"]
                .as_str()
                .is_some_and(|said| said.contains("KUBE_API"))
        })
        .collect();
    assert_eq!(told.len(), 1, "{text}");
    assert_eq!(told[0]["level"], "WARN");
    assert!(
        told[0]["message"]
            .as_str()
            .unwrap()
            .contains("--runtime-config"),
        "{text}"
    );
}
