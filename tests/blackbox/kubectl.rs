//! The actions of a user with kubectl, with default flags, in each tested version.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Call, Daemon, Kubectl};

const VERSIONS: [&str; 3] = ["1.20", "1.32", "1.36"];

const CREATE: [&str; 3] = ["create", "-f", "-"];

const MANIFEST: &str = "\
apiVersion: v1
kind: Namespace
metadata:
  name: shop
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: prices
  namespace: shop
  labels: {app: shop}
data:
  apple: '3'
  text: |
    two
    lines
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
type: Opaque
stringData: {}
data: {password: c2VjcmV0}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: clerk, namespace: shop}
---
apiVersion: v1
kind: Service
metadata: {name: till, namespace: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: till-0, namespace: shop, labels: {app: shop}}
spec:
  containers: [{name: till, image: till}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: till, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: till, image: till}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader, namespace: shop}
spec: {holderIdentity: me, leaseDurationSeconds: 15}
";

macro_rules! for_each_version {
    ($($scenario:ident: $v1_20:ident, $v1_32:ident, $v1_36:ident;)*) => {
        $(
            for_each_version!(@one $scenario $v1_20 0);
            for_each_version!(@one $scenario $v1_32 1);
            for_each_version!(@one $scenario $v1_36 2);
        )*
    };
    (@one $scenario:ident $test:ident $version:literal) => {
        #[tokio::test]
        async fn $test() {
            let daemon = Daemon::start().await;
            if let Some(kubectl) = Kubectl::find(VERSIONS[$version], &daemon) {
                $scenario(daemon, kubectl).await;
            }
        }
    };
}

for_each_version! {
    discovers: discovers_1_20, discovers_1_32, discovers_1_36;
    creates_and_shows: creates_and_shows_1_20, creates_and_shows_1_32, creates_and_shows_1_36;
    generates: generates_1_20, generates_1_32, generates_1_36;
    changes: changes_1_20, changes_1_32, changes_1_36;
    follows: follows_1_20, follows_1_32, follows_1_36;
    waits: waits_1_20, waits_1_32, waits_1_36;
    explains: explains_1_20, explains_1_32, explains_1_36;
    refuses: refuses_1_20, refuses_1_32, refuses_1_36;
    follows_over_a_restart: restarts_1_20, restarts_1_32, restarts_1_36;
}

/// What needs lists and watches most, by each version in turn, without a watch cache.
#[tokio::test]
async fn lists_and_watches_without_a_watch_cache() {
    for version in VERSIONS {
        let daemon = || Daemon::with(&["--watch-cache=false"]);
        let first = daemon().await;
        let Some(kubectl) = Kubectl::find(version, &first) else {
            continue;
        };
        follows(first, kubectl).await;
        let second = daemon().await;
        let kubectl = Kubectl::find(version, &second).unwrap();
        waits(second, kubectl).await;
    }
}

/// The first column of each line.
fn names(table: &str) -> Vec<&str> {
    table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// A ConfigMap from a manifest, because kubectl's own generators use protobuf from 1.32 on.
fn configmap(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{{data}}}\n")
}

async fn create(kubectl: &Kubectl) {
    let created = kubectl.ok_with(&CREATE, MANIFEST).await;
    assert_eq!(created.lines().count(), 8, "{created}");
    assert!(
        created.lines().all(|line| line.ends_with(" created")),
        "{created}"
    );
}

