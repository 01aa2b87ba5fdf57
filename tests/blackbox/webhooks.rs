//! Webhooks for tokens, over HTTP (AC-24 to AC-26).

use serde_json::{Value, json};

use crate::harness::daemon::command;
use crate::harness::webhook::Webhook;
use crate::harness::{Call, Daemon};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const OF_TOKENS: &str = "authentication-token-webhook-config-file";

/// Knows the token `good`, refuses `bad` with an error, and fails for `ugly`.
async fn token_webhook() -> Webhook {
    Webhook::start(|review| {
        let status = match review["spec"]["token"].as_str().unwrap() {
            "good" => json!({
                "authenticated": true,
                "user": {
                    "username": "carol", "uid": "7", "groups": ["cats"], "extra": {"k": ["v"]},
                },
                "audiences": ["api"],
            }),
            "bad" => json!({"authenticated": false, "error": "it is expired"}),
            "ugly" => return (404, String::new()),
            _ => json!({"authenticated": false}),
        };
        let answer = json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status,
        });
        (200, answer.to_string())
    })
    .await
}

async fn daemon(webhook: &Webhook) -> Daemon {
    let flag = webhook.flag(OF_TOKENS);
    let version = "--authentication-token-webhook-version=v1";
    Daemon::with(&[&flag, version, "--api-audiences=api"]).await
}

#[tokio::test]
async fn the_webhook_identifies_users_that_nothing_else_knows_ac_1_ac_25() {
    let webhook = token_webhook().await;
    let daemon = daemon(&webhook).await;
    let carol = daemon.target().with_token("good").client();
    for _ in 0..3 {
        let review = carol.call(Call::post(WHO, &json!({}))).await.expect(201);
        let expected = json!({
            "username": "carol", "uid": "7", "groups": ["cats", "system:authenticated"],
            "extra": {"k": ["v"]},
        });
        assert_eq!(review["status"]["userInfo"], expected);
    }
    let expected = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "spec": {"token": "good", "audiences": ["api"]}, "status": {"user": {}},
    });
    // The admin's token, which the daemon knows itself, has not been sent.
    assert_eq!(webhook.asked(), [expected]);
}

#[tokio::test]
async fn refusals_and_failures_of_the_webhook_are_401_alike_ac_3_ac_26() {
    let webhook = token_webhook().await;
    let daemon = daemon(&webhook).await;
    for token in ["bad", "ugly", "other"] {
        let client = daemon.target().with_token(token).client();
        let answer = client.call(Call::get("/api")).await;
        let status = answer.refusal(401, "Unauthorized");
        assert_eq!(status["message"], "Unauthorized", "{token}");
    }
    // The failure is in the log, and no token is.
    let log = daemon.stderr();
    assert!(
        log.contains("the server could not find the requested resource"),
        "{log}"
    );
    assert!(!log.contains("ugly"), "{log}");
}

#[tokio::test]
async fn reviews_of_tokens_ask_the_webhook_for_their_audiences_ac_26() {
    let webhook = token_webhook().await;
    let daemon = daemon(&webhook).await;
    let review = async |token: &str, audiences: &[&str]| -> Value {
        let spec = json!({"token": token, "audiences": audiences});
        let call = Call::post(REVIEWS, &json!({"spec": spec}));
        daemon.client().call(call).await.expect(201)["status"].take()
    };
    let status = review("good", &["api", "more"]).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!(["api"]), "{status}");
    let status = review("good", &["more"]).await;
    assert_eq!(status["error"], "invalid bearer token", "{status}");
    let status = review("bad", &["more"]).await;
    assert_eq!(status["error"], "invalid bearer token", "{status}");
    let status = review("bad", &["api"]).await;
    let expected = "[invalid bearer token, it is expired]";
    assert_eq!(status["error"], expected, "{status}");
    let audiences: Vec<Value> = webhook
        .asked()
        .iter()
        .map(|review| review["spec"]["audiences"].clone())
        .collect();
    assert!(audiences.contains(&json!(["api", "more"])), "{audiences:?}");
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_ends_the_start_with_its_name_ac_24() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none");
    let flag = format!("--{OF_TOKENS}={}", missing.display());
    let refused = command(folder.path(), 0).arg(&flag).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    let expected = format!("{flag}: No such file", flag = flag.replacen('=', ": ", 1));
    assert!(said.contains(&expected), "{said}");
}
