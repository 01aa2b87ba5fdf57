//! The health of the components of a cluster. The expected responses are those of kube-apiserver
//! 1.36.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::harness::{Call, Client, Daemon, Kubectl};
use crate::servers::etcd::Cluster;

const PATH: &str = "/api/v1/componentstatuses";
const WARNING: &str = "299 - \"v1 ComponentStatus is deprecated in v1.19+\"";

/// An object of the list. Another controller manager may run on the machine of the test.
fn is_server(object: &Value, name: &str, port: u16) -> bool {
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    let message = format!(
        "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection \
         refused"
    );
    let absent = json!([{"type": "Healthy", "status": "False", "message": message}]);
    let shown = |conditions| json!({"metadata": {"name": name}, "conditions": conditions});
    *object == shown(absent) || *object == shown(healthy)
}

async fn refusal(client: &Client, path: &str) -> Value {
    let answer = client.call(Call::get(&format!("{PATH}{path}"))).await;
    assert_eq!(answer.header("warning"), Some(WARNING), "{path}");
    answer.json()
}

#[tokio::test]
async fn parts_are_shown_as_by_kube_apiserver_api_232() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let answer = client.call(Call::get(PATH)).await;
    assert_eq!(answer.header("warning"), Some(WARNING));
    let list = answer.expect(200);
    assert_eq!(list["kind"], "ComponentStatusList");
    assert_eq!(list["metadata"], json!({}));
    let items = list["items"].as_array().unwrap();
    assert!(is_server(&items[0], "controller-manager", 10257), "{list}");
    assert!(is_server(&items[1], "scheduler", 10259), "{list}");
    let ok = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    let storage = json!({"metadata": {"name": "storage"}, "conditions": ok});
    assert_eq!(items[2..], [storage]);

    let one = client.call(Call::get(&format!("{PATH}/storage"))).await;
    let expected = json!({
        "kind": "ComponentStatus", "apiVersion": "v1",
        "metadata": {"name": "storage"}, "conditions": ok,
    });
    assert_eq!(one.expect(200), expected);

    for (selector, count) in [
        ("labelSelector=a=b", 0),
        ("fieldSelector=metadata.name=scheduler", 1),
        ("fieldSelector=metadata.namespace=a", 0),
        ("fieldSelector=metadata.namespace!=a", 3),
        ("limit=1", 3),
        ("continue=x", 3),
        ("resourceVersion=x", 3),
    ] {
        let answer = client.call(Call::get(&format!("{PATH}?{selector}"))).await;
        let items = answer.expect(200)["items"].take();
        assert_eq!(items.as_array().unwrap().len(), count, "{selector}");
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let asked = Call::get(&format!("{PATH}/storage")).header("accept", table);
    let table = client.call(asked).await.expect(200);
    let row = &table["rows"][0];
    assert_eq!(row["cells"], json!(["storage", "Healthy", "ok", ""]));
}

#[tokio::test]
async fn refusals_are_those_of_kube_apiserver_api_232() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let status = |message: &str, reason: &str, details: Value, code: u16| {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        if !details.is_null() {
            status["details"] = details;
        }
        status
    };
    assert_eq!(
        refusal(&client, "/nosuch").await,
        status(
            "componentstatus \"nosuch\" not found",
            "NotFound",
            json!({"name": "nosuch", "kind": "componentstatus"}),
            404
        )
    );
    assert_eq!(
        refusal(&client, "?watch=1").await,
        status(
            "watch is not supported on resources of kind \"componentstatuses\"",
            "MethodNotAllowed",
            json!({"kind": "componentstatuses"}),
            405
        )
    );
    assert_eq!(
        refusal(&client, "?fieldSelector=status.x=a").await,
        status(
            "\"status.x\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\"",
            "BadRequest",
            Value::Null,
            400
        )
    );
    for (method, path, code) in [
        ("POST", PATH, 405),
        ("DELETE", PATH, 405),
        ("DELETE", "/api/v1/componentstatuses/scheduler", 405),
        ("GET", "/api/v1/watch/componentstatuses", 404),
        ("GET", "/api/v1/namespaces/default/componentstatuses", 404),
    ] {
        let answer = client.call(Call::new(method, path)).await;
        assert_eq!(answer.status, code, "{method} {path}");
        assert_eq!(answer.header("warning"), None, "{method} {path}");
    }
}

#[tokio::test]
async fn each_server_of_etcd_is_asked_api_232() {
    let started = tokio::task::spawn_blocking(|| Cluster::start("3.5", 3, &[]));
    let mut cluster = started.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    let health = async |name: &str| {
        let answer = client.call(Call::get(&format!("{PATH}/{name}"))).await;
        answer.expect(200)["conditions"][0].take()
    };
    let ok = json!({"type": "Healthy", "status": "True", "message": "ok"});
    for name in ["etcd-0", "etcd-1", "etcd-2"] {
        assert_eq!(health(name).await, ok, "{name}");
    }
    cluster.members[1].kill();
    // The others choose a leader, if that was it.
    let patience = Instant::now() + Duration::from_secs(20);
    while health("etcd-0").await != ok || health("etcd-2").await != ok {
        assert!(Instant::now() < patience, "two of three do not answer");
    }
    let down = health("etcd-1").await;
    assert_eq!(down["status"], "False");
    assert_eq!(down["message"], down["error"]);
    assert!(!down["message"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn kubectl_shows_them_1_36_api_232() {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find("1.36", &daemon) else {
        return;
    };
    let said = kubectl.ok(&["get", "cs", "storage", "--no-headers"]).await;
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words, ["storage", "Healthy", "ok"]);
}
