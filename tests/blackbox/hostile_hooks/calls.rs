//! Calls of admission webhooks that hang, call back, meet themselves or lose their client or their
//! configuration (HK-6, HK-14, HK-18, HK-42, HK-43).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{NAME, configurations, create, install, remove, responds, webhook};
use crate::harness::hostile_server::{Act, HostileServer};
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, configmap};

/// Everything of every kind.
fn everything() -> Value {
    json!({"timeoutSeconds": 1, "rules": [{"apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*/*"], "operations": ["*"]}]})
}

/// HK-6: a webhook may change the object about which it is asked. The request begins again with
/// the new state, or is refused if it names the old one. Nobody waits for somebody else.
#[tokio::test]
async fn a_webhook_that_calls_back_for_its_object_meets_no_deadlock_hk_6() {
    for is_mutating in [true, false] {
        let daemon = Daemon::start().await;
        let client = daemon.client();
        let object = create(&client, "a").await.1;
        let go = Arc::new(Notify::new());
        let (then, first) = (Arc::clone(&go), AtomicUsize::new(0));
        let server = HostileServer::start(move |asked| {
            let yes = responds(asked, &json!({}));
            match first.fetch_add(1, Ordering::Relaxed) < 2 {
                true => Act::After(Arc::clone(&then), Box::new(yes)),
                false => yes,
            }
        });
        let server = server.await;
        let hook = webhook(NAME, server.client_config("/hook"), &json!({}));
        install(&client, is_mutating, "back", &json!([hook])).await;
        let patch = Call::merge_patch(&configmap("a"), &json!({"data": {"from": "client"}}));
        let patching = tokio::spawn({
            let client = daemon.client();
            async move { client.call(patch).await.expect(200) }
        });
        server.until_asked(1).await;
        let mut stale = object.clone();
        stale["data"] = json!({"from": "client"});
        let putting = tokio::spawn({
            let (client, put) = (daemon.client(), Call::put(&configmap("a"), &stale));
            async move { client.call(put).await.status.as_u16() }
        });
        server.until_asked(2).await;
        let back = Call::merge_patch(&configmap("a"), &json!({"data": {"back": "1"}}));
        client.call(back).await.expect(200);
        go.notify_waiters();
        assert_eq!(putting.await.unwrap(), 409);
        // The patch is asked about again, with the new state.
        let patched = patching.await.unwrap();
        assert!(server.asked().len() >= 4);
        let data = json!({"k": "0", "back": "1", "from": "client"});
        assert_eq!(patched["data"], data);
    }
}

/// HK-14: webhooks that refuse everything, or hang, stop neither the daemon's own work nor reads
/// nor their removal. They are asked about reviews, leases and events, and never about their own
/// configurations.
#[tokio::test]
async fn webhooks_for_everything_hang_and_the_daemon_stays_ready_hk_14() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let server = HostileServer::start(|_| Act::Silence).await;
    let hook = webhook(NAME, server.client_config("/hook"), &everything());
    for is_mutating in [true, false] {
        install(&client, is_mutating, "all", &json!([hook])).await;
    }
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"},
        "type": "Normal", "reason": "R"});
    let events = "/api/v1/namespaces/default/events";
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    for (path, body) in [
        (leases, &lease),
        (events, &event),
        (tokens, &json!({"spec": {"token": "t"}})),
        (reviews, &review),
        (CONFIGMAPS, &json!({"metadata": {"name": "c"}})),
    ] {
        let refused = client.call(Call::post(path, body)).await;
        let status = refused.refusal(500, "InternalError");
        assert!(
            status["message"].as_str().unwrap().contains(NAME),
            "{path}: {status}"
        );
    }
    for path in ["/readyz", CONFIGMAPS, leases, "/api/v1/namespaces"] {
        assert_eq!(client.call(Call::get(path)).await.status, 200, "{path}");
    }
    // The first requests after a start obey them, and the daemon is ready.
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    assert_eq!(create(&client, "c").await.0, 500);
    for is_mutating in [true, false] {
        let path = format!("{}/all", configurations(is_mutating));
        let change = json!({"metadata": {"labels": {"a": "b"}}});
        client
            .call(Call::merge_patch(&path, &change))
            .await
            .expect(200);
        remove(&client, is_mutating, "all").await;
    }
    assert_eq!(create(&client, "c").await.0, 201);
    let groups = server.asked();
    let mut groups = groups
        .iter()
        .map(|asked| &asked.review["request"]["kind"]["group"]);
    assert!(groups.all(|group| group != "admissionregistration.k8s.io"));
}

