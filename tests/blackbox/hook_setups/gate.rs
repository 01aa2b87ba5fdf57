//! A gatekeeper: one webhook with long lists of resources, which fails open, and one that guards
//! the label by which namespaces are exempt.

use serde_json::{Value, json};

use super::{NAMESPACES, Row, World, merge, pod, row};
use crate::harness::{Call, deployment};

const APP: &str = "/api/v1/namespaces/app";
const FREE: &str = "/api/v1/namespaces/free";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/app/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/app/statefulsets";

fn exempt() -> Value {
    json!({"matchExpressions": [{"key": "gate.example.com/ignore", "operator": "DoesNotExist"}]})
}

async fn start() -> World {
    let world = World::start().await;
    let exempted = json!({"name": "free", "labels": {"gate.example.com/ignore": "1"}});
    world
        .make(NAMESPACES, &json!({"metadata": {"name": "app"}}))
        .await;
    world.make(NAMESPACES, &json!({"metadata": exempted})).await;
    let resources = [
        "*",
        "pods/ephemeralcontainers",
        "pods/exec",
        "pods/log",
        "pods/eviction",
        "pods/portforward",
        "pods/proxy",
        "pods/attach",
        "pods/binding",
        "deployments/scale",
        "replicasets/scale",
        "statefulsets/scale",
        "replicationcontrollers/scale",
        "services/proxy",
        "nodes/proxy",
        "services/status",
    ];
    let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources,
        "operations": ["CREATE", "UPDATE"]}]);
    let namespaces = json!([{"apiGroups": [""], "apiVersions": ["*"],
        "resources": ["namespaces"], "operations": ["CREATE", "UPDATE"]}]);
    let open = json!({"failurePolicy": "Ignore", "timeoutSeconds": 3, "matchPolicy": "Exact",
        "namespaceSelector": exempt()});
    let closed = json!({"failurePolicy": "Fail", "timeoutSeconds": 3, "matchPolicy": "Exact"});
    let webhooks = vec![
        world.webhook("gate", everything, open),
        world.webhook("label", namespaces, closed),
    ];
    world.install("validating", "gate", webhooks).await;
    let mutations = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
        "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"}]);
    let mutating = json!({"failurePolicy": "Ignore", "timeoutSeconds": 1,
        "namespaceSelector": exempt()});
    let webhooks = vec![world.webhook("mutate", mutations, mutating)];
    world.install("mutating", "gate", webhooks).await;
    world
}

