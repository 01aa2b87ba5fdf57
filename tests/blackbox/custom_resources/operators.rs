//! Custom resources in the hands of operators: quotas, caches, metrics, the audit log, scaling.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, PATIENCE, conditioned, definition, establish, gone, lamp, lamps, over_each,
    over_each_with, path_of, schema, until, version,
};
use crate::harness::{Answer, Call, Client, Daemon};
use crate::servers::etcd;

async fn create(client: &Client, name: &str) -> Answer {
    let made = lamp(name, json!({"colour": "red"}));
    client.call(Call::post(LAMPS, &made)).await
}

/// API-265: `count/` of a resource that is defined after the quota.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_count_custom_objects_api_265() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let quotas = "/api/v1/namespaces/default/resourcequotas";
        let hard = json!({"count/lamps.example.com": "2"});
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
        client.call(Call::post(quotas, &quota)).await.expect(201);
        let status = json!({"status": {"hard": hard, "used": {"count/lamps.example.com": "0"}}});
        let status = Call::merge_patch(&format!("{quotas}/q/status"), &status);
        client.call(status).await.expect(200);
        let is_seen = |answer: &Answer| answer.json()["status"]["hard"] == hard;
        let cached = format!("{quotas}/q?resourceVersion=0");
        until(&client, || Call::get(&cached), is_seen).await;
        establish(&client, &lamps()).await;
        create(&client, "a").await.expect(201);
        create(&client, "b").await.expect(201);
        let refused = create(&client, "c").await.refusal(403, "Forbidden");
        assert_eq!(
            refused["message"],
            "lamps.example.com \"c\" is forbidden: exceeded quota: q, requested: \
             count/lamps.example.com=1, used: count/lamps.example.com=2, limited: \
             count/lamps.example.com=2"
        );
        let used = client
            .call(Call::get(&format!("{quotas}/q")))
            .await
            .expect(200);
        assert_eq!(used["status"]["used"]["count/lamps.example.com"], "2");
    })
    .await;
}

fn sample(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// ME-8: the series of a custom resource come with its use and go with its definition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_series_of_a_custom_resource_go_with_it_me_8() {
    let flags = ["--etcd-count-metric-poll-period=1s"];
    over_each_with(&flags, async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        for name in ["a", "b"] {
            create(&client, name).await.expect(201);
        }
        let path = path_of(&lamps());
        let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
        watch.event().await;
        let counted = |answer: &Answer| {
            let page = answer.text();
            let objects = "apiserver_storage_objects{resource=\"lamps.example.com\"}";
            sample(&page, objects) == Some(2.0)
        };
        let page = until(&client, || Call::get("/metrics"), counted)
            .await
            .text();
        for part in [
            "apiserver_resource_objects{group=\"example.com\",resource=\"lamps\"} 2",
            "apiserver_watch_cache_events_received_total{group=\"example.com\",resource=\"lamps\"}",
            "apiserver_request_total{",
        ] {
            let of_lamps = page.lines().any(|line| line.starts_with(part));
            assert!(of_lamps, "{part} is missing: {page}");
        }
        client.call(Call::delete(&path)).await.expect(200);
        gone(&client, &path).await;
        watch.rest().await;
        let without = |answer: &Answer| !answer.text().contains("lamps");
        until(&client, || Call::get("/metrics"), without).await;
        // The next count does not bring them back.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let page = client.call(Call::get("/metrics")).await.text();
        assert!(!page.contains("lamps"), "{page}");
        // A resource of the same name counts again.
        establish(&client, &lamps()).await;
        create(&client, "a").await.expect(201);
        let counted = |answer: &Answer| {
            let objects = "apiserver_storage_objects{resource=\"lamps.example.com\"}";
            sample(&answer.text(), objects) == Some(1.0)
        };
        until(&client, || Call::get("/metrics"), counted).await;
    })
    .await;
}

