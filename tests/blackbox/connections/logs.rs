//! Logs of containers, as a stand-in of their kubelet sends them (CN-37 to CN-46, CN-120).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;
use serde_json::json;

use super::kubelet::{Kubelet, pod_on};
use super::{PODS, until};
use crate::harness::upgrades::{Asked, BINARY, CLOSE, PONG, TEXT, Upgraded, header};
use crate::harness::{Call, Daemon, Protocol};

async fn daemon(kubelet: &Kubelet, flags: &[String]) -> Daemon {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = Daemon::with(&flags).await;
    kubelet.join(&daemon.client(), "n", "p", &["main"]).await;
    let all = [
        "main",
        "open",
        "cut",
        "silent",
        "heads",
        "never",
        "redirect",
        "status-400",
        "status-401",
        "status-403",
        "status-404",
        "status-409",
        "status-418",
        "status-429",
        "status-500",
        "status-503",
    ];
    pod_on(&daemon.client(), "n", "q", &all).await;
    daemon
}

#[tokio::test]
async fn a_kubelet_is_asked_for_what_the_query_says_and_nothing_else_cn_39_cn_43() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        for (query, asked) in [
            ("", "main"),
            ("?follow=true&tailLines=5", "main?follow=true&tailLines=5"),
            (
                "?container=main&follow=0&previous=yes",
                "main?previous=true",
            ),
            (
                "?limitBytes=10&timestamps=1&sinceSeconds=3&stdout=x",
                "main?limitBytes=10&sinceSeconds=3&timestamps=true",
            ),
            (
                "?sinceTime=2026-01-01T00:00:09Z",
                "main?sinceTime=2026-01-01T00%3A00%3A09Z",
            ),
        ] {
            let asked = format!("/containerLogs/default/p/{asked}");
            let call = Call::get(&format!("{PODS}/p/log{query}"));
            let call = call.header("cookie", "a=b").header("x-other", "c");
            let answer = client.call(call).await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (200, format!("{asked}\n"))
            );
            assert_eq!(answer.header("content-type"), Some("text/plain"));
            assert_eq!(answer.header("x-own"), None);
            assert_eq!(kubelet.asked(), asked);
            let head = kubelet.heads().pop().unwrap();
            for name in ["authorization", "cookie", "x-other", "x-forwarded-for"] {
                assert_eq!(header(&head, name), None, "{head}");
            }
        }
    }
}

#[tokio::test]
async fn a_log_is_sent_as_it_grows_and_broken_off_for_a_client_that_goes_cn_43() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    let path = format!("{PODS}/q/log?container=open&follow=true");
    let running = "apiserver_longrunning_requests{verb=\"GET\",group=\"\",version=\"v1\",\
                   resource=\"pods\",subresource=\"log\"";
    let count = async || {
        let page = daemon.client().call(Call::get("/metrics")).await.text();
        let line = page.lines().find(|line| line.starts_with(running));
        line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        let mut log = client.lines(Call::get(&path)).await.unwrap();
        assert_eq!(log.next().await.unwrap().unwrap(), "one");
        assert_eq!(count().await.unwrap(), "1");
        kubelet.release();
        assert_eq!(log.next().await.unwrap().unwrap(), "two");
        assert_eq!(log.next().await.unwrap(), None);
        until(async || count().await.unwrap() == "0").await;

        let before = kubelet.open();
        let mut log = client.lines(Call::get(&path)).await.unwrap();
        assert_eq!(log.next().await.unwrap().unwrap(), "one");
        drop(log);
        until(async || count().await.unwrap() == "0" && kubelet.open() <= before).await;
    }
}