fn rows() -> Vec<Row> {
    let label = |value: Value| json!({"metadata": {"labels": {"gate.example.com/ignore": value}}});
    let named = |name: &str| json!({"metadata": {"name": name}});
    let exempted = json!({"metadata": {"name": "other",
        "labels": {"gate.example.com/ignore": "1"}}});
    let sized = json!({"spec": {"replicas": 2}});
    let set = json!({"metadata": {"name": "a"}, "spec": {"serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}}, "template": deployment("")["spec"]["template"]}});
    let service = json!({"metadata": {"name": "a"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    vec![
        row(
            "a pod",
            Call::post(&format!("{APP}/pods"), &pod("a", json!({}))),
            201,
            &[
                "gate: CREATE v1 pods Pod app/a",
                "mutate: CREATE v1 pods Pod app/a",
            ],
        ),
        row(
            "an exempt pod",
            Call::post(&format!("{FREE}/pods"), &pod("a", json!({}))),
            201,
            &[],
        ),
        row(
            "an object of the cluster",
            Call::post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                &json!({"metadata": {"name": "a"}, "rules": []}),
            ),
            201,
            &["gate: CREATE rbac.authorization.k8s.io/v1 clusterroles ClusterRole /a"],
        ),
        row(
            "a namespace",
            Call::post(NAMESPACES, &named("next")),
            201,
            &[
                "gate: CREATE v1 namespaces Namespace next/next",
                "label: CREATE v1 namespaces Namespace next/next",
            ],
        ),
        row(
            "a namespace that exempts itself",
            Call::post(NAMESPACES, &exempted),
            201,
            &["label: CREATE v1 namespaces Namespace other/other"],
        ),
        row(
            "one that is exempt from now on",
            merge(&format!("{NAMESPACES}/next"), label("1".into())),
            200,
            &["label: UPDATE v1 namespaces Namespace next/next"],
        ),
        row(
            "one that is not any more",
            merge(&format!("{NAMESPACES}/next"), label(Value::Null)),
            200,
            &[
                "gate: UPDATE v1 namespaces Namespace next/next",
                "label: UPDATE v1 namespaces Namespace next/next",
            ],
        ),
        row(
            "a deployment",
            Call::post(DEPLOYMENTS, &deployment("a")),
            201,
            &[
                "gate: CREATE apps/v1 deployments Deployment app/a",
                "mutate: CREATE apps/v1 deployments Deployment app/a",
            ],
        ),
        row(
            "its scale",
            merge(&format!("{DEPLOYMENTS}/a/scale"), sized.clone()),
            200,
            &[
                "gate: UPDATE apps/v1 deployments/scale Scale app/a",
                "mutate: UPDATE apps/v1 deployments/scale Scale app/a",
            ],
        ),
        row(
            "its status",
            merge(
                &format!("{DEPLOYMENTS}/a/status"),
                json!({"status": {"replicas": 2}}),
            ),
            200,
            &["mutate: UPDATE apps/v1 deployments/status Deployment app/a"],
        ),
        row(
            "a set",
            Call::post(SETS, &set),
            201,
            &[
                "gate: CREATE apps/v1 statefulsets StatefulSet app/a",
                "mutate: CREATE apps/v1 statefulsets StatefulSet app/a",
            ],
        ),
        row(
            "its scale",
            merge(&format!("{SETS}/a/scale"), sized),
            200,
            &[
                "gate: UPDATE apps/v1 statefulsets/scale Scale app/a",
                "mutate: UPDATE apps/v1 statefulsets/scale Scale app/a",
            ],
        ),
        row(
            "a service",
            Call::post(&format!("{APP}/services"), &service),
            201,
            &[
                "gate: CREATE v1 services Service app/a",
                "mutate: CREATE v1 services Service app/a",
            ],
        ),
        row(
            "its status",
            merge(
                &format!("{APP}/services/a/status"),
                json!({"status": {"loadBalancer": {
            "ingress": [{"ip": "192.0.2.1"}]}}}),
            ),
            200,
            &[
                "gate: UPDATE v1 services/status Service app/a",
                "mutate: UPDATE v1 services/status Service app/a",
            ],
        ),
        row(
            "an eviction",
            Call::post(&format!("{APP}/pods/a/eviction?dryRun=All"), &named("a")),
            201,
            &[
                "gate: CREATE v1 pods/eviction Eviction app/a dry",
                "mutate: CREATE v1 pods/eviction Eviction app/a dry",
            ],
        ),
        row(
            "a connection is no create",
            Call::get(&format!("{APP}/pods/none/exec?command=c")),
            404,
            &[],
        ),
        row(
            "a deletion",
            Call::delete(&format!("{APP}/pods/a")),
            200,
            &[],
        ),
    ]
}

#[tokio::test]
async fn a_gatekeeper_is_asked_about_what_it_lists_hk_8_hk_11_hk_15() {
    start().await.check(rows()).await;
}

/// Several that refuse: the client sees one of them. A failure that is ignored refuses nothing.
#[tokio::test]
async fn a_gatekeeper_refuses_and_fails_open_hk_31_hk_33_hk_35() {
    let world = start().await;
    let refusal = json!({"allowed": false, "code": 403, "message": "[must-have-owner] no label",
        "warnings": ["no owner"]});
    world.hooks.tell("gate", refusal);
    let call = || Call::post(NAMESPACES, &json!({"metadata": {"name": "next"}}));
    let (code, body, asked) = world.ask(call()).await;
    assert_eq!((code, asked.len()), (403, 2), "{body}");
    let text = "admission webhook \\\"gate.example.com\\\" denied the request: [must-have-owner] no \
                label";
    assert!(body.contains(text), "{body}");
    world.hooks.tell(
        "label",
        json!({"allowed": false, "message": "not that label"}),
    );
    let (code, body, _) = world.ask(call()).await;
    assert!(
        code == 403 && body.contains("gate.") || code == 400 && body.contains("label."),
        "{body}"
    );
    world.hooks.tell("label", json!({}));
    world.hooks.tell("gate", json!({"http": 500}));
    let (code, body, asked) = world.ask(call()).await;
    assert_eq!((code, asked.len()), (201, 2), "{body}");
}
