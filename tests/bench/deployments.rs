//! Measures the cost of writes of Deployments and ConfigMaps. One client writes one object after
//! the other.

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon};
use crate::load::{self, NAMESPACE};
use crate::meter::Sample;
use crate::report::{figure, noise, part};

/// Returns a Deployment whose JSON has about 3 KiB.
fn deployment(name: &str) -> Value {
    let container = |number: u64| {
        let env =
            (0..6).map(|n| json!({"name": format!("VAR_{n}"), "value": format!("value {n}")}));
        json!({
            "name": format!("c{number}"),
            "image": format!("registry.example.com/team/app{number}:1.2.3"),
            "args": ["--flag=a", "--other=b"],
            "ports": [{"containerPort": 8080 + number, "name": format!("http{number}")}],
            "env": env.collect::<Vec<_>>(),
            "resources": {
                "limits": {"cpu": "500m", "memory": "256Mi"},
                "requests": {"cpu": "100m", "memory": "128Mi"},
            },
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080 + number}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080 + number}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/config"},
                {"name": "data", "mountPath": "/data"},
            ],
        })
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"note": "n".repeat(600)},
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {
                    "containers": (0..3).map(container).collect::<Vec<_>>(),
                    "volumes": [
                        {"name": "config", "configMap": {"name": "cfg"}},
                        {"name": "data", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

/// Measures `count` calls of each verb.
pub async fn measure(count: u64) {
    part("writes of Deployments of 3 KiB and ConfigMaps of 1 KiB, one client");
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    let first = format!("{deployments}/d0");
    let run = async |verb: &str, call: &dyn Fn(u64) -> Call| {
        cost(&daemon, &client, verb, count, call).await;
    };
    run("create of a Deployment", &|number| {
        Call::post(&deployments, &deployment(&format!("d{number}")))
    })
    .await;
    run("strategic merge of it", &|number| {
        let patch = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "c1", "image": format!("registry.example.com/team/app1:{number}")},
        ]}}}});
        let content_type = "application/strategic-merge-patch+json";
        Call::new("PATCH", &first).body(content_type, patch.to_string())
    })
    .await;
    run("server-side apply of it", &|number| {
        let mut applied = deployment("d0");
        applied["spec"]["replicas"] = number.into();
        let path = format!("{first}?fieldManager=bench&force=true");
        Call::new("PATCH", &path).body("application/apply-patch+yaml", applied.to_string())
    })
    .await;
    run("create of a ConfigMap", &|number| {
        Call::post(&load::collection(), &load::object(number, "0"))
    })
    .await;
    run("update of a ConfigMap", &|number| {
        let path = format!("{}/{}", load::collection(), load::name(0));
        Call::put(&path, &load::object(0, &number.to_string()))
    })
    .await;
}

async fn cost(
    daemon: &Daemon,
    client: &Client,
    verb: &str,
    count: u64,
    call: &dyn Fn(u64) -> Call,
) {
    // This initialises everything that is built on first use.
    let warm = count / 10;
    let mut before = Sample::take(daemon.pid());
    for number in 0..count + warm {
        if number == warm {
            before = Sample::take(daemon.pid());
        }
        let answer = client.call(call(number)).await;
        assert!(answer.status.is_success(), "{}", answer.text());
    }
    let used = before.until(&Sample::take(daemon.pid()));
    figure(
        &format!("CPU of the daemon for one {verb}"),
        used.daemon / count as f64 * 1e6,
        "µs",
        "",
    );
    noise(used.other_cores);
}
