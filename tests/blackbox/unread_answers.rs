//! Responses that their clients do not read, in every form: the bytes that the daemon holds for
//! them, and their content when they are finally read.

use std::io::Read;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::harness::frames::{self, DATA, Frames, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE};
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body, configmap};

const TIMEOUT: Duration = Duration::from_secs(120);

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const YAML_TABLE: &str = "application/yaml;as=Table;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const YAML_METADATA: &str = "application/yaml;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const PROTOBUF_METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Objects of 100 kB in a namespace. Their lists take 2 MB in all forms but metadata and Tables.
const OBJECTS: usize = 20;
const LARGE_BYTES: usize = 100_000;
/// The annotation of each object, so that lists of metadata are long, too.
const NOTE_BYTES: usize = 20_000;
/// The states that one object was in.
const CHANGES: usize = 20;

/// Unread answers of one HTTP/2 connection.
const STREAMS: u32 = 30;
/// 8 MiB, one answer, and a generous rest. Held whole, 30 lists take 60 MiB.
const GROWTH_MAX_MIB: f64 = 40.0;

/// A request for an answer in some form.
#[derive(Debug)]
struct Form {
    path: String,
    accept: &'static str,
    gzip: bool,
}

/// The forms of lists, and then all else that is long.
fn forms() -> Vec<Form> {
    let lists = [
        (CONFIGMAPS.to_owned(), "application/json"),
        (format!("{CONFIGMAPS}?pretty=true"), "application/json"),
        (CONFIGMAPS.to_owned(), "application/yaml"),
        (CONFIGMAPS.to_owned(), PROTOBUF),
        (format!("{CONFIGMAPS}?includeObject=Object"), TABLE),
        (
            format!("{CONFIGMAPS}?includeObject=Object&pretty=true"),
            TABLE,
        ),
        (format!("{CONFIGMAPS}?includeObject=Object"), YAML_TABLE),
        (CONFIGMAPS.to_owned(), METADATA),
        (CONFIGMAPS.to_owned(), YAML_METADATA),
        (CONFIGMAPS.to_owned(), PROTOBUF_METADATA),
        (format!("{CONFIGMAPS}?limit=15"), PROTOBUF),
        (format!("{CONFIGMAPS}?limit=15"), "application/json"),
    ];
    let others = [
        (
            format!("/taffrail/v1/history{}", configmap("many")),
            "application/json",
        ),
        (configmap("large-0"), "application/yaml"),
        ("/openapi/v2".to_owned(), "application/json"),
        (
            "/openapi/v2".to_owned(),
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        ),
        ("/openapi/v3/api/v1".to_owned(), "application/json"),
        (
            "/apis".to_owned(),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        ),
    ];
    let mut forms = Vec::new();
    for (path, accept) in lists.into_iter().chain(others) {
        for gzip in [false, true] {
            let path = path.clone();
            forms.push(Form { path, accept, gzip });
        }
    }
    forms
}

async fn fill(client: &Client) {
    for number in 0..OBJECTS {
        // It does not become small in a gzip body.
        let text = (0..LARGE_BYTES / 20).map(|n| format!("{:020}", (n * 7919 + number) ^ 0xabcdef));
        let mut object = body(&format!("large-{number}"), &text.collect::<String>());
        let note = format!("{number}: \"{}\"", "note, ".repeat(NOTE_BYTES / 6));
        object["metadata"]["annotations"] = json!({"note": note});
        client
            .call(Call::post(CONFIGMAPS, &object))
            .await
            .expect(201);
    }
    let many = |number: usize| body("many", &number.to_string().repeat(LARGE_BYTES));
    client
        .call(Call::post(CONFIGMAPS, &many(0)))
        .await
        .expect(201);
    for number in 1..CHANGES {
        client
            .call(Call::put(&configmap("many"), &many(number)))
            .await
            .expect(200);
    }
}

fn asked(form: &Form) -> Call {
    let encoding = if form.gzip { "gzip" } else { "identity" };
    Call::get(&form.path)
        .header("accept", form.accept)
        .header("accept-encoding", encoding)
}

/// A body as the client sees it. Ages in Tables change while the test runs.
fn content(form: &Form, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => GzDecoder::new(bytes)
            .read_to_end(&mut plain)
            .map(|_| ())
            .unwrap(),
        false => plain.extend_from_slice(bytes),
    }
    if form.accept.contains("as=Table") {
        plain.retain(|byte| !byte.is_ascii_digit() && !b"smh".contains(byte));
    }
    plain
}

/// A request on a stream of its own.
fn request(form: &Form, stream: u32, token: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    frames::literal(1, "localhost", &mut block);
    frames::literal(4, &form.path, &mut block);
    frames::literal(19, form.accept, &mut block);
    let encoding = if form.gzip { "gzip" } else { "identity" };
    frames::literal(16, encoding, &mut block);
    frames::literal(23, &format!("Bearer {token}"), &mut block);
    frames::frame(HEADERS, 5, stream, &block)
}

