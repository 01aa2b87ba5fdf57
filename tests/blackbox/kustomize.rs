//! `kubectl apply -k`: layers of files with patches, generated ConfigMaps and Secrets, in each
//! tested version. The files are in `tests/clients/kustomize`.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Daemon, Kubectl};

/// A copy of the files, to be changed.
struct Layers(TempDir);

impl Layers {
    fn new() -> Layers {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/kustomize");
        let to = tempfile::tempdir().unwrap();
        for layer in ["base", "shop"] {
            std::fs::create_dir(to.path().join(layer)).unwrap();
            for file in std::fs::read_dir(from.join(layer)).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), to.path().join(layer).join(file.file_name())).unwrap();
            }
        }
        Layers(to)
    }

    fn change(&self, file: &str, old: &str, new: &str) {
        let file = self.0.path().join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(old), "{text}");
        std::fs::write(file, text.replace(old, new)).unwrap();
    }

    /// The last layer.
    fn shop(&self) -> String {
        self.0.path().join("shop").to_str().unwrap().to_owned()
    }
}

/// Everything of the layers that the daemon holds.
struct Held(Vec<Value>);

impl Held {
    async fn now(kubectl: &Kubectl) -> Held {
        let kinds = "deployments,services,configmaps,secrets,serviceaccounts";
        let list = ["get", kinds, "-l", "shop=1", "-o", "json"];
        let list: Value = serde_json::from_str(&kubectl.ok(&list).await).unwrap();
        Held(list["items"].as_array().unwrap().clone())
    }

    fn of(&self, kind: &str) -> Vec<&Value> {
        let objects = self.0.iter();
        objects.filter(|object| object["kind"] == kind).collect()
    }

    fn containers(&self) -> &Value {
        let deployments = self.of("Deployment");
        assert_eq!(deployments[0]["metadata"]["name"], "shop-till");
        &deployments[0]["spec"]["template"]["spec"]["containers"]
    }

    /// What each container is made of.
    fn images(&self) -> Vec<&str> {
        let containers = self.containers().as_array().unwrap().iter();
        let images = containers.map(|container| container["image"].as_str().unwrap());
        images.collect()
    }

    /// Names of the first container's variables.
    fn variables(&self) -> Vec<&str> {
        let variables = self.containers()[0]["env"].as_array().unwrap().iter();
        let names = variables.map(|variable| variable["name"].as_str().unwrap());
        names.collect()
    }

    /// The generated map that the Deployment reads.
    fn prices(&self) -> &Value {
        let name = &self.containers()[0]["envFrom"][0]["configMapRef"]["name"];
        let maps = self.of("ConfigMap");
        let read = maps.iter().find(|map| map["metadata"]["name"] == *name);
        &read.unwrap_or_else(|| panic!("no {name}"))["data"]
    }
}

async fn layers_are_applied(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let layers = Layers::new();
    let shop = layers.shop();
    let built = kubectl.ok(&["kustomize", &shop]).await;
    let apply = ["apply", "-k", &shop];
    let applied = kubectl.ok(&apply).await;
    assert_eq!(applied.matches(" created\n").count(), 5, "{applied}");
    let again = kubectl.ok_with(&["apply", "-f", "-"], &built).await;
    assert_eq!(again.matches(" unchanged\n").count(), 5, "{again}");
    let held = Held::now(&kubectl).await;
    assert_eq!(held.images(), ["till:2", "audit:1"]);
    assert_eq!(held.variables(), ["C", "A"]);
    assert_eq!(held.prices()["apple"], "3");
    assert_eq!(held.prices()["pear"], "4");
    assert_eq!(held.of("Service")[0]["spec"]["ports"][0]["port"], 81);
    assert_eq!(held.of("Secret")[0]["data"]["key"], "c2VjcmV0");
    assert_eq!(kubectl.ok(&["diff", "-k", &shop]).await, "");

    // Another generated map, another image, one container less; a client applies it.
    layers.change("base/kustomization.yaml", "apple=3", "apple=5");
    layers.change("shop/kustomization.yaml", "newTag: \"2\"", "newTag: \"3\"");
    let audit = "      - {name: audit, image: \"audit:1\"}\n";
    layers.change("shop/more.yaml", audit, "");
    let differing = kubectl.fails(&["diff", "-k", &shop]).await;
    assert!(!differing.contains("rror"), "{differing}");
    let applied = kubectl.ok(&apply).await;
    let created = "configmap/shop-prices-";
    assert!(applied.contains(created), "{applied}");
    let configured = "deployment.apps/shop-till configured";
    assert!(applied.contains(configured), "{applied}");
    assert_eq!(applied.matches(" unchanged\n").count(), 3, "{applied}");
    let held = Held::now(&kubectl).await;
    assert_eq!(held.images(), ["till:3"]);
    assert_eq!(held.prices()["apple"], "5");
    assert_eq!(held.of("ConfigMap").len(), 2, "the old map stays");

    // The server takes over, and prunes what goes then.
    let server = ["apply", "--server-side", "-k", &shop];
    kubectl.ok(&server).await;
    layers.change("shop/more.yaml", ", {name: C, value: c}", "");
    kubectl.ok(&server).await;
    let held = Held::now(&kubectl).await;
    let expected: &[&str] = match version {
        // It leaves the fields to its client-side apply, too.
        "1.20" => &["C", "A"],
        _ => &["A"],
    };
    assert_eq!(held.variables(), expected);

    kubectl.ok(&["delete", "-k", &shop]).await;
    let held = Held::now(&kubectl).await;
    assert_eq!(held.0.len(), 1, "the old map stays");
}

#[tokio::test]
async fn layers_are_applied_1_20() {
    layers_are_applied("1.20").await;
}

#[tokio::test]
async fn layers_are_applied_1_32() {
    layers_are_applied("1.32").await;
}

#[tokio::test]
async fn layers_are_applied_1_36() {
    layers_are_applied("1.36").await;
}
