//! Roles and bindings decide what users may do (docs/behaviour/access.md, sections 5, 11 and 12).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{AS_INSTALLED, CONFIGMAPS, Call, Client, Daemon, Options, body, configmap};
use crate::servers::etcd::Cluster;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
/// Longer than a controller takes.
const SOON: Duration = Duration::from_secs(10);

/// A daemon with the admin and with bob, who has no rights of his own.
async fn daemon(flags: &[&str]) -> Daemon {
    Daemon::with_users("t-bob,bob,u-bob,crew\n", flags).await
}

fn bob(daemon: &Daemon) -> Client {
    daemon.target().with_token("t-bob").client()
}

fn role(name: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": [resource], "verbs": verbs }],
    })
}

fn binding(name: &str, kind: &str, role: &str, subject: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": kind, "name": role },
        "subjects": [subject],
    })
}

fn user(name: &str) -> Value {
    json!({ "apiGroup": GROUP, "kind": "User", "name": name })
}

fn apply(path: &str, object: &Value) -> Call {
    Call::new("PATCH", path).body("application/apply-patch+yaml", object.to_string())
}

/// Waits for the controller of aggregated roles.
async fn eventually_allowed(client: &Client, path: &str) {
    let begun = Instant::now();
    while client.call(Call::get(path)).await.status != 200 {
        assert!(begun.elapsed() < SOON, "{path} stays forbidden");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn roles() -> String {
    format!("{RBAC}/namespaces/default/roles")
}

fn bindings() -> String {
    format!("{RBAC}/namespaces/default/rolebindings")
}

/// A right counts for the first request after its acknowledgement, and is gone after the deletion.
async fn rights_follow_roles(daemon: &Daemon) {
    let (admin, bob) = (daemon.client(), bob(daemon));
    bob.call(Call::get(CONFIGMAPS))
        .await
        .refusal(403, "Forbidden");
    let reader = role("reader", "configmaps", &["list"]);
    admin.call(Call::post(&roles(), &reader)).await.expect(201);
    for round in 0..20 {
        let name = format!("b{round}");
        let bound = binding(&name, "Role", "reader", &user("bob"));
        let created = admin.call(Call::post(&bindings(), &bound)).await;
        created.expect(201);
        bob.call(Call::get(CONFIGMAPS)).await.expect(200);
        let gone = admin
            .call(Call::delete(&format!("{}/{name}", bindings())))
            .await;
        gone.expect(200);
        bob.call(Call::get(CONFIGMAPS))
            .await
            .refusal(403, "Forbidden");
    }
    let bound = binding(
        "b",
        "Role",
        "reader",
        &json!({"apiGroup": GROUP, "kind": "Group", "name": "crew"}),
    );
    admin
        .call(Call::post(&bindings(), &bound))
        .await
        .expect(201);
    let one = format!("{}/reader", roles());
    for verbs in [json!(["list"]), json!(["get"])] {
        let patch = json!({ "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }] });
        admin
            .call(Call::merge_patch(&one, &patch))
            .await
            .expect(200);
        let wanted = if verbs == json!(["list"]) { 200 } else { 403 };
        assert_eq!(bob.call(Call::get(CONFIGMAPS)).await.status, wanted);
    }
}

#[tokio::test]
async fn users_have_the_rights_of_roles_by_default_ac_27() {
    rights_follow_roles(&daemon(&[]).await).await;
}

#[tokio::test]
async fn users_have_the_rights_of_roles_without_caches_ac_27() {
    rights_follow_roles(&daemon(&["--watch-cache=false"]).await).await;
}

#[tokio::test]
async fn users_have_the_rights_of_roles_over_etcd_ac_27() {
    let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = started.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    rights_follow_roles(&daemon(&[&servers]).await).await;
}

#[tokio::test]
async fn other_modes_allow_everything_or_nothing_ac_29() {
    let open = daemon(&["--authorization-mode=AlwaysAllow"]).await;
    bob(&open).call(Call::get(CONFIGMAPS)).await.expect(200);
    let closed = daemon(&["--authorization-mode=AlwaysDeny"]).await;
    let refused = bob(&closed).call(Call::get("/version")).await;
    let status = refused.refusal(403, "Forbidden");
    let said = "forbidden: User \"bob\" cannot get path \"/version\": Everything is forbidden.";
    assert_eq!(status["message"], said);
    // The group of the admin is allowed before all modes.
    closed
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
}

/// AC-30: parts of a request are escaped for HTML, and the reason is not.
#[tokio::test]
async fn refusals_are_safe_for_browsers_ac_30() {
    let daemon = daemon(&[]).await;
    let refused = bob(&daemon).call(Call::get("/a%3Cb%3E&c")).await;
    let status = refused.refusal(403, "Forbidden");
    let said = "forbidden: User \"bob\" cannot get path \"/a&lt;b&gt;&amp;c\"";
    assert_eq!(status["message"], said);
}

/// AC-31: an update that creates needs the right to create the object of this name.
#[tokio::test]
async fn an_apply_that_creates_needs_the_right_to_create_ac_31() {
    let daemon = daemon(&[]).await;
    let (admin, bob) = (daemon.client(), bob(&daemon));
    let patcher = role("patcher", "configmaps", &["patch"]);
    admin.call(Call::post(&roles(), &patcher)).await.expect(201);
    let bound = binding("patcher", "Role", "patcher", &user("bob"));
    admin
        .call(Call::post(&bindings(), &bound))
        .await
        .expect(201);
    let path = format!("{}?fieldManager=m", configmap("a"));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let refused = bob.call(apply(&path, &object)).await;
    let status = refused.refusal(403, "Forbidden");
    let said = "configmaps \"a\" is forbidden: User \"bob\" cannot create resource \"configmaps\" \
                in API group \"\" in the namespace \"default\"";
    assert_eq!(status["message"], said);
    assert_eq!(admin.call(Call::get(&configmap("a"))).await.status, 404);
    admin
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    bob.call(apply(&path, &object)).await.expect(200);
}

/// AC-59, AC-60: the rights that a small body names are counted before they are compared.
#[tokio::test]
async fn a_role_that_names_too_many_rights_is_refused_ac_60() {
    let daemon = daemon(&[]).await;
    let (admin, bob) = (daemon.client(), bob(&daemon));
    let writer = json!({
        "metadata": { "name": "writer" },
        "rules": [{ "apiGroups": [GROUP], "resources": ["roles"], "verbs": ["create"] }],
    });
    admin.call(Call::post(&roles(), &writer)).await.expect(201);
    let bound = binding("writer", "Role", "writer", &user("bob"));
    admin
        .call(Call::post(&bindings(), &bound))
        .await
        .expect(201);
    let words: Vec<String> = (0..1000).map(|number| format!("w{number}")).collect();
    let many = json!({
        "metadata": { "name": "many" },
        "rules": [{ "apiGroups": words, "resources": words, "verbs": words }],
    });
    let refused = bob.call(Call::post(&roles(), &many)).await;
    let status = refused.refusal(403, "Forbidden");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("too many rights to compare; split them, or use *"),
        "{message}"
    );
    // The rights of the admin, who may do everything, are not compared.
    admin.call(Call::post(&roles(), &many)).await.expect(201);
}

/// AC-67, AC-68: a start adds what is missing, and keeps what others have added.
#[tokio::test]
async fn a_start_completes_the_roles_of_kubernetes_ac_68() {
    let mut daemon = Daemon::start().await;
    let admin = daemon.client();
    let discovery = format!("{RBAC}/clusterroles/system:discovery");
    let wanted = admin.call(Call::get(&discovery)).await.expect(200)["rules"].clone();
    let own = json!({ "nonResourceURLs": ["/own"], "verbs": ["get"] });
    let patch = json!({ "rules": [own], "metadata": { "labels": { "own": "1" } } });
    admin
        .call(Call::merge_patch(&discovery, &patch))
        .await
        .expect(200);
    let viewer = format!("{RBAC}/clusterrolebindings/system:public-info-viewer");
    admin.call(Call::delete(&viewer)).await.expect(200);
    let basic = format!("{RBAC}/clusterroles/system:basic-user");
    let kept = json!({
        "metadata": { "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "false" } },
        "rules": [],
    });
    admin
        .call(Call::merge_patch(&basic, &kept))
        .await
        .expect(200);
    daemon.kill().await;
    daemon.restart().await;
    daemon.ready().await;
    let admin = daemon.client();
    let completed = admin.call(Call::get(&discovery)).await.expect(200);
    let paths = wanted[0]["nonResourceURLs"].as_array().unwrap().len();
    assert_eq!(completed["rules"][0], own);
    assert_eq!(completed["rules"].as_array().unwrap().len(), 1 + paths);
    assert_eq!(completed["metadata"]["labels"]["own"], "1");
    admin.call(Call::get(&viewer)).await.expect(200);
    let protected = admin.call(Call::get(&basic)).await.expect(200);
    assert!(
        protected["rules"].as_array().is_none_or(Vec::is_empty),
        "{protected}"
    );
    assert!(daemon.stderr().contains("system:basic-user"));
}

#[tokio::test]
async fn nothing_is_made_where_a_kube_apiserver_does_it_ac_67() {
    let daemon = daemon(&["--rbac-bootstrap=false"]).await;
    let client = daemon.client();
    let listed = client.call(Call::get(&format!("{RBAC}/clusterroles")));
    assert_eq!(listed.await.expect(200)["items"], json!([]));
}

/// AC-69: `view` has the rules of others, and a new one is added.
#[tokio::test]
async fn aggregated_roles_get_the_rules_of_others_ac_69() {
    let daemon = daemon(&["--controllers=*"]).await;
    let (admin, bob) = (daemon.client(), bob(&daemon));
    let bound = binding("view", "ClusterRole", "view", &user("bob"));
    admin
        .call(Call::post(&bindings(), &bound))
        .await
        .expect(201);
    eventually_allowed(&bob, CONFIGMAPS).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(bob.call(Call::get(secrets)).await.status, 403);
    let mut more = role("secrets-too", "secrets", &["list"]);
    more["metadata"]["labels"] = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    admin
        .call(Call::post(&format!("{RBAC}/clusterroles"), &more))
        .await
        .expect(201);
    eventually_allowed(&bob, secrets).await;
    for name in ["admin", "edit", "view"] {
        let path = format!("{RBAC}/clusterroles/{name}");
        let begun = Instant::now();
        loop {
            let role = admin.call(Call::get(&path)).await.expect(200);
            let rules = role["rules"].as_array();
            if rules.is_some_and(|rules| rules.contains(&more["rules"][0])) {
                break;
            }
            assert!(begun.elapsed() < SOON, "{role}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// API-263, API-268: as installed, a pod that comes with the acknowledgement of its namespace finds
/// its account, and gets a token.
#[tokio::test]
async fn a_pod_may_come_with_its_namespace_as_installed_api_263() {
    let daemon = daemon(&[AS_INSTALLED]).await;
    let admin = daemon.client();
    for round in 0..10 {
        let namespace = format!("n{round}");
        let created = json!({ "metadata": { "name": namespace } });
        admin
            .call(Call::post("/api/v1/namespaces", &created))
            .await
            .expect(201);
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = json!({
            "metadata": { "name": "p" },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        });
        let made = admin.call(Call::post(&pods, &pod)).await.expect(201);
        assert_eq!(made["spec"]["serviceAccountName"], "default");
        let volume = made["spec"]["volumes"][0]["name"].as_str().unwrap();
        assert!(volume.starts_with("kube-api-access-"), "{volume}");
        let map = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        eventually_allowed(&admin, &map).await;
    }
    let claim = json!({
        "metadata": { "name": "c" },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let made = admin.call(Call::post(claims, &claim)).await.expect(201);
    let finalizers = json!(["kubernetes.io/pvc-protection"]);
    assert_eq!(made["metadata"]["finalizers"], finalizers);
}

/// AC-67, D-100: a daemon whose etcd is not there yet makes roles when it is.
#[tokio::test]
async fn a_daemon_waits_for_its_etcd_and_then_makes_roles_ac_67() {
    let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = started.await.unwrap();
    cluster.members[0].pause();
    let servers = format!("--etcd-servers={}", cluster.urls()[0]);
    let daemon = Options::default().arguments(&[&servers]).launch().await;
    let ready = daemon.client().call(Call::get("/readyz")).await;
    assert_eq!(ready.status, 500, "{}", ready.text());
    let missing = "[-]poststarthook/rbac/bootstrap-roles failed";
    assert!(ready.text().contains(missing), "{}", ready.text());
    cluster.members[0].resume();
    daemon.ready().await;
    let path = format!("{RBAC}/clusterroles/cluster-admin");
    daemon.client().call(Call::get(&path)).await.expect(200);
}