/// A kubelet may take its time, because a log has no head before it has a line.
#[tokio::test]
async fn a_kubelet_that_never_answers_is_left_with_its_client_and_at_the_stop_cn_43() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    let path = format!("{PODS}/q/log?container=never&follow=true");
    let ask = || {
        let client = daemon.target().client_over(Protocol::Http1);
        let call = Call::get(&path);
        tokio::spawn(async move { client.attempt(call).await })
    };
    for asked in 1..=2 {
        let asking = ask();
        until(async || kubelet.heads().len() == asked && kubelet.open() == 1).await;
        asking.abort();
        until(async || kubelet.open() == 0).await;
    }
    let asking = ask();
    until(async || kubelet.open() == 1).await;
    daemon.signal(Signal::TERM);
    let answer = asking.await.unwrap().unwrap();
    let refused = answer.refusal(503, "ServiceUnavailable");
    assert_eq!(refused["message"], "the server is shutting down");
    until(async || kubelet.open() == 0).await;
}

#[tokio::test]
async fn a_log_that_breaks_off_is_not_taken_for_a_complete_one() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        let call = Call::get(&format!("{PODS}/q/log?container=cut"));
        let mut log = client.lines(call).await.unwrap();
        assert_eq!(log.status.as_u16(), 200);
        assert_eq!(log.next().await.unwrap().unwrap(), "begun");
        assert!(log.next().await.is_err(), "it ends like a complete log");
    }
}

#[tokio::test]
async fn refusals_of_kubelets_become_statuses_cn_44() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    let client = daemon.client();
    let of_server = |text: &str| format!("{text} ( pods/log q)");
    for (container, code, reason, message) in [
        (
            "status-400",
            400,
            "BadRequest",
            "the kubelet says 400".to_owned(),
        ),
        (
            "status-401",
            401,
            "Unauthorized",
            of_server("the server has asked for the client to provide credentials"),
        ),
        (
            "status-403",
            403,
            "Forbidden",
            of_server("the kubelet says 403"),
        ),
        (
            "status-404",
            404,
            "NotFound",
            of_server("the server could not find the requested resource"),
        ),
        (
            "status-409",
            409,
            "Conflict",
            of_server("the server reported a conflict"),
        ),
        (
            "status-418",
            418,
            "InternalError",
            of_server(
                "an error on the server (\"the kubelet says 418\") has prevented the request from \
                 succeeding",
            ),
        ),
        (
            "status-429",
            429,
            "TooManyRequests",
            of_server(
                "the server has received too many requests and has asked us to try again later",
            ),
        ),
        (
            "status-500",
            500,
            "InternalError",
            "Internal error occurred: the kubelet says 500".to_owned(),
        ),
        (
            "status-503",
            503,
            "ServiceUnavailable",
            of_server("the server is currently unable to handle the request"),
        ),
    ] {
        let call = Call::get(&format!("{PODS}/q/log?container={container}"));
        let refused = client.call(call).await.refusal(code, reason);
        assert_eq!(refused["message"], message, "{container}");
        if message.contains("pods/log") {
            assert_eq!(refused["details"], json!({"name": "q", "kind": "pods/log"}));
        }
    }
    for (container, message) in [
        (
            "redirect",
            "Get \"/healthz\": redirects forbidden".to_owned(),
        ),
        (
            "silent",
            format!(
                "Get \"https://{}/containerLogs/default/q/silent\": EOF",
                kubelet.address
            ),
        ),
    ] {
        let call = Call::get(&format!("{PODS}/q/log?container={container}"));
        let refused = client.call(call).await.expect(500);
        assert_eq!(refused["message"], message, "{container}");
    }
    let call = Call::get(&format!("{PODS}/q/log?container=heads"));
    let refused = client.call(call).await.expect(500);
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("Get \"https://127.0.0.1:"), "{message}");
}

#[tokio::test]
async fn the_types_of_logs_are_negotiated_cn_40() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    let client = daemon.client();
    let path = format!("{PODS}/p/log");
    for accept in ["text/plain", "application/json, */*", "text/*;q=0.5"] {
        let answer = client.call(Call::get(&path).header("accept", accept)).await;
        assert_eq!(answer.status.as_u16(), 200, "{accept}");
        assert_eq!(answer.header("content-type"), Some("text/plain"));
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let refused = client.call(Call::get(&path).header("accept", table)).await;
    refused.refusal(406, "NotAcceptable");
    for method in ["POST", "PUT", "DELETE"] {
        let refused = client.call(Call::new(method, &path)).await;
        refused.refusal(405, "MethodNotAllowed");
    }
}

