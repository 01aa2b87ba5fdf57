//! Faults that a test asks for, by flags and by `/taffrail/v1/test/faults`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::config::Kubeconfig;
use kube::runtime::watcher;
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Server, TIMEOUT, refused, until};
use crate::harness::client::Lines;
use crate::harness::upgrades::Asked;
use crate::harness::{
    CONFIGMAPS, Call, Client, Daemon, Kubectl, Protocol, body, configmap, version,
};
use crate::informers::Informers;
use crate::kube_rs::{Informed, client_by, inform};
use crate::load::churn::{churn, versions};

const FAULTS: &str = "/taffrail/v1/test/faults";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Replaces the rules, and returns what is in force.
async fn set(client: &Client, rules: Value) -> Value {
    let plan = json!({ "seed": 7, "rules": rules });
    client.call(Call::put(FAULTS, &plan)).await.expect(200)
}

async fn made(client: &Client, name: &str) -> Value {
    let made = client.call(Call::post(CONFIGMAPS, &body(name, "1"))).await;
    made.expect(201)
}

/// How often a fault was injected, by the metrics.
async fn counted(client: &Client, fault: &str) -> u64 {
    let page = client.call(Call::get("/metrics")).await.text();
    let start = format!("taffrail_test_faults_total{{fault=\"{fault}\"}} ");
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix(&start));
    value
        .unwrap_or_else(|| panic!("no {fault}: {page}"))
        .parse()
        .unwrap()
}

/// Paths for tests are authorized as all others without resources.
#[tokio::test]
async fn paths_for_tests_need_the_right_to_them() {
    const CLOCK: &str = "/taffrail/v1/test/clock";
    const SNAPSHOTS: &str = "/taffrail/v1/test/snapshots";
    let server = Server::start(&[]);
    let admin = server.client();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "tester"}});
    admin.call(Call::post(accounts, &account)).await.expect(201);
    let ask = Call::post(&format!("{accounts}/tester/token"), &json!({"spec": {}}));
    let token = admin.call(ask).await.expect(201);
    let token = token["status"]["token"].as_str().unwrap();
    let tester = server.target().with_token(token).client();
    for path in [CLOCK, FAULTS, SNAPSHOTS] {
        let refused = tester.call(Call::get(path)).await;
        refused.refusal(403, "Forbidden");
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": {"name": "clock"},
        "rules": [{"nonResourceURLs": [CLOCK], "verbs": ["get"]}],
    });
    let call = Call::post(&format!("{rbac}/clusterroles"), &role);
    admin.call(call).await.expect(201);
    let binding = json!({
        "metadata": {"name": "clock"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "clock"},
        "subjects": [{"kind": "ServiceAccount", "name": "tester", "namespace": "default"}],
    });
    let call = Call::post(&format!("{rbac}/clusterrolebindings"), &binding);
    admin.call(call).await.expect(201);
    let began = Instant::now();
    while tester.call(Call::get(CLOCK)).await.status != 200 {
        assert!(began.elapsed() < TIMEOUT, "the role has no effect");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let advance = Call::post(CLOCK, &json!({"advance": "1h"}));
    tester.call(advance).await.refusal(403, "Forbidden");
    tester
        .call(Call::get(FAULTS))
        .await
        .refusal(403, "Forbidden");
    server.stop();
}

