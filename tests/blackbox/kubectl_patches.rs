//! What kubectl does by patches that change lists: apply, edit, set, patch, taint, rollout; and
//! scale. In each version that the tests have (API-163, API-164, API-170 to API-177, API-196).

use serde_json::Value;

use crate::harness::{Daemon, Kubectl};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: till}
spec:
  replicas: 2
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec:
      containers:
      - {name: till, image: 'till:1', env: [{name: A, value: a}, {name: B, value: b}]}
      - {name: log, image: 'log:1'}
";

const APPLY: [&str; 3] = ["apply", "-f", "-"];

/// What a template in JSONPath shows of the Deployment.
async fn shown(kubectl: &Kubectl, path: &str) -> String {
    let output = format!("jsonpath={path}");
    kubectl
        .ok(&["get", "deployment", "till", "-o", &output])
        .await
}

const IMAGES: &str = "{.spec.template.spec.containers[*].image}";

/// Client-side apply: a strategic merge patch by what was applied last.
async fn applies(kubectl: &Kubectl) {
    let applied = kubectl.ok_with(&APPLY, DEPLOYMENT).await;
    assert_eq!(applied, "deployment.apps/till created\n");
    let again = kubectl.ok_with(&APPLY, DEPLOYMENT).await;
    assert_eq!(again, "deployment.apps/till unchanged\n");

    let changed = DEPLOYMENT
        .replace("till:1", "till:2")
        .replace(", {name: B, value: b}", "");
    let diff = ["diff", "-f", "-"];
    let differing = kubectl.fails_with(&diff, &changed).await;
    assert!(!differing.contains("rror"), "{differing}");
    let configured = kubectl.ok_with(&APPLY, &changed).await;
    assert_eq!(configured, "deployment.apps/till configured\n");
    assert_eq!(kubectl.ok_with(&diff, &changed).await, "");
    assert_eq!(shown(kubectl, IMAGES).await, "till:2 log:1");
    let environment = "{.spec.template.spec.containers[0].env[*].name}";
    assert_eq!(shown(kubectl, environment).await, "A");

    // A container that is not applied any more goes.
    let one = changed.replace("      - {name: log, image: 'log:1'}\n", "");
    kubectl.ok_with(&APPLY, &one).await;
    assert_eq!(shown(kubectl, IMAGES).await, "till:2");
    kubectl.ok_with(&APPLY, DEPLOYMENT).await;
    assert_eq!(shown(kubectl, IMAGES).await, "till:1 log:1");
}

/// Commands that patch lists.
async fn changes_lists(kubectl: &Kubectl) {
    let set = ["set", "image", "deployment/till", "log=log:2"];
    kubectl.ok(&set).await;
    assert_eq!(shown(kubectl, IMAGES).await, "till:1 log:2");
    kubectl
        .ok(&["set", "env", "deployment/till", "-c", "log", "C=c"])
        .await;
    let environment = "{.spec.template.spec.containers[*].env[*].name}";
    assert_eq!(shown(kubectl, environment).await, "A B C");
    kubectl.ok(&["set", "env", "deployment/till", "A-"]).await;
    assert_eq!(shown(kubectl, environment).await, "B C");
    let limits = "--limits=cpu=200m";
    kubectl
        .ok(&["set", "resources", "deployment/till", "-c", "till", limits])
        .await;
    let cpu = "{.spec.template.spec.containers[0].resources.limits.cpu}";
    assert_eq!(shown(kubectl, cpu).await, "200m");

    let patch = r#"{"spec":{"template":{"spec":{"containers":[
        {"name":"log","$patch":"delete"},{"name":"audit","image":"audit:1"}]}}}}"#;
    kubectl
        .ok(&["patch", "deployment", "till", "-p", patch])
        .await;
    assert_eq!(shown(kubectl, IMAGES).await, "audit:1 till:1");
    let wrong = r#"{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}"#;
    let refused = kubectl
        .fails(&["patch", "deployment", "till", "-p", wrong])
        .await;
    assert!(
        refused.contains("does not contain declared merge key: name"),
        "{refused}"
    );
    kubectl.ok(&["rollout", "restart", "deployment/till"]).await;
    kubectl.ok(&["rollout", "pause", "deployment/till"]).await;
    assert_eq!(shown(kubectl, "{.spec.paused}").await, "true");
    kubectl.ok(&["rollout", "resume", "deployment/till"]).await;
    assert_eq!(shown(kubectl, "{.spec.paused}").await, "");

    kubectl.ok(&["edit", "deployment", "till"]).await;
    assert_eq!(shown(kubectl, IMAGES).await, "audit:1 till:3");
}

