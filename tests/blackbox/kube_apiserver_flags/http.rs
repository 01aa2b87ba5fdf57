//! Flags of requests, responses and the stop, as clients see them.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Call, Daemon, Options};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn pages_of_allowed_origins_and_no_others_may_use_the_api() {
    let daemon = Daemon::with(&[
        r"--cors-allowed-origins=^https://app\.example$,//localhost(:|$)",
        "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
    ])
    .await;
    let client = daemon.client();
    let security = "strict-transport-security";
    for origin in ["https://app.example", "http://localhost:3000"] {
        for call in [Call::get("/api"), Call::get("/api/v1/nonsense")] {
            let answer = client.call(call.header("origin", origin)).await;
            for (name, value) in [
                ("access-control-allow-origin", origin),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", "Date"),
                (
                    "access-control-allow-methods",
                    "POST, GET, OPTIONS, PUT, DELETE, PATCH",
                ),
                (
                    "access-control-allow-headers",
                    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
                     X-Requested-With, If-Modified-Since",
                ),
                (security, "max-age=31536000; includeSubDomains"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{name}");
            }
        }
        // A browser asks without credentials.
        let anonymous = daemon.target().anonymous().client();
        let ask = Call::new("OPTIONS", CONFIGMAPS).header("origin", origin);
        let answer = anonymous.call(ask).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    }
    for origin in ["https://app.example.evil", "https://app-example", "null"] {
        let answer = client
            .call(Call::get("/api").header("origin", origin))
            .await;
        assert_eq!(
            answer.header("access-control-allow-origin"),
            None,
            "{origin}"
        );
        assert!(answer.header(security).is_some());
        let ask = Call::new("OPTIONS", CONFIGMAPS).header("origin", origin);
        assert_eq!(client.call(ask).await.status, 405, "{origin}");
    }
    let plain = Daemon::start().await;
    let call = Call::get("/api").header("origin", "https://app.example");
    let answer = plain.client().call(call).await;
    assert_eq!(answer.header(security), None);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn a_share_of_the_answers_ends_their_connection() {
    let daemon = Daemon::with(&["--goaway-chance=0.02"]).await;
    let stream = daemon.target().tls(&[b"h2"]).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    // It is less likely than a damaged computer that none of 3,000 ends it.
    let mut answered = 0;
    for _ in 0..3_000 {
        let Ok(ready) = sender.ready().await else {
            break;
        };
        sender = ready;
        let request = http::Request::get("https://localhost/version")
            .body(())
            .unwrap();
        let Ok((response, _)) = sender.send_request(request, true) else {
            break;
        };
        // A request that crosses the end is not carried out, and may be sent again.
        let Ok(response) = response.await else { break };
        assert_eq!(response.headers().get("connection"), None);
        answered += 1;
    }
    assert!((1..3_000).contains(&answered), "{answered}");
    driver.abort();
}

/// The flags of SF-20.
#[tokio::test]
async fn requests_and_watches_end_after_their_time() {
    let daemon = Daemon::with(&["--request-timeout=1s", "--min-request-timeout=1"]).await;
    let client = daemon.client();
    // A list of a revision to come waits for three seconds.
    let path = format!("{CONFIGMAPS}?resourceVersion=999999999");
    let start = Instant::now();
    let answer = client.call(Call::get(&path)).await;
    let status = answer.refusal(504, "Timeout");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("within the allotted timeout"), "{message}");
    assert!(start.elapsed() >= Duration::from_secs(1));
    let start = Instant::now();
    let mut watch = client.watch(&format!("{CONFIGMAPS}?watch=true")).await;
    watch.rest().await;
    assert!(start.elapsed() >= Duration::from_millis(900));
}

#[tokio::test]
async fn pods_stay_on_failed_nodes_for_the_seconds_of_the_flags() {
    let daemon = Daemon::with(&[
        "--default-not-ready-toleration-seconds=7",
        "--default-unreachable-toleration-seconds=8",
    ])
    .await;
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    let call = Call::post("/api/v1/namespaces/default/pods", &pod);
    let pod = daemon.client().call(call).await.expect(201);
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    let seconds: Vec<(&Value, &Value)> = tolerations
        .iter()
        .map(|one| (&one["key"], &one["tolerationSeconds"]))
        .collect();
    assert_eq!(
        seconds,
        [
            (&json!("node.kubernetes.io/not-ready"), &json!(7)),
            (&json!("node.kubernetes.io/unreachable"), &json!(8)),
        ]
    );
}

