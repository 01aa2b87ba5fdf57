//! Webhooks for tokens and authorization that hang, answer nonsense, megabytes or for somebody
//! else, or send the daemon elsewhere (AC-24 to AC-26, AC-37 to AC-39). Nobody gets more rights by
//! that, and a webhook that hangs holds only the requests that wait for it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::webhook::{Reply, Webhook};
use crate::harness::{Call, Daemon, Target};

const PODS: &str = "/api/v1/namespaces/default/pods";
const USERS: &str = "t-alice,alice,1\nt-masters,root,2,system:masters\n";
const HUNG: usize = 60;
/// Far more than a request takes, and less than a webhook may.
const PATIENCE: Duration = Duration::from_secs(25);

fn token_review(version: &str, status: &Value) -> String {
    json!({
        "kind": "TokenReview", "apiVersion": format!("authentication.k8s.io/{version}"),
        "metadata": {}, "spec": {"token": "somebody-else"}, "status": status,
    })
    .to_string()
}

fn access_review(version: &str, status: &Value) -> String {
    json!({
        "kind": "SubjectAccessReview", "apiVersion": format!("authorization.k8s.io/{version}"),
        "metadata": {}, "spec": {"user": "somebody-else"}, "status": status,
    })
    .to_string()
}

fn master() -> Value {
    json!({
        "authenticated": true, "user": {"username": "root", "groups": ["system:masters"]},
    })
}

/// Answers that do not count as answers. Each one with room for a yes has one inside.
fn nonsense(kind: &str, yes: &str, other_version: &str, url: &str) -> Vec<(&'static str, Reply)> {
    let padded = format!("{}{yes}", " ".repeat(5 << 20));
    let behind = format!("{yes}{}", " ".repeat(5 << 20));
    let deep = "[".repeat(200_000);
    let long = yes.replacen('{', &format!("{{\"x\":\"{}\",", "y".repeat(5 << 20)), 1);
    let to = |code: u16| {
        let headers = vec![("location", url.to_owned())];
        Reply::Answer(code, headers, yes.to_owned().into())
    };
    let html = format!("<html>{yes}</html>");
    let list = format!("[{yes}]");
    let twice = format!("{yes}{yes}");
    let cut = yes[..yes.len() - 2].to_owned();
    let kindless = yes.replacen(kind, "Status", 1);
    let text = yes.replace(":true", ":\"true\"");
    let number = yes.replace(":true", ":1");
    vec![
        ("nothing", Reply::body(200, "")),
        ("no JSON", Reply::body(200, "garbage")),
        ("null", Reply::body(200, "null")),
        ("HTML", Reply::body(200, html)),
        ("a list", Reply::body(200, list)),
        ("two documents", Reply::body(200, twice)),
        ("a cut document", Reply::body(200, cut)),
        ("another kind", Reply::body(200, kindless)),
        (
            "another version",
            Reply::body(200, other_version.to_owned()),
        ),
        ("a text instead of true", Reply::body(200, text)),
        ("a number instead of true", Reply::body(200, number)),
        (
            "no status",
            Reply::body(200, format!("{{\"kind\":\"{kind}\"}}")),
        ),
        ("megabytes before", Reply::body(200, padded)),
        ("megabytes behind", Reply::body(200, behind)),
        ("megabytes inside", Reply::body(200, long)),
        ("levels", Reply::body(200, deep)),
        ("no end", Reply::Endless),
        ("301", to(301)),
        ("302", to(302)),
        ("303", to(303)),
        ("307", to(307)),
        ("308", to(308)),
        ("300", to(300)),
        ("400", Reply::body(400, yes.to_owned())),
        ("401", Reply::body(401, yes.to_owned())),
        ("403", Reply::body(403, yes.to_owned())),
        ("502", Reply::body(502, yes.to_owned())),
    ]
}

