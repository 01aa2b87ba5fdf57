//! `--load`.

use std::path::Path;

use super::{Server, refused};
use crate::harness::Call;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const OBJECTS: &str = "
apiVersion: example.com/v1
kind: Boat
metadata: {name: first, namespace: harbour}
spec: {length: 12}
---
# Comments are no objects.
---
apiVersion: v1
kind: Namespace
metadata: {name: harbour}
---
apiVersion: v1
kind: Pod
metadata: {name: crew, namespace: harbour}
spec: {containers: [{name: c, image: i}]}
";

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn objects_are_there_when_the_server_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    // The definition comes last by name, and in a folder of its own.
    write(folder.path(), "a.yaml", OBJECTS);
    write(folder.path(), "z/crd.yml", DEFINITION);
    write(folder.path(), "readme.txt", "not: [a manifest");
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "listed"}}]}"#;
    let single = tempfile::tempdir().unwrap();
    write(single.path(), "list", list);
    let file = single.path().join("list");
    let server = Server::start(&[
        "--load",
        folder.path().to_str().unwrap(),
        "--load",
        file.to_str().unwrap(),
    ]);
    let client = server.client();
    for path in [
        "/apis/example.com/v1/namespaces/harbour/boats/first",
        "/api/v1/namespaces/harbour/pods/crew",
        "/api/v1/namespaces/default/configmaps/listed",
    ] {
        let found = client.call(Call::get(path)).await.expect(200);
        assert!(found["metadata"]["uid"].is_string());
    }
    server.stop();
}

#[test]
fn an_object_that_can_not_be_loaded_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let load = path.to_str().unwrap();
    for (text, parts) in [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ok}\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_OK}\n",
            [
                "document 2: ConfigMap \"Not_OK\" is invalid",
                "a.yaml",
                "metadata.name",
            ],
        ),
        (
            "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: a}\n",
            ["document 1", "Boat \"a\"", "no resource of kind Boat"],
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: none}\n",
            ["document 1", "ConfigMap \"a\"", "\"none\" not found"],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
             spec: {serviceAccountName: mistyped, containers: [{name: c, image: i}]}\n",
            ["document 1", "Pod \"a\"", "\"mistyped\" not found"],
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: {}\n",
            [
                "document 1",
                "ConfigMap without a name: ",
                "name or generateName",
            ],
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nkind: Secret\n",
            ["document 1", "key \"kind\" already set", "give it once"],
        ),
        ("a: [", ["a.yaml", "document 1", "a.yaml"]),
        ("a: b", ["a.yaml", "document 1", "no apiVersion"]),
    ] {
        std::fs::write(&path, text).unwrap();
        let (code, line) = refused(&["--load", load]);
        assert_eq!(code, 1, "{line}");
        assert!(line.contains(load), "{line}");
        for part in parts {
            assert!(line.contains(part), "{line} lacks {part}");
        }
    }
}

#[test]
fn a_path_without_manifests_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, line) = refused(&["--load", folder.path().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(line.contains("no file .json, .yaml or .yml"), "{line}");
    let (code, line) = refused(&["--load", "/none/such.yaml"]);
    assert_eq!(code, 1);
    assert!(line.contains("/none/such.yaml"), "{line}");
}
