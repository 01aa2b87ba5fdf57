//! Extensions that are down, slow or hostile harm nobody but themselves (CN-33, CN-34).

use std::time::Duration;

use rustix::process::Signal;

use super::{GROUP, PATIENCE, install_at, until};
use crate::harness::hostile_server::{Act, HostileServer, http};
use crate::harness::{Call, Client, Daemon, Protocol};

const WITHIN: &str = "/apis/a.example/v1/namespaces/default";

async fn hostile() -> HostileServer {
    HostileServer::start(|asked| {
        let path = asked.path();
        let head = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
        let after = path.rsplit('/').next().unwrap().split('?').next().unwrap();
        match after {
            "closes" => Act::Close(Vec::new()),
            "resets" => Act::Reset(Vec::new()),
            "nonsense" => Act::Close(b"nonsense\r\n\r\n".to_vec()),
            "headers" => Act::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-A: b\r\n".to_vec()),
            "half" => Act::Close([head("content-length: 100\r\n"), b"half".to_vec()].concat()),
            "broken" => Act::Close(
                [
                    head("transfer-encoding: chunked\r\n"),
                    b"4\r\nhalf\r\n".to_vec(),
                ]
                .concat(),
            ),
            "wrong" => {
                Act::Close([head("transfer-encoding: chunked\r\n"), b"zz\r\n".to_vec()].concat())
            }
            "drips" => Act::Drip(
                head("transfer-encoding: chunked\r\n"),
                b"1\r\nx\r\n".to_vec(),
            ),
            "silent" => Act::Silence,
            "moves" => http(302, "Location: https://127.0.0.1:1/elsewhere\r\n", ""),
            "moved" => http(304, "", ""),
            "pages" => http(
                200,
                "Content-Type: text/html\r\n",
                "<a href=/x>a</a> <a href='y'>",
            ),
            "made" => http(201, "Location: /apis/a.example/v1/x\r\n", "{}"),
            "twice" => Act::Close(
                [
                    head("content-length: 2\r\ncontent-length: 5\r\n"),
                    b"okokok".to_vec(),
                ]
                .concat(),
            ),
            "cors" => http(
                200,
                "Access-Control-Allow-Origin: *\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
                 Set-Cookie: a\r\nSet-Cookie: b\r\nRetry-After: 7\r\n",
                "{}",
            ),
            "switches" => {
                Act::Bytes(b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_vec())
            }
            _ => http(200, "", "{}"),
        }
    })
    .await
}

fn port(server: &HostileServer) -> u16 {
    server.url.rsplit(':').next().unwrap().parse().unwrap()
}

