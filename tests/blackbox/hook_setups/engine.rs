//! An engine of policies: webhooks for everything beside those for a few kinds, for its own kind in
//! two versions, for its own Lease, and reports that nobody asks about.

use serde_json::{Value, json};

use super::{NAMESPACES, Row, World, merge, pod, row};
use crate::harness::{Call, deployment};

const APP: &str = "/api/v1/namespaces/app";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/app/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/hooks/leases";
const RULES: &str = "/apis/engine.example.com/v1/namespaces/app/rules";
const RULES_V2: &str = "/apis/engine.example.com/v2/namespaces/app/rules";
const REPORTS: &str = "/apis/reports.example.com/v1/namespaces/app/reports";

fn rule(groups: &[&str], resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": groups, "apiVersions": ["*"], "resources": resources,
        "operations": operations})
}

/// Excludes the namespaces of the system.
fn of_users() -> Value {
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
        "values": ["kube-system", "hooks"]}]})
}

fn mutating(world: &World) -> Vec<Value> {
    let writes = ["CREATE", "UPDATE"];
    let condition = |name: &str, text: &str| json!({"name": name, "expression": text});
    vec![
        world.webhook(
            "fail-mutate",
            json!([
                rule(&[""], &["pods", "pods/ephemeralcontainers"], &writes),
                rule(&["apps"], &["deployments"], &writes),
            ]),
            json!({"failurePolicy": "Fail", "timeoutSeconds": 10, "namespaceSelector": of_users(),
                "reinvocationPolicy": "IfNeeded", "matchPolicy": "Equivalent"}),
        ),
        world.webhook(
            "ignore-mutate",
            json!([rule(&["*"], &["*/*"], &writes)]),
            json!({
                "failurePolicy": "Ignore", "timeoutSeconds": 5,
                "objectSelector": {"matchExpressions": [
                    {"key": "engine.example.com/skip", "operator": "DoesNotExist"}]},
                "matchConditions": [
                    condition("leases", "request.resource.resource != 'leases'"),
                    condition("reports", "request.resource.group != 'reports.example.com'"),
                    condition("nodes", "!('system:nodes' in request.userInfo.groups)"),
                    condition("own", "request.userInfo.username != 'engine'"),
                ],
            }),
        ),
    ]
}

fn validating(world: &World) -> Vec<Value> {
    let namespaces = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name",
        "operator": "NotIn", "values": ["kube-system"]}]});
    vec![
        world.webhook(
            "fail-validate",
            json!([rule(
                &[""],
                &[
                    "pods",
                    "pods/ephemeralcontainers",
                    "pods/exec",
                    "replicationcontrollers"
                ],
                &["CREATE", "UPDATE", "DELETE", "CONNECT"],
            )]),
            json!({"failurePolicy": "Fail", "namespaceSelector": of_users()}),
        ),
        world.webhook(
            "heartbeat",
            json!([rule(&["coordination.k8s.io"], &["leases"], &["UPDATE"])]),
            json!({"failurePolicy": "Ignore", "timeoutSeconds": 3,
                "objectSelector": {"matchLabels": {"app": "engine"}}}),
        ),
        world.webhook(
            "namespaces",
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"],
                "operations": ["UPDATE", "DELETE"], "scope": "Cluster"}]),
            json!({"namespaceSelector": namespaces}),
        ),
        world.webhook(
            "rules",
            json!([{"apiGroups": ["engine.example.com"], "apiVersions": ["v1"],
                "resources": ["rules"], "operations": ["CREATE", "UPDATE"]}]),
            json!({"failurePolicy": "Fail", "matchPolicy": "Equivalent"}),
        ),
        world.webhook(
            "scale",
            json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/scale"],
                "operations": ["UPDATE"], "scope": "Namespaced"}]),
            json!({}),
        ),
    ]
}

async fn start() -> World {
    let world = World::start().await;
    world
        .make(NAMESPACES, &json!({"metadata": {"name": "app"}}))
        .await;
    world
        .define("engine.example.com", "rules", "Rule", &["v1", "v2"])
        .await;
    world
        .define("reports.example.com", "reports", "Report", &["v1"])
        .await;
    world
        .install("mutating", "engine-mutate", mutating(&world))
        .await;
    world
        .install("validating", "engine-validate", validating(&world))
        .await;
    world
}

