//! kubectl and objects of every built-in kind with most of their fields.

use serde_json::{Value, json};

use crate::harness::{Call, Daemon, Kubectl};

/// For each collection the least body and one with most fields.
pub const BODIES: &str = include_str!("../../tools/facts/sweep_bodies.json");

/// An object, and how kubectl names it.
struct Example {
    body: Value,
    /// `deployments.v1.apps/sweep`.
    argument: String,
    /// `deployments` and `apps/v1`.
    resource: (String, String),
}

/// Versions of one object have names of their own here, because they would be the same object.
fn examples() -> Vec<Example> {
    let bodies: Value = serde_json::from_str(BODIES).unwrap();
    let bodies = bodies.as_object().unwrap().iter();
    let examples = bodies.map(|(path, bodies)| {
        let mut body = bodies[1].clone();
        let plural = path.rsplit('/').next().unwrap().to_owned();
        let api_version = body["apiVersion"].as_str().unwrap().to_owned();
        if ["autoscaling/v1", "events.k8s.io/v1"].contains(&&*api_version) {
            body["metadata"]["name"] = json!("sweep-of-another-version");
        }
        let name = body["metadata"]["name"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Example {
            argument: format!("{plural}.{version}.{group}/{name}"),
            resource: (plural, api_version.clone()),
            body,
        }
    });
    let mut examples: Vec<Example> = examples.collect();
    // The server makes one for the group of the CustomResourceDefinition (CN-10).
    examples.sort_by_key(|example| example.resource.0 != "apiservices");
    examples
}

async fn every_kind_is_created_shown_and_explained(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let examples = examples();
    assert!(examples.len() > 55);
    let items: Vec<&Value> = examples.iter().map(|example| &example.body).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    let created = kubectl.ok_with(&["create", "-f", "-"], &list).await;
    assert_eq!(created.lines().count(), examples.len(), "{created}");

    let arguments: Vec<&str> = examples.iter().map(|one| one.argument.as_str()).collect();
    let all = async |words: &[&str]| kubectl.ok(&[words, &arguments[..]].concat()).await;
    let names = all(&["get", "-o", "name"]).await;
    assert_eq!(names.lines().count(), examples.len(), "{names}");
    let wide = all(&["get", "-o", "wide"]).await;
    let own = [
        "/sweep",
        "/things.example.com",
        "/v1.example.com",
        "/192.0.2.77",
    ];
    let is_row = |line: &&str| own.iter().any(|name| line.contains(name));
    assert_eq!(
        wide.lines().filter(is_row).count(),
        examples.len(),
        "{wide}"
    );
    let yaml = all(&["get", "-o", "yaml"]).await;
    assert_eq!(yaml.matches("\n  kind: ").count(), examples.len(), "{yaml}");
    let json: Value = serde_json::from_str(&all(&["get", "-o", "json"]).await).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), examples.len());
    let old = described_in_old_versions(version);
    let is_new = |argument: &&&str| !old.contains(&argument.split('.').next().unwrap());
    let new: Vec<&str> = arguments.iter().filter(is_new).copied().collect();
    let described = kubectl.ok(&[&["describe"], &new[..]].concat()).await;
    let names = described.lines().filter(|line| line.starts_with("Name: "));
    assert_eq!(names.count(), new.len(), "{described}");
    for example in &examples {
        let (plural, api_version) = &example.resource;
        let flag = format!("--api-version={api_version}");
        let explained = kubectl.ok(&["explain", plural, &flag, "--recursive"]).await;
        assert!(explained.contains("metadata\t<"), "{plural}: {explained}");
    }
    // What is printed can be sent again, and changes nothing.
    for object in json["items"].as_array().unwrap() {
        let version = &object["metadata"]["resourceVersion"];
        let text = object.to_string();
        let replaced = kubectl.ok_with(&["replace", "-f", "-"], &text).await;
        assert!(replaced.contains("replaced"), "{replaced}");
        let got = daemon.client().call(Call::get(&path_of(object))).await;
        assert_eq!(
            &got.expect(200)["metadata"]["resourceVersion"],
            version,
            "{text}"
        );
    }
}

/// The kinds that a kubectl asks for in a version that 1.36 serves no longer, to describe them.
fn described_in_old_versions(version: &str) -> &'static [&'static str] {
    match version {
        "1.20" => &["cronjobs", "poddisruptionbudgets", "endpointslices"],
        "1.32" => &["ipaddresses", "servicecidrs", "volumeattributesclasses"],
        _ => &[],
    }
}

/// The path of an object of the list above, by its kind.
fn path_of(object: &Value) -> String {
    let bodies: Value = serde_json::from_str(BODIES).unwrap();
    let is_same = |other: &Value| {
        ["kind", "apiVersion"]
            .iter()
            .all(|name| other[name] == object[name])
    };
    let bodies = bodies.as_object().unwrap().iter();
    let found = bodies.clone().find(|(_, bodies)| is_same(&bodies[1]));
    let (path, _) = found.unwrap();
    format!("{path}/{}", object["metadata"]["name"].as_str().unwrap())
}

#[tokio::test]
async fn every_kind_with_kubectl_1_20() {
    every_kind_is_created_shown_and_explained("1.20").await;
}

#[tokio::test]
async fn every_kind_with_kubectl_1_32() {
    every_kind_is_created_shown_and_explained("1.32").await;
}

#[tokio::test]
async fn every_kind_with_kubectl_1_36() {
    every_kind_is_created_shown_and_explained("1.36").await;
}
