//! The output formats of kubectl other than tables and documents, and its pruning. Both read whole
//! objects of several kinds (API-305).

use crate::harness::{Daemon, Kubectl};

/// Names, data and labels of three objects.
const OBJECTS: [(&str, &str, &str); 3] = [("b", "2", "x"), ("a", "3", "z"), ("c", "1", "x")];

fn config_map(name: &str, data: &str, side: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop, \
         labels: {{app: till, side: {side}}}}}\ndata: {{size: '{data}'}}\n---\n"
    )
}

async fn shows(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    kubectl.ok(&["create", "ns", "shop"]).await;
    let manifest = OBJECTS.map(|(name, data, side)| config_map(name, data, side));
    kubectl
        .ok_with(&["create", "-f", "-"], &manifest.concat())
        .await;
    let shown = async |words: &[&str]| {
        let printed = kubectl
            .ok(&[&["get", "cm", "-n", "shop"], words].concat())
            .await;
        let rows = printed.lines();
        let rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>()
    };
    let template = "go-template={{range .items}}{{.metadata.name}}={{.data.size}} {{end}}";
    assert_eq!(shown(&["-o", template]).await, ["a=3 b=2 c=1"]);
    let columns = "custom-columns=WHO:.metadata.name,N:.data.size,NONE:.data.none";
    assert_eq!(
        shown(&["-o", columns]).await,
        ["WHO N NONE", "a 3 <none>", "b 2 <none>", "c 1 <none>"]
    );
    let sorted = shown(&["--sort-by=.data.size"]).await;
    let names = sorted.iter().map(|row| &row[..2]).collect::<Vec<_>>();
    assert_eq!(names, ["NA", "c ", "b ", "a "]);
    assert_eq!(
        shown(&["--sort-by={.data.size}", "-o", "name"]).await,
        ["configmap/c", "configmap/b", "configmap/a"]
    );
    let labels = shown(&["--show-labels", "-l", "side=z"]).await;
    assert!(labels[0].ends_with(" LABELS"), "{labels:?}");
    assert!(labels[1].ends_with(" app=till,side=z"), "{labels:?}");
    let label = shown(&["-L", "side", "--no-headers"]).await;
    let ends = label.iter().map(|row| row.split(' ').next_back().unwrap());
    assert!(ends.eq(["z", "x", "x"]), "{label:?}");
}

/// What is no longer in a manifest is deleted, of each kind that may be: by a label, and by what an
/// ApplySet lists.
async fn prunes(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    kubectl.ok(&["create", "ns", "shop"]).await;
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: till, namespace: shop, \
                   labels: {app: till}}\nspec: {ports: [{port: 80}]}\n";
    let kept = config_map("a", "3", "z");
    let all = format!("{}{kept}{service}", config_map("b", "2", "x"));
    for prune in [&["-l", "app=till"][..], &["--applyset=set", "-n", "shop"]] {
        let apply = [&["apply", "--prune", "-f", "-"], prune].concat();
        let applied = kubectl.ok_with(&apply, &all).await;
        assert_eq!(applied.lines().count(), 3, "{applied}");
        assert!(!applied.contains("pruned"), "{applied}");
        let applied = kubectl.ok_with(&apply, &kept).await;
        let mut lines: Vec<&str> = applied.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "configmap/a unchanged",
                "configmap/b pruned",
                "service/till pruned"
            ]
        );
        let left = [
            "get", "cm,svc", "-n", "shop", "-l", "app=till", "-o", "name",
        ];
        assert_eq!(kubectl.ok(&left).await, "configmap/a\n");
        kubectl.ok(&["delete", "cm", "a", "-n", "shop"]).await;
    }
}

#[tokio::test]
async fn shows_1_20() {
    shows("1.20").await;
}

#[tokio::test]
async fn shows_1_32() {
    shows("1.32").await;
}

#[tokio::test]
async fn shows_1_36() {
    shows("1.36").await;
}

#[tokio::test]
async fn prunes_1_32() {
    prunes("1.32").await;
}

#[tokio::test]
async fn prunes_1_36() {
    prunes("1.36").await;
}
