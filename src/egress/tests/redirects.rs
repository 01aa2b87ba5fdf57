//! Redirects, and credentials that stay at their host (HK-41).

use http::Method;
use http::header::{AUTHORIZATION, COOKIE, HeaderValue};
use zeroize::Zeroizing;

use super::server::{Certified, TestServer, answer, redirect};
use super::*;

fn following(url: String, roots: Roots) -> TargetSettings {
    TargetSettings {
        redirects: Redirects::Follow,
        ..TargetSettings::new(url, roots)
    }
}

#[tokio::test]
async fn credentials_stay_at_their_host_hk_41() {
    let parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = Certified::own(&parameters);
    let second = TestServer::start(Some(own.tls(&[])), |_| answer("there")).await;
    let there = second.url("https");
    let first = TestServer::start(Some(own.tls(&[])), move |uri| match uri.path() {
        "/" => redirect(307, "/again"),
        _ => redirect(307, &format!("{there}/end")),
    })
    .await;
    let mut settings = following(first.url("https"), Roots::Bundle(own.pem.clone().into()));
    settings.credentials = Some(Credentials::Bearer(Zeroizing::new("secret".to_owned())));
    settings.identity = Some(Identity {
        certificate: own.pem.clone().into(),
        key: Zeroizing::new(own.key_pem.clone().into()),
    });
    let mut request = post("/");
    request
        .headers
        .insert(COOKIE, HeaderValue::from_static("secret"));
    let target = Target::new(settings).unwrap();
    let sent = EgressClient::new().send(&target, request).await.unwrap();
    assert_eq!(sent.body, "there");

    let (first, second) = (first.seen.lock(), second.seen.lock());
    assert_eq!((first.len(), second.len()), (2, 1));
    for seen in first.iter() {
        assert_eq!(seen.headers[AUTHORIZATION], "Bearer secret");
        assert!(seen.headers.contains_key(COOKIE) && seen.is_identified);
    }
    let seen = &second[0];
    assert_eq!((&seen.method, &*seen.body), (&Method::POST, &b"sent"[..]));
    assert!(!seen.headers.contains_key(AUTHORIZATION) && !seen.headers.contains_key(COOKIE));
    assert!(!seen.is_identified);
}

#[tokio::test]
async fn a_redirect_with_another_status_becomes_a_get_hk_41() {
    let server = TestServer::start(None, |uri| match uri.path() {
        "/end" => answer("end"),
        _ => redirect(302, "end"),
    })
    .await;
    let target = Target::new(following(server.url("http"), Roots::System)).unwrap();
    let sent = EgressClient::new().send(&target, post("/a")).await.unwrap();
    assert_eq!(sent.body, "end");
    let seen = server.seen.lock();
    assert_eq!((&seen[1].method, seen[1].body.len()), (&Method::GET, 0));
}

#[tokio::test]
async fn ten_redirects_are_followed_and_the_eleventh_is_refused_hk_41() {
    let server = TestServer::start(None, |uri| {
        let left: usize = uri.path()[1..].parse().unwrap();
        match left {
            0 => answer("end"),
            left => redirect(307, &format!("/{}", left - 1)),
        }
    })
    .await;
    let target = Target::new(following(server.url("http"), Roots::System)).unwrap();
    let client = EgressClient::new();
    let sent = client.send(&target, post("/10")).await.unwrap();
    assert_eq!(sent.body, "end");
    let url = server.url("http");
    assert_eq!(
        failure(&target, post("/11")).await,
        format!("Post \"{url}/0\": stopped after 10 redirects")
    );
    assert_eq!(server.seen.lock().len(), 11 + 11);
}

#[tokio::test]
async fn a_target_that_refuses_redirects_gets_them_as_answers() {
    let server = TestServer::start(None, |_| redirect(302, "/end")).await;
    let target = target(server.url("http"));
    let sent = EgressClient::new().send(&target, post("/")).await.unwrap();
    assert_eq!(sent.status, 302);
    assert_eq!(server.seen.lock().len(), 1);
}
