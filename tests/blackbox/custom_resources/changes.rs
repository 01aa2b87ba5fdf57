//! Changes of definitions, and their effects on readers and writers (crd.md 4, 8 and 16).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    LAMPS, conditioned, definition, establish, gone, lamp, lamps, over_each, path_of, schema,
    until, version,
};
use crate::harness::{Call, Client, Daemon};

async fn set_versions(client: &Client, versions: &Value) {
    let patch = json!({"spec": {"versions": versions}});
    let patch = Call::merge_patch(&path_of(&lamps()), &patch);
    client.call(patch).await.expect(200);
}

/// CRD-137 to CRD-141, CRD-205, CRD-118: versions differ in their schemas, and objects move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_prune_and_complete_what_they_show_crd_137_crd_138() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let with = |members: Value| {
            json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": members}}})
        };
        let one =
            with(json!({"a": {"type": "string"}, "both": {"type": "string", "default": "1"}}));
        let two = with(json!({"both": {"type": "string"}, "b": {"type": "integer", "default": 2}}));
        let versions = json!([version("v1", false, &one), version("v2", true, &two)]);
        establish(&client, &definition("lamps", "Lamp", &versions)).await;
        let made = client
            .call(Call::post(LAMPS, &lamp("a", json!({"a": "x"}))))
            .await
            .expect(201);
        // The default of the stored version shows only in that version.
        assert_eq!(made["apiVersion"], "example.com/v1");
        assert_eq!(made["spec"], json!({"both": "1"}));
        let v2 = "/apis/example.com/v2/namespaces/default/lamps";
        let read = client.call(Call::get(&format!("{v2}/a"))).await.expect(200);
        assert_eq!(read["apiVersion"], "example.com/v2");
        assert_eq!(read["spec"], json!({"both": "1", "b": 2}));
        let list = client.call(Call::get(v2)).await.expect(200);
        assert_eq!(list["items"], json!([read]));
        // An empty patch writes what was not stored yet, and then nothing.
        let path = format!("{v2}/a");
        let migrated = client
            .call(Call::merge_patch(&path, &json!({})))
            .await
            .expect(200);
        assert_ne!(
            migrated["metadata"]["resourceVersion"],
            read["metadata"]["resourceVersion"]
        );
        let again = client
            .call(Call::merge_patch(&path, &json!({})))
            .await
            .expect(200);
        assert_eq!(again, migrated);
    })
    .await;
}

/// CRD-139, CRD-156: a changed schema shows at once, and writes follow it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_schema_shows_in_stored_objects_crd_139() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let made = lamp("a", json!({"colour": "red"}));
        let made = client.call(Call::post(LAMPS, &made)).await.expect(201);
        let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
        assert_eq!(watch.event().await["type"], "ADDED");
        let mut changed = schema();
        let members = &mut changed["properties"]["spec"]["properties"];
        members["watts"]["default"] = json!(7);
        members["new"] = json!({"type": "string", "default": "n"});
        set_versions(&client, &json!([version("v1", true, &changed)])).await;
        let path = format!("{LAMPS}/a");
        let is_new = |answer: &crate::harness::Answer| answer.json()["spec"]["new"] == "n";
        let read = until(&client, || Call::get(&path), is_new).await.json();
        // The stored object stays.
        assert_eq!(read["spec"]["watts"], 5);
        assert_eq!(
            read["metadata"]["resourceVersion"],
            made["metadata"]["resourceVersion"]
        );
        // The watch ends without an error (CRD-91, CRD-216), and can be resumed.
        assert_eq!(watch.rest().await, [Value::Null; 0]);
        let version = made["metadata"]["resourceVersion"].as_str().unwrap();
        let resumed = format!("{LAMPS}?watch=true&resourceVersion={version}");
        let mut watch = client.watch(&resumed).await;
        client
            .call(Call::merge_patch(&path, &json!({})))
            .await
            .expect(200);
        assert_eq!(watch.event().await["object"]["spec"]["new"], "n");
    })
    .await;
}

