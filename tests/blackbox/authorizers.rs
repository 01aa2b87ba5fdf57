//! The authorizers ABAC and Webhook, and the file of authorizers, over HTTP (AC-27 to AC-41).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::daemon::command;
use crate::harness::webhook::Webhook;
use crate::harness::{Call, Daemon, Options};

const USERS: &str = "alice-token,alice,1,devs\nbob-token,bob,2\n";
const PODS: &str = "/api/v1/namespaces/default/pods";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

fn of_access(status: &Value) -> (u16, String) {
    let answer = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": status,
    });
    (200, answer.to_string())
}

/// A webhook that decides by the resource of the request.
async fn webhook() -> Webhook {
    Webhook::start(|review| {
        // The test waits until the daemon is ready.
        if review["spec"]["nonResourceAttributes"]["path"] == "/readyz" {
            return of_access(&json!({"allowed": true}));
        }
        let resource = &review["spec"]["resourceAttributes"]["resource"];
        match resource.as_str().unwrap_or("path") {
            "pods" => of_access(&json!({"allowed": true, "reason": "pods are fine"})),
            "secrets" => of_access(&json!({"denied": true, "reason": "secrets are not"})),
            "services" => of_access(&json!({"allowed": true, "denied": true, "reason": "both"})),
            "nodes" => (404, String::new()),
            "configmaps" => (200, "garbage".to_owned()),
            _ => of_access(&json!({"allowed": false, "reason": "no idea"})),
        }
    })
    .await
}

async fn with_webhook(webhook: &Webhook, modes: &str) -> Daemon {
    let modes = format!("--authorization-mode={modes}");
    let file = webhook.flag("authorization-webhook-config-file");
    let version = "--authorization-webhook-version=v1";
    Daemon::with_users(USERS, &[&modes, &file, version]).await
}

async fn get(daemon: &Daemon, user: &str, path: &str) -> (u16, String) {
    let client = daemon
        .target()
        .with_token(&format!("{user}-token"))
        .client();
    let answer = client.call(Call::get(path)).await;
    let text = answer.text().to_string();
    let message = serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|status| Some(status.get("message")?.as_str()?.to_owned()));
    (answer.status.as_u16(), message.unwrap_or(text))
}

#[tokio::test]
async fn a_webhook_decides_about_requests_ac_28_ac_37_ac_39() {
    let webhook = webhook().await;
    let daemon = with_webhook(&webhook, "Webhook").await;
    assert_eq!(get(&daemon, "alice", PODS).await.0, 200);
    for (resource, reason) in [("secrets", "secrets are not"), ("endpoints", "no idea")] {
        let path = format!("/api/v1/namespaces/default/{resource}");
        let (code, message) = get(&daemon, "alice", &path).await;
        let expected = format!(
            "{resource} is forbidden: User \"alice\" cannot list resource \"{resource}\" in API \
             group \"\" in the namespace \"default\": {reason}"
        );
        assert_eq!((code, message), (403, expected));
    }
    let both = "webhook subject access review returned both allow and deny response";
    for (path, error) in [
        ("/api/v1/services", both),
        (
            "/api/v1/nodes",
            "the server could not find the requested resource",
        ),
        (
            "/api/v1/configmaps",
            "couldn't get version/kind; json parse error",
        ),
    ] {
        let (code, text) = get(&daemon, "alice", path).await;
        assert_eq!(code, 500, "{path}: {text}");
        assert!(text.contains(error), "{path}: {text}");
    }
    // The admin is in system:masters, about whom nobody is asked.
    daemon
        .client()
        .call(Call::get("/api/v1/nodes"))
        .await
        .expect(200);
    let asked = webhook.asked();
    let of_resources: Vec<&Value> = asked
        .iter()
        .filter(|review| review["spec"]["nonResourceAttributes"].is_null())
        .collect();
    let is_alice = |review: &&Value| review["spec"]["user"] == "alice";
    assert!(of_resources.iter().all(is_alice), "{asked:?}");
    assert_eq!(
        *of_resources[0],
        json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "status": {"allowed": false},
            "spec": {
                "user": "alice", "uid": "1", "groups": ["devs", "system:authenticated"],
                "resourceAttributes": {
                    "namespace": "default", "verb": "list", "version": "v1", "resource": "pods",
                },
            },
        })
    );
    // Answers are kept.
    let before = webhook.asked().len();
    assert_eq!(get(&daemon, "alice", PODS).await.0, 200);
    assert_eq!(webhook.asked().len(), before);
    let evaluations = "apiserver_authorization_webhook_evaluations_total";
    let count = async |result: &str| {
        let series = format!("{evaluations}{{name=\"webhook\",result=\"{result}\"}}");
        daemon.count(&series).await
    };
    assert!(count("success").await >= 4 && count("error").await >= 2);
}

