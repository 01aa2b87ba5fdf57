//! Webhooks of users, over HTTP (hooks.md). `replay::webhook_*` compare answers with
//! kube-apiserver's. These tests show what a single client cannot.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::hook_server::HookServer;
use crate::harness::{Call, Client, Daemon};
use crate::servers::etcd::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A configuration with one webhook, whose answers are set under this name, and further members.
fn configuration(hooks: &HookServer, is_mutating: bool, name: &str, more: Value) -> Value {
    let mut webhook = json!({
        "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "url": format!("{}/admit/{name}", hooks.url()), "caBundle": hooks.ca_bundle,
        },
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["*"],
        }],
    });
    let members = webhook.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let kind = match is_mutating {
        true => "MutatingWebhookConfiguration",
        false => "ValidatingWebhookConfiguration",
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": [webhook],
    })
}

fn path(is_mutating: bool) -> String {
    match is_mutating {
        true => format!("{GROUP}/mutatingwebhookconfigurations"),
        false => format!("{GROUP}/validatingwebhookconfigurations"),
    }
}

async fn install(client: &Client, hooks: &HookServer, is_mutating: bool, name: &str, more: Value) {
    let body = configuration(hooks, is_mutating, name, more);
    let answer = client.call(Call::post(&path(is_mutating), &body)).await;
    assert_eq!(answer.header("warning"), None);
    answer.expect(201);
}

async fn create(client: &Client, name: &str) -> (u16, Value) {
    let body = json!({"metadata": {"name": name}, "data": {"k": "0"}});
    let answer = client.call(Call::post(MAPS, &body)).await;
    (answer.status.as_u16(), answer.json())
}

/// Each configuration counts with its acknowledgement, its change and its end too.
async fn counts_at_once(daemon: &Daemon) {
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    hooks.tell("no", json!({"allowed": false, "message": "no"}));
    for round in 0..5 {
        for is_mutating in [true, false] {
            install(&client, &hooks, is_mutating, "no", json!({})).await;
            let (code, status) = create(&client, "refused").await;
            assert_eq!(code, 400, "{status}");
            let text = "admission webhook \"w.example.com\" denied the request: no";
            assert_eq!(status["message"], text);
            let at = format!("{}/no", path(is_mutating));
            let ignore = json!([{"op": "replace", "path": "/webhooks/0/rules/0/operations",
                "value": ["DELETE"]}]);
            let patch = Call::new("PATCH", &at);
            let patch = patch.body("application/json-patch+json", ignore.to_string());
            client.call(patch).await.expect(200);
            let (code, status) = create(&client, &format!("m{round}{is_mutating}")).await;
            assert_eq!(code, 201, "{status}");
            client.call(Call::delete(&at)).await.expect(200);
            let gone = Call::delete(&format!("{MAPS}/m{round}{is_mutating}"));
            client.call(gone).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_configuration_counts_with_its_acknowledgement_hk_18() {
    counts_at_once(&Daemon::start().await).await;
}

#[tokio::test]
async fn a_configuration_counts_at_once_without_watch_caches_hk_18() {
    counts_at_once(&Daemon::with(&["--watch-cache=false"]).await).await;
}

#[tokio::test]
async fn a_configuration_counts_at_once_over_etcd_and_soon_on_others_hk_18() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = cluster.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let one = Daemon::with(&[&servers]).await;
    counts_at_once(&one).await;
    let two = Daemon::with(&[&servers]).await;
    let hooks = HookServer::start().await;
    hooks.tell("no", json!({"allowed": false}));
    install(&one.client(), &hooks, false, "no", json!({})).await;
    let other = two.client();
    let mut number = 0;
    while create(&other, &format!("o{number}")).await.0 == 201 {
        number += 1;
        assert!(number < 1000, "the other daemon has not heard of it");
    }
}

/// Writers of one key lose nothing, and the webhook is asked once for each attempt to store.
async fn many_writers(daemon: &Daemon) {
    const WRITERS: usize = 16;
    const EACH: usize = 5;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    install(&client, &hooks, false, "seen", json!({})).await;
    assert_eq!(create(&client, "hot").await.0, 201);
    hooks.control("DELETE /calls/seen", "");
    let at = format!("{MAPS}/hot");
    let writers = (0..WRITERS).map(|writer| {
        let (client, at) = (daemon.client(), &at);
        async move {
            for number in 0..EACH {
                let key = format!("w{writer}-{number}");
                let patch = Call::merge_patch(at, &json!({"data": {key: "1"}}));
                client.call(patch).await.expect(200);
            }
        }
    });
    join_all(writers).await;
    let data = client.call(Call::get(&at)).await.expect(200)["data"].clone();
    assert_eq!(data.as_object().unwrap().len(), WRITERS * EACH + 1);
    // Each call is about an object that was based on the newest state or lost to one that was
    // stored: an attempt that loses has a rival's write between its call and its end.
    let reviews = hooks.reviews("seen");
    let stored = WRITERS * EACH;
    let old = |review: &Value| {
        review["request"]["oldObject"]["data"]
            .as_object()
            .unwrap()
            .len()
    };
    let lost = reviews.len() - stored;
    assert!(lost <= stored * (WRITERS - 1), "{lost} calls too many");
    for state in 1..=stored {
        // Each state was replaced once, by one of those that began with it.
        let began = reviews.iter().filter(|review| old(review) == state).count();
        assert!(
            (1..=WRITERS).contains(&began),
            "{began} calls began at {state}"
        );
    }
}

#[tokio::test]
async fn writers_of_one_key_ask_once_for_each_attempt_and_lose_nothing_hk_6() {
    many_writers(&Daemon::start().await).await;
}

#[tokio::test]
async fn writers_of_one_key_lose_nothing_over_etcd_hk_6() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = cluster.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    many_writers(&Daemon::with(&[&servers]).await).await;
}

#[tokio::test]
async fn a_slow_webhook_holds_only_its_own_request_hk_42() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let slow = json!({"objectSelector": {"matchLabels": {"slow": "yes"}}, "timeoutSeconds": 30});
    install(&client, &hooks, false, "slow", slow).await;
    assert_eq!(create(&client, "a").await.0, 201);
    hooks.tell("slow", json!([{"held": true}, {}]));
    let labels = json!({"metadata": {"labels": {"slow": "yes"}}});
    let at = format!("{MAPS}/a");
    let waiting = daemon.client();
    let held = tokio::spawn({
        let call = Call::merge_patch(&at, &labels);
        async move { waiting.call(call).await.expect(200) }
    });
    while hooks.reviews("slow").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 0..50 {
        // Writes of the same object and of others go on meanwhile.
        let data = json!({"data": {"n": number.to_string()}});
        client.call(Call::merge_patch(&at, &data)).await.expect(200);
        assert_eq!(create(&client, &format!("b{number}")).await.0, 201);
    }
    assert!(!held.is_finished());
    hooks.release();
    let object = held.await.unwrap();
    assert_eq!(object["data"]["n"], "49");
    assert_eq!(object["metadata"]["labels"]["slow"], "yes");
    // It lost to the other writes and asked again.
    assert_eq!(hooks.reviews("slow").len(), 2);
}

