//! Tenants who try to get more rights: by roles, bindings, impersonation, subresources, accounts
//! and certificates.

use serde_json::{Value, json};

use super::{Cluster, RBAC};
use crate::harness::{Call, pod_spec};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/own/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/own/rolebindings";

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "own"}],
    })
}

fn apply(path: &str, object: &Value) -> Call {
    let mut object = object.clone();
    object["apiVersion"] = format!("{GROUP}/v1").into();
    let kinds = [
        ("/rolebindings/", "RoleBinding"),
        ("/clusterrolebindings/", "ClusterRoleBinding"),
        ("/clusterroles/", "ClusterRole"),
        ("/roles/", "Role"),
    ];
    let kind = kinds.iter().find(|(part, _)| path.contains(part));
    object["kind"] = kind.unwrap().1.into();
    Call::new("PATCH", &format!("{path}?fieldManager=m&force=true"))
        .body("application/apply-patch+yaml", object.to_string())
}

/// Rules that grant more than the role admin does.
fn beyond() -> Vec<Value> {
    vec![
        rule(&["*"], &["*"], &["*"]),
        rule(&[""], &["*"], &["get"]),
        rule(&["*"], &["pods"], &["get"]),
        rule(&[""], &["pods"], &["*"]),
        rule(&[""], &["nodes"], &["get"]),
        rule(&[""], &["pods/binding"], &["create"]),
        rule(&[""], &["pods/status"], &["update"]),
        rule(&[""], &["*/status"], &["update"]),
        rule(&[""], &["namespaces/finalize"], &["update"]),
        rule(&[""], &["resourcequotas"], &["create"]),
        rule(&[""], &["users", "groups"], &["impersonate"]),
        rule(&[GROUP], &["roles"], &["escalate"]),
        rule(&[GROUP], &["roles"], &["bind"]),
        rule(&[GROUP], &["clusterroles"], &["bind"]),
        rule(&["certificates.k8s.io"], &["signers"], &["approve"]),
        // An upper-case verb, group or resource is another one, which nobody holds.
        rule(&[""], &["pods"], &["GET"]),
        rule(&[""], &["Pods"], &["get"]),
        json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        json!({
            "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n"], "verbs": ["get"],
        }),
    ]
}

#[tokio::test]
async fn roles_grant_no_more_than_their_author_has_ac_59_ac_60_ac_62() {
    let cluster = Cluster::start(&[]).await;
    let tenant = &cluster.tenant;
    let held = role("held", &[rule(&[""], &["pods"], &["get", "list"])]);
    tenant.call(Call::post(ROLES, &held)).await.expect(201);
    let before = cluster.stored().await;
    let path = format!("{ROLES}/held");
    for rule in beyond() {
        let more = role("held", &[held["rules"][0].clone(), rule.clone()]);
        let new = role("new", std::slice::from_ref(&rule));
        let patch = json!([{"op": "add", "path": "/rules/-", "value": rule}]);
        for call in [
            Call::post(ROLES, &new),
            Call::post(&format!("{ROLES}?dryRun=All"), &new),
            Call::put(&format!("{ROLES}/new"), &new),
            apply(&format!("{ROLES}/new"), &new),
            Call::put(&path, &more),
            Call::merge_patch(&path, &json!({"rules": more["rules"]})),
            Call::new("PATCH", &path).body("application/json-patch+json", patch.to_string()),
            apply(&path, &more),
            Call::post(
                ROLES,
                &json!({"metadata": {"generateName": "new-"}, "rules": new["rules"]}),
            ),
        ] {
            let answer = tenant.call(call).await;
            let code = answer.status.as_u16();
            // A role in a namespace can't name paths: 422, once the rights are held.
            assert!(
                matches!(code, 403 | 422),
                "{rule}: {code} {}",
                answer.text()
            );
        }
    }
    // Aggregation fills the roles of the cluster alone.
    let aggregated = json!({
        "metadata": {
            "name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"},
        },
        "rules": [rule(&[""], &["pods"], &["get"])],
    });
    for call in [
        Call::post(&format!("{RBAC}/clusterroles"), &aggregated),
        apply(&format!("{RBAC}/clusterroles/more"), &aggregated),
        Call::merge_patch(&format!("{RBAC}/clusterroles/view"), &aggregated),
        Call::merge_patch(
            &format!("{RBAC}/clusterroles/admin"),
            &json!({"aggregationRule": null}),
        ),
    ] {
        tenant.call(call).await.expect(403);
    }
    assert_eq!(cluster.stored().await, before);
}