#[tokio::test]
async fn each_error_is_that_of_the_server_and_nothing_is_carried_out() {
    let server = Server::start(&[]);
    let client = server.client();
    let stored = made(&client, "a").await;
    let path = configmap("a");
    let conflict = "Operation cannot be fulfilled on configmaps \"a\": the object has been \
                    modified; please apply your changes to the latest version and try again";
    let too_many = "the server has received too many requests and has asked us to try again later";
    let unavailable = "the server is currently unable to handle the request";
    let late = "Timeout: request did not complete within the allotted timeout";
    let list = format!("{CONFIGMAPS}?resourceVersion=1&resourceVersionMatch=Exact");
    let pages = format!("{CONFIGMAPS}?limit=1&continue=token");
    for (code, reason, call, message) in [
        (409, "Conflict", Call::put(&path, &body("a", "2")), conflict),
        (
            409,
            "Conflict",
            Call::merge_patch(&path, &json!({"data": {}})),
            conflict,
        ),
        (409, "Conflict", Call::delete(&path), conflict),
        (
            410,
            "Expired",
            Call::get(&list),
            "The resourceVersion for the provided list is too old.",
        ),
        (
            410,
            "Expired",
            Call::get(&pages),
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter.",
        ),
        (429, "TooManyRequests", Call::get(&path), too_many),
        (
            429,
            "TooManyRequests",
            Call::post(CONFIGMAPS, &body("b", "1")),
            too_many,
        ),
        (
            429,
            "TooManyRequests",
            Call::get(&format!("{CONFIGMAPS}?watch=1")),
            too_many,
        ),
        (
            500,
            "InternalError",
            Call::delete(CONFIGMAPS),
            "Internal error occurred: a fault that a test has injected",
        ),
        (503, "ServiceUnavailable", Call::delete(&path), unavailable),
        (
            504,
            "Timeout",
            Call::post(CONFIGMAPS, &body("b", "1")),
            late,
        ),
    ] {
        set(&client, json!([{"errors": [{"code": code, "rate": 1}]}])).await;
        let what = format!("{code} {} {}", call.method, call.path);
        let answer = client.call(call).await;
        let waits = [429, 503].contains(&code).then_some("1");
        assert_eq!(answer.header("retry-after"), waits, "{what}");
        let status = answer.refusal(code, reason);
        assert_eq!(status["message"], message, "{what}");
        if code == 409 {
            assert_eq!(
                status["details"],
                json!({"name": "a", "kind": "configmaps"})
            );
        }
        client.call(Call::put(FAULTS, &json!({}))).await.expect(200);
        assert_eq!(
            client.call(Call::get(&path)).await.expect(200),
            stored,
            "{what}"
        );
        client
            .call(Call::get(&configmap("b")))
            .await
            .refusal(404, "NotFound");
    }
    set(
        &client,
        json!([{"errors": [{"code": 503, "rate": 1, "retryAfterSeconds": 7}]}]),
    )
    .await;
    let protobuf = "application/vnd.kubernetes.protobuf";
    let answer = client
        .call(Call::get(&path).header("accept", protobuf))
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("retry-after")),
        (503, Some("7"))
    );
    assert_eq!(answer.header("content-type"), Some(protobuf));
    assert!(answer.body.starts_with(b"k8s\0"));
    let answer = client
        .call(Call::get(&path).header("accept", "application/yaml"))
        .await;
    assert!(
        answer.text().contains("reason: ServiceUnavailable\n"),
        "{}",
        answer.text()
    );
    server.stop();
}

