//! Group versions that other servers serve.

mod availability;
mod client_go;
mod extension;
mod hostile_extensions;
mod passed_on;
mod raw_server;
mod upgrades;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, Call, Client};
use extension::APISERVICES;

/// Longer than any wait of the daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// The group of the tests' extensions.
const GROUP: &str = "a.example";

/// The condition `Available` of an APIService.
async fn condition(client: &Client, name: &str) -> Value {
    let path = format!("{APISERVICES}/{name}");
    let object = client.call(Call::get(&path)).await.expect(200);
    let conditions = object["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    conditions
        .find(|one| one["type"] == "Available")
        .unwrap_or_default()
}

/// Waits until the condition `Available` has this reason.
async fn until_reason(client: &Client, name: &str, reason: &str) -> Value {
    let start = Instant::now();
    loop {
        let condition = condition(client, name).await;
        if condition["reason"] == reason {
            return condition;
        }
        let late = start.elapsed() > PATIENCE;
        assert!(!late, "{name} never was {reason}: {condition}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until an answer is as expected.
async fn until(client: &Client, call: impl Fn() -> Call, is: impl Fn(&Answer) -> bool) -> Answer {
    let start = Instant::now();
    loop {
        let answer = client.call(call()).await;
        if is(&answer) {
            return answer;
        }
        let late = start.elapsed() > PATIENCE;
        assert!(!late, "{}: {}", answer.status, answer.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An APIService whose server nobody trusts or not, at this port of `default/extension`.
fn insecure(group: &str, port: u16) -> Value {
    json!({
        "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1500,
            "versionPriority": 15, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "extension", "port": port}},
    })
}

/// Creates the Service `default/extension` for a port of 127.0.0.1, an APIService that names it,
/// and waits until that is available.
async fn install_at(client: &Client, group: &str, port: u16) {
    let service = json!({"metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    let services = "/api/v1/namespaces/default/services";
    client
        .call(Call::post(services, &service))
        .await
        .expect(201);
    let body = insecure(group, port);
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    until_reason(client, &format!("v1.{group}"), "Passed").await;
}