fn of_pods() -> Vec<Row> {
    let pods = format!("{APP}/pods");
    let part = |name: &str| format!("{APP}/pods/{name}");
    let node = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"metadata": {"name": "b"}});
    let container = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    vec![
        row(
            "a pod",
            Call::post(&pods, &pod("a", json!({}))),
            201,
            &[
                "fail-mutate: CREATE v1 pods Pod app/a",
                "fail-validate: CREATE v1 pods Pod app/a",
                "ignore-mutate: CREATE v1 pods Pod app/a",
            ],
        ),
        row(
            "a pod of the system",
            Call::post("/api/v1/namespaces/kube-system/pods", &pod("a", json!({}))),
            201,
            &["ignore-mutate: CREATE v1 pods Pod kube-system/a"],
        ),
        row(
            "a pod that skips, in a dry run",
            Call::post(
                &format!("{pods}?dryRun=All"),
                &pod("b", json!({"engine.example.com/skip": ""})),
            ),
            201,
            &[
                "fail-mutate: CREATE v1 pods Pod app/b dry",
                "fail-validate: CREATE v1 pods Pod app/b dry",
            ],
        ),
        row(
            "ephemeral containers",
            merge(&part("a/ephemeralcontainers"), container),
            200,
            &[
                "fail-mutate: UPDATE v1 pods/ephemeralcontainers Pod app/a",
                "fail-validate: UPDATE v1 pods/ephemeralcontainers Pod app/a",
                "ignore-mutate: UPDATE v1 pods/ephemeralcontainers Pod app/a",
            ],
        ),
        row(
            "the status of a pod",
            merge(&part("a/status"), json!({"status": {"message": "m"}})),
            200,
            &["ignore-mutate: UPDATE v1 pods/status Pod app/a"],
        ),
        row(
            "a binding",
            Call::post(&part("a/binding"), &node),
            201,
            &["ignore-mutate: CREATE v1 pods/binding Binding app/a"],
        ),
        row(
            "another pod",
            Call::post(&pods, &pod("b", json!({}))),
            201,
            &[
                "fail-mutate: CREATE v1 pods Pod app/b",
                "fail-validate: CREATE v1 pods Pod app/b",
                "ignore-mutate: CREATE v1 pods Pod app/b",
            ],
        ),
        row(
            "an eviction",
            Call::post(&part("b/eviction"), &eviction),
            201,
            &["ignore-mutate: CREATE v1 pods/eviction Eviction app/b"],
        ),
        row(
            "a connection",
            Call::get(&part("none/exec?command=c")),
            404,
            &["fail-validate: CONNECT v1 pods/exec PodExecOptions app/none"],
        ),
        row(
            "another connection",
            Call::get(&part("none/attach")),
            404,
            &[],
        ),
        row(
            "a deletion",
            Call::delete(&part("a?dryRun=All")),
            200,
            &["fail-validate: DELETE v1 pods Pod app/a dry"],
        ),
        row(
            "a collection",
            Call::delete(&format!("{pods}?dryRun=All")),
            200,
            &["fail-validate: DELETE v1 pods Pod app/ dry"],
        ),
    ]
}

