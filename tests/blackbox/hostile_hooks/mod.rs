//! Hooks that hang, lie, flood and grow: admission webhooks, conversion webhooks and policies
//! (hooks.md). Each has a bound, an exact answer, a count and one line in the log, and holds only
//! the requests that wait for it.

mod answers;
mod calls;
mod conversions;
mod patches;
mod policies;

use serde_json::{Value, json};

use crate::harness::hostile_server::{Act, Asked, http};
use crate::harness::{CONFIGMAPS, Call, Client};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const NAME: &str = "w.example.com";

/// The path of a kind of configurations.
fn configurations(is_mutating: bool) -> String {
    match is_mutating {
        true => format!("{GROUP}/mutatingwebhookconfigurations"),
        false => format!("{GROUP}/validatingwebhookconfigurations"),
    }
}

/// A webhook of ConfigMaps with further members.
fn webhook(name: &str, client_config: Value, more: &Value) -> Value {
    let mut webhook = json!({
        "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["*"],
        }],
    });
    let members = webhook.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    webhook
}

async fn install(client: &Client, is_mutating: bool, name: &str, webhooks: &Value) {
    let body = json!({"metadata": {"name": name}, "webhooks": webhooks});
    let path = configurations(is_mutating);
    client.call(Call::post(&path, &body)).await.expect(201);
}

async fn remove(client: &Client, is_mutating: bool, name: &str) {
    let path = format!("{}/{name}", configurations(is_mutating));
    client.call(Call::delete(&path)).await.expect(200);
}

async fn create(client: &Client, name: &str) -> (u16, Value) {
    let body = json!({"metadata": {"name": name}, "data": {"k": "0"}});
    let answer = client.call(Call::post(CONFIGMAPS, &body)).await;
    (answer.status.as_u16(), answer.json())
}

/// An answer to a review with these members in its response.
fn reviewed(asked: &Asked, response: &Value) -> Value {
    let mut whole = json!({"uid": asked.uid(), "allowed": true});
    let members = whole.as_object_mut().unwrap();
    members.extend(response.as_object().unwrap().clone());
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": whole,
    })
}

/// The same as an answer over HTTP.
fn responds(asked: &Asked, response: &Value) -> Act {
    http(200, "", reviewed(asked, response).to_string())
}

/// The number at the end of the name of a review's object: `case-7`.
fn number(asked: &Asked) -> usize {
    let request = &asked.review["request"];
    let names = ["/object/metadata/name", "/oldObject/metadata/name"];
    let mut names = names
        .iter()
        .filter_map(|name| request.pointer(name)?.as_str());
    let name = names.next().unwrap();
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// Defines a resource whose objects may have any members, and waits until it is served at a path.
async fn define(client: &Client, plural: &str, kind: &str, scope: &str, path: &str) {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": scope,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": free}}]},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let create = Call::post(definitions, &definition);
    client.call(create).await.expect(201);
    until_served(client, path).await;
}

/// Waits until the resource of a new definition is served.
async fn until_served(client: &Client, path: &str) {
    for _ in 0..6_000 {
        if client.call(Call::get(path)).await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{path} is not served");
}