#[tokio::test]
async fn a_kubelet_is_trusted_by_its_authority_unless_the_client_says_otherwise_cn_38_cn_45() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.distrusting_flags()).await;
    let client = daemon.client();
    let path = format!("{PODS}/p/log");
    let refused = client.call(Call::get(&path)).await.expect(500);
    let untrusted = "tls: failed to verify certificate: x509: certificate signed by unknown \
                     authority";
    let url = format!("https://{}/containerLogs/default/p/main", kubelet.address);
    assert_eq!(refused["message"], format!("Get \"{url}\": {untrusted}"));
    let skipping = format!("{path}?insecureSkipTLSVerifyBackend=true");
    assert_eq!(client.call(Call::get(&skipping)).await.status.as_u16(), 200);
    let exec = format!("{PODS}/p/exec?command=a&insecureSkipTLSVerifyBackend=true");
    let asked = Asked::new("POST", &exec, "SPDY/3.1");
    let refused = asked.send(&daemon.target()).await.unwrap_err();
    let message = format!("\"message\":\"error dialing backend: {untrusted}\"");
    assert!(refused.contains(&message), "{refused}");
}

#[tokio::test]
async fn nodes_have_addresses_of_the_preferred_types_cn_37() {
    let kubelet = Kubelet::start().await;
    let mut flags = kubelet.flags();
    flags.push("--kubelet-preferred-address-types=ExternalIP,InternalIP".to_owned());
    let daemon = daemon(&kubelet, &flags).await;
    let client = daemon.client();
    let path = format!("{PODS}/p/log");
    let addresses = async |addresses: serde_json::Value| {
        let status = json!({"status": {"addresses": addresses}});
        let patch = Call::new("PATCH", "/api/v1/nodes/n/status");
        let patch = patch.body("application/merge-patch+json", status.to_string());
        client.call(patch).await.expect(200);
    };
    assert_eq!(client.call(Call::get(&path)).await.status.as_u16(), 200);
    addresses(json!([{"type": "Hostname", "address": "n"}])).await;
    let refused = client.call(Call::get(&path)).await.expect(500);
    let message = "no preferred addresses found; known addresses: [{Hostname n}]";
    assert_eq!(refused["message"], message);
    // An address can't choose another port or path.
    for address in [
        "127.0.0.1/",
        "127.0.0.1#",
        "127.0.0.1?",
        "a@127.0.0.1",
        "a b",
    ] {
        addresses(json!([{"type": "InternalIP", "address": address}])).await;
        let refused = client.call(Call::get(&path)).await.expect(500);
        let message = format!("the address {address:?} of node n is not that of a host");
        assert_eq!(refused["message"], message);
    }
    client
        .call(Call::delete("/api/v1/nodes/n"))
        .await
        .expect(200);
    for path in ["p/log", "p/exec?command=a", "p/portforward"] {
        let call = Call::get(&format!("{PODS}/{path}"));
        let refused = client.call(call).await.refusal(404, "NotFound");
        assert_eq!(refused["message"], "pods \"n\" not found", "{path}");
    }
}

async fn over_web_socket(daemon: &Daemon, path: &str, protocols: &str) -> Result<Upgraded, String> {
    let asked = Asked::web_socket(&format!("{PODS}/{path}"));
    let asked = match protocols {
        "" => asked,
        protocols => asked.header("Sec-WebSocket-Protocol", protocols),
    };
    asked.send(&daemon.target()).await
}

