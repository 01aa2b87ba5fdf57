//! Custom resources: definitions, their life, and what they serve (crd.md).

mod applies;
mod changes;
pub mod client_go;
mod conversions;
mod data;
mod definitions;
mod deletion;
mod edges;
mod first_use;
mod hostile;
mod killed;
mod kube_rs;
mod kubectl;
mod life;
mod openapi;
mod operators;
mod owners;
mod restart;
mod serving;
mod several_daemons;
mod shows;
mod values;
mod writes;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, Call, Client, Daemon};
use crate::servers::etcd::{self, Cluster};

/// For busy machines. The awaited steps take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LAMPS: &str = "/apis/example.com/v1/namespaces/default/lamps";
/// The key of the definition in an etcd.
const STORED_LAMPS: &str =
    "/registry/apiextensions.k8s.io/customresourcedefinitions/lamps.example.com";

/// A version that is served, and its schema.
pub fn version(name: &str, is_storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": is_storage,
        "schema": {"openAPIV3Schema": schema}})
}

/// A definition of a resource with these names and versions.
pub fn definition(plural: &str, kind: &str, versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind},
            "versions": versions},
    })
}

/// A schema with a text, a number with a default, and a status.
fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["colour"], "properties": {
            "colour": {"type": "string", "maxLength": 10},
            "watts": {"type": "integer", "default": 5, "minimum": 1},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"type": "object", "properties": {"lit": {"type": "boolean"}}}}})
}

pub fn lamps() -> Value {
    definition("lamps", "Lamp", &json!([version("v1", true, &schema())]))
}

fn lamp(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": name},
        "spec": spec})
}

fn path_of(definition: &Value) -> String {
    let name = definition["metadata"]["name"].as_str().unwrap();
    format!("{DEFINITIONS}/{name}")
}

/// Runs a test over the embedded engine, and over etcd where there is one.
pub async fn over_each(test: impl AsyncFn(&Daemon)) {
    over_each_killed(async |daemon: &mut Daemon| test(daemon).await).await;
}

/// As [`over_each`], with further flags.
async fn over_each_with(flags: &[&str], test: impl AsyncFn(&Daemon)) {
    over_each_started(flags, async |daemon: &mut Daemon| test(daemon).await).await;
}

/// As [`over_each`], for a test that kills the daemon.
async fn over_each_killed(test: impl AsyncFn(&mut Daemon)) {
    over_each_started(&[], test).await;
}

async fn over_each_started(flags: &[&str], test: impl AsyncFn(&mut Daemon)) {
    let mut daemon = Daemon::with(flags).await;
    test(&mut daemon).await;
    drop(daemon);
    if let Some((_cluster, servers)) = one_etcd().await {
        let flags = [flags, &[&servers]].concat();
        test(&mut Daemon::with(&flags).await).await;
    }
}

/// Starts an etcd where there is one. Returns it with the flag that names it.
pub async fn one_etcd() -> Option<(Cluster, String)> {
    etcd::find("3.5")?;
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    Some((cluster, servers))
}

/// Stores a definition of long ago in an etcd, as kube-apiserver did, with these members of its
/// spec and with this status. Returns a client of the etcd.
async fn put_old_lamps(cluster: &Cluster, members: &Value, status: &Value) -> etcd_client::Client {
    let mut old = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com", "uid": "0b0b0b0b-0000-4000-8000-000000000001",
            "generation": 1, "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"group": "example.com", "version": "v1", "scope": "Namespaced",
            "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp",
                "listKind": "LampList"}},
        "status": status});
    let spec = old["spec"].as_object_mut().unwrap();
    spec.extend(members.as_object().unwrap().clone());
    let connecting = etcd_client::Client::connect(cluster.urls(), None);
    let mut etcd = connecting.await.unwrap();
    etcd.put(STORED_LAMPS, old.to_string(), None).await.unwrap();
    etcd
}

/// Returns the number of objects that an etcd has in the group of the tests.
async fn stored(cluster: &Cluster) -> i64 {
    let connecting = etcd_client::Client::connect(cluster.urls(), None);
    let options = etcd_client::GetOptions::new()
        .with_prefix()
        .with_count_only();
    let mut client = connecting.await.unwrap();
    let found = client.get("/registry/example.com/", Some(options)).await;
    found.unwrap().count()
}

/// Repeats a call until its answer is the wanted one.
pub async fn until(
    client: &Client,
    call: impl Fn() -> Call,
    is: impl Fn(&Answer) -> bool,
) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = client.call(call()).await;
        if is(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns a condition of a definition.
fn condition<'d>(definition: &'d Value, kind: &str) -> Option<&'d Value> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn has(definition: &Value, kind: &str, status: &str) -> bool {
    condition(definition, kind).is_some_and(|condition| condition["status"] == status)
}

/// Waits until a definition has a condition with this status.
async fn conditioned(client: &Client, path: &str, kind: &str, status: &str) -> Value {
    let is = |answer: &Answer| has(&answer.json(), kind, status);
    until(client, || Call::get(path), is).await.json()
}

/// Creates a definition, and waits until its resource is served.
pub async fn establish(client: &Client, definition: &Value) -> Value {
    let created = client.call(Call::post(DEFINITIONS, definition)).await;
    created.expect(201);
    conditioned(client, &path_of(definition), "Established", "True").await
}

/// Waits until a path is not there.
pub async fn gone(client: &Client, path: &str) {
    until(client, || Call::get(path), |answer| answer.status == 404).await;
}