async fn discovers(_daemon: Daemon, kubectl: Kubectl) {
    let namespaces = kubectl.ok(&["get", "ns"]).await;
    let wanted = [
        "NAME",
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ];
    assert_eq!(names(&namespaces), wanted);
    assert!(
        namespaces
            .lines()
            .skip(1)
            .all(|line| line.contains("Active")),
        "{namespaces}"
    );

    let versions = kubectl.ok(&["api-versions"]).await;
    assert_eq!(
        names(&versions),
        [
            "admissionregistration.k8s.io/v1",
            "apiextensions.k8s.io/v1",
            "apiregistration.k8s.io/v1",
            "apps/v1",
            "authentication.k8s.io/v1",
            "authorization.k8s.io/v1",
            "autoscaling/v1",
            "autoscaling/v2",
            "batch/v1",
            "certificates.k8s.io/v1",
            "coordination.k8s.io/v1",
            "discovery.k8s.io/v1",
            "events.k8s.io/v1",
            "flowcontrol.apiserver.k8s.io/v1",
            "networking.k8s.io/v1",
            "node.k8s.io/v1",
            "policy/v1",
            "rbac.authorization.k8s.io/v1",
            "resource.k8s.io/v1",
            "scheduling.k8s.io/v1",
            "storage.k8s.io/v1",
            "v1",
        ]
    );

    let resources = kubectl.ok(&["api-resources"]).await;
    for (name, short) in [
        ("configmaps", "cm"),
        ("deployments", "deploy"),
        ("events", "ev"),
        ("leases", ""),
        ("namespaces", "ns"),
        ("nodes", "no"),
        ("pods", "po"),
        ("secrets", ""),
        ("serviceaccounts", "sa"),
        ("services", "svc"),
    ] {
        let line = resources
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {resources}"));
        assert!(
            short.is_empty() || line.split_whitespace().nth(1) == Some(short),
            "{line}"
        );
    }

    let version = kubectl.ok(&["version"]).await;
    let server = version
        .lines()
        .find(|line| line.starts_with("Server Version"));
    assert!(
        server.is_some_and(|line| line.contains("v1.36.")),
        "{version}"
    );

    let ready = kubectl.ok(&["get", "--raw", "/readyz?verbose"]).await;
    assert!(ready.contains("[+]ping ok"), "{ready}");
    assert!(ready.trim_end().ends_with("readyz check passed"), "{ready}");
}

async fn creates_and_shows(_daemon: Daemon, kubectl: Kubectl) {
    create(&kubectl).await;
    let yaml = kubectl
        .ok(&["get", "cm", "prices", "-n", "shop", "-o", "yaml"])
        .await;
    assert!(
        yaml.contains("apple: \"3\"") && yaml.contains("    two\n    lines\n"),
        "{yaml}"
    );
    let json = kubectl
        .ok(&["get", "cm", "prices", "-n", "shop", "-o", "json"])
        .await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["data"]["text"], "two\nlines\n");
    let name = kubectl
        .ok(&["get", "cm,secret,deploy", "-n", "shop", "-o", "name"])
        .await;
    assert_eq!(name, "configmap/prices\nsecret/key\ndeployment.apps/till\n");
    let wide = kubectl
        .ok(&["get", "pods", "-n", "shop", "-o", "wide"])
        .await;
    assert_eq!(names(&wide), ["NAME", "till-0"]);
    let everywhere = kubectl.ok(&["get", "cm", "-A"]).await;
    assert!(
        everywhere
            .lines()
            .any(|line| { line.split_whitespace().take(3).eq(["shop", "prices", "2"]) }),
        "{everywhere}"
    );
    let secret = kubectl.ok(&["get", "secrets", "-n", "shop"]).await;
    assert!(
        secret
            .lines()
            .any(|l| l.split_whitespace().take(3).eq(["key", "Opaque", "1"]))
    );
    let lease = kubectl.ok(&["get", "leases", "-n", "shop"]).await;
    assert!(
        lease
            .lines()
            .any(|l| l.split_whitespace().take(2).eq(["leader", "me"])),
        "{lease}"
    );
    let some = kubectl
        .ok(&["get", "cm", "-A", "-l", "app=shop", "-o", "name"])
        .await;
    assert_eq!(some, "configmap/prices\n");
    let field = [
        "get",
        "cm",
        "-A",
        "--field-selector",
        "metadata.name=prices",
        "-o",
        "name",
    ];
    assert_eq!(kubectl.ok(&field).await, "configmap/prices\n");
    let all = kubectl
        .ok(&["get", "all", "-n", "shop", "-o", "name"])
        .await;
    assert_eq!(all, "pod/till-0\nservice/till\ndeployment.apps/till\n");

    let before = kubectl.ok(&["get", "ns", "-o", "name"]).await;
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: dry}\n";
    let dry = ["create", "-f", "-", "--dry-run=server"];
    let dry = kubectl.ok_with(&dry, manifest).await;
    assert_eq!(dry, "namespace/dry created (server dry run)\n");
    assert_eq!(kubectl.ok(&["get", "ns", "-o", "name"]).await, before);
}