#[tokio::test]
async fn bindings_bind_no_role_that_their_author_lacks_ac_64_ac_65() {
    let cluster = Cluster::start(&[]).await;
    let tenant = &cluster.tenant;
    let strong = role("strong", &[rule(&["*"], &["*"], &["*"])]);
    cluster
        .admin
        .call(Call::post(ROLES, &strong))
        .await
        .expect(201);
    let view = binding("view", "ClusterRole", "view");
    tenant.call(Call::post(BINDINGS, &view)).await.expect(201);
    let before = cluster.stored().await;
    for (kind, name) in [
        ("ClusterRole", "cluster-admin"),
        ("ClusterRole", "system:node"),
        ("ClusterRole", "system:kube-controller-manager"),
        ("ClusterRole", "system:auth-delegator"),
        ("Role", "strong"),
        ("Role", "absent"),
        ("ClusterRole", "absent"),
        ("Group", "x"),
        ("clusterrole", "cluster-admin"),
    ] {
        let new = binding("new", kind, name);
        let changed = binding("view", kind, name);
        let other = format!("{RBAC}/namespaces/other/rolebindings");
        let cluster_wide = format!("{RBAC}/clusterrolebindings");
        for (call, codes) in [
            (Call::post(BINDINGS, &new), &[403, 404, 500][..]),
            (
                Call::post(&format!("{BINDINGS}?dryRun=All"), &new),
                &[403, 404, 500],
            ),
            (apply(&format!("{BINDINGS}/new"), &new), &[403, 404, 500]),
            (
                Call::put(&format!("{BINDINGS}/new"), &new),
                &[403, 404, 500],
            ),
            (
                Call::put(&format!("{BINDINGS}/view"), &changed),
                &[403, 404, 422, 500],
            ),
            (
                apply(&format!("{BINDINGS}/view"), &changed),
                &[403, 404, 422, 500],
            ),
            (Call::post(&other, &new), &[403]),
            (Call::post(&cluster_wide, &new), &[403]),
            (apply(&format!("{cluster_wide}/new"), &new), &[403]),
        ] {
            let answer = tenant.call(call).await;
            let code = answer.status.as_u16();
            assert!(
                codes.contains(&code),
                "{kind} {name}: {code} {}",
                answer.text()
            );
        }
    }
    assert_eq!(cluster.stored().await, before);
}