/// The bodies of the first streams of a connection, whose windows are opened now.
async fn read_at_last(connection: &mut Frames, streams: u32) -> Vec<Vec<u8>> {
    let mut windows = frames::frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    windows.extend(frames::frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    connection.write(&windows).await.unwrap();
    let mut bodies = vec![Vec::new(); streams as usize];
    let mut ended = 0;
    while ended < streams {
        let (kind, flags, stream, payload) = connection.next_with_flags().await.expect("a frame");
        assert_ne!(kind, RST_STREAM, "none is given up");
        if kind == DATA {
            bodies[(stream / 2) as usize].extend(payload);
            ended += u32::from(flags & 1);
        }
    }
    bodies
}

/// Asks for a form on many streams of a connection that reads nothing.
async fn grows_little(daemon: &Daemon, form: &Form, before: f64) {
    let token = daemon.token();
    let mut connection = Frames::open(&daemon.target(), 0).await.unwrap();
    for number in 0..STREAMS {
        connection
            .write(&request(form, 2 * number + 1, &token))
            .await
            .unwrap();
    }
    let mut heads = 0;
    while heads == 0 {
        let waiting = tokio::time::timeout(TIMEOUT, connection.settled()).await;
        let waiting = waiting.expect("an answer");
        heads = waiting.iter().filter(|frame| frame.0 == HEADERS).count();
    }
    let grown = daemon.resident() - before;
    println!("{heads} answered, {grown:.0} MiB more: {form:?}");
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB for {form:?}");
}

/// The answers that differ each time or don't end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_watches_metrics_and_backups_hold_little() {
    let daemon = Daemon::start().await;
    fill(&daemon.client()).await;
    let initial = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                   &resourceVersionMatch=NotOlderThan";
    let object = "includeObject=Object";
    let mut forms = Vec::new();
    for (path, accept) in [
        (format!("{CONFIGMAPS}?{initial}"), "application/json"),
        (
            format!("{CONFIGMAPS}?{initial}"),
            "application/json;stream=watch",
        ),
        (format!("{CONFIGMAPS}?{initial}"), PROTOBUF_WATCH),
        (format!("{CONFIGMAPS}?{initial}&{object}"), TABLE),
        (
            format!("{CONFIGMAPS}?watch=true&resourceVersion=0"),
            "application/json",
        ),
        ("/metrics".to_owned(), "text/plain"),
        ("/taffrail/v1/backup".to_owned(), "*/*"),
    ] {
        for gzip in [false, true] {
            let path = path.clone();
            forms.push(Form { path, accept, gzip });
        }
    }
    // The pages of metrics are as long later.
    daemon.client().call(Call::get("/metrics")).await;
    let before = daemon.resident();
    for form in &forms {
        grows_little(&daemon, form, before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_hold_little_in_every_form_and_are_whole_when_they_are_read() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    fill(&client).await;
    let token = daemon.token();
    let mut expected = Vec::new();
    for form in forms() {
        let answer = client.call(asked(&form)).await;
        assert_eq!(answer.status, 200, "{form:?}");
        expected.push(content(&form, &answer.body));
    }
    let before = daemon.resident();
    for (form, expected) in forms().iter().zip(&expected) {
        grows_little(&daemon, form, before).await;

        // Some are read at last, after a client had a window of a few bytes for a while.
        let mut connection = Frames::open(&daemon.target(), 5).await.unwrap();
        for number in 0..3 {
            connection
                .write(&request(form, 2 * number + 1, &token))
                .await
                .unwrap();
        }
        let mut begun = vec![Vec::new(); 3];
        for (kind, stream, payload) in connection.settled().await {
            if kind == DATA {
                begun[(stream / 2) as usize].extend(payload);
            }
        }
        let rest = tokio::time::timeout(TIMEOUT, read_at_last(&mut connection, 3));
        for (begun, rest) in begun.into_iter().zip(rest.await.expect("all of it")) {
            let got = content(form, &[begun, rest].concat());
            assert!(
                &got == expected,
                "{} bytes of {}: {form:?}",
                got.len(),
                expected.len()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_over_http1_hold_little_and_count() {
    const CONNECTIONS: usize = 12;
    const RECEIVE_BUFFER: u32 = 4096;
    /// More than the system keeps of an answer.
    const OBJECTS: usize = 40;
    const BYTES: usize = 250_000;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for number in 0..OBJECTS {
        let object = body(&format!("large-{number}"), &"x".repeat(BYTES));
        client
            .call(Call::post(CONFIGMAPS, &object))
            .await
            .expect(201);
    }
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let (token, before) = (daemon.token(), daemon.resident());
    let target = daemon.target().narrow(RECEIVE_BUFFER);
    for (query, accept) in [
        ("", "application/json"),
        ("?pretty=true", "application/json"),
        ("", "application/yaml"),
        ("", PROTOBUF),
        ("?includeObject=Object", TABLE),
    ] {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = target.tls(&[b"http/1.1"]).await.unwrap();
            let request = format!(
                "GET {CONFIGMAPS}{query} HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\n\
                 authorization: Bearer {token}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            connections.push(stream);
        }
        let counted = async {
            let least = (CONNECTIONS * BYTES) as u64;
            while daemon.count("taffrail_connections_held_bytes").await < least {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, counted)
            .await
            .expect("they count");
        client.call(Call::get("/healthz")).await;
        let grown = daemon.resident() - before;
        println!("{grown:.0} MiB more: {query} {accept}");
        assert!(grown < GROWTH_MAX_MIB, "{grown} MiB for {query} {accept}");
        drop(connections);
        let given_back = async {
            while daemon.count("taffrail_connections_held_bytes").await > 65_536 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, given_back)
            .await
            .expect("they are gone");
    }
}
