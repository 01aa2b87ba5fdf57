//! Refused logins.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::webhook::Webhook;
use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol};

#[tokio::test]
async fn refused_logins_leave_a_bounded_trace_without_what_they_were_tried_with() {
    let daemon = Daemon::start().await;
    let target = daemon.target().with_token("a-guess-of-a-token");
    let agent = format!("evil/1.0 \"quoted\"\t{}", "z".repeat(500));
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for _ in 0..100 {
            // An answer of 401 may end the connection.
            let call = Call::get(CONFIGMAPS).header("user-agent", &agent);
            let client = target.client_over(protocol);
            client.call(call).await.refusal(401, "Unauthorized");
        }
    }
    // A token that can't be one, and a user agent that would clear an operator's terminal.
    let mut raw = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    raw.write_all(
        b"GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer a-guess b\r\n\
          user-agent: \xc2\x9b2J\r\nconnection: close\r\n\r\n",
    )
    .await
    .unwrap();
    let mut answer = Vec::new();
    let reading = raw.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(10), reading)
        .await
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 401 "));

    let log = daemon.stderr();
    let lines = log
        .lines()
        .filter(|line| line.contains("a login was refused"));
    let lines: Vec<&str> = lines.collect();
    // One a minute for each sort of refusal.
    assert_eq!(lines.len(), 1, "{log}");
    let line = lines[0];
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    assert!(line.contains("the bearer token is unknown"), "{line}");
    assert!(line.contains("evil/1.0 "), "{line}");
    assert!(line.len() < 600 && line.is_ascii(), "{line}");
    assert!(!log.contains("a-guess"), "{log}");
    assert!(
        daemon
            .count("authentication_attempts{result=\"error\"}")
            .await
            >= 201
    );
}

/// Returns the lines of the access log about refused requests.
fn refused_requests(log: &str) -> Vec<&str> {
    let lines = log.lines();
    let lines = lines.filter(|line| line.contains(" request ") && line.contains("code=403"));
    lines.collect()
}

#[tokio::test]
async fn who_was_refused_is_logged_once_a_minute_for_each_client_and_user() {
    const SECRET: &str = "a-token-of-bob";
    let users = format!("{SECRET},bob,1\na-token-of-eve,eve,2\n");
    let daemon = Daemon::with_users(&users, &[]).await;
    let bob = daemon.target().with_token(SECRET);
    let headers = [
        ("x-remote-user", "header-of-a-proxy"),
        ("cookie", "a-cookie"),
        ("impersonate-user", "somebody"),
    ];
    for (name, value) in headers {
        for _ in 0..3 {
            let call = Call::get("/api/v1/secrets").header(name, value);
            bob.client().call(call).await.expect(403);
        }
    }
    let log = daemon.stderr();
    let lines = refused_requests(&log);
    assert_eq!(lines.len(), 1, "{log}");
    let line = lines[0];
    for part in ["peer=127.0.0.1", "user=\"bob\"", "resource=\"secrets\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    for secret in [SECRET, "header-of-a-proxy", "a-cookie", "Bearer"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    // Another user has a line of its own, and so has the same user from another address.
    let eve = daemon.target().with_token("a-token-of-eve").client();
    eve.call(Call::get("/api/v1/secrets")).await.expect(403);
    let elsewhere = bob.from([127, 0, 0, 9].into()).client();
    elsewhere
        .call(Call::get("/api/v1/secrets"))
        .await
        .expect(403);
    let log = daemon.stderr();
    let lines = refused_requests(&log);
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[2].contains("peer=127.0.0.9"), "{log}");
}

#[tokio::test]
async fn with_the_log_of_all_requests_each_refusal_has_its_line() {
    let daemon = Daemon::with_users("t-bob,bob,1\n", &["--access-log=all"]).await;
    let bob = daemon.target().with_token("t-bob").client();
    for _ in 0..3 {
        bob.call(Call::get("/api/v1/secrets")).await.expect(403);
    }
    let log = daemon.stderr();
    assert_eq!(refused_requests(&log).len(), 3, "{log}");
}

/// A webhook may repeat the token that it refuses.
#[tokio::test]
async fn no_text_of_a_webhook_brings_a_token_into_the_log_ac_26() {
    let webhook = Webhook::start(|review| {
        let token = review["spec"]["token"].as_str().unwrap();
        let status = json!({"authenticated": false, "error": format!("no such token: {token}")});
        let answer = json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status,
        });
        (200, answer.to_string())
    })
    .await;
    let flag = webhook.flag("authentication-token-webhook-config-file");
    let version = "--authentication-token-webhook-version=v1";
    let daemon = Daemon::with(&[&flag, version]).await;
    let guess = daemon.target().with_token("a-guess-of-a-token").client();
    guess
        .call(Call::get("/api"))
        .await
        .refusal(401, "Unauthorized");
    let log = daemon.stderr();
    assert!(log.contains("no such token: <the token>"), "{log}");
    assert!(!log.contains("a-guess"), "{log}");
}
