//! `/taffrail/v1/test/clock`: the clock of a server for tests.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Server;
use crate::harness::{CONFIGMAPS, Call, Client, body, configmap, pod_spec, version};
use crate::token_issuers::Issuer;

const CLOCK: &str = "/taffrail/v1/test/clock";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const HOUR: i64 = 3600;

async fn advance(client: &Client, by: &str) -> Value {
    let call = Call::post(CLOCK, &json!({ "advance": by }));
    client.call(call).await.expect(200)
}

fn time(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

/// How many seconds a time is ahead of this machine's clock.
fn ahead(text: &Value) -> i64 {
    let now = Timestamp::try_from(SystemTime::now()).unwrap();
    time(text).as_second() - now.as_second()
}

async fn event(client: &Client, name: &str) -> Value {
    let event = json!({
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    client.call(Call::post(EVENTS, &event)).await.expect(201)
}

#[tokio::test]
async fn the_clock_goes_forward_and_nothing_goes_back() {
    let server = Server::start(&[]);
    let client = server.client();
    let shown = client.call(Call::get(CLOCK)).await.expect(200);
    assert_eq!(shown["advanced"], "0s");
    assert!(ahead(&shown["now"]).abs() < 30, "{shown}");
    let made = client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let mut last = time(&made["metadata"]["creationTimestamp"]);
    let shown = advance(&client, "1h30m").await;
    assert_eq!(shown["advanced"], "1h30m0s");
    assert!((ahead(&shown["now"]) - HOUR * 3 / 2).abs() < 30, "{shown}");
    assert_eq!(advance(&client, "500ms").await["advanced"], "1h30m0.5s");
    for (number, by) in ["1ns", "24h", "1s", "8760h"].into_iter().enumerate() {
        advance(&client, by).await;
        let name = format!("b-{number}");
        let made = client
            .call(Call::post(CONFIGMAPS, &body(&name, "1")))
            .await
            .expect(201);
        let created = &made["metadata"]["creationTimestamp"];
        assert!(time(created) >= last, "{created} comes after {last}");
        assert_eq!(made["metadata"]["managedFields"][0]["time"], *created);
        last = time(created);
    }
    let year = 366 * 24 * HOUR;
    assert!((ahead(&json!(last.to_string())) - year).abs() < 24 * HOUR);
    // Earlier objects keep their times, and the certificate of the server is still valid.
    let found = server
        .client()
        .call(Call::get(&configmap("a")))
        .await
        .expect(200);
    assert_eq!(found, made);
    let finalized = json!({"metadata": {"name": "f", "finalizers": ["example.com/f"]}});
    client
        .call(Call::post(CONFIGMAPS, &finalized))
        .await
        .expect(201);
    advance(&client, "1h").await;
    let deleted = client.call(Call::delete(&configmap("f"))).await.expect(200);
    let [created, deleted] = ["creationTimestamp", "deletionTimestamp"]
        .map(|name| time(&deleted["metadata"][name]).as_second());
    assert!((deleted - created - HOUR).abs() < 30);
    server.stop();
}

#[tokio::test]
async fn events_live_for_their_time_by_the_clock() {
    let server = Server::start(&[]);
    let client = server.client();
    let from = version(&event(&client, "a").await);
    let mut watch = client
        .watch(&format!("{EVENTS}?watch=1&resourceVersion={from}"))
        .await;
    advance(&client, "59m").await;
    let path = format!("{EVENTS}/a");
    client.call(Call::get(&path)).await.expect(200);
    // It shares no lease that is about to run out.
    event(&client, "b").await;
    assert_eq!(watch.event().await["type"], "ADDED");
    advance(&client, "5m").await;
    client.call(Call::get(&path)).await.refusal(404, "NotFound");
    let list = client.call(Call::get(EVENTS)).await.expect(200);
    let names = list["items"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["b"]);
    let gone = watch.event().await;
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["name"], "a");
    // Many more than one step of expiry deletes are gone, too, when the answer comes.
    for number in 0..300 {
        event(&client, &format!("c-{number}")).await;
    }
    advance(&client, "1h4m").await;
    let list = client.call(Call::get(EVENTS)).await.expect(200);
    assert_eq!(list["items"], json!([]));
    server.stop();
}

#[tokio::test]
async fn tokens_expire_by_the_clock() {
    let server = Server::start(&["--enable-bootstrap-token-auth"]);
    let client = server.client();
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    server
        .until(account, |found| found["kind"] == "ServiceAccount")
        .await;
    let token = async || {
        let request = json!({"spec": {"expirationSeconds": 600}});
        let call = Call::post(&format!("{account}/token"), &request);
        let status = client.call(call).await.expect(201)["status"].clone();
        let soon = ahead(&status["expirationTimestamp"]);
        (status["token"].as_str().unwrap().to_owned(), soon)
    };
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let asks = async |token: &str| {
        let caller = server.target().with_token(token).client();
        caller
            .call(Call::post(reviews, &json!({})))
            .await
            .status
            .as_u16()
    };
    let reviewed = async |token: &str| {
        let call = json!({"spec": {"token": token}});
        let review = client.call(Call::post(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            &call,
        ));
        review.await.expect(201)["status"]["authenticated"].clone()
    };
    let until = Timestamp::try_from(SystemTime::now() + Duration::from_secs(600)).unwrap();
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true", "expiration": until.to_string()},
    });
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    client.call(Call::post(secrets, &secret)).await.expect(201);
    let bootstrap = "abcdef.0123456789abcdef";
    let (first, soon) = token().await;
    assert!((soon - 600).abs() < 30, "{soon}");
    for token in [&*first, bootstrap] {
        assert_eq!(asks(token).await, 201, "{token}");
        assert_eq!(reviewed(token).await, true);
    }
    advance(&client, "9m").await;
    for token in [&*first, bootstrap] {
        assert_eq!(asks(token).await, 201, "{token}");
    }
    // A minute more than its time is allowed to a token of an account, as in kube-apiserver.
    advance(&client, "2m30s").await;
    for token in [&*first, bootstrap] {
        assert_eq!(asks(token).await, 401, "{token}");
        assert_ne!(reviewed(token).await, true);
    }
    let (second, soon) = token().await;
    assert!((soon - 600 - 690).abs() < 30, "{soon}");
    assert_eq!(asks(&second).await, 201);
    // The admin's token has no end.
    advance(&client, "87600h").await;
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    server.stop();
}

