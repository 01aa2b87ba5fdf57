//! The authorizer against webhooks over TLS (AC-26, AC-36 to AC-39, AC-75).

use std::time::Duration;

use serde_json::json;

use super::super::call::{ANSWER_BYTES_MAX, ATTEMPTS};
use super::super::tests::{Reply, Webhook};
use super::*;
use crate::api::error_list::ErrorList;

const HOUR: Duration = Duration::from_secs(3600);
const PATIENT: Duration = Duration::from_secs(60);

fn settings() -> WebhookSettings {
    WebhookSettings {
        name: "hook".to_owned(),
        version: ReviewVersion::V1,
        authorized_ttl: HOUR,
        unauthorized_ttl: HOUR,
        failure_policy: FailurePolicy::NoOpinion,
        conditions: MatchConditions::default(),
    }
}

fn user() -> UserInfo {
    UserInfo::authenticated("alice", vec!["devs".to_owned()])
}

/// The decision, the reason and the error about a request for an object of this name.
type Said = (Decision, String, Option<String>);

async fn ask(authorizer: &WebhookAuthorizer, name: &str) -> Said {
    let user = user();
    let attributes = Attributes {
        name,
        ..Attributes::on_resource(&user, "get", "", "pods")
    };
    let answer = authorizer.authorize(&attributes).await;
    (answer.decision, answer.reason.to_string(), answer.error)
}

fn review(status: &serde_json::Value) -> Reply {
    let body = json!({
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "status": status,
    });
    Reply::ok(body.to_string())
}

/// The answer of an authorizer whose webhook always replies so, and how often that was asked.
async fn said(reply: Reply, settings: WebhookSettings, timeout: Duration) -> (Said, usize) {
    let webhook = Webhook::start(&[], move |_| reply.clone()).await;
    let authorizer = WebhookAuthorizer::new(settings, webhook.caller(timeout));
    let said = ask(&authorizer, "p").await;
    (said, webhook.asked().len())
}

#[tokio::test]
async fn allowed_denied_both_and_neither_ac_39() {
    use Decision::{Allow, Deny, NoOpinion};
    for (status, decision, error) in [
        (json!({"allowed": true, "reason": "r"}), Allow, None),
        (json!({"denied": true, "reason": "r"}), Deny, None),
        (
            json!({"allowed": true, "denied": true, "reason": "r"}),
            Deny,
            Some(BOTH.to_owned()),
        ),
        (json!({"allowed": false, "reason": "r"}), NoOpinion, None),
        (
            json!({"evaluationError": "not passed on", "reason": "r"}),
            NoOpinion,
            None,
        ),
    ] {
        let (said, _) = said(review(&status), settings(), PATIENT).await;
        assert_eq!(said, (decision, "r".to_owned(), error), "{status}");
    }
}

#[tokio::test]
async fn the_request_is_that_of_kubernetes_and_has_nothing_of_the_users_credentials_ac_24_ac_38() {
    for (protocols, agent) in [
        (&[][..], "Go-http-client/1.1"),
        (&[&b"h2"[..]][..], "Go-http-client/2.0"),
    ] {
        let webhook = Webhook::start(protocols, |_| review(&json!({"allowed": true}))).await;
        let authorizer = WebhookAuthorizer::new(settings(), webhook.caller(PATIENT));
        ask(&authorizer, "p").await;
        let asked = webhook.asked();
        let [asked] = &asked[..] else {
            panic!("asked once, not {}", asked.len());
        };
        assert_eq!(
            (&*asked.method, &*asked.uri),
            ("POST", "/review?timeout=1m0s")
        );
        let header = |name: &str| asked.headers.get(name).unwrap().to_str().unwrap();
        assert_eq!(header("accept"), "application/json, */*");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("user-agent"), agent);
        assert_eq!(header("authorization"), "Bearer daemon-token");
        let expected = "{\"kind\":\"SubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\
                        \",\"metadata\":{},\"spec\":{\"resourceAttributes\":{\"verb\":\"get\",\
                        \"version\":\"*\",\"resource\":\"pods\",\"name\":\"p\"},\"user\":\"alice\",\
                        \"groups\":[\"devs\",\"system:authenticated\"]},\"status\":{\"allowed\":\
                        false}}\n";
        assert_eq!(asked.body, expected);
    }
}

