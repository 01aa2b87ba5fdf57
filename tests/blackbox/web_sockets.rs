//! Watches over WebSocket (WA-7, API-129). Logs are in `connections`.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::custom_resources::{establish, lamps, over_each};
use crate::harness::upgrades::{
    ACCEPTED, Asked, BINARY, CLOSE, KEY, PONG, TEXT, Upgraded, frame, header,
};
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Target, body, configmap, version};

const LAMPS: &str = "/apis/example.com/v1/namespaces/default/lamps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const WATCHES: &str = "apiserver_longrunning_requests";
const ORIGIN: &str = "https://example.com";

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn asked(path: &str) -> Asked {
    Asked::web_socket(path).header("Origin", ORIGIN)
}

async fn watch(target: &Target, path: &str) -> Upgraded {
    let watch = asked(path).send(target).await.unwrap();
    for (name, value) in [
        ("upgrade", Some("websocket")),
        ("connection", Some("Upgrade")),
        ("sec-websocket-accept", Some(ACCEPTED)),
        ("sec-websocket-protocol", None),
    ] {
        assert_eq!(header(&watch.head, name).as_deref(), value, "{name}");
    }
    watch
}

async fn written(client: &Client, call: Call) -> u64 {
    let answer = client.call(call).await;
    assert!(answer.status.is_success(), "{}", answer.text());
    version(&answer.json())
}

