//! Bad answers of admission webhooks: transport, HTTP, bodies, envelopes and refusals (HK-30 to
//! HK-41).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{NAME, configurations, create, install, number, remove, responds, reviewed, webhook};
use crate::harness::hostile_server::{Act, Asked, HostileServer, http};
use crate::harness::{CONFIGMAPS, Call, Client, Daemon};

/// How an answer ends the request.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The call has failed, so failurePolicy decides.
    Call,
    /// The webhook has refused the request with this code.
    Refusal(u16),
    /// The request goes on.
    Goes,
}

type Respond = Box<dyn Fn(&Asked) -> Act + Send + Sync>;

/// A bad answer, its end, and a part of the message that it causes.
struct Case {
    name: &'static str,
    end: End,
    text: &'static str,
    respond: Respond,
}

fn case(
    name: &'static str,
    end: End,
    text: &'static str,
    respond: impl Fn(&Asked) -> Act + Send + Sync + 'static,
) -> Case {
    Case {
        name,
        end,
        text,
        respond: Box::new(respond),
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const LATE: &str = "context deadline exceeded";
const CUT: &str = "unexpected error when reading response body. Please retry. Original error:";
const UNREADABLE: &str = "couldn't get version/kind; json parse error: ";

fn padded(asked: &Asked, bytes: usize) -> String {
    format!("{}{}", " ".repeat(bytes), reviewed(asked, &json!({})))
}

/// An allowing review with some text replaced.
fn altered(from: &'static str, to: impl Into<String>) -> impl Fn(&Asked) -> Act + Send + Sync {
    let to = to.into();
    move |asked| {
        let text = reviewed(asked, &json!({})).to_string();
        assert!(text.contains(from), "{from}");
        http(200, "", text.replacen(from, &to, 1))
    }
}

fn of_transport() -> Vec<Case> {
    let chunk = |byte: u8| {
        let mut chunk = b"10000\r\n".to_vec();
        chunk.resize(chunk.len() + 0x10000, byte);
        chunk.extend(b"\r\n");
        chunk
    };
    vec![
        case("silence", End::Call, LATE, |_| Act::Silence),
        case("closed", End::Call, ": EOF", |_| Act::Close(Vec::new())),
        case(
            "reset",
            End::Call,
            "read tcp: read: connection reset by peer",
            |_| Act::Reset(Vec::new()),
        ),
        case(
            "reset inside",
            End::Call,
            "failed to call webhook: ",
            |_| Act::Reset([OK, b"content-length: 100\r\n\r\n{"].concat()),
        ),
        case("half", End::Call, CUT, |asked| {
            let body = reviewed(asked, &json!({})).to_string();
            let head = format!("content-length: {}\r\n\r\n", body.len() + 1);
            Act::Close([OK, head.as_bytes(), body.as_bytes()].concat())
        }),
        case("no HTTP", End::Call, "malformed HTTP response", |_| {
            Act::Close(b"220 mail.example.com ESMTP\r\n\r\n".to_vec())
        }),
        case("endless headers", End::Call, "Post \"https://", |_| {
            Act::Endless(
                OK.to_vec(),
                b"x-more: 0123456789012345678901234567890\r\n".to_vec(),
            )
        }),
        case("an endless header", End::Call, "Post \"https://", |_| {
            Act::Endless([OK, b"x-more: "].concat(), vec![b'x'; 4096])
        }),
        case("headers by drops", End::Call, LATE, |_| {
            Act::Drip(OK.to_vec(), b"x: y\r\n".to_vec())
        }),
        case("a body by drops", End::Call, LATE, |_| {
            Act::Drip(CHUNKED.to_vec(), b"1\r\n \r\n".to_vec())
        }),
        case("an endless body", End::Call, "too large", move |_| {
            Act::Endless(CHUNKED.to_vec(), chunk(b' '))
        }),
        case("17 MiB", End::Call, "too large", |asked| {
            http(200, "", padded(asked, 17 << 20))
        }),
        case("a length beyond all", End::Call, "Post \"https://", |_| {
            Act::Close([OK, b"content-length: 99999999999999999999\r\n\r\n"].concat())
        }),
    ]
}

fn of_http() -> Vec<Case> {
    let to = |code: u16, place: &'static str| {
        move |_: &Asked| http(code, &format!("location: {place}\r\n"), "")
    };
    let later = |seconds: &'static str| {
        move |_: &Asked| http(503, &format!("retry-after: {seconds}\r\n"), "")
    };
    vec![
        case(
            "500",
            End::Call,
            "an error on the server (\"unknown\")",
            |asked| http(500, "", reviewed(asked, &json!({})).to_string()),
        ),
        case(
            "403 of a Status",
            End::Call,
            "failed to call webhook: xxxx",
            |_| {
                let message = "x".repeat(2 << 20);
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": message});
                http(403, "", status.to_string())
            },
        ),
        case(
            "a loop",
            End::Call,
            "stopped after 10 redirects",
            to(307, "/again"),
        ),
        case(
            "a loop of GETs",
            End::Call,
            "stopped after 10 redirects",
            to(302, "/again"),
        ),
        case(
            "to another scheme",
            End::Call,
            "unsupported protocol scheme",
            to(307, "file:///a"),
        ),
        case(
            "to nowhere",
            End::Call,
            "connection refused",
            to(307, "http://127.0.0.1:1/x"),
        ),
        case(
            "to no URL",
            End::Call,
            "failed to parse Location header",
            to(307, "/a b"),
        ),
        case("without a place", End::Call, "status code 307", |_| {
            http(307, "", "")
        }),
        case(
            "later than ever",
            End::Call,
            LATE,
            later("18446744073709551615"),
        ),
        case("later than the end", End::Call, LATE, later("30")),
        case(
            "before",
            End::Call,
            "currently unable to handle",
            later("-1"),
        ),
        case(
            "some time",
            End::Call,
            "currently unable to handle",
            later("tomorrow"),
        ),
        case(
            "at once, always",
            End::Call,
            "currently unable to handle",
            later("0"),
        ),
    ]
}