async fn marks_nodes(kubectl: &Kubectl) {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n";
    kubectl.ok_with(&["create", "-f", "-"], node).await;
    kubectl
        .ok(&["taint", "node", "one", "a=b:NoSchedule", "c=d:NoExecute"])
        .await;
    kubectl.ok(&["taint", "node", "one", "a-"]).await;
    kubectl.ok(&["cordon", "one"]).await;
    let output = "jsonpath={.spec.taints[*].key} {.spec.unschedulable}";
    let shown = kubectl.ok(&["get", "node", "one", "-o", output]).await;
    assert_eq!(shown, "c node.kubernetes.io/not-ready true");
    kubectl.ok(&["uncordon", "one"]).await;
}

/// Server-side apply by two managers.
async fn applies_at_the_server(kubectl: &Kubectl) {
    let server = ["apply", "--server-side", "-f", "-"];
    let by = |manager: &'static str| [&server[..], &["--field-manager", manager]].concat();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: prices}\ndata: {apple: '3'}\n";
    let applied = kubectl.ok_with(&by("one"), map).await;
    assert_eq!(applied, "configmap/prices serverside-applied\n");
    let other = map.replace("'3'", "'4'");
    let conflict = kubectl.fails_with(&by("two"), &other).await;
    let expected = "Apply failed with 1 conflict: conflict with \"one\": .data.apple";
    assert!(conflict.contains(expected), "{conflict}");
    let force = [&by("two")[..], &["--force-conflicts"]].concat();
    kubectl.ok_with(&force, &other).await;
    // What nobody applies any more goes.
    kubectl
        .ok_with(&by("two"), &other.replace("data: {apple: '4'}", "data: {}"))
        .await;
    let prices = kubectl
        .ok(&["get", "configmap", "prices", "-o", "json"])
        .await;
    let prices: Value = serde_json::from_str(&prices).unwrap();
    assert_eq!(prices["data"], Value::Null, "{prices}");

    // An object that was applied by the client comes to the server.
    kubectl
        .ok_with(&server, &DEPLOYMENT.replace("till:1", "till:4"))
        .await;
    assert_eq!(shown(kubectl, IMAGES).await, "audit:1 till:4 log:1");
}

/// `kubectl scale` reads and writes Scales (API-223, API-309).
async fn scales(kubectl: &Kubectl) {
    let other = DEPLOYMENT.replace("name: till", "name: drawer");
    kubectl.ok_with(&["create", "-f", "-"], &other).await;
    let both = "jsonpath={.items[*].spec.replicas}";
    let both = ["get", "deployments", "-o", both];

    let scale = async |more: &[&str]| {
        let arguments = [&["scale", "deployment/till"], more].concat();
        kubectl.ok(&arguments).await
    };
    let scaled = scale(&["--replicas=3"]).await;
    assert_eq!(scaled, "deployment.apps/till scaled\n");
    scale(&["deployment/drawer", "--replicas=4"]).await;
    assert_eq!(kubectl.ok(&both).await, "4 4");
    scale(&["--current-replicas=4", "--replicas=5"]).await;
    let version = shown(kubectl, "{.metadata.resourceVersion}").await;
    let version = format!("--resource-version={version}");
    scale(&[&version, "--replicas=6"]).await;
    assert_eq!(kubectl.ok(&both).await, "4 6");

    let refused = async |more: &[&str]| {
        let arguments = [&["scale", "deployment/till", "--replicas=9"], more].concat();
        kubectl.fails(&arguments).await
    };
    let stale = refused(&["--current-replicas=5"]).await;
    assert!(
        stale.contains("Expected replicas to be 5, was 6"),
        "{stale}"
    );
    let stale = refused(&[&version]).await;
    assert!(stale.contains("Expected resource version"), "{stale}");
    let absent = ["scale", "deployment/safe", "--replicas=9"];
    let absent = kubectl.fails(&absent).await;
    let expected = "deployments.apps \"safe\" not found";
    assert!(absent.contains(expected), "{absent}");
    scale(&["--replicas=0", "--dry-run=server"]).await;
    assert_eq!(kubectl.ok(&both).await, "4 6");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("till.yaml");
    std::fs::write(&file, DEPLOYMENT).unwrap();
    kubectl
        .ok(&["scale", "-f", file.to_str().unwrap(), "--replicas=1"])
        .await;
    assert_eq!(kubectl.ok(&both).await, "4 1");
    kubectl
        .ok(&["scale", "deployments", "--all", "--replicas=0"])
        .await;
    assert_eq!(kubectl.ok(&both).await, "0 0");
    kubectl
        .ok(&["autoscale", "deployment", "till", "--max=4"])
        .await;
}

async fn lists_are_patched(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let kubectl = kubectl.with_editor("/bin/sed -i s/till:1/till:3/");
    applies(&kubectl).await;
    changes_lists(&kubectl).await;
    marks_nodes(&kubectl).await;
    applies_at_the_server(&kubectl).await;
    scales(&kubectl).await;
}

#[tokio::test]
async fn lists_are_patched_1_20() {
    lists_are_patched("1.20").await;
}

#[tokio::test]
async fn lists_are_patched_1_32() {
    lists_are_patched("1.32").await;
}

#[tokio::test]
async fn lists_are_patched_1_36() {
    lists_are_patched("1.36").await;
}