#[tokio::test]
async fn transient_failures_are_tried_five_times_and_others_once_ac_26() {
    let wait = |code| Reply::Answer(code, vec![("retry-after", "7".to_owned())], "".into());
    let unknown = "an error on the server (\"unknown\") has prevented the request from succeeding";
    let elsewhere = vec![("location", "https://127.0.0.1:1/".to_owned())];
    for (reply, attempts, text) in [
        (Reply::code(500), ATTEMPTS, unknown),
        (
            Reply::code(429),
            ATTEMPTS,
            "the server has received too many requests and has asked us to try again later",
        ),
        (
            Reply::code(504),
            ATTEMPTS,
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request",
        ),
        (
            wait(503),
            ATTEMPTS,
            "the server is currently unable to handle the request",
        ),
        (
            Reply::code(503),
            1,
            "the server is currently unable to handle the request",
        ),
        (
            Reply::code(404),
            1,
            "the server could not find the requested resource",
        ),
        (
            Reply::Answer(307, elsewhere, "".into()),
            1,
            "the server responded with the status code 307 but did not return more information",
        ),
        (
            Reply::ok("<html>"),
            1,
            "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go \
             value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind \
             string \"json:\\\"kind,omitempty\\\"\" }",
        ),
        (
            Reply::ok(
                r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1"}"#,
            ),
            1,
            "converting (v1beta1.SubjectAccessReview) to (v1.SubjectAccessReview): unknown \
             conversion",
        ),
        (
            Reply::ok(vec![b' '; ANSWER_BYTES_MAX + 1]),
            1,
            "the answer is too large: it has more than 1048576 bytes",
        ),
    ] {
        let shown = format!("{reply:.80?}");
        let (said, asked) = said(reply, settings(), PATIENT).await;
        let expected = (Decision::NoOpinion, String::new(), Some(text.to_owned()));
        assert_eq!((said, asked), (expected, attempts), "{shown:.80}");
    }
}

#[tokio::test]
async fn a_later_attempt_may_succeed_ac_26() {
    let webhook = Webhook::start(&[], |number| match number {
        0..=3 => Reply::code(500),
        _ => review(&json!({"allowed": true})),
    })
    .await;
    let authorizer = WebhookAuthorizer::new(settings(), webhook.caller(PATIENT));
    let allowed = (Decision::Allow, String::new(), None);
    assert_eq!(ask(&authorizer, "p").await, allowed);
    assert_eq!(webhook.asked().len(), 5);
}

#[tokio::test]
async fn a_webhook_that_hangs_costs_its_time_ac_37() {
    let soon = Duration::from_millis(200);
    let (said, _) = said(Reply::Hang, settings(), soon).await;
    let error = said.2.unwrap();
    assert!(
        error.starts_with("Post \"https://127.0.0.1:")
            && error.ends_with("/review?timeout=200ms\": context deadline exceeded"),
        "{error}"
    );
    assert_eq!(said.0, Decision::NoOpinion);
}

#[tokio::test]
async fn the_failure_policy_decides_what_a_failed_call_means_ac_39() {
    let deny = WebhookSettings {
        failure_policy: FailurePolicy::Deny,
        ..settings()
    };
    let (said, _) = said(Reply::code(404), deny, PATIENT).await;
    let text = "the server could not find the requested resource";
    assert_eq!(said, (Decision::Deny, String::new(), Some(text.to_owned())));
}