#[tokio::test]
async fn no_bad_answer_about_a_token_identifies_anybody_ac_25_ac_26() {
    let yes = token_review("v1", &master());
    let believed = Webhook::replying(move |_| Reply::body(200, yes.clone())).await;
    let url = believed.url.clone();
    let names: Vec<&str> = answers_about_tokens(&url).iter().map(|one| one.0).collect();
    let webhook = Webhook::replying(move |review| {
        let token = review["spec"]["token"].as_str().unwrap();
        let number: usize = token.strip_prefix("number-").unwrap().parse().unwrap();
        answers_about_tokens(&url).swap_remove(number).1
    })
    .await;
    let flag = webhook.flag("authentication-token-webhook-config-file");
    let daemon = Daemon::with(&[&flag, "--authentication-token-webhook-version=v1"]).await;
    let rest = daemon.peak();
    for (number, name) in names.iter().enumerate() {
        let token = format!("number-{number}");
        let client = daemon.target().with_token(&token).client();
        let answer = client.call(Call::get("/api/v1/secrets")).await;
        assert_eq!(answer.status, 401, "{name}: {}", answer.text());
        assert!(!daemon.stderr().contains(&token), "{name}");
    }
    assert!(believed.asked().is_empty(), "a redirect was followed");
    assert!(daemon.peak() - rest < 64.0, "{} MiB", daemon.peak() - rest);
}

fn answers_about_tokens(url: &str) -> Vec<(&'static str, Reply)> {
    let yes = token_review("v1", &master());
    let older = token_review("v1beta1", &master());
    let mut all = nonsense("TokenReview", &yes, &older, url);
    let mut elsewhere = master();
    elsewhere["audiences"] = json!(["somebody-else"]);
    let refused = json!({
        "authenticated": false, "user": {"username": "root", "groups": ["system:masters"]},
    });
    all.extend([
        ("a closed connection", Reply::Close),
        ("no", Reply::body(200, token_review("v1", &refused))),
        (
            "other audiences",
            Reply::body(200, token_review("v1", &elsewhere)),
        ),
    ]);
    all
}

/// The reviews that ordinary requests of alice cause have the number of the answer as a name.
fn answers_about_access(url: &str) -> Vec<(&'static str, Reply)> {
    let yes = access_review("v1", &json!({"allowed": true}));
    let older = access_review("v1beta1", &json!({"allowed": true}));
    let mut all = nonsense("SubjectAccessReview", &yes, &older, url);
    let both = json!({"allowed": true, "denied": true});
    all.extend([
        ("both", Reply::body(200, access_review("v1", &both))),
        (
            "no",
            Reply::body(200, access_review("v1", &json!({"allowed": false}))),
        ),
        (
            "denied",
            Reply::body(200, access_review("v1", &json!({"denied": true}))),
        ),
    ]);
    all
}

#[tokio::test]
async fn no_bad_answer_about_access_allows_anything_ac_37_ac_39() {
    let yes = access_review("v1", &json!({"allowed": true}));
    let believed = Webhook::replying(move |_| Reply::body(200, yes.clone())).await;
    let url = believed.url.clone();
    let names: Vec<&str> = answers_about_access(&url).iter().map(|one| one.0).collect();
    let webhook = Webhook::replying(move |review| {
        let name = review["spec"]["resourceAttributes"]["name"].as_str();
        let number = name.and_then(|name| name.strip_prefix("number-"));
        match number.and_then(|number| number.parse().ok()) {
            Some(number) => answers_about_access(&url).swap_remove(number).1,
            None => Reply::body(200, access_review("v1", &json!({"allowed": false}))),
        }
    })
    .await;
    let flag = webhook.flag("authorization-webhook-config-file");
    let version = "--authorization-webhook-version=v1";
    let modes = "--authorization-mode=Webhook";
    let daemon = Daemon::with_users(USERS, &[modes, &flag, version]).await;
    let alice = daemon.target().with_token("t-alice").client();
    let rest = daemon.peak();
    for (number, name) in names.iter().enumerate() {
        let path = format!("{PODS}/number-{number}");
        let answer = alice.call(Call::get(&path)).await;
        let code = answer.status.as_u16();
        assert!(
            matches!(code, 403 | 500),
            "{name}: {code} {}",
            answer.text()
        );
        // A refused create shows the same, and makes nothing.
        let answer = alice.call(Call::delete(&path)).await;
        assert!(matches!(answer.status.as_u16(), 403 | 500), "{name}");
    }
    assert!(believed.asked().is_empty(), "a redirect was followed");
    assert!(daemon.peak() - rest < 64.0, "{} MiB", daemon.peak() - rest);
}