fn of_others() -> Vec<Row> {
    let one = |path: &str| format!("{path}/a");
    let sized = |replicas: u8| json!({"spec": {"replicas": replicas}});
    let custom = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {"size": 1}});
    let label = || json!({"metadata": {"labels": {"l": "m"}}});
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    vec![
        row(
            "a deployment",
            Call::post(DEPLOYMENTS, &deployment("a")),
            201,
            &[
                "fail-mutate: CREATE apps/v1 deployments Deployment app/a",
                "ignore-mutate: CREATE apps/v1 deployments Deployment app/a",
            ],
        ),
        row(
            "its scale",
            merge(&format!("{DEPLOYMENTS}/a/scale"), sized(2)),
            200,
            &[
                "ignore-mutate: UPDATE apps/v1 deployments/scale Scale app/a",
                "scale: UPDATE apps/v1 deployments/scale Scale app/a",
            ],
        ),
        row(
            "an own object in the second version",
            Call::post(RULES_V2, &custom("engine.example.com/v2", "Rule")),
            201,
            &[
                "ignore-mutate: CREATE engine.example.com/v2 rules Rule app/a",
                "rules: CREATE engine.example.com/v1 rules Rule app/a from engine.example.com/v2",
            ],
        ),
        row(
            "an own object",
            merge(&one(RULES), json!({"spec": {"more": 1}})),
            200,
            &[
                "ignore-mutate: UPDATE engine.example.com/v1 rules Rule app/a",
                "rules: UPDATE engine.example.com/v1 rules Rule app/a",
            ],
        ),
        row(
            "the status of an own object",
            merge(
                &format!("{RULES}/a/status"),
                json!({"status": {"ready": true}}),
            ),
            200,
            &["ignore-mutate: UPDATE engine.example.com/v1 rules/status Rule app/a"],
        ),
        row(
            "the scale of an own object",
            merge(&format!("{RULES_V2}/a/scale"), sized(3)),
            200,
            &[
                "ignore-mutate: UPDATE engine.example.com/v2 rules/scale Scale app/a",
                "scale: UPDATE engine.example.com/v2 rules/scale Scale app/a",
            ],
        ),
        row(
            "a report",
            Call::post(REPORTS, &custom("reports.example.com/v1", "Report")),
            201,
            &[],
        ),
        row(
            "a changed report",
            merge(&one(REPORTS), json!({"spec": {"more": 1}})),
            200,
            &[],
        ),
        row(
            "a Lease",
            Call::post(
                LEASES,
                &json!({"metadata": {"name": "a", "labels": {"app": "engine"}}}),
            ),
            201,
            &[],
        ),
        row(
            "its heartbeat",
            merge(&one(LEASES), json!({"spec": {"holderIdentity": "h"}})),
            200,
            &["heartbeat: UPDATE coordination.k8s.io/v1 leases Lease hooks/a"],
        ),
        row(
            "the end of its label",
            merge(&one(LEASES), json!({"metadata": {"labels": null}})),
            200,
            &[
                // The old object is selected.
                "heartbeat: UPDATE coordination.k8s.io/v1 leases Lease hooks/a",
            ],
        ),
        row(
            "no heartbeat",
            merge(&one(LEASES), json!({"spec": {"holderIdentity": "i"}})),
            200,
            &[],
        ),
        row(
            "a namespace",
            merge(APP, label()),
            200,
            &[
                "ignore-mutate: UPDATE v1 namespaces Namespace app/app",
                "namespaces: UPDATE v1 namespaces Namespace app/app",
            ],
        ),
        row(
            "one of the system",
            merge(&format!("{NAMESPACES}/kube-system"), label()),
            200,
            &["ignore-mutate: UPDATE v1 namespaces Namespace kube-system/kube-system"],
        ),
        row(
            "a node",
            Call::post("/api/v1/nodes", &json!({"metadata": {"name": "a"}})),
            201,
            &["ignore-mutate: CREATE v1 nodes Node /a"],
        ),
        row(
            "a review",
            Call::post(reviews, &review),
            201,
            &[
                "ignore-mutate: CREATE authorization.k8s.io/v1 selfsubjectaccessreviews \
             SelfSubjectAccessReview /",
            ],
        ),
        row(
            "their own configuration",
            merge(
                &format!(
                    "{}/validatingwebhookconfigurations/engine-validate",
                    super::GROUP
                ),
                label(),
            ),
            200,
            &[],
        ),
    ]
}

#[tokio::test]
async fn an_engine_is_asked_about_pods_and_their_parts_hk_7_hk_13_hk_15() {
    start().await.check(of_pods()).await;
}

#[tokio::test]
async fn an_engine_is_asked_about_its_own_kinds_and_all_others_hk_8_hk_10_hk_14() {
    start().await.check(of_others()).await;
}

/// While the engine is down, requests are refused as `failurePolicy` says, its Lease can be
/// renewed, and its configurations can be removed.
#[tokio::test]
async fn an_engine_that_is_down_refuses_what_it_must_judge_hk_14_hk_35() {
    let world = start().await;
    for name in ["fail-mutate", "fail-validate", "ignore-mutate", "heartbeat"] {
        world.hooks.tell(name, json!({"http": 503}));
    }
    let pods = format!("{APP}/pods");
    let (code, body, _) = world.ask(Call::post(&pods, &pod("a", json!({})))).await;
    assert_eq!(code, 500, "{body}");
    let why = "failed calling webhook \\\"fail-mutate.example.com\\\": failed to call webhook: the \
               server is currently unable to handle the request";
    assert!(body.contains(why), "{body}");
    let lease = json!({"metadata": {"name": "a", "labels": {"app": "engine"}}});
    world.make(LEASES, &lease).await;
    let renewal = merge(
        &format!("{LEASES}/a"),
        json!({"spec": {"holderIdentity": "h"}}),
    );
    assert_eq!(world.ask(renewal).await.0, 200);
    let secret = json!({"metadata": {"name": "a"}});
    assert_eq!(
        world
            .ask(Call::post(&format!("{APP}/secrets"), &secret))
            .await
            .0,
        201
    );
    for kind in ["mutating", "validating"] {
        let own = format!("{}/{kind}webhookconfigurations", super::GROUP);
        assert_eq!(world.ask(Call::delete(&own)).await.0, 200);
    }
    let (code, _, asked) = world.ask(Call::post(&pods, &pod("a", json!({})))).await;
    assert_eq!((code, asked), (201, vec![]));
    let page = world
        .daemon
        .client()
        .call(Call::get("/metrics"))
        .await
        .text();
    let open = "apiserver_admission_webhook_fail_open_count{name=\"heartbeat.example.com\",\
                type=\"validating\"} 1";
    assert!(page.contains(open), "{page}");
}