#[tokio::test]
async fn a_code_hits_only_verbs_that_have_it() {
    let server = Server::start(&[]);
    let client = server.client();
    let from = version(&made(&client, "a").await);
    let plan = json!([{"errors": [{"code": 409, "rate": 1}]}]);
    set(&client, plan).await;
    made(&client, "b").await;
    for path in [&configmap("a"), CONFIGMAPS] {
        client.call(Call::get(path)).await.expect(200);
    }
    client.watch(&format!("{CONFIGMAPS}?watch=1")).await;
    set(&client, json!([{"errors": [{"code": 410, "rate": 1}]}])).await;
    for path in [
        configmap("a"),
        CONFIGMAPS.to_owned(),
        format!("{CONFIGMAPS}?resourceVersion=0"),
        format!("{CONFIGMAPS}?resourceVersion="),
    ] {
        client.call(Call::get(&path)).await.expect(200);
    }
    client
        .call(Call::put(&configmap("a"), &body("a", "2")))
        .await
        .expect(200);
    // The version 0 of a watch is never too old.
    let mut watch = client
        .watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion=0"))
        .await;
    assert_eq!(watch.event().await["type"], "ADDED");
    // That of a version is answered as the server itself does, by an event (WA-6).
    let mut watch = client
        .watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={from}"))
        .await;
    let error = watch.event().await;
    assert_eq!(error["type"], "ERROR");
    assert_eq!(
        (&error["object"]["code"], &error["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    let message = format!("too old resource version: {from} ({})", from + 1);
    assert_eq!(error["object"]["message"], message);
    assert!(watch.rest().await.is_empty());
    assert_eq!(counted(&client, "410").await, 1);
    assert_eq!(counted(&client, "409").await, 0);
    // Nothing but requests for resources meets faults.
    set(&client, json!([{"errors": [{"code": 500, "rate": 1}]}])).await;
    for path in [
        "/readyz",
        "/livez",
        "/metrics",
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v2",
        FAULTS,
    ] {
        assert_eq!(client.call(Call::get(path)).await.status, 200, "{path}");
    }
    server.stop();
}

#[tokio::test]
async fn rules_select_requests_and_are_used_up() {
    let server = Server::start(&[]);
    let client = server.client();
    made(&client, "a").await;
    let secret = json!({"metadata": {"name": "s"}});
    client.call(Call::post(SECRETS, &secret)).await.expect(201);
    let all = json!([{
        "match": {"verbs": ["get"], "resources": ["configmaps"], "namespaces": ["default"],
            "users": ["bob"], "userAgents": ["manager/"]},
        "errors": [{"code": 500, "rate": 1}],
    }]);
    set(&client, all).await;
    let as_bob = |call: Call| {
        call.header("impersonate-user", "bob")
            .header("impersonate-group", "system:masters")
    };
    let agent = |call: Call| call.header("user-agent", "manager/v1 (linux)");
    let path = configmap("a");
    let hit = client.call(as_bob(agent(Call::get(&path)))).await;
    hit.refusal(500, "InternalError");
    client.call(agent(Call::get(&path))).await.expect(200);
    client.call(as_bob(Call::get(&path))).await.expect(200);
    client
        .call(as_bob(agent(Call::get(CONFIGMAPS))))
        .await
        .expect(200);
    client
        .call(as_bob(agent(Call::get(&format!("{SECRETS}/s")))))
        .await
        .expect(200);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt";
    server
        .until(elsewhere, |found| found["kind"] == "ConfigMap")
        .await;
    client
        .call(as_bob(agent(Call::get(elsewhere))))
        .await
        .expect(200);

    let few = json!([{"match": {"resources": ["configmaps"]}, "errors": [{"code": 429, "rate": 1}], "count": 3}]);
    let shown = set(&client, few).await;
    assert_eq!(shown["rules"][0]["hits"], json!({}));
    for _ in 0..3 {
        client
            .call(Call::get(&path))
            .await
            .refusal(429, "TooManyRequests");
    }
    client.call(Call::get(&path)).await.expect(200);
    let shown = client.call(Call::get(FAULTS)).await.expect(200);
    assert_eq!(shown["rules"][0]["hits"], json!({"429": 3}));
    // The answer to GET may be sent back.
    let again = client.call(Call::put(FAULTS, &shown)).await.expect(200);
    assert_eq!(again["rules"][0]["hits"], json!({}));
    client
        .call(Call::get(&path))
        .await
        .refusal(429, "TooManyRequests");
    assert_eq!(counted(&client, "429").await, 4);
    server.stop();
}

/// Which of 1,000 requests in a row are hit.
async fn hits(server: &Server) -> Vec<usize> {
    let client = server.client();
    let mut hits = Vec::new();
    for number in 0..1000 {
        let answer = client.call(Call::get(&configmap("none"))).await;
        match answer.status.as_u16() {
            404 => {}
            500 => hits.push(number),
            other => panic!("{other}: {}", answer.text()),
        }
    }
    hits
}

#[tokio::test]
async fn a_seed_hits_the_same_requests_in_each_run() {
    let plan = r#"{"seed": 42, "rules": [{"errors": [{"code": 500, "rate": 0.1}]}]}"#;
    let server = Server::start(&["--faults", plan]);
    let first = hits(&server).await;
    assert!(first.len().abs_diff(100) < 40, "{}", first.len());
    let client = server.client();
    let shown = client.call(Call::get(FAULTS)).await.expect(200);
    assert_eq!(shown["rules"][0]["hits"], json!({"500": first.len()}));
    let other = Server::start(&["--faults", plan]);
    assert_eq!(hits(&other).await, first);
    // Setting the faults begins again, and another seed hits other requests.
    other
        .client()
        .call(Call::put(FAULTS, &shown))
        .await
        .expect(200);
    assert_eq!(hits(&other).await, first);
    let third = Server::start(&["--faults", plan, "--fault-seed=43"]);
    assert_ne!(hits(&third).await, first);
    for server in [server, other, third] {
        server.stop();
    }
}

#[tokio::test]
async fn latency_delays_its_requests_and_no_others() {
    // One thread: a delay that blocked it would block everybody.
    let mut server = Server::start(&["--http-threads=1"]);
    let client = server.client();
    made(&client, "a").await;
    let long = json!([
        {"match": {"verbs": ["get"]}, "latency": "200ms", "jitter": "100ms", "count": 1},
        {"match": {"userAgents": ["slow"]}, "latency": "1m"},
    ]);
    set(&client, long).await;
    let begun = Instant::now();
    client.call(Call::get(&configmap("a"))).await.expect(200);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    let slow = || Call::get(&configmap("a")).header("user-agent", "slow");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let waiting = server.target().client_over(protocol);
        let delayed = tokio::spawn(async move { waiting.attempt(slow()).await });
        let in_flight = "apiserver_current_inflight_requests{request_kind=\"readOnly\"} ";
        let begins = async |count: u64| {
            let start = Instant::now();
            loop {
                let page = client.call(Call::get("/metrics")).await.text();
                // The request for the page is one.
                let line = page.lines().find_map(|line| line.strip_prefix(in_flight));
                if line.unwrap().parse::<u64>().unwrap() == count + 1 {
                    break;
                }
                assert!(start.elapsed() < TIMEOUT, "{page}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        begins(1).await;
        client.call(Call::get(&configmap("a"))).await.expect(200);
        // The delay ends with its client.
        delayed.abort();
        begins(0).await;
    }
    assert_eq!(counted(&client, "latency").await, 3);
    // And with the server.
    let waiting = server.client();
    let delayed = tokio::spawn(async move { waiting.attempt(slow()).await });
    while counted(&client, "latency").await < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "it waited for a delay"
    );
    server.left_nothing();
    let _ = delayed.await;
}

/// The next event, without what it is about.
async fn kind(watch: &mut Lines) -> String {
    watch.event().await["type"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn watches_end_after_an_event_and_no_event_is_lost() {
    let server = Server::start(&[]);
    let client = server.client();
    let path =
        |from: u64| format!("{CONFIGMAPS}?watch=1&resourceVersion={from}&allowWatchBookmarks=true");
    let from = version(&made(&client, "a").await);
    let mut open = client.watch(&path(from)).await;
    made(&client, "b").await;
    assert_eq!(kind(&mut open).await, "ADDED");
    // The watch was open before.
    set(&client, json!([{"dropWatches": {"rate": 1}}])).await;
    let mut last = version(&made(&client, "c").await);
    made(&client, "d").await;
    assert_eq!(open.event().await["object"]["metadata"]["name"], "c");
    assert!(open.rest().await.is_empty(), "not even a bookmark");
    for name in ["d", "e", "f"] {
        let mut resumed = client.watch(&path(last)).await;
        if name != "d" {
            made(&client, name).await;
        }
        let event = resumed.event().await;
        assert_eq!(event["object"]["metadata"]["name"], name);
        last = version(&event["object"]);
        assert!(resumed.rest().await.is_empty());
    }
    assert_eq!(counted(&client, "dropWatches").await, 4);
    // WA-7.
    let asked = Asked::web_socket(&path(last)).header("Origin", "https://example.com");
    let mut resumed = asked.send(&server.target()).await.unwrap();
    last = version(&made(&client, "web-socket").await);
    let event = resumed.event().await;
    assert_eq!(version(&event["object"]), last);
    assert_eq!(resumed.closed().await, 1000);
    set(&client, json!([{"expireWatches": {"rate": 1}, "count": 1}])).await;
    let mut resumed = client.watch(&path(last)).await;
    made(&client, "g").await;
    assert_eq!(kind(&mut resumed).await, "ADDED");
    let error = resumed.event().await;
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(error["object"]["reason"], "Expired");
    assert!(resumed.rest().await.is_empty());
    // The rule is used up. The bookmark that ends a streamed list does not count.
    set(
        &client,
        json!([{"dropWatches": {"rate": 1}, "match": {"resources": ["secrets"]}}]),
    )
    .await;
    let list = format!(
        "{SECRETS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let mut streamed = client.watch(&list).await;
    assert_eq!(kind(&mut streamed).await, "BOOKMARK");
    let secret = json!({"metadata": {"name": "s"}});
    client.call(Call::post(SECRETS, &secret)).await.expect(201);
    assert_eq!(kind(&mut streamed).await, "ADDED");
    assert!(streamed.rest().await.is_empty());
    server.stop();
}

/// Faults that clients must get over.
fn rough() -> Value {
    json!([
        {"dropWatches": {"rate": 0.02}, "expireWatches": {"rate": 0.01}},
        {"match": {"verbs": ["list", "watch"]}, "jitter": "20ms", "errors": [
            {"code": 410, "rate": 0.1}, {"code": 429, "rate": 0.1}, {"code": 503, "rate": 0.05}]},
    ])
}

/// Writes until so many watches have been dropped and have expired, removes the faults, and writes
/// the last object.
async fn written(server: &Server, dropped: u64, expired: u64) -> Value {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(churn(server.client(), writer, stopped.clone())))
        .collect();
    let client = server.client();
    let start = Instant::now();
    while counted(&client, "dropWatches").await < dropped
        || counted(&client, "expireWatches").await < expired
    {
        assert!(start.elapsed() < TIMEOUT, "nobody watches");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.send(true).unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    client.call(Call::put(FAULTS, &json!({}))).await.expect(200);
    let end = json!({ "metadata": { "name": "end" } });
    client.call(Call::post(CONFIGMAPS, &end)).await.expect(201);
    client.call(Call::get(CONFIGMAPS)).await.expect(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_client_go_get_over_faults() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut informers = Vec::new();
    for over in ["json", "protobuf", "metadata"] {
        for watch_list in ["true", "false"] {
            informers.push(Informers::start(&server.kubeconfig(), over, watch_list));
        }
    }
    for informer in &mut informers {
        assert_eq!(
            informer.line().await.as_deref(),
            Some("synced"),
            "{}",
            informer.mode
        );
    }
    set(&client, rough()).await;
    let listed = versions(&written(&server, 40, 10).await);
    assert!(counted(&client, "410").await > 0 && counted(&client, "429").await > 0);
    for informer in informers {
        let mode = informer.mode.clone();
        let (store, told) = informer.end().await;
        assert_eq!(store, listed, "{mode}");
        assert_eq!(told, listed, "{mode}");
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watcher_of_kube_rs_gets_over_faults() {
    let server = Server::start(&[]);
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client_by(kubeconfig).await);
    let told: Arc<Mutex<Informed>> = Arc::default();
    let informer = tokio::spawn(inform(api, watcher::Config::default(), told.clone()));
    let start = Instant::now();
    while told.lock().lists == 0 {
        assert!(start.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    set(&server.client(), rough()).await;
    let listed = versions(&written(&server, 8, 4).await);
    let start = Instant::now();
    while told.lock().versions != listed {
        assert!(!informer.is_finished(), "{:?}", informer.await);
        assert!(start.elapsed() < TIMEOUT, "it never has what is listed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = told.lock();
    assert!(
        told.lists > 1 && told.errors > 0,
        "{} {}",
        told.lists,
        told.errors
    );
    informer.abort();
    server.stop();
}

#[tokio::test]
async fn kubectl_sees_faults() {
    let server = Server::start(&[]);
    let Some(kubectl) = Kubectl::of("1.36", server.kubeconfig()) else {
        return;
    };
    let client = server.client();
    made(&client, "a").await;
    // It tries again after a 429, as the answer says.
    set(
        &client,
        json!([{"errors": [{"code": 429, "rate": 1}], "count": 1}]),
    )
    .await;
    assert!(kubectl.ok(&["get", "configmap", "a"]).await.contains("a "));
    assert_eq!(counted(&client, "429").await, 1);
    for (code, said) in [
        (
            500,
            "Error from server (InternalError): Internal error occurred: a fault that a test",
        ),
        (
            504,
            "Error from server (Timeout): Timeout: request did not complete",
        ),
    ] {
        set(&client, json!([{"errors": [{"code": code, "rate": 1}]}])).await;
        let printed = kubectl.run_with(&["get", "configmap", "a"], "").await;
        assert!(
            !printed.success && printed.stderr.contains(said),
            "{}",
            printed.stderr
        );
    }
    let conflict = json!([{"match": {"verbs": ["delete"]}, "errors": [{"code": 409, "rate": 1}]}]);
    set(&client, conflict).await;
    let printed = kubectl.run_with(&["delete", "configmap", "a"], "").await;
    let said = "Error from server (Conflict): Operation cannot be fulfilled on configmaps \"a\"";
    assert!(
        !printed.success && printed.stderr.contains(said),
        "{}",
        printed.stderr
    );
    server.stop();
}

#[tokio::test]
async fn wrong_documents_change_nothing_and_only_admins_are_served() {
    let server = Server::start(&[]);
    let client = server.client();
    let kept = set(
        &client,
        json!([{"latency": "1ms", "match": {"users": ["nobody"]}}]),
    )
    .await;
    for (document, said) in [
        (
            r#"{"rules": [{"latency": "2m"}]}"#,
            "rules[0].latency: must be from 0s to 1m0s",
        ),
        (
            r#"{"rules": [{"errors": [{"code": 418, "rate": 1}]}]}"#,
            "rules[0].errors[0].code: must be one of",
        ),
        (
            r#"{"rules": [{"errors": [{"code": 500, "rate": -0.1}]}]}"#,
            "rules[0].errors[0].rate: must be a number",
        ),
        (
            r#"{"rule": []}"#,
            "rule: is not known; known are seed, rules",
        ),
        (
            r#"{"seed": 9007199254740992}"#,
            "seed: must be a whole number from 0 to 9007199254740991",
        ),
        ("[]", "must be"),
        ("{", "not JSON"),
        ("rules: [{", ""),
        ("", ""),
    ] {
        let call = Call::new("PUT", FAULTS).body("application/json", document.to_owned());
        let status = client.call(call).await.refusal(400, "BadRequest");
        let message = status["message"].as_str().unwrap();
        assert!(
            message.contains(said) && !message.is_empty(),
            "{document}: {message}"
        );
    }
    let long = format!("{{\"rules\": [], \"x\": \"{}\"}}", "x".repeat(64 * 1024));
    let call = Call::new("PUT", FAULTS).body("application/json", long);
    client
        .call(call)
        .await
        .refusal(413, "RequestEntityTooLarge");
    assert_eq!(client.call(Call::get(FAULTS)).await.expect(200), kept);
    for method in ["POST", "PATCH", "DELETE"] {
        client
            .call(Call::new(method, FAULTS))
            .await
            .refusal(405, "MethodNotAllowed");
    }
    assert_eq!(
        client
            .call(Call::get("/taffrail/v1/test/other"))
            .await
            .status,
        404
    );
    assert_eq!(
        client.call(Call::get("/taffrail/v1/test")).await.status,
        404
    );
    let paths = client.call(Call::get("/")).await.expect(200);
    let paths = paths["paths"].as_array().unwrap();
    assert!(paths.contains(&json!(FAULTS)));
    for method in ["GET", "PUT"] {
        let call = Call::new(method, FAULTS).header("impersonate-user", "bob");
        client.call(call).await.refusal(403, "Forbidden");
    }
    // A document in YAML is one, too.
    let yaml =
        Call::new("PUT", FAULTS).body("application/yaml", "rules:\n- latency: 1ms\n".to_owned());
    assert_eq!(
        client.call(yaml).await.expect(200)["rules"][0]["latency"],
        "1ms"
    );
    server.stop();
}

#[tokio::test]
async fn a_daemon_that_serves_no_tests_has_no_such_paths() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let unknown = client.call(Call::get("/taffrail/v1/nonsense")).await;
    for path in [FAULTS, "/taffrail/v1/test/clock", "/taffrail/v1/test"] {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let call = Call::new(method, path).body("application/json", "{}");
            let answer = client.call(call).await;
            assert_eq!(answer.status, unknown.status, "{method} {path}");
            assert_eq!(answer.body, unknown.body, "{method} {path}");
        }
    }
    let paths = client.call(Call::get("/")).await.text();
    let metrics = client.call(Call::get("/metrics")).await.text();
    assert!(!paths.contains("/test/") && !metrics.contains("test_faults"));
}

#[tokio::test]
async fn flags_have_the_same_document_and_the_log_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.yaml");
    let plan = "rules:\n- match: {verbs: [create]}\n  errors: [{code: 503, rate: 1}]\n";
    std::fs::write(&file, plan).unwrap();
    let manifest = folder.path().join("manifest.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n",
    )
    .unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let arguments = [
        "--faults",
        file.to_str().unwrap(),
        "--load",
        manifest.to_str().unwrap(),
    ];
    // The objects of --load do not meet them.
    let server = Server::start_logging(&arguments, log.reopen().unwrap());
    let client = server.client();
    client
        .call(Call::post(CONFIGMAPS, &body("b", "1")))
        .await
        .refusal(503, "ServiceUnavailable");
    let seed = client.call(Call::get(FAULTS)).await.expect(200)["seed"].clone();
    let said = format!("seed={seed}");
    until(|| std::fs::read_to_string(log.path()).unwrap().contains(&said));
    server.stop();

    let missing = folder.path().join("missing.json");
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "rules: 3").unwrap();
    let long = folder.path().join("long.yaml");
    std::fs::write(&long, " ".repeat(70_000)).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    for (arguments, said) in [
        (
            vec!["--faults".to_owned(), r#"{"rules": [{}]}"#.to_owned()],
            "rules[0]: it injects nothing",
        ),
        (vec!["--faults".to_owned(), "{".to_owned()], "not JSON"),
        (vec!["--faults".to_owned(), text(&missing)], "can't be read"),
        (
            vec!["--faults".to_owned(), text(folder.path())],
            "can't be read",
        ),
        (
            vec!["--faults".to_owned(), text(&bad)],
            "rules: must be a list",
        ),
        (vec!["--faults".to_owned(), text(&long)], "can't be read"),
        (vec!["--faults".to_owned(), String::new()], "--faults"),
        (vec!["--fault-seed=1".to_owned()], "--faults"),
        (
            vec!["--faults={}".to_owned(), "--fault-seed=-1".to_owned()],
            "--fault-seed",
        ),
        (
            vec![
                "--faults={}".to_owned(),
                "--fault-seed=9007199254740992".to_owned(),
            ],
            "--fault-seed",
        ),
        (
            vec!["--faults={}".to_owned(), "--fault-seed=x".to_owned()],
            "--fault-seed",
        ),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, stderr) = refused(&arguments);
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
}