/// SF-8: a size of 0 turns the watch cache of a custom resource off, and all else stays the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_resource_can_be_without_a_watch_cache_sf_8() {
    let flags = ["--watch-cache-sizes=lamps.example.com#0,balls.example.com#100"];
    over_each_with(&flags, async |daemon: &Daemon| {
        let client = daemon.client();
        for said in [
            "lamps.example.com: no such resource is built in; it holds for a custom resource",
            "balls.example.com#100: caches have no fixed size",
        ] {
            assert!(daemon.stderr().contains(said), "{}", daemon.stderr());
        }
        establish(&client, &lamps()).await;
        let first = create(&client, "a").await.expect(201);
        let from = first["metadata"]["resourceVersion"].as_str().unwrap();
        let watch = format!("{LAMPS}?watch=true&resourceVersion={from}");
        let mut watch = client.watch(&watch).await;
        create(&client, "b").await.expect(201);
        assert_eq!(watch.event().await["object"]["metadata"]["name"], "b");
        let list = client
            .call(Call::get(&format!("{LAMPS}?limit=1")))
            .await
            .expect(200);
        assert_eq!(list["metadata"]["remainingItemCount"], 1);
        // A changed definition ends the watch, and the next one goes on.
        let mut schema = schema();
        schema["properties"]["spec"]["properties"]["more"] =
            json!({"type": "integer", "default": 7});
        let change = json!({"spec": {"versions": [version("v1", true, &schema)]}});
        let change = Call::merge_patch(&path_of(&lamps()), &change);
        client.call(change).await.expect(200);
        assert_eq!(watch.rest().await, Vec::<Value>::new());
        let is_new = |answer: &Answer| answer.json()["spec"]["more"] == 7;
        until(&client, || Call::get(&format!("{LAMPS}/a")), is_new).await;
        let page = client.call(Call::get("/metrics")).await.text();
        let cache = "apiserver_watch_cache_events_received_total{group=\"example.com\"";
        assert!(!page.contains(cache), "it has a cache: {page}");
    })
    .await;
}

/// SF-2: overrides are for resources that are built in, as in kube-apiserver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_of_servers_do_not_concern_custom_resources_sf_2() {
    if etcd::find("3.5").is_none() {
        return;
    }
    let starting = tokio::task::spawn_blocking(|| etcd::Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    let servers = cluster.urls().join(";");
    let overrides = format!("--etcd-servers-overrides=example.com/lamps#{servers}");
    let daemon = Daemon::with(&[&overrides]).await;
    let said = "etcd-servers-overrides: lamps.example.com: no such resource is built in";
    assert!(daemon.stderr().contains(said), "{}", daemon.stderr());
    let client = daemon.client();
    establish(&client, &lamps()).await;
    create(&client, "a").await.expect(201);
}

/// The audit log follows the group of a custom resource.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_policy_knows_custom_groups() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("log"));
    let rules = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "RequestResponse", "verbs": ["create", "update"],
                "resources": [{"group": "example.com", "resources": ["lamps", "lamps/scale"]}]},
            {"level": "None"}]});
    std::fs::write(&policy, rules.to_string()).unwrap();
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let daemon = Daemon::with(&[&flags[0], &flags[1]]).await;
    let client = daemon.client();
    establish(&client, &scalable()).await;
    let made = lamp("a", json!({"colour": "red", "replicas": 1}));
    client.call(Call::post(LAMPS, &made)).await.expect(201);
    let at = format!("{LAMPS}/a/scale");
    let mut scale = client.call(Call::get(&at)).await.expect(200);
    scale["spec"]["replicas"] = json!(4);
    client.call(Call::put(&at, &scale)).await.expect(200);
    client
        .call(Call::delete(&format!("{LAMPS}/a")))
        .await
        .expect(200);
    let begun = Instant::now();
    let events = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        if events.len() >= 2 {
            break events;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(events.len(), 2, "{events:#?}");
    let [created, scaled] = [&events[0], &events[1]];
    assert_eq!(
        created["objectRef"],
        json!({"resource": "lamps", "namespace": "default", "name": "a",
            "apiGroup": "example.com", "apiVersion": "v1"})
    );
    assert_eq!(created["requestObject"]["spec"]["colour"], "red");
    assert_eq!(created["responseObject"]["spec"]["watts"], 5);
    assert_eq!(scaled["objectRef"]["subresource"], "scale");
    assert_eq!(scaled["requestObject"]["kind"], "Scale");
    assert_eq!(scaled["responseObject"]["spec"]["replicas"], 4);
}