#[tokio::test]
async fn tokens_of_issuers_expire_by_the_clock() {
    let issuer = Issuer::start().await;
    let ca = issuer.pem_file();
    let server = Server::start(&[
        &format!("--oidc-issuer-url={}", issuer.url),
        "--oidc-client-id=cluster",
        "--oidc-signing-algs=ES256",
        &format!("--oidc-ca-file={}", ca.path().display()),
    ]);
    let token = issuer.token(&json!({}));
    let caller = server.target().with_token(&token).client();
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let asks = async || {
        let call = Call::post(reviews, &json!({}));
        caller.call(call).await.status.as_u16()
    };
    let mut attempts = 0;
    // The issuer's keys are read in the background.
    while asks().await != 201 {
        attempts += 1;
        assert!(attempts < 2000, "the issuer is not used");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    advance(&server.client(), "9m").await;
    assert_eq!(asks().await, 201);
    advance(&server.client(), "2m").await;
    assert_eq!(asks().await, 401);
    server.stop();
}

#[tokio::test]
async fn simulated_controllers_follow_the_clock() {
    let server = Server::start(&["--workloads", "--pods-run", "--nodes=2"]);
    let client = server.client();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({
        "metadata": {"name": "short"},
        "spec": {"ttlSecondsAfterFinished": HOUR, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    client.call(Call::post(jobs, &job)).await.expect(201);
    let path = format!("{jobs}/short");
    server
        .until(&path, |job| job["status"]["completionTime"].is_string())
        .await;
    // A pod that waits for its scheduler keeps its job active until its deadline.
    let mut spec = pod_spec();
    spec["restartPolicy"] = json!("Never");
    spec["schedulerName"] = json!("another");
    let late = json!({
        "metadata": {"name": "late"},
        "spec": {"activeDeadlineSeconds": HOUR, "template": {"spec": spec}},
    });
    client.call(Call::post(jobs, &late)).await.expect(201);
    let late = format!("{jobs}/late");
    server
        .until(&late, |job| job["status"]["active"] == 1)
        .await;
    advance(&client, "59m").await;
    client.call(Call::get(&path)).await.expect(200);
    let active = client.call(Call::get(&late)).await.expect(200);
    assert_eq!(active["status"]["active"], 1);
    advance(&client, "2m").await;
    server.until(&path, |found| found["code"] == 404).await;
    let is_failed = |job: &Value| {
        let conditions = job["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Failed" && one["reason"] == "DeadlineExceeded")
        })
    };
    server.until(&late, is_failed).await;
    // The leases of nodes are renewed at once, so they stay ready for whoever looks at them.
    for name in ["node-1", "node-2"] {
        let lease =
            format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
        server
            .until(&lease, |lease| {
                let renewed = &lease["spec"]["renewTime"];
                renewed.is_string() && ahead(renewed) > HOUR
            })
            .await;
        let node = client
            .call(Call::get(&format!("/api/v1/nodes/{name}")))
            .await
            .expect(200);
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let ready = conditions
            .iter()
            .find(|one| one["type"] == "Ready")
            .unwrap();
        assert_eq!(ready["status"], "True");
    }
    server.stop();
}

#[tokio::test]
async fn deleted_objects_are_forgotten_by_the_clock() {
    let server = Server::start(&["--retention-age=1h", "--watch-ring-bytes=16KiB"]);
    let client = server.client();
    let made = client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let from = version(&made);
    client.call(Call::delete(&configmap("a"))).await.expect(200);
    let exact = format!("{CONFIGMAPS}?resourceVersion={from}&resourceVersionMatch=Exact");
    advance(&client, "59m").await;
    let list = client.call(Call::get(&exact)).await.expect(200);
    let names = list["items"].as_array().unwrap().iter();
    let mut names = names.map(|item| &item["metadata"]["name"]);
    assert!(names.any(|name| name == "a"), "{list}");
    let last = client
        .call(Call::post(CONFIGMAPS, &body("b", "1")))
        .await
        .expect(201);
    advance(&client, "2m").await;
    client.call(Call::get(&exact)).await.refusal(410, "Expired");
    let history = format!("/taffrail/v1/history{}", configmap("a"));
    let lines = client.call(Call::get(&history)).await.text();
    assert!(!lines.contains("ADDED"), "{lines}");
    let exact = format!(
        "{CONFIGMAPS}?resourceVersion={}&resourceVersionMatch=Exact",
        version(&last)
    );
    client.call(Call::get(&exact)).await.expect(200);
    server.stop();
}

#[tokio::test]
async fn wrong_steps_move_nothing() {
    let server = Server::start(&[]);
    let client = server.client();
    advance(&client, "1h").await;
    for (document, said) in [
        (r#"{"advance": "-1h"}"#, "advance: must be from 0s to"),
        (r#"{"advance": "0s"}"#, "advance: must be more than 0s"),
        (
            r#"{"advance": "x"}"#,
            "advance: time: invalid duration \"x\"",
        ),
        (r#"{"advance": ""}"#, "advance: time: invalid duration \"\""),
        (
            r#"{"advance": "10"}"#,
            "advance: time: missing unit in duration \"10\"",
        ),
        (
            r#"{"advance": "1000000000h"}"#,
            "advance: time: invalid duration",
        ),
        (r#"{"advance": 3600}"#, "advance: must be a text such as"),
        (r#"{"advance": null}"#, "advance: is missing"),
        (
            r#"{"advance": "1h", "by": 1}"#,
            "by: is not known; known are advance",
        ),
        ("{}", "advance: is missing"),
        ("[]", "the document: must be an object"),
        ("", "not JSON"),
    ] {
        let call = Call::new("POST", CLOCK).body("application/json", document.to_owned());
        let status = client.call(call).await.refusal(400, "BadRequest");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(said), "{document}: {message}");
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        client
            .call(Call::new(method, CLOCK))
            .await
            .refusal(405, "MethodNotAllowed");
    }
    let call = Call::post(CLOCK, &json!({"advance": "1h"})).header("impersonate-user", "bob");
    client.call(call).await.refusal(403, "Forbidden");
    let shown = client.call(Call::get(CLOCK)).await.expect(200);
    assert_eq!(shown["advanced"], "1h0m0s");
    // Each step may be as long as Go's durations, and together they end before the year 9000.
    let mut steps = 0;
    let refusal = loop {
        let call = Call::post(CLOCK, &json!({"advance": "2500000h"}));
        let answer = client.call(call).await;
        if answer.status != 200 {
            break answer.refusal(400, "BadRequest");
        }
        steps += 1;
        assert!(steps < 100);
    };
    assert!(steps > 20, "{steps}");
    assert_eq!(
        refusal["message"],
        "advance: the clock would pass the year 9000"
    );
    // A server in that future still works.
    let made = client
        .call(Call::post(CONFIGMAPS, &body("late", "1")))
        .await
        .expect(201);
    let created = made["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(created.starts_with('8'), "{created}");
    let found = client.call(
        Call::get(&configmap("late"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    );
    found.await.expect(200);
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    server
        .until(account, |found| found["kind"] == "ServiceAccount")
        .await;
    let request = json!({"spec": {"expirationSeconds": 1_u64 << 32}});
    let call = Call::post(&format!("{account}/token"), &request);
    client.call(call).await.expect(201);
    event(&client, "late").await;
    server.stop();
}