#[tokio::test]
async fn webhooks_are_trusted_by_their_own_certificate_and_paths_are_cleaned_hk_44() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let server = json!({"clientConfig": {
        "url": format!("{}//admit/./leaf/", hooks.url()), "caBundle": hooks.own_bundle,
    }});
    install(&client, &hooks, true, "leaf", server).await;
    let (code, status) = create(&client, "a").await;
    assert_eq!(code, 201, "{status}");
    let calls = hooks.control("GET /calls/leaf", "");
    assert_eq!(calls["calls"][0]["path"], "/admit/leaf");
}

#[tokio::test]
async fn a_webhook_for_everything_can_be_removed_hk_14() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let everything = json!({
        "clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": hooks.ca_bundle},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
            "operations": ["*"]}],
    });
    for is_mutating in [true, false] {
        install(&client, &hooks, is_mutating, "all", everything.clone()).await;
    }
    let (code, status) = create(&client, "a").await;
    assert_eq!(code, 500);
    let text = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call \
                webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: \
                connect: connection refused";
    assert_eq!(status["message"], text);
    for is_mutating in [true, false] {
        let at = format!("{}/all", path(is_mutating));
        client.call(Call::delete(&at)).await.expect(200);
    }
    assert_eq!(create(&client, "a").await.0, 201);
}

#[tokio::test]
async fn configurations_survive_a_restart_and_the_first_request_obeys_them_hk_18() {
    let mut daemon = Daemon::start().await;
    let hooks = HookServer::start().await;
    hooks.tell("no", json!({"allowed": false}));
    install(&daemon.client(), &hooks, false, "no", json!({})).await;
    daemon.kill().await;
    daemon.restart().await;
    assert_eq!(create(&daemon.client(), "a").await.0, 400);
}