#[tokio::test]
async fn a_log_is_sent_in_messages_of_the_first_protocol_that_is_known_cn_120() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, &kubelet.flags()).await;
    let (binary, base64) = ("binary.k8s.io", "base64.binary.k8s.io");
    for (offered, chosen, first) in [
        ("", None, BINARY),
        (binary, Some(binary), BINARY),
        (
            "other, binary.k8s.io, base64.binary.k8s.io",
            Some(binary),
            BINARY,
        ),
        ("base64.binary.k8s.io, binary.k8s.io", Some(base64), TEXT),
    ] {
        let mut log = over_web_socket(&daemon, "p/log?tailLines=5", offered)
            .await
            .unwrap();
        let protocol = header(&log.head, "sec-websocket-protocol");
        assert_eq!(protocol.as_deref(), chosen);
        // An empty message says that the log begins.
        assert_eq!(log.frame().await, (first, Vec::new()));
        let mut text = Vec::new();
        let code = loop {
            match log.frame().await {
                (CLOSE, code) => break code,
                (TEXT, message) => text.extend(BASE64_STANDARD.decode(message).unwrap()),
                (_, message) => text.extend(message),
            }
        };
        assert_eq!(code, 1000_u16.to_be_bytes());
        assert_eq!(log.rest().await, b"");
        let asked = "/containerLogs/default/p/main?tailLines=5";
        assert_eq!(text, format!("{asked}\n").as_bytes());
        assert_eq!(kubelet.asked(), asked);
    }
    for (path, protocols, code) in [
        ("p/log", "v4.channel.k8s.io", 403),
        ("p/log?tailLines=x", "", 400),
        ("p/log?container=x", "", 400),
        ("none/log", "", 404),
        ("q/log?container=status-500", "", 500),
    ] {
        let refused = over_web_socket(&daemon, path, protocols).await.unwrap_err();
        assert!(
            refused.starts_with(&format!("HTTP/1.1 {code} ")),
            "{refused}"
        );
    }
    let no_key = Asked::new("GET", &format!("{PODS}/p/log"), "websocket");
    let refused = no_key.send(&daemon.target()).await.unwrap_err();
    assert!(
        refused.contains("Sec-WebSocket-Key is missing"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_log_over_websocket_grows_and_ends_with_each_side_cn_120() {
    let kubelet = Kubelet::start().await;
    let mut daemon = daemon(&kubelet, &kubelet.flags()).await;
    let running = async || daemon.count("apiserver_longrunning_requests").await;
    let open = async |daemon: &Daemon| {
        let path = "q/log?container=open&follow=true";
        let mut log = over_web_socket(daemon, path, "").await.unwrap();
        assert_eq!(log.frame().await, (BINARY, Vec::new()));
        assert_eq!(log.frame().await, (BINARY, b"one\n".to_vec()));
        log
    };
    let mut log = open(&daemon).await;
    assert_eq!(running().await, 1);
    // The client is answered meanwhile, and what it sends is dropped.
    log.send(1, b"nobody reads this").await;
    log.send(9, b"there?").await;
    assert_eq!(log.frame().await, (PONG, b"there?".to_vec()));
    kubelet.release();
    assert_eq!(log.frame().await, (BINARY, b"two\n".to_vec()));
    assert_eq!(log.closed().await, 1000);
    let mut closes = open(&daemon).await;
    closes.send(8, &[3, 232]).await;
    assert_eq!(closes.closed().await, 1000);
    drop(open(&daemon).await);
    until(async || running().await == 0 && kubelet.open() == 0).await;
    // A log that breaks off is not taken for a complete one.
    let mut cut = over_web_socket(&daemon, "q/log?container=cut", "")
        .await
        .unwrap();
    assert_eq!(cut.frame().await, (BINARY, Vec::new()));
    assert_eq!(cut.frame().await, (BINARY, b"begun\n".to_vec()));
    assert_eq!(cut.closed().await, 1011);

    let mut revoked = open(&daemon).await;
    let rotate = Call::new("POST", "/taffrail/v1/token/rotate");
    daemon.client().call(rotate).await.expect(200);
    assert_eq!(revoked.rest().await, b"");
    let stopped = open(&daemon).await;
    daemon.signal(Signal::TERM);
    assert_eq!(stopped.closed().await, 1001);
    let status = daemon.ended().await;
    assert!(status.success(), "{status}");
}
