//! Reviews of tokens and of access, by clients and kubectl. `replay::reviews` has their refusals.

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Kubectl};

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const NAMED: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A daemon with the admin and with bob, who has no rights.
async fn daemon() -> Daemon {
    Daemon::with_users("t-bob,bob,u-bob,crew\n", &[]).await
}

async fn status(client: &Client, path: &str, spec: Value) -> Value {
    let answer = client
        .call(Call::post(path, &json!({ "spec": spec })))
        .await;
    answer.expect(201)["status"].take()
}

#[tokio::test]
async fn the_user_of_a_token_is_told_to_who_may_ask_api_295() {
    let daemon = daemon().await;
    let (admin, bob) = (
        daemon.client(),
        daemon.target().with_token("t-bob").client(),
    );
    let groups = json!(["crew", "system:authenticated"]);
    let user = json!({"username": "bob", "uid": "u-bob", "groups": groups});
    // A review without audiences asks for those of this API, which are its issuers.
    let audiences = json!(["https://kubernetes.default.svc.cluster.local"]);
    assert_eq!(
        status(&admin, TOKENS, json!({"token": "t-bob"})).await,
        json!({"authenticated": true, "user": user, "audiences": audiences})
    );
    let refused = json!({"user": {}, "error": "invalid bearer token"});
    for spec in [
        json!({"token": "t-bo"}),
        json!({"token": "t-bob\n"}),
        // Such a token is for no audience.
        json!({"token": "t-bob", "audiences": ["a"]}),
    ] {
        assert_eq!(status(&admin, TOKENS, spec).await, refused);
    }
    let asked = Call::post(TOKENS, &json!({"spec": {"token": daemon.token()}}));
    bob.call(asked).await.refusal(403, "Forbidden");
    assert!(!daemon.stderr().contains("t-bob"), "the log holds a token");
}

#[tokio::test]
async fn users_may_ask_about_themselves_and_not_about_others_api_292_to_294() {
    let daemon = daemon().await;
    let (admin, bob) = (
        daemon.client(),
        daemon.target().with_token("t-bob").client(),
    );
    let pods = json!({"resourceAttributes": {"verb": "list", "resource": "pods"}});
    let version = json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}});
    let allowed = |allowed: bool| json!({ "allowed": allowed });
    assert_eq!(status(&bob, ACCESS, pods.clone()).await, allowed(false));
    let by_role = |status: Value| {
        assert_eq!(status["allowed"], true, "{status}");
        let reason = status["reason"].as_str().unwrap();
        assert!(reason.starts_with("RBAC: allowed by"), "{reason}");
    };
    by_role(status(&bob, ACCESS, version).await);
    assert_eq!(status(&admin, ACCESS, pods.clone()).await, allowed(true));
    let own = json!({"resourceAttributes": {
        "verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews",
    }});
    by_role(status(&bob, ACCESS, own).await);
    let who = bob.call(Call::post(WHO, &json!({}))).await.expect(201);
    assert_eq!(who["status"]["userInfo"]["username"], "bob");
    assert_eq!(who["status"]["userInfo"]["uid"], "u-bob");

    let rules = status(&bob, RULES, json!({"namespace": "default"})).await;
    assert_eq!(rules["incomplete"], false);
    let resources = rules["resourceRules"].as_array().unwrap();
    let listed = resources
        .iter()
        .flat_map(|rule| rule["resources"].as_array().unwrap());
    let mut listed: Vec<&str> = listed.map(|name| name.as_str().unwrap()).collect();
    listed.sort_unstable();
    let wanted = [
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
    ];
    assert_eq!(listed, wanted);
    let paths = rules["nonResourceRules"].as_array().unwrap();
    let mut paths = paths
        .iter()
        .flat_map(|rule| rule["nonResourceURLs"].as_array().unwrap());
    assert!(paths.any(|path| path == "/openapi/*"), "{rules}");
    let rules = status(&admin, RULES, json!({"namespace": "default"})).await;
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert_eq!(rules["resourceRules"][0], everything);

    let mut about_bob = pods;
    about_bob["user"] = json!("bob");
    let asked = Call::post(NAMED, &json!({ "spec": about_bob }));
    bob.call(asked).await.refusal(403, "Forbidden");
    assert_eq!(status(&admin, NAMED, about_bob).await, allowed(false));
    let nobody = daemon.target().anonymous().client();
    let asked = Call::post(WHO, &json!({}));
    nobody.call(asked).await.refusal(403, "Forbidden");
}

async fn asks(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let said = kubectl.ok(&["auth", "can-i", "create", "pods"]).await;
    assert_eq!(said, "yes\n");
    let ada = ["--as", "ada", "--as-group", "system:authenticated"];
    let as_ada = |arguments: &[&'static str]| [arguments, &ada].concat();
    let said = kubectl
        .fails(&as_ada(&["auth", "can-i", "get", "/metrics"]))
        .await;
    assert!(!said.contains("rror"), "{said}");
    let said = kubectl
        .ok(&as_ada(&["auth", "can-i", "get", "/version"]))
        .await;
    assert_eq!(said, "yes\n");
    let listed = kubectl.ok(&as_ada(&["auth", "can-i", "--list"])).await;
    assert!(
        listed.contains("selfsubjectaccessreviews.authorization.k8s.io"),
        "{listed}"
    );
    assert!(listed.contains("/openapi/*"), "{listed}");
    if version != "1.20" {
        let said = kubectl.ok(&as_ada(&["auth", "whoami"])).await;
        assert!(said.contains("ada"), "{said}");
    }
}

#[tokio::test]
async fn kubectl_asks_what_one_may_do_1_20() {
    asks("1.20").await;
}

#[tokio::test]
async fn kubectl_asks_what_one_may_do_1_32() {
    asks("1.32").await;
}

#[tokio::test]
async fn kubectl_asks_what_one_may_do_1_36() {
    asks("1.36").await;
}