#[tokio::test]
async fn answers_are_kept_by_their_question_and_errors_are_not_ac_39() {
    let webhook = Webhook::start(&[], |number| match number {
        0 => Reply::code(404),
        number => review(&json!({"allowed": number % 2 == 0, "reason": number.to_string()})),
    })
    .await;
    let authorizer = WebhookAuthorizer::new(settings(), webhook.caller(PATIENT));
    assert!(ask(&authorizer, "a").await.2.is_some());
    let refused = (Decision::NoOpinion, "1".to_owned(), None);
    let allowed = (Decision::Allow, "2".to_owned(), None);
    for _ in 0..3 {
        assert_eq!(ask(&authorizer, "a").await, refused);
        assert_eq!(ask(&authorizer, "b").await, allowed);
    }
    assert_eq!(webhook.asked().len(), 3);
    let long = "x".repeat(10_000);
    ask(&authorizer, &long).await;
    ask(&authorizer, &long).await;
    assert_eq!(webhook.asked().len(), 5, "long questions are not kept");
}

#[tokio::test]
async fn a_ttl_of_zero_keeps_nothing_ac_37() {
    for (settings, is_allowed, expected) in [
        (
            WebhookSettings {
                authorized_ttl: Duration::ZERO,
                ..settings()
            },
            true,
            2,
        ),
        (
            WebhookSettings {
                unauthorized_ttl: Duration::ZERO,
                ..settings()
            },
            false,
            2,
        ),
        (
            WebhookSettings {
                unauthorized_ttl: Duration::ZERO,
                ..settings()
            },
            true,
            1,
        ),
    ] {
        let webhook = Webhook::start(&[], move |_| review(&json!({"allowed": is_allowed}))).await;
        let authorizer = WebhookAuthorizer::new(settings, webhook.caller(PATIENT));
        ask(&authorizer, "a").await;
        ask(&authorizer, "a").await;
        assert_eq!(webhook.asked().len(), expected, "{is_allowed}");
    }
    let reason = "r".repeat(REASON_BYTES_MAX + 1);
    let webhook = Webhook::start(&[], move |_| review(&json!({"reason": reason}))).await;
    let authorizer = WebhookAuthorizer::new(settings(), webhook.caller(PATIENT));
    ask(&authorizer, "a").await;
    ask(&authorizer, "a").await;
    assert_eq!(webhook.asked().len(), 2, "long reasons are not kept");
}

#[tokio::test]
async fn conditions_decide_whether_the_webhook_is_asked_ac_36() {
    let webhook = Webhook::start(&[], |_| review(&json!({"denied": true}))).await;
    let no_opinion = |error: Option<&str>| {
        let error = error.map(str::to_owned);
        (Decision::NoOpinion, String::new(), error)
    };
    let denied = (Decision::Deny, String::new(), None);
    let fails = "request.nonResourceAttributes.path == ''";
    let text = "cel evaluation error: expression 'request.nonResourceAttributes.path == ''' \
                resulted in error: no such key: nonResourceAttributes";
    for (condition, policy, expected, asked) in [
        (
            "request.user == 'bob'",
            FailurePolicy::Deny,
            no_opinion(None),
            0,
        ),
        (fails, FailurePolicy::NoOpinion, no_opinion(Some(text)), 0),
        (
            fails,
            FailurePolicy::Deny,
            (Decision::Deny, String::new(), Some(text.to_owned())),
            0,
        ),
        (
            "request.user == 'alice'",
            FailurePolicy::NoOpinion,
            denied,
            1,
        ),
    ] {
        let mut errors = ErrorList::new();
        let settings = WebhookSettings {
            conditions: MatchConditions::compile("c", &[condition], &mut errors),
            failure_policy: policy,
            ..settings()
        };
        assert!(errors.is_empty());
        let authorizer = WebhookAuthorizer::new(settings, webhook.caller(PATIENT));
        assert_eq!(ask(&authorizer, "p").await, expected, "{condition}");
        assert_eq!(webhook.asked().len(), asked, "{condition}");
    }
}

#[tokio::test]
async fn rules_cannot_be_listed_ac_70() {
    let webhook = Webhook::start(&[], |_| Reply::Hang).await;
    let authorizer = WebhookAuthorizer::new(settings(), webhook.caller(PATIENT));
    let rules = authorizer.rules_for(&user(), "n").await;
    let why = "webhook authorizer does not support user rule resolution";
    assert!(rules.is_incomplete);
    assert_eq!(rules.errors, [why]);
}