/// A user who may impersonate accounts of the namespace, as the role admin may, becomes nobody
/// else.
#[tokio::test]
async fn impersonation_reaches_accounts_of_the_own_namespace_alone_ac_76_ac_78_ac_79() {
    let cluster = Cluster::start(&[]).await;
    let own = "/api/v1/namespaces/own/configmaps";
    let before = cluster.stored().await;
    let builder = "system:serviceaccount:own:builder";
    let call = Call::get(own).header("impersonate-user", builder);
    // The account has no rights of its own.
    let status = cluster.tenant.call(call).await.expect(403);
    assert!(
        status["message"].as_str().unwrap().contains(builder),
        "{status}"
    );
    let refused: &[&[(&str, &str)]] = &[
        &[("impersonate-user", "admin")],
        &[("IMPERSONATE-USER", "admin")],
        &[
            ("Impersonate-User", "system:admin"),
            ("Impersonate-Group", "system:masters"),
        ],
        &[
            ("impersonate-user", builder),
            ("impersonate-group", "system:masters"),
        ],
        &[
            ("impersonate-user", builder),
            ("impersonate-user", "admin"),
            ("impersonate-group", "system:masters"),
        ],
        &[("impersonate-user", "admin"), ("impersonate-user", builder)],
        &[("impersonate-user", builder), ("impersonate-uid", "0")],
        &[
            ("impersonate-user", builder),
            ("impersonate-extra-scopes", "x"),
        ],
        &[("impersonate-user", "system:serviceaccount:other:builder")],
        &[(
            "impersonate-user",
            "system:serviceaccount:kube-system:default",
        )],
        &[("impersonate-user", "system:serviceaccount:own:builder:x")],
        &[(
            "impersonate-user",
            "system:serviceaccount:own/../other:builder",
        )],
        &[("impersonate-user", "system:node:n")],
        &[("impersonate-user", "system:anonymous")],
        &[("impersonate-user", "system:kube-controller-manager")],
        &[("impersonate-group", "system:masters")],
        &[("impersonate-uid", "1")],
        &[("impersonate-extra-a", "1")],
    ];
    for (client, name) in [(&cluster.tenant, "tenant"), (&cluster.nobody, "nobody")] {
        for headers in refused {
            for call in [
                Call::get("/api/v1/namespaces/other/secrets/s"),
                Call::get("/api/v1/namespaces/own/secrets/s"),
                Call::delete("/api/v1/namespaces/own/configmaps/c"),
                Call::get("/metrics"),
            ] {
                let call = headers
                    .iter()
                    .fold(call, |call, (name, value)| call.header(name, value));
                let answer = client.call(call).await;
                let code = answer.status.as_u16();
                assert!(matches!(code, 400 | 403), "{name} {headers:?}: {code}");
            }
        }
    }
    // Headers of a front proxy, and those that look like credentials, are nothing at all.
    for (name, value) in [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-scopes", "all"),
        ("x-forwarded-user", "admin"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-impersonate-user", "admin"),
        ("x-http-method-override", "GET"),
        ("x-original-url", "/api/v1/namespaces/own/secrets"),
        ("x-rewrite-url", "/api/v1/namespaces/own/secrets"),
        ("host", "kubernetes.default"),
    ] {
        let call = Call::get("/api/v1/namespaces/other/secrets").header(name, value);
        let Ok(answer) = cluster.tenant.attempt(call).await else {
            continue;
        };
        assert!(matches!(answer.status.as_u16(), 400 | 403), "{name}");
    }
    assert_eq!(cluster.stored().await, before);
}

/// Returns a request for a certificate of a user of the API.
fn certificate_request() -> Value {
    json!({
        "metadata": {"name": "r"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            "request": "LS0tLS1CRUdJTg==",
        },
    })
}

/// Returns the status of an approved request.
fn approved() -> Value {
    json!({"status": {"conditions": [{
        "type": "Approved", "status": "True", "reason": "r", "message": "m",
    }]}})
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Parts of objects in the own namespace that the role admin doesn't include.
#[tokio::test]
async fn subresources_and_special_objects_need_rights_of_their_own_ac_30_ac_72() {
    let cluster = Cluster::start(&[]).await;
    let tenant = &cluster.tenant;
    let pods = "/api/v1/namespaces/own/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": pod_spec()});
    tenant.call(Call::post(pods, &pod)).await.expect(201);
    let before = cluster.stored().await;
    let binding = json!({
        "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"},
    });
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let access = json!({"spec": {
        "user": "admin", "resourceAttributes": {"verb": "get", "resource": "secrets"},
    }});
    for call in [
        Call::post(&format!("{pods}/p/binding"), &binding),
        Call::post("/api/v1/namespaces/own/bindings", &binding),
        Call::merge_patch(&format!("{pods}/p/status"), &ready),
        Call::merge_patch(&format!("{pods}/p/resize"), &json!({"spec": {}})),
        Call::put(
            "/api/v1/namespaces/own/finalize",
            &json!({"metadata": {"name": "own"}}),
        ),
        Call::delete("/api/v1/namespaces/own"),
        Call::merge_patch(
            "/api/v1/namespaces/own",
            &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        ),
        Call::merge_patch("/api/v1/namespaces/own/status", &json!({"status": {}})),
        Call::post(
            "/api/v1/namespaces/own/resourcequotas",
            &json!({"metadata": {"name": "q"}}),
        ),
        Call::post("/api/v1/nodes", &json!({"metadata": {"name": "n"}})),
        Call::post(
            "/api/v1/persistentvolumes",
            &json!({"metadata": {"name": "n"}}),
        ),
        Call::post(REQUESTS, &certificate_request()),
        Call::merge_patch(&format!("{REQUESTS}/r/approval"), &approved()),
        Call::merge_patch(&format!("{REQUESTS}/r/status"), &approved()),
        Call::post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &access,
        ),
        Call::post(
            "/apis/authorization.k8s.io/v1/namespaces/other/localsubjectaccessreviews",
            &access,
        ),
        Call::post(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            &json!({"spec": {"token": "t"}}),
        ),
        Call::get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"),
        Call::get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"),
        Call::new("POST", "/taffrail/v1/token/rotate"),
        Call::new("POST", "/taffrail/v1/compact"),
    ] {
        for client in [tenant, &cluster.nobody] {
            let answer = client.call(call.clone()).await;
            assert_eq!(answer.status, 403, "{call:?}: {}", answer.text());
        }
    }
    // A review in the own namespace can't speak of another one.
    let path = "/apis/authorization.k8s.io/v1/namespaces/own/localsubjectaccessreviews";
    let elsewhere = json!({"spec": {
        "user": "admin",
        "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "secrets"},
    }});
    let answer = tenant.call(Call::post(path, &elsewhere)).await;
    assert!(
        matches!(answer.status.as_u16(), 400 | 422),
        "{}",
        answer.text()
    );
    assert_eq!(cluster.stored().await, before);
}