/// What `kubectl create` makes without a manifest: protobuf, from 1.32 on.
async fn generates(_daemon: Daemon, kubectl: Kubectl) {
    let get = async |what: &str, jsonpath: &str| {
        kubectl
            .ok(&[
                "get",
                what,
                "-n",
                "made",
                "-o",
                &format!("jsonpath={{{jsonpath}}}"),
            ])
            .await
    };
    let create = async |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        kubectl
            .ok(&[&["create"], &words[..], &["-n", "made"]].concat())
            .await;
    };
    kubectl.ok(&["create", "ns", "made"]).await;
    create("cm settings --from-literal=k=v --from-literal=m=n").await;
    assert_eq!(get("cm/settings", ".data.k").await, "v");
    create("secret generic key --from-literal=password=secret").await;
    assert_eq!(get("secret/key", ".data.password").await, "c2VjcmV0");
    create("sa clerk").await;
    get("sa/clerk", ".metadata.uid").await;
    create("service clusterip till --tcp=80:8080").await;
    assert_eq!(get("svc/till", ".spec.ports[0].targetPort").await, "8080");
    create("deploy till --image=till:1").await;
    assert_eq!(
        get("deploy/till", ".spec.template.spec.containers[0].image").await,
        "till:1"
    );
    kubectl
        .ok(&["run", "till-0", "--image=till:1", "-n", "made"])
        .await;
    assert_eq!(
        get("pod/till-0", ".spec.containers[0].name").await,
        "till-0"
    );
}

async fn changes(_daemon: Daemon, kubectl: Kubectl) {
    create(&kubectl).await;
    let shop = async |arguments: &[&str]| kubectl.ok(&[&["-n", "shop"], arguments].concat()).await;
    let price = async |jsonpath: &str| {
        shop(&[
            "get",
            "cm",
            "prices",
            "-o",
            &format!("jsonpath={{{jsonpath}}}"),
        ])
        .await
    };
    let replaced = MANIFEST
        .split("---\n")
        .nth(1)
        .unwrap()
        .replace("'3'", "'4'");
    let printed = kubectl.ok_with(&["replace", "-f", "-"], &replaced).await;
    assert_eq!(printed, "configmap/prices replaced\n");
    assert_eq!(price(".data.apple").await, "4");

    shop(&["label", "cm", "prices", "season=autumn", "app-"]).await;
    assert_eq!(price(".metadata.labels.season").await, "autumn");
    assert_eq!(price(".metadata.labels.app").await, "");
    shop(&["annotate", "cm", "prices", "note=ripe"]).await;
    assert_eq!(price(".metadata.annotations.note").await, "ripe");

    let merge = r#"{"data":{"apple":"5","pear":"2","text":null}}"#;
    shop(&["patch", "cm", "prices", "--type=merge", "-p", merge]).await;
    assert_eq!(price(".data").await.matches(':').count(), 2);
    let json = r#"[{"op":"replace","path":"/data/pear","value":"6"}]"#;
    shop(&["patch", "cm", "prices", "--type=json", "-p", json]).await;
    assert_eq!(price(".data.pear").await, "6");

    let version = price(".metadata.resourceVersion").await;
    let printed = shop(&["label", "cm", "prices", "season=autumn", "--overwrite"]).await;
    assert!(
        printed.contains("not labeled") || printed.contains("labeled"),
        "{printed}"
    );
    assert_eq!(
        price(".metadata.resourceVersion").await,
        version,
        "a no-op wrote something"
    );

    let deleted = shop(&["delete", "cm", "prices"]).await;
    assert!(
        deleted.starts_with("configmap \"prices\" deleted"),
        "{deleted}"
    );
    assert!(shop(&["get", "cm", "-o", "name"]).await.is_empty());
    let deleted = kubectl.ok(&["delete", "ns", "shop"]).await;
    assert!(
        deleted.starts_with("namespace \"shop\" deleted"),
        "{deleted}"
    );
    assert_eq!(
        kubectl
            .ok(&["get", "pods,secrets,leases", "-A", "-o", "name"])
            .await,
        ""
    );
}