#[tokio::test]
async fn reviews_show_what_the_webhook_says_ac_39() {
    let webhook = webhook().await;
    let daemon = with_webhook(&webhook, "Webhook").await;
    let review = async |resource: &str| {
        let attributes = json!({"verb": "get", "resource": resource});
        let spec = json!({"user": "carol", "resourceAttributes": attributes});
        let call = Call::post(REVIEWS, &json!({"spec": spec}));
        daemon.client().call(call).await.expect(201)["status"].take()
    };
    let status = review("pods").await;
    assert_eq!(status, json!({"allowed": true, "reason": "pods are fine"}));
    let status = review("secrets").await;
    let expected = json!({"allowed": false, "denied": true, "reason": "secrets are not"});
    assert_eq!(status, expected);
    let status = review("services").await;
    let expected = json!({
        "allowed": false, "denied": true, "reason": "both",
        "evaluationError":
            "webhook subject access review returned both allow and deny response",
    });
    assert_eq!(status, expected);
}

#[tokio::test]
async fn policies_of_a_file_allow_requests_ac_40_ac_41() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.jsonl");
    let head = r#""apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy""#;
    let policies = format!(
        "# devs read pods, bob does everything in other\n\
         {{{head},\"spec\":{{\"group\":\"devs\",\"readonly\":true,\"namespace\":\"*\",\
         \"resource\":\"pods\"}}}}\n\n\
         {{\"user\":\"bob\",\"namespace\":\"other\"}}\n\
         {{{head},\"spec\":{{\"user\":\"system:anonymous\",\"nonResourcePath\":\"/readyz\"}}}}\n"
    );
    std::fs::write(&file, policies).unwrap();
    let file = format!("--authorization-policy-file={}", file.display());
    let daemon = Daemon::with_users(USERS, &["--authorization-mode=ABAC", &file]).await;
    assert_eq!(get(&daemon, "alice", PODS).await.0, 200);
    let expected = "secrets is forbidden: User \"alice\" cannot list resource \"secrets\" in API \
                    group \"\" at the cluster scope: No policy matched.";
    let refused = get(&daemon, "alice", "/api/v1/secrets").await;
    assert_eq!(refused, (403, expected.to_owned()));
    assert_eq!(get(&daemon, "bob", PODS).await.0, 403);
    assert_eq!(
        get(&daemon, "bob", "/api/v1/namespaces/other/pods").await.0,
        200
    );
    let alice = daemon.target().with_token("alice-token").client();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let spec = json!({"spec": {"namespace": "default"}});
    // Nobody may ask that here: the policies say nothing about reviews.
    alice.call(Call::post(path, &spec)).await.expect(403);
}

#[tokio::test]
async fn a_bad_policy_ends_the_start_with_its_line_ac_40() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.jsonl");
    std::fs::write(&file, "{}\n{\"user\":1}\n").unwrap();
    let flag = format!("--authorization-policy-file={}", file.display());
    let (code, said) = refused(folder.path(), &["--authorization-mode=ABAC", &flag]);
    assert_eq!(code, Some(2));
    let expected = format!(
        "invalid authorization config: error reading policy file {}, line 2: {{\"user\":1}}: json: \
         cannot unmarshal number into Go struct field Flat.user of type string",
        file.display()
    );
    assert!(said.contains(&expected), "{said}");
}

fn refused(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let refused = command(folder, 0).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    (refused.status.code(), said)
}

#[tokio::test]
async fn where_everything_is_allowed_nobody_is_anonymous_ac_27_ac_29() {
    let options = Options::default().arguments(&["--authorization-mode=AlwaysAllow"]);
    let daemon = options.launch().await;
    let admin = daemon.client();
    until(async || admin.call(Call::get("/readyz")).await.status.as_u16() == 200).await;
    let nobody = daemon.target().anonymous().client();
    nobody.call(Call::get("/healthz")).await.expect(401);
    let known = daemon.target().with_token("wrong").client();
    known.call(Call::get("/api")).await.expect(401);
    let warning = "AnonymousAuth is not allowed with the AlwaysAllow authorizer.";
    assert!(daemon.stderr().contains(warning));
}