#[tokio::test]
async fn services_are_reached_by_their_endpoints_if_asked_for_hk_43() {
    let hooks = HookServer::start().await;
    let service = json!({"clientConfig": {
        "service": {"namespace": "default", "name": "hook", "path": "/admit/service"},
        "caBundle": hooks.ca_bundle,
    }});
    let objects = async |client: &Client| {
        let body = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
        let services = "/api/v1/namespaces/default/services";
        client.call(Call::post(services, &body)).await.expect(201);
    };
    let daemon = Daemon::with(&["--enable-aggregator-routing"]).await;
    let client = daemon.client();
    install(&client, &hooks, false, "service", service).await;
    let message = async || create(&client, "a").await.1["message"].clone();
    let why = |why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"w.example.com\": failed to call \
             webhook: Post \"https://hook.default.svc:443/admit/service?timeout=10s\": {why}"
        )
    };
    assert_eq!(message().await, why("service \"hook\" not found"));
    objects(&client).await;
    let none = "no endpoints available for service \"hook\"";
    assert_eq!(message().await, why(none));
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}],
        "ports": [{"name": "", "port": hooks.port}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let answer = client.call(Call::post(slices, &slice)).await;
    // Kubernetes does not let endpoints be loopback addresses.
    if answer.status == 201 {
        assert_eq!(create(&client, "a").await.0, 201);
        assert_eq!(hooks.reviews("service").len(), 1);
    }
}

#[tokio::test]
async fn large_answers_and_hostile_patches_are_bounded_hk_25() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    install(&client, &hooks, true, "bad", json!({})).await;
    let copies: Vec<Value> = (0..40)
        .map(|number| {
            let (from, to) = ("/data", format!("/data/c{number}"));
            json!({"op": "copy", "from": from, "path": to})
        })
        .collect();
    let many: Vec<Value> = vec![json!({"op": "test", "path": "/data/k", "value": "0"}); 10_001];
    let big = json!([{"op": "add", "path": "/data/b", "value": "x".repeat(4 << 20)}]);
    for (answer, part) in [
        (json!({"body": "x".repeat(17 << 20)}), "too large"),
        (json!({"patch": copies}), "exceeds the limit"),
        (
            json!({"patch": many}),
            "received undecodable patch in webhook response",
        ),
        (json!({"patch": big}), "the limit is 3145728 bytes"),
        (json!({"uid": "another"}), "expected response.uid="),
    ] {
        hooks.tell("bad", answer);
        let (code, status) = create(&client, "a").await;
        assert!(matches!(code, 500 | 413), "{code} {status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(part), "{part}: {message:.300}");
    }
    // Nothing of all that is stored.
    client
        .call(Call::get(&format!("{MAPS}/a")))
        .await
        .refusal(404, "NotFound");
}

#[tokio::test]
async fn calls_are_measured_hk_94_hk_95() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let names = [("yes", true), ("yes", false), ("no", false)];
    for (name, is_mutating) in names {
        install(&client, &hooks, is_mutating, name, json!({})).await;
    }
    let open = json!({
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": hooks.ca_bundle},
    });
    install(&client, &hooks, false, "open", open).await;
    hooks.tell("no", json!({"allowed": false, "code": 418}));
    assert_eq!(create(&client, "a").await.0, 418);
    let page = client.call(Call::get("/metrics")).await.text();
    for line in [
        "apiserver_admission_webhook_request_total{name=\"w.example.com\",operation=\"CREATE\",\
         rejected=\"false\",type=\"admit\",code=\"200\"} 1",
        "apiserver_admission_webhook_request_total{name=\"w.example.com\",operation=\"CREATE\",\
         rejected=\"true\",type=\"validating\",code=\"418\"} 1",
        "apiserver_admission_webhook_rejection_count{name=\"w.example.com\",operation=\"CREATE\",\
         type=\"validating\",error_type=\"no_error\",rejection_code=\"418\"} 1",
        "apiserver_admission_webhook_fail_open_count{name=\"w.example.com\",type=\"validating\"} 1",
        "apiserver_admission_webhook_admission_duration_seconds_count",
    ] {
        assert!(page.contains(line), "{line}");
    }
}

#[tokio::test]
async fn deletions_of_a_collection_have_no_name_hk_17() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    for name in ["a", "b"] {
        assert_eq!(create(&client, name).await.0, 201);
    }
    install(&client, &hooks, false, "seen", json!({})).await;
    client.call(Call::delete(MAPS)).await.expect(200);
    let reviews = hooks.reviews("seen");
    assert_eq!(reviews.len(), 2);
    for review in &reviews {
        let request = &review["request"];
        assert_eq!(request.get("name"), None, "{request}");
        assert_eq!(request["operation"], "DELETE");
        assert!(request["oldObject"]["metadata"]["name"].is_string());
    }
}

#[tokio::test]
async fn webhooks_are_asked_about_reviews_and_not_about_reads_hk_5_hk_14() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let everything = json!({"rules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
    }]});
    install(&client, &hooks, false, "all", everything).await;
    hooks.control("DELETE /calls/all", "");
    client.call(Call::get(MAPS)).await.expect(200);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    client.call(Call::post(path, &review)).await.expect(201);
    let kinds: Vec<Value> = hooks
        .reviews("all")
        .iter()
        .map(|review| review["request"]["kind"]["kind"].clone())
        .filter(|kind| kind != "Lease" && kind != "EndpointSlice")
        .collect();
    assert_eq!(kinds, ["SelfSubjectAccessReview"]);
}
