//! Commands of kubectl that change lists by patches: apply, edit, set, patch, taint, rollout; and
//! those that write subresources: scale, certificate. In each tested version (API-163, API-164,
//! API-170 to API-178, API-196).

use serde_json::Value;

use crate::every_kind::BODIES;
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

/// What the client applied is the server's from the first apply there on (API-196).
async fn moves_to_the_server(kubectl: &Kubectl) {
    let shelf = DEPLOYMENT.replace("name: till}\nspec", "name: shelf}\nspec");
    kubectl.ok_with(&APPLY, &shelf).await;
    assert_eq!(owners(kubectl).await, [client_side()]);
    let server = ["apply", "--server-side", "-f", "-"];
    let changed = shelf.replace("till:1", "till:4");
    kubectl.ok_with(&server, &changed).await;
    let after = owners(kubectl).await;
    let server_side = ("kubectl".to_owned(), "Apply".to_owned());
    assert!(after.contains(&server_side), "{after:?}");
    // kubectl 1.20 leaves what it owned.
    let is_old = kubectl.version == "1.20";
    assert_eq!(after.contains(&client_side()), is_old, "{after:?}");
    // So what is applied no more goes.
    let one = changed.replace("      - {name: log, image: 'log:1'}\n", "");
    kubectl.ok_with(&server, &one).await;
    let output = format!("jsonpath={IMAGES}");
    let get = ["get", "deployment", "shelf", "-o", &output];
    let left = if is_old { "till:4 log:1" } else { "till:4" };
    assert_eq!(kubectl.ok(&get).await, left);
    kubectl.ok(&["delete", "deployment", "shelf"]).await;
}

/// The owner that kubectl gives what it applies by strategic merge patches.
fn client_side() -> (String, String) {
    ("kubectl-client-side-apply".to_owned(), "Update".to_owned())
}

/// The managers of the Deployment with their operations.
async fn owners(kubectl: &Kubectl) -> Vec<(String, String)> {
    let path = "/apis/apps/v1/namespaces/default/deployments/shelf";
    let found: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", path]).await).unwrap();
    let entries = found["metadata"]["managedFields"].as_array().unwrap();
    let told = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let owner = |entry: &Value| (told(entry, "manager"), told(entry, "operation"));
    entries.iter().map(owner).collect()
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

const REQUESTS: &str = "\
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: NAME, labels: {desk: front}}
spec:
  signerName: example.com/signer
  usages: [client auth]
  request: REQUEST
";

/// `kubectl certificate approve` and `deny` write the approval of requests (API-178).
async fn decides_on_certificates(kubectl: &Kubectl) {
    let bodies: Value = serde_json::from_str(BODIES).unwrap();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = bodies[path][0]["spec"]["request"].as_str().unwrap();
    let named = |name| REQUESTS.replace("NAME", name).replace("REQUEST", request);
    let requests = [named("welcome"), named("stranger")].join("---\n");
    kubectl.ok_with(&["create", "-f", "-"], &requests).await;
    let condition = async |name: &str| {
        let output = "jsonpath={.status.conditions[*].type} {.status.conditions[*].status}";
        kubectl.ok(&["get", "csr", name, "-o", output]).await
    };
    assert_eq!(condition("welcome").await, " ");

    let decide = async |verb: &str, name: &str| {
        let told = kubectl.ok(&["certificate", verb, name]).await;
        let name = format!("certificatesigningrequest.certificates.k8s.io/{name}");
        assert!(told.starts_with(&name), "{told}");
        told
    };
    assert!(decide("approve", "welcome").await.ends_with(" approved\n"));
    assert!(decide("deny", "stranger").await.ends_with(" denied\n"));
    assert_eq!(condition("welcome").await, "Approved True");
    assert_eq!(condition("stranger").await, "Denied True");
    let shown = kubectl.ok(&["get", "csr", "--no-headers"]).await;
    let ends = |name: &str, state: &str| {
        let mut lines = shown.lines();
        lines.any(|line| line.starts_with(name) && line.ends_with(state))
    };
    assert!(ends("welcome", "Approved"), "{shown}");
    assert!(ends("stranger", "Denied"), "{shown}");
    // A decision is final.
    let refused = kubectl.fails(&["certificate", "deny", "welcome"]).await;
    assert!(refused.contains("already Approved"), "{refused}");
    assert_eq!(condition("welcome").await, "Approved True");
    // The fields of the approval have an owner of their own.
    let raw = kubectl
        .ok(&["get", "--raw", &format!("{path}/welcome")])
        .await;
    let raw: Value = serde_json::from_str(&raw).unwrap();
    let entries = raw["metadata"]["managedFields"].as_array().unwrap();
    let is_approval = |entry: &&Value| entry["subresource"] == "approval";
    let approvals: Vec<&Value> = entries.iter().filter(is_approval).collect();
    assert_eq!(approvals.len(), 1, "{raw}");
    let owned = &approvals[0]["fieldsV1"]["f:status"]["f:conditions"];
    assert!(owned["k:{\"type\":\"Approved\"}"].is_object(), "{raw}");
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
    moves_to_the_server(&kubectl).await;
    scales(&kubectl).await;
    decides_on_certificates(&kubectl).await;
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