fn of_bodies() -> Vec<Case> {
    let bytes = |body: Vec<u8>| move |_: &Asked| http(200, "", body.clone());
    // The beginning of a gzip stream, for which nobody has asked.
    let packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0];
    let members = format!("{{{}\"a\":0}}", "\"a\":0,".repeat(500_000));
    let lists = format!("{{\"x\":[{}0]}}", "[],".repeat(5_000_000));
    let names: String = (0..600_000)
        .map(|number| format!("\"{number}\":0,"))
        .collect();
    vec![
        case(
            "nothing",
            End::Call,
            "0-length response with status code: 200",
            |_| http(200, "content-type: application/json\r\n", ""),
        ),
        case(
            "no content",
            End::Call,
            "0-length response with status code: 204",
            |_| Act::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        ),
        case("garbage", End::Call, UNREADABLE, bytes(vec![b'%'; 100])),
        case("no UTF-8", End::Call, UNREADABLE, bytes(vec![0xff; 100])),
        case("gzip", End::Call, UNREADABLE, bytes(packed)),
        case("a list", End::Call, UNREADABLE, bytes(b"[]".to_vec())),
        case(
            "10,001 levels",
            End::Call,
            UNREADABLE,
            bytes({
                let text = format!("{{\"x\":{}{}}}", "[".repeat(10_001), "]".repeat(10_001));
                text.into_bytes()
            }),
        ),
        case(
            "a million brackets",
            End::Call,
            UNREADABLE,
            bytes(vec![b'['; 1 << 20]),
        ),
        case(
            "equal members",
            End::Call,
            "webhook response was absent",
            bytes(members.into()),
        ),
        case("tiny lists", End::Call, UNREADABLE, bytes(lists.into())),
        case(
            "many members",
            End::Call,
            "expands to too much data",
            bytes(format!("{{{names}\"\":0}}").into()),
        ),
        case(
            "aliases",
            End::Call,
            UNREADABLE,
            bytes({
                let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
                for level in 1..12 {
                    let below = format!("*a{},", level - 1).repeat(10);
                    text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
                }
                text.into_bytes()
            }),
        ),
        case(
            "null",
            End::Call,
            "webhook response was absent",
            bytes(b"null".to_vec()),
        ),
    ]
}