/// The status and text of an answer, or nothing if it was broken off.
async fn told(client: &Client, path: &str) -> Option<(u16, String)> {
    let calling = client.attempt(Call::get(&format!("{WITHIN}/{path}")));
    let answer = tokio::time::timeout(PATIENCE, calling)
        .await
        .expect("it hangs");
    answer
        .ok()
        .map(|answer| (answer.status.as_u16(), answer.text()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_extensions_have_words_and_broken_bodies_are_broken_off_cn_32_cn_33_cn_34() {
    let daemon = Daemon::start().await;
    let server = hostile().await;
    install_at(&daemon.client(), GROUP, port(&server)).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        let text = |path: &'static str| {
            let client = &client;
            async move {
                let (code, text) = told(client, path).await.unwrap_or((0, String::new()));
                assert_eq!(code, 503, "{path}: {text}");
                text
            }
        };
        let unreachable = "error trying to reach service: ";
        assert_eq!(text("closes").await, format!("{unreachable}EOF\n"));
        for path in ["resets", "nonsense", "headers", "twice", "switches"] {
            let text = text(path).await;
            assert!(text.starts_with(unreachable), "{path}: {text}");
        }
        for path in ["half", "broken", "wrong"] {
            assert_eq!(told(&client, path).await, None, "{path} over {protocol:?}");
        }
        let redirect = "the backend attempted to redirect this request, which is not permitted";
        assert_eq!(
            told(&client, "moves").await,
            Some((502, redirect.to_owned()))
        );
        assert_eq!(told(&client, "moved").await, Some((304, String::new())));
        let made = client.call(Call::get(&format!("{WITHIN}/made"))).await;
        let at = server.url.strip_prefix("https://").unwrap();
        let location = format!("https://{at}/apis/a.example/v1/x");
        assert_eq!(made.header("location"), Some(location.as_str()));
        let page = client.call(Call::get(&format!("{WITHIN}/pages"))).await;
        let page = page.text();
        assert_eq!(
            page,
            format!("<a href=\"https://{at}/x\">a</a> <a href='y'>")
        );
        let cors = client.call(Call::get(&format!("{WITHIN}/cors"))).await;
        assert_eq!(cors.header("access-control-allow-origin"), None);
        assert_eq!(cors.header("x-hop"), None);
        assert_eq!(cors.header("retry-after"), Some("7"));
        assert_eq!(cors.headers.get_all("set-cookie").iter().count(), 2);
        // A body that goes on for ever ends with the time of its request.
        let (began, path) = (std::time::Instant::now(), "drips?timeout=1s");
        assert_eq!(told(&client, path).await, None);
        assert!(began.elapsed() >= Duration::from_secs(1));
        let silent = told(&client, "silent?timeout=1s").await.unwrap();
        assert_eq!(silent.0, 504, "{}", silent.1);
    }
    // Others are served meanwhile.
    let stuck: Vec<_> = (0..20)
        .map(|_| {
            let client = daemon.client();
            tokio::spawn(async move { told(&client, "silent?timeout=20s").await })
        })
        .collect();
    let client = daemon.client();
    for path in ["/api/v1/namespaces", "/apis", "/apis/a.example/v1"] {
        let within = tokio::time::timeout(Duration::from_secs(10), client.call(Call::get(path)));
        assert_eq!(within.await.expect("it is held up").status, 200, "{path}");
    }
    stuck.iter().for_each(tokio::task::JoinHandle::abort);
    // A request that comes back again and again is stopped.
    let hops = vec!["10.0.0.1"; 40].join(", ");
    let call = Call::get(&format!("{WITHIN}/x")).header("x-forwarded-for", &hops);
    assert_eq!(client.call(call).await.status, 508);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_users_who_lose_access_end_and_a_stop_waits_for_none_cn_32() {
    let mut daemon = Daemon::start().await;
    let server = hostile().await;
    let client = daemon.client();
    install_at(&client, GROUP, port(&server)).await;
    let old = daemon.target().with_token(&daemon.token()).client();
    let mut watch = old
        .lines(Call::get(&format!("{WITHIN}/drips?watch=true")))
        .await
        .unwrap();
    let reading = tokio::spawn(async move { watch.next().await.is_err() });
    let rotated = client
        .call(Call::new("POST", "/taffrail/v1/token/rotate"))
        .await;
    rotated.expect(200);
    let ended = tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("it goes on");
    assert!(ended.unwrap(), "it is not broken off");
    let client = daemon.client();
    let path = "/api/v1/namespaces";
    until(&client, || Call::get(path), |answer| answer.status == 200).await;
    let mut watch = client
        .lines(Call::get(&format!("{WITHIN}/drips?watch=true")))
        .await
        .unwrap();
    let reading = tokio::spawn(async move { watch.next().await });
    // A watch without an answer does not hold the stop up either.
    let unanswered = daemon.client();
    let call = Call::get(&format!("{WITHIN}/silent?watch=true"));
    let asking = tokio::spawn(async move { unanswered.attempt(call).await });
    let is_asked = || {
        server
            .asked()
            .iter()
            .any(|asked| asked.path().contains("/silent"))
    };
    while !is_asked() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = std::time::Instant::now();
    daemon.stop(Signal::TERM).await;
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "the watch holds the stop up"
    );
    let _ = tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("it goes on");
    let refused = tokio::time::timeout(PATIENCE, asking).await;
    let refused = refused.expect("it goes on").unwrap().unwrap();
    assert_eq!(refused.status, 503);
    assert_eq!(refused.text(), "the server is shutting down\n");
}