#[tokio::test]
async fn a_stop_is_announced_before_it_begins() {
    let mut daemon = Daemon::with(&["--shutdown-delay-duration=2s"]).await;
    let client = daemon.client();
    let start = Instant::now();
    daemon.signal(Signal::TERM);
    while client.call(Call::get("/readyz")).await.status == 200 {
        assert!(start.elapsed() < Duration::from_secs(2), "it stays ready");
    }
    // Everything else goes on, also for new clients.
    daemon.client().call(Call::get("/livez")).await;
    let body = json!({"metadata": {"name": "late"}});
    daemon
        .client()
        .call(Call::post(CONFIGMAPS, &body))
        .await
        .expect(201);
    let status = daemon.ended().await;
    assert!(status.success(), "{status}");
    assert!(start.elapsed() >= Duration::from_secs(2));
}

#[tokio::test]
async fn the_service_of_the_api_is_what_the_flags_say() {
    let daemon = Daemon::with(&[
        "--advertise-address=192.0.2.7",
        "--kubernetes-service-node-port=30443",
        "--endpoint-reconciler-type=none",
        "--external-hostname=api.example",
    ])
    .await;
    let client = daemon.client();
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let service = client.call(Call::get(path)).await.expect(200);
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30443);
    let path = "/api/v1/namespaces/default/endpoints/kubernetes";
    client.call(Call::get(path)).await.refusal(404, "NotFound");
    let path = "/.well-known/openid-configuration";
    let document = client.call(Call::get(path)).await.expect(200);
    let port = daemon.port();
    assert_eq!(
        document["jwks_uri"],
        format!("https://api.example:{port}/openid/v1/jwks")
    );
}

#[tokio::test]
async fn daemons_share_a_port_if_both_may() {
    let shared = ["--permit-port-sharing=true"];
    let first = Daemon::with(&shared).await;
    let on_port = || Options::default().port(first.port());
    let refused = on_port().attempt().await;
    let said = refused.err().unwrap();
    assert!(said.contains("another process has this port"), "{said}");
    let second = on_port().arguments(&shared).launch().await;
    assert_eq!(second.port(), first.port());
}

#[tokio::test]
async fn long_audit_events_lose_their_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let rules = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse, \
                 resources: [{group: '', resources: [configmaps]}]}], \
                 omitStages: [RequestReceived]}";
    std::fs::write(&policy, rules).unwrap();
    let log = folder.path().join("audit.log");
    let mut daemon = Daemon::with(&[
        &format!("--audit-policy-file={}", policy.display()),
        &format!("--audit-log-path={}", log.display()),
        "--audit-log-truncate-enabled",
        "--audit-log-truncate-max-event-size=4000",
        "--audit-log-mode=batch",
    ])
    .await;
    for (name, length) in [("short", 10), ("long", 10_000)] {
        let body = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(length)}});
        daemon
            .client()
            .call(Call::post(CONFIGMAPS, &body))
            .await
            .expect(201);
    }
    daemon.stop(Signal::TERM).await;
    let text = std::fs::read_to_string(&log).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<Value> = events.filter(|event| event["verb"] == "create").collect();
    let found: Vec<(&Value, bool, &Value)> = events
        .iter()
        .map(|event| {
            let has_bodies = event.get("requestObject").is_some();
            let truncated = &event["annotations"]["audit.k8s.io/truncated"];
            (&event["objectRef"]["name"], has_bodies, truncated)
        })
        .collect();
    assert_eq!(
        found,
        [
            (&json!("short"), true, &Value::Null),
            (&json!("long"), false, &json!("true")),
        ]
    );
}

#[tokio::test]
async fn the_log_has_the_format_of_the_flag() {
    let daemon = Daemon::with(&["--logging-format=json"]).await;
    let log = daemon.stderr();
    let lines = log.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.map(Result::unwrap).collect();
    assert!(!lines.is_empty());
}