/// Writes a file of authorizers: a webhook with a condition, and what comes after it.
fn write(file: &Path, webhook: &Webhook, condition: &str, rest: &str) {
    let entry = json!({
        "type": "Webhook", "name": "hook.example.com", "webhook": {
            "timeout": "10s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
            "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
            "matchConditionSubjectAccessReviewVersion": "v1",
            "matchConditions": [{"expression": condition}],
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": webhook.kubeconfig()},
        },
    });
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n\
         authorizers:\n- {entry}\n{rest}"
    );
    // As Kubernetes replaces a mounted file.
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

const RBAC: &str = "- {type: RBAC, name: rbac}\n";

async fn configured(condition: &str) -> (Webhook, Daemon, PathBuf, tempfile::TempDir) {
    let webhook = webhook().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorization.yaml");
    write(&file, &webhook, condition, RBAC);
    let flag = format!("--authorization-config={}", file.display());
    let daemon = Daemon::with_users(USERS, &[&flag]).await;
    (webhook, daemon, file, folder)
}

#[tokio::test]
async fn conditions_and_the_failure_policy_of_the_file_count_ac_33_ac_36() {
    let condition = "has(request.resourceAttributes) && request.user != 'bob'";
    let (webhook, daemon, _, _folder) = configured(condition).await;
    assert_eq!(get(&daemon, "alice", PODS).await.0, 200);
    assert_eq!(get(&daemon, "bob", PODS).await.0, 403, "nobody allows it");
    assert_eq!(
        get(&daemon, "alice", "/version").await.0,
        200,
        "by its role"
    );
    let (code, text) = get(&daemon, "alice", "/api/v1/nodes").await;
    assert_eq!(code, 500, "a failed call denies: {text}");
    let of_alice = webhook.asked().into_iter();
    let of_alice = of_alice.filter(|review| review["spec"]["user"] == "alice");
    assert_eq!(of_alice.count(), 2);
    let labels = "{type=\"Webhook\",name=\"hook.example.com\"}";
    let exclusions = format!("apiserver_authorization_match_condition_exclusions_total{labels}");
    assert!(daemon.count(&exclusions).await >= 2);
}

#[tokio::test]
async fn a_changed_file_is_used_without_a_gap_and_a_wrong_one_is_not_ac_33() {
    let (webhook, daemon, file, _folder) = configured("request.user == 'alice'").await;
    assert_eq!(get(&daemon, "alice", PODS).await.0, 200);
    assert_eq!(get(&daemon, "bob", PODS).await.0, 403);
    let reloads = async |status: &str| {
        let name = "apiserver_authorization_config_controller_automatic_reloads_total";
        let page = daemon.client().call(Call::get("/metrics")).await;
        let page = page.text().to_string();
        let mut lines = page.lines().filter(|line| line.starts_with(name));
        lines.any(|line| line.contains(&format!("status=\"{status}\"")))
    };
    // Types that were there cannot go.
    write(&file, &webhook, "request.user == 'bob'", "");
    until(async || reloads("failure").await).await;
    assert_eq!(get(&daemon, "alice", PODS).await.0, 200);
    write(&file, &webhook, "request.user == 'bob'", RBAC);
    until(async || reloads("success").await).await;
    assert_eq!(get(&daemon, "alice", PODS).await.0, 403);
    assert_eq!(get(&daemon, "bob", PODS).await.0, 200);
    assert!(daemon.stderr().contains("missing required types: [RBAC]"));
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it has not happened");
}

#[tokio::test]
async fn a_wrong_file_ends_the_start_ac_33_ac_35() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorization.yaml");
    let flag = format!("--authorization-config={}", file.display());
    for (text, expected) in [
        (
            "",
            "authorizers: Required value: at least one authorization mode must be defined",
        ),
        (
            "a: b",
            "failed to load AuthorizationConfiguration from file: Object 'Kind' is missing",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n\
             authorizers:\n- {type: ABAC, name: abac}\n",
            "authorization-mode ABAC's authorization policy file not passed",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, said) = refused(folder.path(), &[&flag]);
        assert_eq!(code, Some(2), "{said}");
        let expected = format!("invalid authorization config: {expected}");
        assert!(said.contains(&expected), "{said}");
    }
}