/// A definition of lamps with a scale.
fn scalable() -> Value {
    let mut schema = schema();
    schema["properties"]["spec"]["properties"]["replicas"] = json!({"type": "integer"});
    schema["properties"]["status"]["properties"]["replicas"] = json!({"type": "integer"});
    schema["properties"]["status"]["properties"]["selector"] = json!({"type": "string"});
    let mut v1 = version("v1", true, &schema);
    v1["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}});
    definition("lamps", "Lamp", &json!([v1]))
}

/// CRD-188, CRD-191: an autoscaler finds the kind of the scale, reads it, and writes it. A
/// controller sees the new number in its watch, and answers in the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_and_a_controller_work_by_the_scale_crd_188() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &scalable()).await;
        let made = lamp("a", json!({"colour": "red", "replicas": 1}));
        client.call(Call::post(LAMPS, &made)).await.expect(201);
        let resources = client
            .call(Call::get("/apis/example.com/v1"))
            .await
            .expect(200);
        let mut resources = resources["resources"].as_array().unwrap().iter();
        let scale = resources.find(|one| one["name"] == "lamps/scale").unwrap();
        assert_eq!(
            (&scale["group"], &scale["version"], &scale["kind"]),
            (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
        );
        let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
        assert_eq!(watch.event().await["type"], "ADDED");
        let at = format!("{LAMPS}/a/scale");
        for replicas in [3, 5] {
            let read = client.call(Call::get(&at)).await.expect(200);
            let mut wanted = read.clone();
            wanted["spec"]["replicas"] = json!(replicas);
            client.call(Call::put(&at, &wanted)).await.expect(200);
            // It was computed from an older state.
            client
                .call(Call::put(&at, &wanted))
                .await
                .refusal(409, "Conflict");
            let event = watch.event().await;
            let object = &event["object"];
            assert_eq!(
                (&event["type"], &object["spec"]["replicas"]),
                (&json!("MODIFIED"), &json!(replicas))
            );
            let status = json!({"status": {"replicas": replicas, "selector": "app=lamp"}});
            let status = Call::merge_patch(&format!("{LAMPS}/a/status"), &status);
            client.call(status).await.expect(200);
            watch.event().await;
            let read = client.call(Call::get(&at)).await.expect(200);
            assert_eq!(
                read["status"],
                json!({"replicas": replicas, "selector": "app=lamp"})
            );
        }
        let patched = json!({"spec": {"replicas": 2}});
        let patched = client
            .call(Call::merge_patch(&at, &patched))
            .await
            .expect(200);
        assert_eq!(
            (&patched["kind"], &patched["spec"]["replicas"]),
            (&json!("Scale"), &json!(2))
        );
        assert_eq!(watch.event().await["object"]["metadata"]["generation"], 4);
        let negative = json!({"spec": {"replicas": -1}});
        client
            .call(Call::merge_patch(&at, &negative))
            .await
            .refusal(422, "Invalid");
        conditioned(&client, &path_of(&lamps()), "Established", "True").await;
    })
    .await;
}

/// D-95: one user leaves room for others, and all together end at the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_bounded_in_number_and_bytes() {
    const KIB: usize = 1024;
    let flags = ["--max-definitions=8", "--max-definition-bytes=64KiB"];
    over_each_with(&flags, async |daemon: &Daemon| {
        let client = daemon.client();
        let numbered = |number: usize, kib: usize| {
            let plural = format!("lamp{number}s");
            let mut made = definition(
                &plural,
                &format!("Lamp{number}"),
                &json!([version("v1", true, &schema())]),
            );
            made["metadata"]["annotations"] = json!({"a": "x".repeat(kib * KIB)});
            made
        };
        let large = client.call(Call::post(DEFINITIONS, &numbered(0, 60))).await;
        let large = large.refusal(403, "Forbidden");
        let message = large["message"].as_str().unwrap();
        assert!(
            message.starts_with(
                "customresourcedefinitions.apiextensions.k8s.io \"lamp0s.example.com\" is \
                 forbidden: the definitions of user \"admin\" would take "
            ) && message.contains("seven eighths of --max-definition-bytes"),
            "{message}"
        );
        for number in 0..7 {
            establish(&client, &numbered(number, 0)).await;
        }
        let dry = format!("{DEFINITIONS}?dryRun=All");
        for path in [DEFINITIONS, &dry] {
            let more = client.call(Call::post(path, &numbered(7, 0))).await;
            let more = more.refusal(403, "Forbidden");
            let message = more["message"].as_str().unwrap();
            let end = "user \"admin\" has 7 definitions, seven eighths of --max-definitions: \
                       delete definitions that nobody needs, or raise the limit";
            assert!(message.ends_with(end), "{message}");
        }
        // Others have the rest.
        let other = |number| {
            let call = Call::post(DEFINITIONS, &numbered(number, 0));
            let call = call.header("Impersonate-User", "ada");
            call.header("Impersonate-Group", "system:masters")
        };
        client.call(other(7)).await.expect(201);
        let path = path_of(&numbered(7, 0));
        conditioned(&client, &path, "Established", "True").await;
        let full = client.call(other(8)).await.refusal(403, "Forbidden");
        let message = full["message"].as_str().unwrap();
        assert!(message.contains("there may be 8 definitions"), "{message}");
        // Changes that make nothing longer are possible, and a deletion makes room.
        let label = json!({"metadata": {"annotations": {"a": null}}});
        let one = path_of(&numbered(0, 0));
        client
            .call(Call::merge_patch(&one, &label))
            .await
            .expect(200);
        client.call(Call::delete(&one)).await.expect(200);
        gone(&client, &one).await;
        establish(&client, &numbered(8, 0)).await;
    })
    .await;
}