/// CRD-92: while a version comes and goes, no other fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_version_comes_and_goes_no_other_fails_crd_92() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    client
        .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
        .await
        .expect(201);
    let is_done = Arc::new(AtomicBool::new(false));
    let users = (0..4).map(|user| {
        let (client, is_done) = (daemon.client(), Arc::clone(&is_done));
        tokio::spawn(async move {
            let mut made = 0;
            while !is_done.load(Ordering::Relaxed) {
                client
                    .call(Call::get(&format!("{LAMPS}/a")))
                    .await
                    .expect(200);
                let lamp = lamp(&format!("u{user}-{made}"), json!({"colour": "red"}));
                client.call(Call::post(LAMPS, &lamp)).await.expect(201);
                made += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            made
        })
    });
    let users: Vec<_> = users.collect();
    let one = json!([version("v1", true, &schema())]);
    let two = json!([
        version("v1", true, &schema()),
        version("v2", false, &schema())
    ]);
    for _ in 0..60 {
        for versions in [&two, &one] {
            set_versions(&client, versions).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    is_done.store(true, Ordering::Relaxed);
    for user in users {
        assert!(user.await.unwrap() > 0);
    }
}

/// CRD-81, CRD-90, CRD-91: a version that is not served any longer, and one that is deprecated.
#[tokio::test]
async fn versions_are_unserved_and_deprecated_crd_81_crd_90() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut old = version("v1", true, &schema());
    old["deprecated"] = json!(true);
    let versions = json!([old, version("v2", false, &schema())]);
    establish(&client, &definition("lamps", "Lamp", &versions)).await;
    let made = client
        .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
        .await;
    assert_eq!(
        made.header("warning"),
        Some("299 - \"example.com/v1 Lamp is deprecated; use example.com/v2 Lamp\"")
    );
    made.expect(201);
    let v2 = "/apis/example.com/v2/namespaces/default/lamps";
    let mut watches = Vec::new();
    for path in [LAMPS, v2] {
        let mut watch = client.watch(&format!("{path}?watch=true")).await;
        assert_eq!(watch.event().await["type"], "ADDED");
        watches.push(watch);
    }
    old["served"] = json!(false);
    set_versions(&client, &json!([old, version("v2", false, &schema())])).await;
    gone(&client, LAMPS).await;
    let read = client.call(Call::get(&format!("{v2}/a"))).await.expect(200);
    assert_eq!(read["spec"]["watts"], 5);
    for mut watch in watches {
        assert_eq!(watch.rest().await, [Value::Null; 0]);
    }
    client
        .call(Call::get(&format!("{v2}?watch=true&timeoutSeconds=1")))
        .await
        .expect(200);
}

/// CRD-209: without its webhook, no object is shown in another version.
#[tokio::test]
async fn what_a_webhook_would_convert_is_refused_crd_209() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let versions = json!([
        version("v1", true, &schema()),
        version("v2", false, &schema())
    ]);
    let mut lamps = definition("lamps", "Lamp", &versions);
    lamps["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1"}}});
    establish(&client, &lamps).await;
    let v2 = "/apis/example.com/v2/namespaces/default/lamps";
    client.call(Call::get(v2)).await.expect(200);
    client
        .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
        .await
        .expect(201);
    let patch = json!({"spec": {"watts": 1}});
    let mut other = lamp("b", json!({"colour": "red"}));
    other["apiVersion"] = json!("example.com/v2");
    let one = format!("{v2}/a");
    for call in [
        Call::get(v2),
        Call::get(&one),
        Call::get(&format!("{v2}?watch=true")),
        Call::merge_patch(&one, &patch),
        Call::delete(&one),
        Call::post(v2, &other),
    ] {
        let refused = client.call(call).await.expect(500);
        let message = refused["message"].as_str().unwrap();
        let of_sent = message.replace("/v2,", "/v1,");
        let begin = "conversion webhook for example.com/v1, Kind=Lamp failed: ";
        assert!(of_sent.starts_with(begin), "{message}");
    }
    client
        .call(Call::get(&format!("{LAMPS}/a")))
        .await
        .expect(200);
    // Without the webhook the version works.
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    client
        .call(Call::merge_patch(&path_of(&lamps), &none))
        .await
        .expect(200);
    until(&client, || Call::get(&one), |answer| answer.status == 200).await;
    conditioned(&client, &path_of(&lamps), "Established", "True").await;
}
