//! Bodies that break a rule as often as they have room for. Their memory and work is proportional
//! to their bytes (API-146 to API-149).

use serde_json::{Value, json};

use crate::harness::{Call, Daemon};

/// What a request may take above rest: a constant, and a multiple of its body.
const BASE_MIB: f64 = 64.0;
const MIB_FOR_MB: f64 = 16.0;

fn text_of(value: &Value) -> String {
    value.to_string()
}

/// A list of so many equal items, as JSON.
fn list(count: usize, item: &str) -> String {
    vec![item; count].join(",")
}

/// A body in which a list at a place has so many equal items.
fn with_list(body: &Value, count: usize, item: &str) -> String {
    text_of(body).replace("\"LIST\"", &list(count, item))
}

fn pod(spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    let members = whole.as_object_mut().unwrap();
    members.extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "p"}, "spec": whole})
}

/// Requests as hostile users send them: paths and bodies, with a part of the items.
fn requests(scale: usize) -> Vec<(&'static str, String)> {
    let pods = "/api/v1/namespaces/default/pods?dryRun=All";
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let classes = "/apis/storage.k8s.io/v1/storageclasses?dryRun=All";
    let quotas = "/api/v1/namespaces/default/resourcequotas?dryRun=All";
    let sets = "/apis/apps/v1/namespaces/default/statefulsets?dryRun=All";
    let services = "/api/v1/namespaces/default/services?dryRun=All";
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All";
    let nodes = "/api/v1/nodes?dryRun=All";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    let signing = "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All";
    let review = json!({"spec": {"resourceAttributes": {
        "labelSelector": {"requirements": ["LIST"]}, "verb": "get", "resource": "pods",
    }}});
    let class = json!({
        "metadata": {"name": "c"}, "provisioner": "p", "allowedTopologies": ["LIST"],
    });
    let quota = json!({"metadata": {"name": "q"}, "spec": {
        "hard": {"pods": "1", "services": "1"}, "scopes": ["LIST"],
    }});
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let set = json!({"metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template,
        "volumeClaimTemplates": ["LIST"],
    }});
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": ["LIST"]}});
    let hook = json!({"metadata": {"name": "h"}, "webhooks": ["LIST"]});
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": ["LIST"]}});
    let names = json!({"plural": "as", "kind": "A"});
    let definition = json!({"metadata": {"name": "as.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": names, "versions": ["LIST"],
    }});
    let request = json!({"metadata": {"name": "r"}, "spec": {
        "request": "", "signerName": "a/b", "usages": ["LIST"],
    }});
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity = pod(json!({"affinity": {"podAffinity": {preferred: ["LIST"]}}}));
    let spread = pod(json!({"topologySpreadConstraints": ["LIST"]}));
    let mut mounts = pod(json!({}));
    mounts["spec"]["containers"][0]["volumeMounts"] = json!(["LIST"]);
    let containers = pod(json!({"initContainers": ["LIST"]}));
    vec![
        (reviews, with_list(&review, 900_000 / scale, "{}")),
        (classes, with_list(&class, 900_000 / scale, "{}")),
        (quotas, with_list(&quota, 900_000 / scale, "\"\"")),
        (quotas, with_list(&quota, 100_000 / scale, "\"BestEffort\"")),
        (sets, with_list(&set, 200_000 / scale, "{}")),
        (services, with_list(&service, 300_000 / scale, "{}")),
        (hooks, with_list(&hook, 200_000 / scale, "{}")),
        (nodes, with_list(&node, 600_000 / scale, "{}")),
        (definitions, with_list(&definition, 200_000 / scale, "{}")),
        (signing, with_list(&request, 900_000 / scale, "\"\"")),
        (pods, with_list(&affinity, 200_000 / scale, "{}")),
        (pods, with_list(&spread, 300_000 / scale, "{}")),
        (pods, with_list(&mounts, 400_000 / scale, "{}")),
        (pods, with_list(&containers, 100_000 / scale, "{}")),
    ]
}

/// API-146: the largest bodies, and some whose trees are small enough to be validated.
#[tokio::test]
async fn errors_take_no_more_than_their_body_has_room_for() {
    let mut failed: Vec<String> = Vec::new();
    for (path, body) in requests(1).into_iter().chain(requests(12)) {
        let daemon = Daemon::start().await;
        let client = daemon.client();
        client.call(Call::get("/api/v1/nodes")).await.expect(200);
        let before = daemon.peak();
        let megabytes = body.len() as f64 / 1e6;
        let post = Call::new("POST", path).body("application/json", body);
        let answer = client.call(post).await;
        // A tree that is too large is a 400. All others break a rule.
        assert!(
            matches!(answer.status.as_u16(), 400 | 403 | 422),
            "{path}: {}",
            answer.status
        );
        let status: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(status["kind"], "Status", "{path}");
        assert!(
            answer.body.len() < 100 * 1024,
            "{path}: {} bytes",
            answer.body.len()
        );
        let grown = daemon.peak() - before;
        let most = BASE_MIB + MIB_FOR_MB * megabytes;
        println!("{path}: {megabytes:.1} MB: {grown:.0} MiB of {most:.0}");
        if grown > most {
            failed.push(format!("{path}: {megabytes:.2} MB took {grown:.0} MiB"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