async fn follows(_daemon: Daemon, kubectl: Kubectl) {
    kubectl.ok_with(&CREATE, &configmap("a", "k: v")).await;
    let mut table = kubectl.follow(&["get", "cm", "-w"]);
    let columns = async |table: &mut crate::harness::kubectl::Following| {
        let line = table.line().await;
        line.split_whitespace()
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(&mut table).await, ["NAME", "DATA"]);
    assert_eq!(columns(&mut table).await, ["a", "1"]);
    kubectl.ok_with(&CREATE, &configmap("b", "")).await;
    assert_eq!(columns(&mut table).await, ["b", "0"]);
    kubectl
        .ok(&[
            "patch",
            "cm",
            "b",
            "--type=merge",
            "-p",
            r#"{"data":{"x":"y"}}"#,
        ])
        .await;
    assert_eq!(columns(&mut table).await, ["b", "1"]);
    kubectl.ok(&["delete", "cm", "a"]).await;
    assert_eq!(columns(&mut table).await, ["a", "1"]);

    let arguments = [
        "get",
        "cm",
        "-A",
        "-w",
        "--output-watch-events",
        "-o",
        "json",
    ];
    let mut everywhere = kubectl.follow(&arguments);
    let event: Value = serde_json::from_str(&everywhere.line().await).unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["metadata"]["name"], "b");
}

async fn waits(daemon: Daemon, kubectl: Kubectl) {
    create(&kubectl).await;
    // Only in its status is a condition what the owner of the deployment says of it.
    let status = serde_json::json!({
        "status": { "conditions": [{ "type": "Available", "status": "True" }] }
    });
    let path = "/apis/apps/v1/namespaces/shop/deployments/till/status";
    let client = daemon.client();
    let set = async {
        watches(&daemon, 1).await;
        client
            .call(Call::merge_patch(path, &status))
            .await
            .expect(200);
    };
    let arguments = [
        "wait",
        "-n",
        "shop",
        "--for=condition=Available",
        "deploy/till",
        "--timeout=30s",
    ];
    let (printed, ()) = tokio::join!(kubectl.ok(&arguments), set);
    assert_eq!(printed, "deployment.apps/till condition met\n");
    watches(&daemon, 0).await;

    let arguments = [
        "wait",
        "-n",
        "shop",
        "--for=delete",
        "pod/till-0",
        "--timeout=30s",
    ];
    let path = "/api/v1/namespaces/shop/pods/till-0?gracePeriodSeconds=0";
    let delete = async {
        watches(&daemon, 1).await;
        client.call(Call::delete(path)).await.expect(200);
    };
    let (printed, ()) = tokio::join!(kubectl.ok(&arguments), delete);
    assert_eq!(printed, "pod/till-0 condition met\n");
}

