//! The cost of roles and bindings of which a tenant writes as many as there is room for.

use serde_json::{Value, json};

use super::{Cluster, RBAC};
use crate::harness::Call;

const RULES: usize = 10_000;
const BINDINGS: usize = 150;

/// One large role and many bindings to it: the cost of a request, of a review and of a check of a
/// further role is not the product of both.
#[tokio::test]
async fn many_bindings_of_a_large_role_multiply_nothing_ac_60_ac_70() {
    let cluster = Cluster::start(&[]).await;
    let tenant = &cluster.tenant;
    let rules: Vec<Value> = (0..RULES)
        .map(|number| {
            json!({
                "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
                "resourceNames": [format!("name-of-a-config-map-{number}")],
            })
        })
        .collect();
    let role = json!({"metadata": {"name": "large"}, "rules": rules});
    let roles = format!("{RBAC}/namespaces/own/roles");
    tenant.call(Call::post(&roles, &role)).await.expect(201);
    let bindings = format!("{RBAC}/namespaces/own/rolebindings");
    for number in 0..BINDINGS {
        // For an accomplice: the author's own rules stay few.
        let binding = json!({
            "metadata": {"name": format!("b-{number}")},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "large",
            },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody",
            }],
        });
        tenant
            .call(Call::post(&bindings, &binding))
            .await
            .expect(201);
    }
    let rest = cluster.daemon.peak();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let spec = json!({"spec": {"namespace": "own"}});
    let nobody = &cluster.nobody;
    let answer = nobody.call(Call::post(path, &spec)).await;
    assert!(answer.text().len() < 16 << 20, "{}", answer.text().len());
    let status = answer.expect(201)["status"].take();
    assert_eq!(status["incomplete"], true);
    let error = "the rules are too many to be listed";
    assert_eq!(status["evaluationError"], error);
    let call = Call::get("/api/v1/namespaces/own/configmaps/name-of-a-config-map-7");
    nobody.call(call).await.expect(404);
    let secret = "/api/v1/namespaces/own/secrets/s";
    cluster.nobody.call(Call::get(secret)).await.expect(403);
    // The rules of the accomplice, of which there are a million and a half, are compared once each.
    let writes = json!({
        "metadata": {"name": "writes"},
        "rules": [{
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"],
        }],
    });
    tenant.call(Call::post(&roles, &writes)).await.expect(201);
    let binding = json!({
        "metadata": {"name": "writes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writes"},
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody",
        }],
    });
    tenant
        .call(Call::post(&bindings, &binding))
        .await
        .expect(201);
    let held = json!({"metadata": {"name": "held"}, "rules": [rules[0]]});
    nobody.call(Call::post(&roles, &held)).await.expect(201);
    let lacked = json!({
        "metadata": {"name": "lacked"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    nobody.call(Call::post(&roles, &lacked)).await.expect(403);
    let grown = cluster.daemon.peak() - rest;
    assert!(grown < 160.0, "{grown} MiB");
}