/// A user who may create requests for certificates can't say who asks, and can't approve.
#[tokio::test]
async fn a_request_for_a_certificate_is_that_of_who_asks_ac_72() {
    let cluster = Cluster::start(&[]).await;
    let (admin, tenant) = (&cluster.admin, &cluster.tenant);
    let may_ask = json!({
        "metadata": {"name": "may-ask"},
        "rules": [rule(
            &["certificates.k8s.io"],
            &["certificatesigningrequests", "certificatesigningrequests/approval",
              "certificatesigningrequests/status"],
            &["create", "get", "update", "patch"],
        )],
    });
    let roles = format!("{RBAC}/clusterroles");
    admin.call(Call::post(&roles, &may_ask)).await.expect(201);
    let bindings = format!("{RBAC}/clusterrolebindings");
    let bound = binding("may-ask", "ClusterRole", "may-ask");
    admin.call(Call::post(&bindings, &bound)).await.expect(201);
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::default();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let mut forged = certificate_request();
    forged["spec"]["request"] = base64(&pem).into();
    forged["spec"]["username"] = "admin".into();
    forged["spec"]["groups"] = json!(["system:masters"]);
    forged["status"] = approved()["status"].clone();
    let made = tenant.call(Call::post(REQUESTS, &forged)).await.expect(201);
    assert_eq!(made["spec"]["username"], "system:serviceaccount:own:tenant");
    assert!(
        !made["spec"]["groups"].to_string().contains("masters"),
        "{made}"
    );
    assert!(made["status"].get("conditions").is_none(), "{made}");
    for (subresource, status) in [
        ("approval", approved()),
        ("status", json!({"status": {"certificate": base64(&pem)}})),
    ] {
        let path = format!("{REQUESTS}/r/{subresource}");
        let answer = tenant.call(Call::merge_patch(&path, &status)).await;
        let code = answer.status.as_u16();
        assert!(
            matches!(code, 403 | 422),
            "{subresource}: {}",
            answer.text()
        );
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

/// Owner references and finalizers of others' objects, and accounts of others' pods.
#[tokio::test]
async fn what_tenants_write_into_their_objects_moves_nothing_of_others() {
    let cluster = Cluster::start(&[]).await;
    let (admin, tenant) = (&cluster.admin, &cluster.tenant);
    let other = "/api/v1/namespaces/other/configmaps/c";
    let uid = admin.call(Call::get(other)).await.expect(200)["metadata"]["uid"].clone();
    let before = admin.call(Call::get(other)).await.expect(200);
    // An object that claims to be owned by one of another namespace.
    let path = "/api/v1/namespaces/own/configmaps";
    let child = json!({"metadata": {
        "name": "child", "finalizers": ["example.com/mine"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": uid,
            "blockOwnerDeletion": true,
        }],
    }});
    tenant.call(Call::post(path, &child)).await.expect(201);
    for call in [
        Call::merge_patch(
            other,
            &json!({"metadata": {"finalizers": ["example.com/x"]}}),
        ),
        Call::merge_patch(other, &json!({"metadata": {"ownerReferences": []}})),
        Call::json("DELETE", other, &json!({"propagationPolicy": "Orphan"})),
        Call::new("DELETE", "/api/v1/namespaces/other/configmaps"),
    ] {
        tenant.call(call).await.expect(403);
    }
    let options = json!({"propagationPolicy": "Foreground"});
    let call = Call::json("DELETE", &format!("{path}/child"), &options);
    tenant.call(call).await.expect(200);
    assert_eq!(admin.call(Call::get(other)).await.expect(200), before);
    // A pod can't use an account of another namespace, nor one that isn't there.
    for account in ["../other/builder", "other/builder", "absent"] {
        let mut spec = pod_spec();
        spec["serviceAccountName"] = account.into();
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let call = Call::post("/api/v1/namespaces/own/pods", &pod);
        let answer = tenant.call(call).await;
        let code = answer.status.as_u16();
        assert!(matches!(code, 403 | 422), "{account}: {}", answer.text());
    }
}