fn of_envelopes() -> Vec<Case> {
    let other_uid = |asked: &Asked| responds(asked, &json!({"uid": "y".repeat(1 << 20)}));
    vec![
        case(
            "another uid",
            End::Call,
            "expected response.uid=",
            other_uid,
        ),
        case("no uid", End::Call, "got \"\"", |asked| {
            responds(asked, &json!({"uid": ""}))
        }),
        case(
            "another version",
            End::Call,
            "unknown conversion",
            altered("admission.k8s.io/v1", "admission.k8s.io/v1beta1"),
        ),
        case(
            "no version",
            End::Call,
            "no kind \"AdmissionReview\" is registered",
            altered("admission.k8s.io/v1", "admission.k8s.io/v9"),
        ),
        case(
            "another group",
            End::Call,
            "no kind \"AdmissionReview\" is registered",
            altered("admission.k8s.io/v1", "apps/v1"),
        ),
        case(
            "a long kind",
            End::Call,
            "is registered for version",
            altered("AdmissionReview", "K".repeat(1 << 20)),
        ),
        case(
            "another kind",
            End::Call,
            "no kind \"TokenReview\" is registered",
            altered("AdmissionReview", "TokenReview"),
        ),
        case(
            "a text for true",
            End::Call,
            "AdmissionResponse.response.allowed of type bool",
            altered(":true", ":\"true\""),
        ),
        case(
            "a number for true",
            End::Call,
            "AdmissionResponse.response.allowed of type bool",
            altered(":true", ":1"),
        ),
        case(
            "a list of responses",
            End::Call,
            "of type v1.AdmissionResponse",
            |asked| {
                let mut review = reviewed(asked, &json!({}));
                review["response"] = json!([review["response"]]);
                http(200, "", review.to_string())
            },
        ),
        case("a code beyond int32", End::Call, "of type int32", |asked| {
            responds(
                asked,
                &json!({"allowed": false, "status": {"code": 1_u64 << 40}}),
            )
        }),
        case("another content type", End::Goes, "", |asked| {
            let body = reviewed(asked, &json!({})).to_string();
            http(200, "content-type: image/png\r\n", body)
        }),
        case("300 levels beside", End::Goes, "", |asked| {
            let mut text = reviewed(asked, &json!({})).to_string();
            text.insert_str(1, &format!("\"x\":{}{},", "[".repeat(300), "]".repeat(300)));
            http(200, "", text)
        }),
        case("unknown members", End::Goes, "", |asked| {
            responds(asked, &json!({"x": "y".repeat(1 << 20)}))
        }),
        case("almost 16 MiB", End::Goes, "", |asked| {
            http(200, "", padded(asked, 16_700_000))
        }),
        case("created", End::Goes, "", |asked| {
            http(201, "", reviewed(asked, &json!({})).to_string())
        }),
    ]
}

fn of_refusals() -> Vec<Case> {
    let no = |status: Value| {
        move |asked: &Asked| responds(asked, &json!({"allowed": false, "status": status}))
    };
    let denied = "denied the request";
    let many: Vec<Value> = vec![json!({"message": "m".repeat(100), "field": "f"}); 2_000];
    let long = "x".repeat(1 << 20);
    let details = json!({
        "name": long, "group": long, "kind": long, "uid": long, "causes": many,
        "retryAfterSeconds": -5,
    });
    vec![
        case(
            "no allowance",
            End::Refusal(400),
            "without explanation",
            |asked| responds(asked, &json!({"allowed": null})),
        ),
        case(
            "a refusal that succeeds",
            End::Refusal(400),
            "denied the request: yes",
            no(json!({"status": "Success", "code": 200, "message": "yes"})),
        ),
        case(
            "a negative code",
            End::Refusal(400),
            denied,
            no(json!({"code": -1})),
        ),
        case(
            "the least code",
            End::Refusal(400),
            denied,
            no(json!({"code": i32::MIN})),
        ),
        case(
            "a code of three digits",
            End::Refusal(999),
            denied,
            no(json!({"code": 999})),
        ),
        case(
            "a code of four digits",
            End::Refusal(500),
            denied,
            no(json!({"code": 1000})),
        ),
        case(
            "the greatest code",
            End::Refusal(500),
            denied,
            no(json!({"code": i32::MAX})),
        ),
        case(
            "a refusal of megabytes",
            End::Refusal(403),
            denied,
            no(json!({"code": 403, "message": long, "reason": long, "details": details})),
        ),
        case("a refusal with a patch", End::Refusal(400), "", |asked| {
            responds(asked, &json!({"allowed": false}))
        }),
    ]
}

