//! Webhook configurations shaped like those of programs that many clusters have: an engine of
//! policies as Kyverno is ([`engine`]), a gatekeeper ([`gate`]), and a manager of certificates
//! ([`issuer`]). The data are our own. Tables say which webhook is asked about a request, and what
//! it is shown.

mod engine;
mod gate;
mod issuer;

use serde_json::{Value, json};

use crate::custom_resources::establish;
use crate::harness::hook_server::HookServer;
use crate::harness::{Call, Client, Daemon};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const NAMESPACES: &str = "/api/v1/namespaces";

/// The user whose requests count. Those of the daemon itself are asked about, too.
const USER: &str = "tester";

/// A daemon with a server of webhooks behind the Service `hooks/server`.
struct World {
    daemon: Daemon,
    client: Client,
    hooks: HookServer,
}

/// A request, the status of its answer, and the calls of webhooks about it.
struct Row {
    title: &'static str,
    call: Call,
    code: u16,
    asked: &'static [&'static str],
}

fn row(title: &'static str, call: Call, code: u16, asked: &'static [&'static str]) -> Row {
    Row {
        title,
        call,
        code,
        asked,
    }
}

fn merge(path: &str, body: Value) -> Call {
    Call::merge_patch(path, &body)
}

impl World {
    /// Starts both. The Service is one of an external name, so it needs neither a proxy of Services
    /// nor endpoints.
    async fn start() -> World {
        let (daemon, hooks) = (Daemon::start().await, HookServer::start().await);
        let client = daemon.client();
        let world = World {
            daemon,
            client,
            hooks,
        };
        world
            .make(NAMESPACES, &json!({"metadata": {"name": "hooks"}}))
            .await;
        let service = json!({
            "metadata": {"name": "server"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        world
            .make(&format!("{NAMESPACES}/hooks/services"), &service)
            .await;
        world
    }

    async fn make(&self, path: &str, body: &Value) {
        self.client.call(Call::post(path, body)).await.expect(201);
    }

    /// The Service, with this path and this bundle.
    fn service(&self, path: &str, bundle: Option<&str>) -> Value {
        let service = json!({"namespace": "hooks", "name": "server", "port": self.hooks.port,
            "path": format!("/admit/{path}")});
        match bundle {
            Some(bundle) => json!({"service": service, "caBundle": bundle}),
            None => json!({"service": service}),
        }
    }

    /// A webhook whose calls have this name, with further members.
    fn webhook(&self, name: &str, rules: Value, more: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{name}.example.com"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": rules,
            "clientConfig": self.service(name, Some(&self.hooks.ca_bundle)),
        });
        let members = webhook.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        webhook
    }

    async fn install(&self, kind: &str, name: &str, webhooks: Vec<Value>) {
        let body = json!({"metadata": {"name": name}, "webhooks": webhooks});
        self.make(&format!("{GROUP}/{kind}webhookconfigurations"), &body)
            .await;
    }

    /// Defines a namespaced kind with these versions, each with a status and a scale, and waits
    /// until it is served.
    async fn define(&self, group: &str, plural: &str, kind: &str, versions: &[&str]) {
        let versions = versions.iter().enumerate().map(|(place, name)| {
            json!({
                "name": name, "served": true, "storage": place == 0,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        });
        let definition = json!({"metadata": {"name": format!("{plural}.{group}")}, "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": versions.collect::<Vec<_>>()}});
        establish(&self.client, &definition).await;
    }

    /// Sends a request as the user. Returns its status, its body, and the calls about it.
    async fn ask(&self, call: Call) -> (u16, String, Vec<String>) {
        self.hooks.take();
        let call = call.header("Impersonate-User", USER);
        let answer = self
            .client
            .call(call.header("Impersonate-Group", "system:masters"));
        let answer = answer.await;
        let calls = self.hooks.take().into_iter();
        let calls = calls.filter(|(_, review)| review["request"]["userInfo"]["username"] == USER);
        let calls = calls.map(|(name, review)| shown(&name, &review["request"]));
        (answer.status.as_u16(), answer.text(), calls.collect())
    }

    async fn check(&self, rows: Vec<Row>) {
        for row in rows {
            let (code, body, asked) = self.ask(row.call).await;
            assert_eq!(code, row.code, "{}: {body}", row.title);
            assert_eq!(asked, row.asked, "{}", row.title);
        }
    }
}

/// A call as tables have it: the webhook, the operation, the version, resource and kind that it is
/// shown, namespace and name, and the version of the request if that is another one.
fn shown(name: &str, request: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = |of: &Value| {
        let (group, version) = (text(&of["group"]), text(&of["version"]));
        [group, version]
            .join("/")
            .trim_start_matches('/')
            .to_owned()
    };
    let (resource, own) = (&request["resource"], &request["requestResource"]);
    let mut shown = format!(
        "{name}: {} {} {}",
        text(&request["operation"]),
        version(resource),
        text(&resource["resource"])
    );
    if request["subResource"].is_string() {
        shown += &format!("/{}", text(&request["subResource"]));
    }
    assert_eq!(request["subResource"], request["requestSubResource"]);
    let object = [&request["object"], &request["oldObject"]];
    let object = object
        .into_iter()
        .find(|object| object.is_object())
        .unwrap();
    assert_eq!(object["kind"], request["kind"]["kind"]);
    assert_eq!(text(&object["apiVersion"]), version(&request["kind"]));
    shown += &format!(
        " {} {}/{}",
        text(&object["kind"]),
        text(&request["namespace"]),
        text(&request["name"])
    );
    if version(own) != version(resource) {
        shown += &format!(" from {}", version(own));
    }
    if request["dryRun"] == true {
        shown += " dry";
    }
    shown
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": crate::harness::pod_spec()})
}