/// Starts requests that do not end, and returns when the webhook has got all of them.
async fn hung(webhook: &Webhook, calls: impl Iterator<Item = (Target, Call)>) -> JoinSet<()> {
    let mut waiting = JoinSet::new();
    let mut count = 0;
    for (target, call) in calls {
        count += 1;
        waiting.spawn(async move {
            let _ = target.client().attempt(call).await;
        });
    }
    for _ in 0..2_000 {
        if webhook.asked().len() >= count {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!(
        "the webhook got {} of {count} reviews",
        webhook.asked().len()
    );
}

/// Requests of others, each of which must be answered while the webhook hangs.
async fn others_are_served(daemon: &Daemon, tokens: &[(&str, u16)]) {
    let served = async {
        daemon.client().call(Call::get(PODS)).await.expect(200);
        for (token, code) in tokens {
            for path in ["/version", PODS] {
                let client = daemon.target().with_token(token).client();
                let answer = client.call(Call::get(path)).await;
                let code = if path == "/version" { 200 } else { *code };
                assert_eq!(answer.status.as_u16(), code, "{token} {path}");
            }
        }
        let nobody = daemon.target().anonymous().client();
        assert_eq!(nobody.call(Call::get("/readyz")).await.status, 200);
    };
    let served = tokio::time::timeout(PATIENCE, served).await;
    assert!(served.is_ok(), "others wait for the webhook");
}

#[tokio::test]
async fn a_webhook_for_tokens_that_hangs_holds_nobody_else_ac_5_ac_26() {
    let webhook = Webhook::replying(|review| match review["spec"]["token"].as_str() {
        Some("good") => {
            let status = json!({"authenticated": true, "user": {"username": "carol"}});
            Reply::body(200, token_review("v1", &status))
        }
        _ => Reply::Silence,
    })
    .await;
    let flag = webhook.flag("authentication-token-webhook-config-file");
    let version = "--authentication-token-webhook-version=v1";
    let daemon = Daemon::with_users(USERS, &[&flag, version]).await;
    let calls = (0..HUNG).map(|number| {
        let target = daemon.target().with_token(&format!("hangs-{number}"));
        (target, Call::get(PODS))
    });
    let waiting = hung(&webhook, calls).await;
    let tokens = [("t-masters", 200), ("t-alice", 403), ("good", 403)];
    others_are_served(&daemon, &tokens).await;
    drop(waiting);
}

#[tokio::test]
async fn a_webhook_for_access_that_hangs_holds_nobody_else_ac_37() {
    let webhook = Webhook::replying(|review| match review["spec"]["user"].as_str() {
        Some("alice") => Reply::Silence,
        _ => Reply::body(200, access_review("v1", &json!({"allowed": true}))),
    })
    .await;
    let flag = webhook.flag("authorization-webhook-config-file");
    let version = "--authorization-webhook-version=v1";
    let modes = "--authorization-mode=Webhook";
    let users = format!("{USERS}t-bob,bob,3\n");
    let daemon = Daemon::with_users(&users, &[modes, &flag, version]).await;
    let before = webhook.asked().len();
    let calls = (0..HUNG + before).map(|number| {
        let path = format!("{PODS}/p-{number}");
        (daemon.target().with_token("t-alice"), Call::get(&path))
    });
    let waiting = hung(&webhook, calls).await;
    others_are_served(&daemon, &[("t-masters", 200), ("t-bob", 200)]).await;
    drop(waiting);
}

/// A webhook that sends an answer too many answers the next question with it, if the connection is
/// used again.
#[tokio::test]
async fn an_answer_to_a_question_that_nobody_asked_counts_for_nobody_ac_26() {
    let yes = token_review("v1", &master());
    let no = token_review("v1", &json!({"authenticated": false}));
    let webhook = Webhook::raw(format!("{}{}", whole(&no), whole(&yes))).await;
    let flag = webhook.flag("authentication-token-webhook-config-file");
    let daemon = Daemon::with(&[&flag, "--authentication-token-webhook-version=v1"]).await;
    for number in 0..20 {
        let client = daemon.target().with_token(&format!("t-{number}")).client();
        let answer = client.call(Call::get("/api/v1/secrets")).await;
        assert_eq!(answer.status, 401, "{number}: {}", answer.text());
    }
}

fn whole(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
