//! Large bodies and objects do not delay other requests on their HTTP thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Protocol, body, configmap};

const SOON: Duration = Duration::from_secs(60);

/// Their data is any JSON.
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

/// A body within the limits that takes long to read.
fn many_values(name: &str) -> String {
    let values = "1,".repeat(1_200_000);
    format!(r#"{{"metadata":{{"name":"{name}"}},"revision":1,"data":{{"values":[{values}1]}}}}"#)
}

/// The duration of a call, and the longest duration of the small requests during it.
async fn meanwhile(daemon: &Daemon, call: Call, expected: u16) -> (Duration, Duration) {
    let (slow, quick) = (daemon.client(), daemon.client());
    quick.call(Call::get("/version")).await.expect(200);
    let what = format!("{} {}", call.method, call.path);
    let start = Instant::now();
    let slow = tokio::spawn(async move { slow.call(call).await });
    let mut longest = Duration::ZERO;
    while !slow.is_finished() {
        let start = Instant::now();
        quick.call(Call::get(CONFIGMAPS)).await.expect(200);
        longest = longest.max(start.elapsed());
    }
    let answer = slow.await.unwrap();
    let shown: String = answer.text().chars().take(300).collect();
    assert_eq!(answer.status.as_u16(), expected, "{what}: {shown}");
    (start.elapsed(), longest)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_and_objects_hold_up_nobody() {
    let daemon = Daemon::with(&["--http-threads", "1"]).await;
    let yaml = "- [1, 2, 3, 4]\n".repeat(60_000);
    let calls = [
        (
            Call::new("POST", REVISIONS).body("application/json", many_values("large")),
            201,
        ),
        (
            Call::new("PUT", &format!("{REVISIONS}/large"))
                .body("application/json", many_values("large")),
            200,
        ),
        // The patch is small, the object is not.
        (
            Call::merge_patch(
                &format!("{REVISIONS}/large"),
                &json!({ "metadata": { "labels": { "a": "b" } } }),
            ),
            200,
        ),
        (
            Call::new("PATCH", &format!("{REVISIONS}/large")).body(
                "application/json-patch+json",
                r#"[{"op":"add","path":"/metadata/labels/c","value":"d"}]"#,
            ),
            200,
        ),
        (
            Call::new("POST", REVISIONS).body("application/yaml", format!("metadata:\n{yaml}")),
            400,
        ),
        (
            Call::delete(&format!("{REVISIONS}/large?gracePeriodSeconds=0")),
            200,
        ),
    ];
    for (call, code) in calls {
        let what = format!("{} {}", call.method, call.path);
        let (took, longest) = meanwhile(&daemon, call, code).await;
        // On a blocked thread a small request would wait for nearly all of it.
        let limit = (took / 2).max(Duration::from_millis(200));
        assert!(
            longest < limit,
            "{what} took {took:?}, and something else {longest:?} meanwhile"
        );
    }
}

async fn create(client: &Client, content_type: &str, body: Vec<u8>) {
    let call = Call::new("POST", CONFIGMAPS).body(content_type, body);
    client.call(call).await.expect(201);
}

#[tokio::test]
async fn large_bodies_mean_what_small_ones_do_in_every_form() {
    // API-56, API-63.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let large = "v".repeat(200_000);
    let json = json!({ "metadata": { "name": "json" }, "data": { "k": large } });
    create(&client, "application/json", json.to_string().into()).await;
    let yaml = format!("metadata:\n  name: yaml\ndata:\n  k: {large}\n");
    create(&client, "application/yaml", yaml.into()).await;
    let protobuf = protobuf_configmap("protobuf", &large);
    create(&client, "application/vnd.kubernetes.protobuf", protobuf).await;
    for name in ["json", "yaml", "protobuf"] {
        let stored = client.call(Call::get(&configmap(name))).await.expect(200);
        assert_eq!(stored["data"]["k"], large, "{name}");
    }
    let broken = format!("{{\"data\":{{\"k\":\"{large}\"}}");
    let call = Call::new("POST", CONFIGMAPS).body("application/json", broken);
    client.call(call).await.refusal(400, "BadRequest");
    let twice = format!(r#"{{"metadata":{{"name":"t"}},"data":{{"k":"1","k":"{large}"}}}}"#);
    let call = Call::new("POST", CONFIGMAPS).body("application/json", twice);
    let answer = client.call(call).await;
    let warning = answer.header("warning").unwrap_or_default();
    assert!(warning.contains("duplicate field"), "{warning}");
    for name in ["json", "yaml"] {
        client
            .call(Call::delete(&configmap(name)))
            .await
            .expect(200);
    }
    // Options of a deletion are a body too.
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "x": large });
    client
        .call(Call::json("DELETE", CONFIGMAPS, &options))
        .await
        .expect(200);
    let left = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert_eq!(left["items"], json!([]));
}

/// A ConfigMap in Kubernetes' protobuf envelope.
fn protobuf_configmap(name: &str, value: &str) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        let mut bytes = vec![number << 3 | 2];
        let mut length = content.len();
        while length > 0x7f {
            bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(content);
        bytes
    };
    let metadata = field(1, name.as_bytes());
    let entry = [field(1, b"k"), field(2, value.as_bytes())].concat();
    let object = [field(1, &metadata), field(2, &entry)].concat();
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let unknown = [field(1, &kind), field(2, &object)].concat();
    [b"k8s\0".as_slice(), &unknown].concat()
}

/// Has a user send large bodies over so many connections until the test ends. Returns how many were
/// answered so far.
fn abuse(daemon: &Daemon, token: &str, connections: usize) -> Arc<AtomicUsize> {
    let answered: Arc<AtomicUsize> = Arc::default();
    for number in 0..connections {
        let client = daemon.target().with_token(token);
        let client = client.client_over(Protocol::Http1);
        let answered = Arc::clone(&answered);
        let name = format!("a{number}");
        let values = "1,".repeat(40_000);
        let body = format!(
            r#"{{"metadata":{{"name":"{name}"}},"revision":1,"data":{{"values":[{values}1]}}}}"#
        );
        let path = format!("{REVISIONS}?dryRun=All");
        let call = Call::new("POST", &path).body("application/json", body);
        tokio::spawn(async move {
            while client.call(call.clone()).await.status == 201 {
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_waits_for_the_running_requests_of_another_and_not_for_those_that_wait() {
    const ABUSERS: usize = 20;
    const BODIES: usize = 8;
    let users = "t-ann,ann,u-ann,system:masters\nt-bob,bob,u-bob,system:masters\n";
    let daemon = Daemon::with_users(users, &[]).await;
    let answered = abuse(&daemon, "t-ann", ABUSERS);
    let all_send = async {
        while answered.load(Ordering::Relaxed) < 2 * ABUSERS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, all_send).await.unwrap();
    let bob = daemon.target().with_token("t-bob").client();
    let before = answered.load(Ordering::Relaxed);
    for number in 0..BODIES {
        let large = body(&format!("b{number}"), &"x".repeat(100_000));
        bob.call(Call::post(CONFIGMAPS, &large)).await.expect(201);
    }
    let meanwhile = answered.load(Ordering::Relaxed) - before;
    // A create has two turns. Where requests run in the order in which they come, each of them
    // waits for twenty others.
    assert!(
        (1..BODIES * ABUSERS / 2).contains(&meanwhile),
        "{meanwhile} of the other user's requests were answered beside {BODIES}"
    );
}