/// HK-43: a webhook whose Service is the daemon itself is answered by the daemon, as a stranger.
#[tokio::test]
async fn a_webhook_behind_the_daemon_itself_is_refused_by_it_hk_43() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let pem = std::fs::read(daemon.data().join("pki/ca.crt")).unwrap();
    let bundle = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
    let maps = "/api/v1/namespaces/default/configmaps";
    let refused = "User \"system:anonymous\" cannot";
    let unnamed = format!(
        "configmaps is forbidden: {refused} create resource \"configmaps\" in API group \"\" in \
         the namespace \"default\""
    );
    let port = "no service port 444 found for service \"kubernetes\"";
    for (path, at, why) in [
        (maps, 443, &*unnamed),
        (
            "/healthz",
            443,
            &format!("forbidden: {refused} post path \"/healthz\""),
        ),
        (
            "/none",
            443,
            &format!("forbidden: {refused} post path \"/none\""),
        ),
        (maps, 444, port),
    ] {
        let config = json!({"caBundle": bundle, "service": {
            "namespace": "default", "name": "kubernetes", "path": path, "port": at}});
        install(
            &client,
            false,
            "self",
            &json!([webhook(NAME, config, &json!({}))]),
        )
        .await;
        let mut creating = JoinSet::new();
        for number in 0..20 {
            let client = daemon.client();
            creating.spawn(async move { create(&client, &format!("c-{number}")).await });
        }
        while let Some(created) = creating.join_next().await {
            let (code, status) = created.unwrap();
            assert_eq!(code, 500, "{status}");
            let begin = "Internal error occurred: failed calling webhook";
            let message = status["message"].as_str().unwrap();
            assert!(message.starts_with(begin), "{message}");
            assert!(message.ends_with(why), "{message}");
        }
        remove(&client, false, "self").await;
    }
}

/// HK-18: a call that runs is not ended by the deletion of its configuration, and counts.
#[tokio::test]
async fn a_configuration_is_deleted_while_its_calls_run_hk_18() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let go = Arc::new(Notify::new());
    let then = Arc::clone(&go);
    let server = HostileServer::start(move |asked| {
        let no = responds(
            asked,
            &json!({"allowed": false, "status": {"message": "late"}}),
        );
        Act::After(Arc::clone(&then), Box::new(no))
    });
    let server = server.await;
    for is_mutating in [true, false] {
        let hook = webhook(
            NAME,
            server.client_config("/hook"),
            &json!({"timeoutSeconds": 30}),
        );
        install(&client, is_mutating, "gone", &json!([hook])).await;
        let before = server.asked().len();
        let mut creating = JoinSet::new();
        for number in 0..8 {
            let client = daemon.client();
            creating.spawn(async move { create(&client, &format!("c-{number}")).await });
        }
        server.until_asked(before + 8).await;
        remove(&client, is_mutating, "gone").await;
        assert_eq!(create(&client, &format!("free-{is_mutating}")).await.0, 201);
        go.notify_waiters();
        while let Some(created) = creating.join_next().await {
            let (code, status) = created.unwrap();
            assert_eq!(code, 400, "{status}");
        }
    }
}

/// HK-18: each state of a configuration counts with its acknowledgement while others write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_flaps_under_load_counts_at_once_hk_18() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let server = HostileServer::start(|asked| responds(asked, &json!({"allowed": false}))).await;
    let hook = webhook(NAME, server.client_config("/hook"), &json!({}));
    install(&client, false, "flaps", &json!([hook])).await;
    let mut writing = JoinSet::new();
    let stop = Arc::new(Notify::new());
    for writer in 0..4 {
        let (client, stop) = (daemon.client(), Arc::clone(&stop));
        writing.spawn(async move {
            let stopped = stop.notified();
            tokio::pin!(stopped);
            for number in 0.. {
                let name = format!("w-{writer}-{number}");
                let created = create(&client, &name);
                tokio::select! {
                    () = &mut stopped => return,
                    (code, status) = created => assert!(matches!(code, 201 | 400), "{status}"),
                }
            }
        });
    }
    let path = format!("{}/flaps", configurations(false));
    for round in 0..40 {
        for (operation, code) in [("DELETE", 201), ("CREATE", 400)] {
            let change = json!([{"op": "replace", "path": "/webhooks/0/rules/0/operations",
                "value": [operation]}]);
            let call = Call::new("PATCH", &path);
            let call = call.body("application/json-patch+json", change.to_string());
            client.call(call).await.expect(200);
            let created = create(&client, &format!("c-{round}-{code}")).await;
            assert_eq!(created.0, code, "{round} {operation}: {}", created.1);
        }
    }
    stop.notify_waiters();
    while let Some(written) = writing.join_next().await {
        written.unwrap();
    }
}