/// Waits until this many watches are open.
async fn watches(daemon: &Daemon, wanted: u64) {
    let begun = std::time::Instant::now();
    while daemon.count("apiserver_longrunning_requests").await != wanted {
        let elapsed = begun.elapsed();
        assert!(
            elapsed < Duration::from_secs(30),
            "there are never {wanted} watches"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// API-310: `explain` goes down through the types of all kinds.
async fn explains(_daemon: Daemon, kubectl: Kubectl) {
    for (path, lines) in [
        (
            "deployment.spec.template.spec.containers.ports",
            ["containerPort\t<integer> -required-", "hostIP\t<string>"],
        ),
        ("pod.spec", ["nodeSelector\t<", "volumes\t<[]"]),
        ("service.spec", ["ports\t<[]", "type\t<string>"]),
        (
            "lease.spec",
            ["renewTime\t<string>", "holderIdentity\t<string>"],
        ),
    ] {
        let told = kubectl.ok(&["explain", path]).await;
        for line in lines {
            let found = told.lines().any(|told| told.trim_start().starts_with(line));
            assert!(found, "{path}: {line}: {told}");
        }
    }
    // API-43: what is said of types and fields. kubectl breaks lines where it likes.
    for (path, text) in [
        (
            "pods",
            "Pod is a collection of containers that can run on a host.",
        ),
        ("pod.spec.containers.image", "Container image name."),
        ("deployments.spec", "Number of desired pods."),
        (
            "services.spec.ports",
            "The port that will be exposed by this service.",
        ),
        ("service.metadata.labels", "organize and categorize"),
        ("lease", "Lease defines a lease concept."),
    ] {
        let told = kubectl.ok(&["explain", path]).await;
        let told: Vec<&str> = told.split_whitespace().collect();
        assert!(told.join(" ").contains(text), "{path}: {told:?}");
    }
    // What is served and not stored.
    for resource in [
        "bindings",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    ] {
        let told = kubectl.ok(&["explain", resource]).await;
        assert!(told.contains("apiVersion"), "{resource}: {told}");
    }
    for kind in [
        "configmaps",
        "deployments",
        "events",
        "leases",
        "namespaces",
        "nodes",
        "pods",
        "secrets",
        "serviceaccounts",
        "services",
    ] {
        let told = kubectl.ok(&["explain", "--recursive", kind]).await;
        assert!(told.contains("ownerReferences"), "{kind}: {told}");
    }
    let printed = kubectl.fails(&["explain", "pod.spec.container"]).await;
    assert!(printed.contains("does not exist"), "{printed}");
}

async fn refuses(_daemon: Daemon, kubectl: Kubectl) {
    let printed = kubectl.fails(&["get", "cm", "none"]).await;
    assert_eq!(
        printed,
        "Error from server (NotFound): configmaps \"none\" not found\n"
    );
    kubectl.ok_with(&CREATE, &configmap("a", "")).await;
    let printed = kubectl.fails_with(&CREATE, &configmap("a", "")).await;
    assert!(
        printed.contains("(AlreadyExists)") || printed.contains("already exists"),
        "{printed}"
    );
    let elsewhere = ["create", "-n", "none", "-f", "-"];
    let printed = kubectl.fails_with(&elsewhere, &configmap("b", "")).await;
    assert!(
        printed.contains("namespaces \"none\" not found"),
        "{printed}"
    );
    let printed = kubectl.fails_with(&CREATE, &configmap("Bad", "")).await;
    assert!(
        printed.contains("lowercase RFC 1123 subdomain"),
        "{printed}"
    );
    let printed = kubectl.fails(&["get", "widgets"]).await;
    assert!(
        printed.contains("the server doesn't have a resource type \"widgets\""),
        "{printed}"
    );
}

async fn follows_over_a_restart(mut daemon: Daemon, kubectl: Kubectl) {
    create(&kubectl).await;
    let all = [
        "get",
        "ns,cm,secrets,sa,svc,pods,deploy,leases",
        "-A",
        "-o",
        "json",
    ];
    let before = kubectl.ok(&all).await;
    for end in [Some(Signal::TERM), None, Some(Signal::INT)] {
        match end {
            Some(signal) => daemon.stop(signal).await,
            None => daemon.kill().await,
        }
        daemon.restart().await;
        assert_eq!(kubectl.ok(&all).await, before, "after {end:?}");
    }
}
