//! Groups of other servers, and the APIServices that say so (connect.md 1 to 5).

mod availability;
mod client_go;
mod discovery;
pub mod extension;
mod front_proxy;
mod full_connections;
mod hostile_extensions;
mod local;
mod namespaces;
mod objects;
mod openapi;
mod own_service;
mod passed_on;
mod raw_server;
mod revocation;
mod several_daemons;
mod upgrades;

use std::time::Duration;

use serde_json::{Value, json};

use crate::custom_resources::until;
use crate::harness::{Answer, Call, Client};
use extension::APISERVICES;

/// Longer than any wait of the daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// The group of the tests' extensions.
const GROUP: &str = "a.example";

/// The path of an APIService.
fn api_service(name: &str) -> String {
    format!("{APISERVICES}/{name}")
}

/// Waits until a document has something.
async fn until_has(client: &Client, call: impl Fn() -> Call, is: impl Fn(&Value) -> bool) -> Value {
    let is = |answer: &Answer| answer.status == 200 && is(&answer.json());
    until(client, call, is).await.expect(200)
}

/// The condition `Available` in an APIService, null if it has none.
fn available(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    conditions
        .find(|one| one["type"] == "Available")
        .unwrap_or_default()
}

/// The condition `Available` of an APIService.
async fn condition(client: &Client, name: &str) -> Value {
    let object = client.call(Call::get(&api_service(name))).await;
    available(&object.expect(200))
}

/// Waits until an APIService has this message.
async fn until_message(client: &Client, name: &str, message: &str) {
    let has = |object: &Value| available(object)["message"] == message;
    until_has(client, || Call::get(&api_service(name)), has).await;
}

/// Waits until the condition `Available` has this reason, and returns it.
async fn until_reason(client: &Client, name: &str, reason: &str) -> Value {
    let has = |object: &Value| available(object)["reason"] == reason;
    let object = until_has(client, || Call::get(&api_service(name)), has).await;
    available(&object)
}

/// Creates the Service `default/extension` for a port of 127.0.0.1, an APIService that trusts
/// anybody there, and waits until that is available.
async fn install_at(client: &Client, group: &str, port: u16) {
    let service = json!({"metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    let services = "/api/v1/namespaces/default/services";
    client
        .call(Call::post(services, &service))
        .await
        .expect(201);
    let name = format!("v1.{group}");
    let body = json!({
        "metadata": {"name": name},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1500,
            "versionPriority": 15, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "extension", "port": port}},
    });
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    until_reason(client, &name, "Passed").await;
}