fn of_additions() -> Vec<Case> {
    let warned =
        |warnings: Value| move |asked: &Asked| responds(asked, &json!({"warnings": warnings}));
    let many: Vec<String> = (0..20_000)
        .map(|number| format!("a warning of a few dozen characters {number}"))
        .collect();
    let keys: serde_json::Map<String, Value> = (0..5_000)
        .map(|number| (format!("bad key {number}"), json!("v")))
        .collect();
    let long: serde_json::Map<String, Value> = (0..10)
        .map(|number| (format!("key-{number}"), json!("v".repeat(1 << 20))))
        .collect();
    vec![
        case("many warnings", End::Goes, "", warned(json!(many))),
        case(
            "a long warning",
            End::Goes,
            "",
            warned(json!(["w".repeat(8 << 20)])),
        ),
        case(
            "control characters",
            End::Goes,
            "",
            warned(json!([
                "a\r\nset-cookie: x=y",
                "\u{0}",
                "\u{7f}",
                "",
                "\u{9b}31m"
            ])),
        ),
        case("bad annotations", End::Goes, "", move |asked| {
            responds(asked, &json!({"auditAnnotations": keys}))
        }),
        case("long annotations", End::Goes, "", move |asked| {
            responds(asked, &json!({"auditAnnotations": long}))
        }),
    ]
}

fn cases() -> Vec<Case> {
    let mut all = of_transport();
    all.extend(of_http());
    all.extend(of_bodies());
    all.extend(of_envelopes());
    all.extend(of_refusals());
    all.extend(of_additions());
    all
}

/// Creates an object about which a webhook is asked that fails requests. Returns what is wrong with
/// the answer.
async fn wrong(client: &Client, place: usize, case: &Case) -> Option<String> {
    let body = json!({"metadata": {"name": format!("case-{place}")}});
    let answer = client.call(Call::post(CONFIGMAPS, &body)).await;
    let length = answer.text().len();
    let warnings = answer.headers.get_all("warning").iter();
    let warned: usize = warnings.map(|warning| warning.as_bytes().len()).sum();
    let (code, status) = (answer.status.as_u16(), answer.json());
    let message = status["message"].as_str().unwrap_or_default();
    let denied = format!("admission webhook \"{NAME}\" denied the request");
    let failed = format!("Internal error occurred: failed calling webhook \"{NAME}\": ");
    let is_right = match case.end {
        End::Goes => code == 201,
        End::Refusal(expected) => {
            code == expected
                && message.starts_with(&denied)
                && status["status"] == "Failure"
                && status["code"] == expected
        }
        End::Call => {
            code == 500 && message.starts_with(&failed) && status["reason"] == "InternalError"
        }
    };
    let is_short = length < 200_000 && warned < 8_192;
    let is_known = message.contains(case.text);
    (!is_right || !is_short || !is_known).then(|| {
        let name = case.name;
        format!("{name}: {code}, {length} bytes, {warned} of warnings: {message:.300}")
    })
}

/// The times for calls, in seconds: of webhooks that answer, which may be slow on a busy machine,
/// and of those that do not.
const TIMES: [u32; 2] = [30, 1];

impl Case {
    /// Whether a webhook with this answer has so many seconds.
    fn has_time(&self, seconds: u32) -> bool {
        (self.text == LATE) == (seconds == TIMES[1])
    }
}

/// Sets the time for calls.
async fn set_time(client: &Client, is_mutating: bool, seconds: u32) {
    let path = "/webhooks/0/timeoutSeconds";
    let patch = json!([{"op": "replace", "path": path, "value": seconds}]);
    let at = Call::new("PATCH", &format!("{}/bad", configurations(is_mutating)));
    let patch = at.body("application/json-patch+json", patch.to_string());
    client.call(patch).await.expect(200);
}