async fn count_becomes(daemon: &Daemon, watches: u64) {
    let start = Instant::now();
    while daemon.count(WATCHES).await != watches {
        assert!(start.elapsed() < LONG, "the watches do not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Creates and changes some objects. Returns the version before.
async fn history(client: &Client) -> u64 {
    establish(client, &lamps()).await;
    let from = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    for (name, path) in [("a", CONFIGMAPS), ("b", CONFIGMAPS)] {
        written(client, Call::post(path, &body(name, "1"))).await;
    }
    written(client, Call::put(&configmap("a"), &body("a", "2"))).await;
    client.call(Call::delete(&configmap("a"))).await.expect(200);
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp",
        "metadata": {"name": "l"}, "spec": {"colour": "red"}});
    written(client, Call::post(LAMPS, &lamp)).await;
    from
}

#[tokio::test]
async fn each_event_is_a_message_with_the_bytes_of_other_watches_in_every_form_wa_7() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let from = history(&client).await;
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let partial = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let of_metadata = format!("application/vnd.kubernetes.protobuf;{partial};stream=watch");
        let partial = format!("application/json;{partial}");
        let deprecated = CONFIGMAPS.replace("/v1/", "/v1/watch/");
        let json = "application/json";
        let [all, lamps] = [CONFIGMAPS, LAMPS].map(|path| format!("{path}?"));
        for (path, accept, events) in [
            (&all, json, 4),
            (&all, table, 4),
            (&all, &partial, 4),
            (&all, PROTOBUF, 4),
            (&all, &of_metadata, 4),
            (
                &format!("{all}fieldSelector=metadata.name%3Da&"),
                PROTOBUF,
                3,
            ),
            (&format!("{deprecated}?"), json, 4),
            (&format!("{deprecated}/a?"), json, 3),
            (&lamps, json, 1),
            (&lamps, table, 1),
        ] {
            let path = format!("{path}watch=true&resourceVersion={from}");
            let call = Call::get(&path).header("accept", accept);
            let mut plain = client.lines(call).await.unwrap();
            assert_eq!(plain.status, 200);
            let asked = asked(&path).header("Accept", accept);
            let mut watch = asked.send(&daemon.target()).await.unwrap();
            for _ in 0..events {
                let (first, message) = watch.frame().await;
                match accept.contains("protobuf") {
                    true => {
                        assert_eq!(first, BINARY, "{accept}");
                        assert_eq!(message, plain.frame().await.unwrap().unwrap());
                    }
                    false => {
                        assert_eq!(first, TEXT, "{accept}");
                        let line = plain.next().await.unwrap().unwrap();
                        assert_eq!(message, [&line[..], b"\n"].concat());
                    }
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_watch_goes_on_resumes_and_ends_in_time_with_a_bookmark_wa_7() {
    over_each(async |daemon: &Daemon| {
        let (client, target) = (daemon.client(), daemon.target());
        written(&client, Call::post(CONFIGMAPS, &body("a", "1"))).await;
        let of_a = "fieldSelector=metadata.name%3Da";
        let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
                     &resourceVersionMatch=NotOlderThan";
        let mut whole = watch(&target, &format!("{CONFIGMAPS}?{query}&{of_a}")).await;
        let first = whole.event().await;
        assert_eq!(first["type"], "ADDED");
        let end = whole.event().await;
        assert_eq!(end["type"], "BOOKMARK");
        let annotations = &end["object"]["metadata"]["annotations"];
        assert_eq!(annotations["k8s.io/initial-events-end"], "true");
        let mut from = version(&end["object"]);
        for number in 0..20 {
            let put = Call::put(&configmap("a"), &body("a", &format!("live {number}")));
            let wanted = written(&client, put).await;
            let live = whole.event().await;
            assert_eq!(live["type"], "MODIFIED");
            assert_eq!(version(&live["object"]), wanted);
            let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
            let mut resumed = watch(&target, &format!("{path}&{of_a}")).await;
            assert_eq!(resumed.event().await, live);
            from = wanted;
        }
        let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
        let path = format!("{path}&{of_a}&timeoutSeconds=3&allowWatchBookmarks=true");
        let mut short = watch(&target, &path).await;
        // A bookmark needs something to say.
        written(&client, Call::post(CONFIGMAPS, &body("b", "1"))).await;
        let (mut code, mut bookmarks) = (Vec::new(), 0);
        while code.is_empty() {
            match short.frame().await {
                (TEXT, message) => {
                    let event: serde_json::Value = serde_json::from_slice(&message).unwrap();
                    assert_eq!(event["type"], "BOOKMARK");
                    bookmarks += 1;
                }
                (first, content) => {
                    assert_eq!(first, CLOSE);
                    code = content;
                }
            }
        }
        assert!(bookmarks > 0);
        assert_eq!(code, 1000_u16.to_be_bytes());
        assert_eq!(short.rest().await, b"");
    })
    .await;
}

#[tokio::test]
async fn what_refuses_a_watch_is_an_ordinary_answer_wa_7() {
    let daemon = Daemon::with_users("t-ann,ann,u-ann\n", &["--max-watches=8"]).await;
    let target = daemon.target();
    let path = format!("{CONFIGMAPS}?watch=true");
    let refused = async |target: &Target, asked: Asked| asked.send(target).await.unwrap_err();
    for (target, asked, code) in [
        (&target.with_token("nobody"), asked(&path), 401),
        (&target.with_token("t-ann"), asked(&path), 403),
        (
            &target,
            asked(&format!("{path}&fieldSelector=bogus%3Da")),
            400,
        ),
        (&target, asked(&format!("{path}&resourceVersion=x")), 500),
        (&target, asked(&format!("{path}&continue=x")), 422),
        (
            &target,
            asked(&path).header("Accept", "application/yaml"),
            406,
        ),
        (&target, asked("/api/v1/none?watch=true"), 404),
        // Others are no watches, and their answers are lists.
        (&target, asked(CONFIGMAPS), 200),
    ] {
        let answer = refused(target, asked).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
    }
    let new = |method: &str, upgrade: &str| Asked::new(method, &path, upgrade);
    let origin = |asked: Asked| asked.header("Origin", ORIGIN);
    let version = |asked: Asked| asked.header("Sec-WebSocket-Version", "13");
    let key = |asked: Asked| asked.header("Sec-WebSocket-Key", KEY);
    for (asked, code, why) in [
        (
            origin(version(new("GET", "websocket"))),
            400,
            "Sec-WebSocket-Key is missing",
        ),
        (
            origin(key(new("GET", "websocket"))),
            400,
            "Sec-WebSocket-Version must be 13",
        ),
        (
            origin(key(new("GET", "websocket"))).header("Sec-WebSocket-Version", "8"),
            400,
            "Sec-WebSocket-Version must be 13",
        ),
        (
            version(key(new("GET", "websocket"))),
            403,
            "the header Origin must be a URL",
        ),
        (
            version(key(new("GET", "websocket"))).header("Origin", "null"),
            403,
            "the header Origin must be a URL",
        ),
        (
            asked(&path).header("Sec-WebSocket-Protocol", "one, other"),
            400,
            "at most one protocol",
        ),
        (
            asked(&path)
                .header("Sec-WebSocket-Protocol", "one")
                .header("Sec-WebSocket-Protocol", "other"),
            400,
            "at most one protocol",
        ),
    ] {
        let answer = refused(&target, asked).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
        assert!(answer.contains(why), "{answer}");
        assert_eq!(header(&answer, "sec-websocket-version").unwrap(), "13");
    }
    // Bodies are no part of a handshake.
    let with_body = asked(&path).header("Content-Length", "2");
    let answer = refused(&target, with_body).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // None of these has kept a seat.
    count_becomes(&daemon, 0).await;
    let mut open = Vec::new();
    for _ in 0..7 {
        open.push(watch(&target, &path).await);
    }
    assert_eq!(daemon.count(WATCHES).await, 7);
    let answer = refused(&target, asked(&path)).await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert_eq!(header(&answer, "retry-after").unwrap(), "10");
    drop(open);
    count_becomes(&daemon, 0).await;
}

#[tokio::test]
async fn handshakes_are_read_as_kube_apiserver_reads_them_wa_7() {
    let daemon = Daemon::start().await;
    let target = daemon.target();
    let path = format!("{CONFIGMAPS}?watch=true");
    for (connection, upgrade) in [
        ("keep-alive, UPGRADE", "WebSocket"),
        ("upgrade", "WEBSOCKET"),
        ("keep-alive\r\nConnection: Upgrade", "websocket"),
    ] {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\nUpgrade: {upgrade}\r\n"
        );
        let asked = Asked { head };
        // Kubernetes takes any key.
        let asked = asked
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "short")
            .header("Origin", ORIGIN)
            .header("Sec-WebSocket-Protocol", "whatever.example.com");
        let watch = asked.send(&target).await.unwrap();
        let protocol = header(&watch.head, "sec-websocket-protocol");
        assert_eq!(protocol.unwrap(), "whatever.example.com");
    }
    // These ask for no WebSocket, and get a stream.
    let plain = daemon.client_http1();
    for (connection, upgrade) in [("keep-alive", "websocket"), ("Upgrade", "h2c")] {
        let call = Call::get(&path)
            .header("connection", connection)
            .header("upgrade", upgrade)
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", KEY);
        let stream = plain.lines(call).await.unwrap();
        assert_eq!(stream.status, 200);
        let of = stream.headers.get("content-type").unwrap();
        assert_eq!(of, "application/json");
    }
    // A browser can set no header: the token is one of the protocols.
    let token = BASE64_URL_SAFE_NO_PAD.encode(daemon.token());
    let token = format!("base64url.bearer.authorization.k8s.io.{token}");
    let of_browser = |protocols: &str| asked(&path).header("Sec-WebSocket-Protocol", protocols);
    let watch = of_browser(&format!("{token}, events.example.com"));
    let watch = watch.send(&target.anonymous()).await.unwrap();
    let protocol = header(&watch.head, "sec-websocket-protocol");
    assert_eq!(protocol.unwrap(), "events.example.com");
    let alone = of_browser(&token).send(&target.anonymous()).await;
    let alone = alone.unwrap_err();
    assert!(alone.starts_with("HTTP/1.1 401 "), "{alone}");
}

#[tokio::test]
async fn what_a_client_sends_is_dropped_and_answered_by_the_rules_wa_7() {
    let daemon = Daemon::start().await;
    let (client, target) = (daemon.client(), daemon.target());
    let from = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
    let mut talks = watch(&target, &path).await;
    talks.send(9, b"there?").await;
    assert_eq!(talks.frame().await, (PONG, b"there?".to_vec()));
    // Messages in parts, with a ping between them.
    let mut parts = frame(1, b"nobody ");
    parts[0] = 1;
    parts.extend(frame(9, b""));
    parts.extend(frame(0, b"reads this"));
    parts.extend(frame(2, &[7; 100_000]));
    talks.stream.write_all(&parts).await.unwrap();
    assert_eq!(talks.frame().await, (PONG, Vec::new()));
    written(&client, Call::post(CONFIGMAPS, &body("a", "1"))).await;
    assert_eq!(talks.event().await["type"], "ADDED");
    // The close of the client is answered.
    talks.send(8, &[3, 233]).await;
    assert_eq!(talks.closed().await, 1000);

    // One that violates the protocol: its frame is not masked.
    let mut wrong = watch(&target, "/api/v1/secrets?watch=true&resourceVersion=1").await;
    wrong.stream.write_all(&[0x81, 1, 0]).await.unwrap();
    assert_eq!(wrong.closed().await, 1002);
    // One that goes without a word.
    drop(watch(&target, &path).await);
    count_becomes(&daemon, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_without_end_is_charged_for_it_and_disturbs_no_other_wa_7() {
    const SENT: usize = 200 << 20;
    const GROWTH_MAX_MIB: f64 = 30.0;
    let daemon = Daemon::with(&["--http-threads=1"]).await;
    let (client, target) = (daemon.client(), daemon.target());
    let from = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
    let mut other = watch(&target, &path).await;
    let before = daemon.resident();
    // Each message may be long, and there may be any number of them.
    let (mut reading, mut writing) = {
        let sender = watch(&target, &path).await;
        tokio::io::split(sender.stream)
    };
    let sending = tokio::spawn(async move {
        let message = frame(2, &vec![7; 8 << 20]);
        let mut sent = 0;
        while sent < SENT {
            writing.write_all(&message).await.unwrap();
            sent += message.len();
        }
        writing
    });
    let mut wanted = 0;
    while !sending.is_finished() || wanted == 0 {
        let name = format!("c-{wanted}");
        let created = written(&client, Call::post(CONFIGMAPS, &body(&name, "1"))).await;
        assert_eq!(version(&other.event().await["object"]), created);
        wanted += 1;
    }
    let mut writing = sending.await.unwrap();
    let grown = daemon.resident() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");
    // One message of more than 32 MiB closes the connection.
    let mut endless = frame(2, &[]);
    endless[1] = 0x80 | 127;
    endless.splice(2..2, (1_u64 << 40).to_be_bytes());
    let _ = writing.write_all(&endless).await;
    let piece = vec![7; 1 << 20];
    let mut sent = 0;
    while writing.write_all(&piece).await.is_ok() {
        sent += piece.len();
        assert!(sent < SENT, "it is read without end");
    }
    let mut last = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut last).await;
    count_becomes(&daemon, 1).await;
    assert!(daemon.count("taffrail_watch_frames_sent_total").await >= wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_read_nothing_hold_little_and_lose_nothing_wa_7() {
    const CLIENTS: usize = 40;
    const GROWTH_MAX_MIB: f64 = 40.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let from = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
    let narrow = daemon.target().narrow(4096);
    let mut stuck = Vec::new();
    for _ in 0..CLIENTS {
        stuck.push(watch(&narrow, &path).await);
    }
    let mut quick = watch(&daemon.target(), &path).await;
    let before = daemon.resident();
    let large = "x".repeat(100_000);
    let mut wanted = Vec::new();
    for number in 0..100 {
        let value = format!("{number}-{large}");
        let call = match number {
            0 => Call::post(CONFIGMAPS, &body("a", &value)),
            _ => Call::put(&configmap("a"), &body("a", &value)),
        };
        wanted.push(written(&client, call).await);
        assert_eq!(version(&quick.event().await["object"]), wanted[number]);
    }
    // All that they are sent would take 400 MB.
    let grown = daemon.resident() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");
    assert_eq!(daemon.count(WATCHES).await, CLIENTS as u64 + 1);
    let mut slow = stuck.swap_remove(7);
    for wanted in &wanted {
        assert_eq!(version(&slow.event().await["object"]), *wanted);
    }
    drop(stuck);
    count_becomes(&daemon, 2).await;
}

#[tokio::test]
async fn a_revoked_token_ends_its_watches_wa_7() {
    let daemon = Daemon::start().await;
    let path = format!("{CONFIGMAPS}?watch=true");
    let mut revoked = watch(&daemon.target(), &path).await;
    let rotate = Call::new("POST", "/taffrail/v1/token/rotate");
    daemon.client().call(rotate).await.expect(200);
    let rest = revoked.rest().await;
    assert!(!rest.contains(&CLOSE), "the connection is cut");
    count_becomes(&daemon, 0).await;
    assert_eq!(daemon.count("taffrail_watches_revoked_total").await, 1);
}

#[tokio::test]
async fn watches_get_their_bookmark_and_1001_when_the_daemon_stops_wa_7() {
    let mut daemon = Daemon::with(&["--watch-cache-sizes=secrets#0"]).await;
    let (client, target) = (daemon.client(), daemon.target());
    let from = written(&client, Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
    let path = format!("{path}&fieldSelector=metadata.name%3Da");
    let mut marked = watch(&target, &format!("{path}&allowWatchBookmarks=true")).await;
    let other = watch(&target, &path).await;
    let uncached = watch(&target, "/api/v1/secrets?watch=true&resourceVersion=1").await;
    // A bookmark needs something to say.
    let last = written(&client, Call::post(CONFIGMAPS, &body("b", "1"))).await;
    daemon.signal(Signal::TERM);
    let bookmark = marked.event().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert!(version(&bookmark["object"]) >= last);
    assert_eq!(marked.closed().await, 1001);
    assert_eq!(other.closed().await, 1001);
    assert_eq!(uncached.closed().await, 1001);
    let status = daemon.ended().await;
    assert!(status.success(), "{status}");
    let log = daemon.stderr();
    assert!(!log.contains("connections were cut"), "{log}");
}
