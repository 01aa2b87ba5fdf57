//! The authenticator against webhooks over TLS (AC-24 to AC-26).

use serde_json::json;

use super::super::call::ATTEMPTS;
use super::super::tests::{Reply, Webhook};
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn review(status: &Value) -> Reply {
    let body = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1beta1", "status": status,
    });
    Reply::ok(body.to_string())
}

fn tokens(webhook: &Webhook) -> WebhookTokens {
    let caller = webhook.caller(Duration::from_secs(30));
    WebhookTokens::new(
        caller,
        ReviewVersion::V1Beta1,
        HOUR,
        owned(&["api", "other"]),
    )
}

/// The answer about a token for these audiences: the user's name and the audiences.
async fn asked(
    tokens: &WebhookTokens,
    audiences: &[&str],
) -> Result<Option<(String, Vec<String>)>, String> {
    let found = tokens.look_up(b"secret", &owned(audiences)).await;
    let known = found.map_err(|refused| match refused {
        Unauthorized::Token(why) => why,
        other => panic!("{other:?}"),
    })?;
    Ok(known.map(|known| (known.user.name.clone(), known.audiences.unwrap().to_vec())))
}

#[tokio::test]
async fn the_review_is_sent_to_the_byte_and_the_user_read_ac_24_ac_25() {
    let webhook = Webhook::start(&[], |_| {
        review(&json!({
            "authenticated": true,
            "user": {"username": "a", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}},
        }))
    })
    .await;
    let tokens = tokens(&webhook);
    let known = tokens.look_up(b"secret<", &[]).await.unwrap().unwrap();
    let expected = UserInfo {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        groups: owned(&["g", "system:authenticated"]),
        extra: [("k".to_owned(), owned(&["v"]))].into(),
    };
    assert_eq!(*known.user, expected);
    assert_eq!(
        known.audiences.as_deref(),
        Some(&owned(&["api", "other"])[..])
    );
    let asked = &webhook.asked()[0];
    assert_eq!(asked.uri, "/review?timeout=30s");
    assert_eq!(
        asked.body,
        "{\"kind\":\"TokenReview\",\"apiVersion\":\"authentication.k8s.io/v1beta1\",\"metadata\":\
         {},\"spec\":{\"token\":\"secret\\u003c\",\"audiences\":[\"api\",\"other\"]},\"status\":\
         {\"user\":{}}}\n"
    );
    assert_eq!(
        asked.headers.get("authorization").unwrap(),
        "Bearer daemon-token"
    );
}

#[tokio::test]
async fn one_audience_must_be_among_those_sent_ac_26() {
    for (named, wanted, expected) in [
        (&[][..], &[][..], Some(&["api", "other"][..])),
        (&[], &["api"], Some(&["api"])),
        (&[], &["mine"], None),
        (&["mine", "more"], &["mine", "yours"], Some(&["mine"])),
        (&["mine"], &[], None),
        (&["other"], &[], Some(&["other"])),
    ] {
        let status = json!({
            "authenticated": true, "user": {"username": "a"}, "audiences": named,
        });
        let webhook = Webhook::start(&[], move |_| review(&status)).await;
        let expected = expected.map(|audiences| ("a".to_owned(), owned(audiences)));
        let got = asked(&tokens(&webhook), wanted).await;
        assert_eq!(got, Ok(expected), "{named:?} {wanted:?}");
    }
}

#[tokio::test]
async fn a_refusal_with_an_error_is_a_failure_and_is_not_kept_ac_26() {
    for (status, expected, count) in [
        (json!({"authenticated": false}), Ok(None), 1),
        (Value::Null, Ok(None), 1),
        (
            json!({"authenticated": false, "error": "expired"}),
            Err("expired".to_owned()),
            2,
        ),
        (
            json!({"authenticated": true, "user": {"username": "a"}, "error": "ignored"}),
            Ok(Some(("a".to_owned(), owned(&["api", "other"])))),
            1,
        ),
    ] {
        let shown = status.to_string();
        let webhook = Webhook::start(&[], move |_| review(&status)).await;
        let tokens = tokens(&webhook);
        for _ in 0..2 {
            assert_eq!(asked(&tokens, &[]).await, expected, "{shown}");
        }
        assert_eq!(webhook.asked().len(), count, "{shown}");
    }
}

#[tokio::test]
async fn failures_of_the_webhook_are_refusals_ac_26() {
    let elsewhere = vec![("location", "https://127.0.0.1:1/".to_owned())];
    for (reply, attempts, text) in [
        (
            Reply::code(500),
            ATTEMPTS,
            "an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (
            Reply::code(404),
            1,
            "the server could not find the requested resource",
        ),
        (
            // The token must not go to another server.
            Reply::Answer(307, elsewhere, "".into()),
            1,
            "the server responded with the status code 307 but did not return more information",
        ),
        (
            Reply::ok(r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}"#),
            1,
            "converting (v1.TokenReview) to (v1beta1.TokenReview): unknown conversion",
        ),
        (
            Reply::ok(r#"{"status":{"authenticated":true,"user":{"groups":"g"}}}"#),
            1,
            "json: cannot unmarshal string into Go struct field UserInfo.status.user.groups of \
             type []string",
        ),
    ] {
        let webhook = Webhook::start(&[], move |_| reply.clone()).await;
        let tokens = tokens(&webhook);
        assert_eq!(asked(&tokens, &[]).await, Err(text.to_owned()));
        assert_eq!(webhook.asked().len(), attempts, "{text}");
    }
}

#[tokio::test]
async fn answers_are_kept_for_each_token_and_its_audiences_ac_26() {
    let webhook = Webhook::start(&[], |number| {
        let audiences = ["mine", "api"];
        let user = json!({"username": number.to_string()});
        review(&json!({"authenticated": true, "user": user, "audiences": audiences}))
    })
    .await;
    let tokens = tokens(&webhook);
    for _ in 0..2 {
        for (audiences, name) in [(&[][..], "0"), (&["mine"], "1")] {
            let (known, _) = asked(&tokens, audiences).await.unwrap().unwrap();
            assert_eq!(known, name);
        }
    }
    let other = tokens.look_up(b"other", &[]).await.unwrap().unwrap();
    assert_eq!(other.user.name, "2");
    assert!(matches!(tokens.look_up(b"\xff", &[]).await, Ok(None)));
    assert_eq!(webhook.asked().len(), 3);
}