/// HK-30 to HK-41: each bad answer is answered exactly, whichever policy the webhook has, and
/// counted. The log has a few lines, and memory stays bounded.
async fn bad_answers(is_mutating: bool) {
    let all = Arc::new(cases());
    let (calls, refusals) = all
        .iter()
        .fold((0, 0), |(calls, refusals), case| match case.end {
            End::Call => (calls + 1, refusals),
            End::Refusal(_) => (calls, refusals + 1),
            End::Goes => (calls, refusals),
        });
    let number_of_cases = all.len() as u64;
    let served = Arc::clone(&all);
    let server = HostileServer::start(move |asked| match asked.review.is_null() {
        // A redirect has made a GET of the request.
        true => http(302, "location: /again\r\n", ""),
        false => (served[number(asked)].respond)(asked),
    });
    let server = server.await;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let hook = webhook(
        NAME,
        server.client_config("/hook"),
        &json!({"timeoutSeconds": 30}),
    );
    install(&client, is_mutating, "bad", &json!([hook])).await;
    let rest = daemon.peak();
    let mut faults = Vec::new();
    for seconds in TIMES {
        set_time(&client, is_mutating, seconds).await;
        for (place, case) in all.iter().enumerate().filter(|one| one.1.has_time(seconds)) {
            faults.extend(wrong(&client, place, case).await);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let mut counted = Vec::new();
    for counter in ["request_total", "rejection_count", "fail_open_count"] {
        counted.push(
            daemon
                .count(&format!("apiserver_admission_webhook_{counter}"))
                .await,
        );
    }
    assert_eq!(counted, [number_of_cases, calls + refusals, 0]);
    assert!(daemon.peak() - rest < 256.0, "{} MiB", daemon.peak() - rest);
    // Nothing but refusals counts where failures are ignored.
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let patch = Call::new("PATCH", &format!("{}/bad", configurations(is_mutating)));
    let patch = patch.body("application/json-patch+json", ignore.to_string());
    client.call(patch).await.expect(200);
    for seconds in TIMES {
        set_time(&client, is_mutating, seconds).await;
        for (place, case) in all.iter().enumerate().filter(|one| one.1.has_time(seconds)) {
            let (code, status) = create(&client, &format!("open-{place}")).await;
            let expected = match case.end {
                End::Refusal(code) => code,
                End::Call | End::Goes => 201,
            };
            if code != expected {
                faults.push(format!("{}: {code} {:.300}", case.name, status["message"]));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let open = daemon
        .count("apiserver_admission_webhook_fail_open_count")
        .await;
    assert_eq!(open, calls);
    let log = daemon.stderr();
    let lines = log.lines().filter(|line| line.contains(NAME));
    let lines: Vec<usize> = lines.map(str::len).collect();
    assert!(lines.len() <= 8, "{} lines in the log", lines.len());
    assert!(lines.iter().all(|length| *length < 4_096), "{lines:?}");
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    remove(&client, is_mutating, "bad").await;
    assert_eq!(create(&client, "free").await.0, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_answers_of_mutating_webhooks_have_one_end_hk_35_to_hk_41() {
    bad_answers(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_answers_of_validating_webhooks_have_one_end_hk_35_to_hk_41() {
    bad_answers(false).await;
}

/// HK-37, HK-42: a handshake that nobody answers ends with the time of the webhook.
#[tokio::test]
async fn a_handshake_that_hangs_ends_in_time_hk_37() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let url = HostileServer::mute().await;
    let more = json!({"timeoutSeconds": 1});
    for is_mutating in [true, false] {
        let hook = webhook(NAME, json!({"url": url}), &more);
        install(&client, is_mutating, "mute", &json!([hook])).await;
        let (code, status) = create(&client, "a").await;
        let message = status["message"].as_str().unwrap();
        assert!(code == 500 && message.ends_with(LATE), "{code} {message}");
        remove(&client, is_mutating, "mute").await;
    }
}

/// HK-41: redirects are followed to other hosts that the webhook's bundle trusts, and without TLS,
/// as by kube-apiserver. They get no credentials.
#[tokio::test]
async fn redirects_to_other_hosts_take_no_credentials_hk_41() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let end = HostileServer::start(|asked| responds(asked, &json!({"allowed": false}))).await;
    let to = format!("location: {}/end?x\r\n", end.url);
    let begin = HostileServer::start(move |_| http(307, &to, "")).await;
    let mut config = begin.client_config("/begin");
    config["caBundle"] = begin.bundle_with(&end).into();
    install(
        &client,
        false,
        "moved",
        &json!([webhook(NAME, config, &json!({}))]),
    )
    .await;
    let (code, status) = create(&client, "a").await;
    assert_eq!(code, 400, "{status}");
    let asked = [begin.asked(), end.asked()].concat();
    assert_eq!(asked.len(), 2);
    let has_credentials = |asked: &Asked| asked.head.to_lowercase().contains("authorization");
    assert!(!asked.iter().any(has_credentials), "{asked:?}");
    assert_eq!(asked[1].path(), "/end?x");
    assert_eq!(asked[0].review, asked[1].review);
    remove(&client, false, "moved").await;
    // A host that the bundle does not trust gets nothing.
    let config = begin.client_config("/begin");
    install(
        &client,
        false,
        "moved",
        &json!([webhook(NAME, config, &json!({}))]),
    )
    .await;
    let (code, status) = create(&client, "a").await;
    assert_eq!(code, 500, "{status}");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("x509: certificate signed by unknown")
    );
    assert_eq!(end.asked().len(), 1);
}