/// HK-23, HK-33: many webhooks of many configurations, of which few match.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_webhooks_are_looked_at_and_some_are_asked_hk_33() {
    const EACH: usize = 20;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let server = HostileServer::start(|asked| responds(asked, &json!({}))).await;
    let unmatched = json!({"objectSelector": {"matchLabels": {"never": "x"}}});
    for is_mutating in [true, false] {
        let config = server.client_config("/hook");
        let hooks: Vec<Value> = (0..EACH)
            .map(|number| {
                webhook(
                    &format!("w{number}.example.com"),
                    config.clone(),
                    &unmatched,
                )
            })
            .collect();
        let mut making = JoinSet::new();
        for worker in 0..4 {
            let (client, hooks) = (daemon.client(), json!(hooks));
            making.spawn(async move {
                for number in 0..62 {
                    install(
                        &client,
                        is_mutating,
                        &format!("c-{worker}-{number}"),
                        &hooks,
                    )
                    .await;
                }
            });
        }
        while let Some(made) = making.join_next().await {
            made.unwrap();
        }
        let asked = hooks.iter().map(|hook| {
            let mut hook = hook.clone();
            hook.as_object_mut().unwrap().remove("objectSelector");
            hook
        });
        install(&client, is_mutating, "asked", &asked.collect()).await;
    }
    let rest = daemon.peak();
    for number in 0..20 {
        let (code, status) = create(&client, &format!("m-{number}")).await;
        assert_eq!(code, 201, "{status}");
    }
    assert_eq!(server.asked().len(), 20 * 2 * EACH);
    assert!(daemon.peak() - rest < 64.0, "{} MiB", daemon.peak() - rest);
}

async fn hung(daemon: &Daemon, server: &HostileServer, count: usize) -> JoinSet<()> {
    let before = server.asked().len();
    let mut hanging = JoinSet::new();
    for number in 0..count {
        let client: Client = daemon.client();
        hanging.spawn(async move {
            let body = json!({"metadata": {"name": format!("hangs-{number}")}});
            let _ = client.attempt(Call::post(CONFIGMAPS, &body)).await;
        });
    }
    server.until_asked(before + count).await;
    hanging
}

/// HK-42: a call ends with the client of its request, and its place is free. Nothing is stored.
#[tokio::test]
async fn calls_end_with_the_clients_of_their_requests_hk_42() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let server = HostileServer::start(|_| Act::Silence).await;
    for (round, is_mutating) in [true, false].into_iter().enumerate() {
        let hook = webhook(
            NAME,
            server.client_config("/hook"),
            &json!({"timeoutSeconds": 30}),
        );
        install(&client, is_mutating, "hangs", &json!([hook])).await;
        let hanging = hung(&daemon, &server, 50).await;
        // Others are served meanwhile.
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
        drop(hanging);
        server.until_ended(50 * (round + 1)).await;
        remove(&client, is_mutating, "hangs").await;
    }
    let objects = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let hangs = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap()
            .contains("hangs")
    };
    assert!(!objects["items"].as_array().unwrap().iter().any(hangs));
}

/// HK-42: SIGTERM ends a daemon whose calls hang, when the time for running requests is over.
#[tokio::test]
async fn a_daemon_whose_calls_hang_stops_hk_42() {
    let mut daemon = Daemon::with(&["--shutdown-timeout=2s"]).await;
    let client = daemon.client();
    let server = HostileServer::start(|_| Act::Silence).await;
    let hook = webhook(
        NAME,
        server.client_config("/hook"),
        &json!({"timeoutSeconds": 30}),
    );
    install(&client, false, "hangs", &json!([hook])).await;
    let hanging = hung(&daemon, &server, 20).await;
    let stopped = tokio::time::timeout(Duration::from_secs(25), daemon.stop(Signal::TERM));
    assert!(stopped.await.is_ok(), "it waits for its webhooks");
    drop(hanging);
    daemon.restart().await;
    daemon
        .client()
        .call(Call::get(&configmap("hangs-1")))
        .await
        .refusal(404, "NotFound");
}

/// HK-34: a dry run asks with `dryRun`, and stores nothing whatever the webhook does.
#[tokio::test]
async fn dry_runs_ask_and_store_nothing_hk_34() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let server = HostileServer::start(|asked| match asked.review["request"]["dryRun"] == true {
        true => responds(asked, &json!({})),
        false => Act::Close(Vec::new()),
    });
    let server = server.await;
    for is_mutating in [true, false] {
        let hook = webhook(NAME, server.client_config("/hook"), &json!({}));
        install(&client, is_mutating, "dry", &json!([hook])).await;
    }
    let body = json!({"metadata": {"name": "dry"}});
    let dry = Call::post(&format!("{CONFIGMAPS}?dryRun=All"), &body);
    client.call(dry).await.expect(201);
    assert_eq!(server.asked().len(), 2);
    client
        .call(Call::post(CONFIGMAPS, &body))
        .await
        .refusal(500, "InternalError");
    client
        .call(Call::get(&configmap("dry")))
        .await
        .refusal(404, "NotFound");
}
