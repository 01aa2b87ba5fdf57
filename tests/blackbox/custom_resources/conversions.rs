//! Versions that a webhook converts (CRD-206 to CRD-211, HK-77 to HK-83).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, definition, establish, gone, lamp, over_each, over_each_killed,
    over_each_started, path_of, schema, until, version,
};
use crate::encryption::keys::Keys;
use crate::harness::hook_server::HookServer;
use crate::harness::webhook::Webhook;
use crate::harness::{Call, Client, Daemon};

const SHOWN: &str = "/apis/example.com/v2/namespaces/default/lamps";

/// A webhook that renames `spec.colour` of v1 to `spec.shade` of v2 and back, and says `broken`
/// while it is meant to fail.
async fn renaming(fails: &Arc<AtomicBool>) -> Webhook {
    let fails = Arc::clone(fails);
    Webhook::start(move |review| {
        let request = &review["request"];
        let objects = request["objects"].as_array().unwrap();
        let desired = request["desiredAPIVersion"].as_str().unwrap();
        let converted = objects.iter().map(|object| renamed(object, desired));
        let converted: Vec<Value> = converted.collect();
        let result = match fails.load(Ordering::Relaxed) {
            true => json!({"status": "Failure", "message": "broken"}),
            false => json!({"status": "Success"}),
        };
        let answer = json!({
            "kind": "ConversionReview", "apiVersion": review["apiVersion"],
            "response": {
                "uid": request["uid"], "convertedObjects": converted, "result": result,
            },
        });
        (200, answer.to_string())
    })
    .await
}

fn renamed(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(desired);
    let names = match desired.ends_with("/v2") {
        true => ["colour", "shade"],
        false => ["shade", "colour"],
    };
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(names[0])
    {
        spec.insert(names[1].to_owned(), value);
    }
    object["metadata"]["generation"] = json!(77);
    object
}

/// A definition whose version v2 this webhook makes of v1.
fn converted(webhook: &Webhook, review: &str) -> Value {
    let mut shown = schema();
    let spec = &mut shown["properties"]["spec"];
    spec["required"] = json!(["shade"]);
    let colour = spec["properties"].as_object_mut().unwrap().remove("colour");
    spec["properties"]["shade"] = colour.unwrap();
    let mut versions = json!([version("v1", true, &schema()), version("v2", false, &shown)]);
    for version in versions.as_array_mut().unwrap() {
        version["subresources"] = json!({"status": {}});
    }
    let mut lamps = definition("lamps", "Lamp", &versions);
    lamps["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": [review], "clientConfig": webhook.client_config()}});
    lamps
}

fn shown_lamp(name: &str, spec: Value) -> Value {
    let mut lamp = lamp(name, spec);
    lamp["apiVersion"] = json!("example.com/v2");
    lamp
}

async fn done(client: &Client, call: Call, status: u16) -> Value {
    client.call(call).await.expect(status)
}

/// CRD-206 to CRD-208, HK-79, HK-80: every verb works in a version that a webhook converts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_works_in_a_converted_version_crd_206_hk_79() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let webhook = renaming(&Arc::default()).await;
        establish(&client, &converted(&webhook, "v1")).await;
        let empty = done(&client, Call::get(SHOWN), 200).await;
        assert_eq!(empty["items"], json!([]));
        assert_eq!(webhook.asked(), [] as [Value; 0]);
        let red = shown_lamp("a", json!({"shade": "red"}));
        let made = done(&client, Call::post(SHOWN, &red), 201).await;
        assert_eq!(made["spec"], json!({"shade": "red", "watts": 5}));
        assert_eq!(made["metadata"]["generation"], 1);
        let (one, stored) = (format!("{SHOWN}/a"), format!("{LAMPS}/a"));
        let found = done(&client, Call::get(&stored), 200).await;
        assert_eq!(found["spec"], json!({"colour": "red", "watts": 5}));
        assert_eq!(
            found["metadata"]["resourceVersion"],
            made["metadata"]["resourceVersion"]
        );
        let blue = lamp("b", json!({"colour": "blue", "watts": 1}));
        done(&client, Call::post(LAMPS, &blue), 201).await;
        // A list is one call.
        let before = webhook.asked().len();
        let list = done(&client, Call::get(SHOWN), 200).await;
        let shades = ["/items/0/spec/shade", "/items/1/spec/shade"];
        let shades = shades.map(|pointer| list.pointer(pointer).unwrap().clone());
        assert_eq!(shades, ["red", "blue"]);
        let asked = webhook.asked();
        assert_eq!(asked.len(), before + 1);
        let sent = &asked[before]["request"];
        assert_eq!(sent["objects"].as_array().unwrap().len(), 2);
        assert_eq!(sent["objects"][0]["metadata"].get("resourceVersion"), None);
        let selected = done(&client, Call::get(&format!("{SHOWN}?limit=1")), 200).await;
        assert_eq!(selected["metadata"]["remainingItemCount"], 1);
        let patch = json!({"spec": {"shade": "green"}});
        let patched = done(&client, Call::merge_patch(&one, &patch), 200).await;
        assert_eq!(
            (
                &patched["spec"]["shade"],
                &patched["metadata"]["generation"]
            ),
            (&json!("green"), &json!(2))
        );
        let status = json!({"status": {"lit": true}});
        let lit = Call::merge_patch(&format!("{one}/status"), &status);
        done(&client, lit, 200).await;
        let mut whole = done(&client, Call::get(&one), 200).await;
        whole["spec"]["shade"] = json!("grey");
        let put = done(&client, Call::put(&one, &whole), 200).await;
        assert_eq!(
            (&put["spec"]["shade"], &put["status"]["lit"]),
            (&json!("grey"), &json!(true))
        );
        let stale = client.call(Call::put(&one, &whole)).await;
        assert_eq!(stale.status, 409);
        let invalid = shown_lamp("c", json!({"shade": "far too long a name"}));
        done(&client, Call::post(SHOWN, &invalid), 422).await;
        let dry = format!("{SHOWN}?dryRun=All");
        done(
            &client,
            Call::post(&dry, &shown_lamp("d", json!({"shade": "x"}))),
            201,
        )
        .await;
        done(&client, Call::get(&format!("{LAMPS}/d")), 404).await;
        let found = done(&client, Call::get(&stored), 200).await;
        assert_eq!(found["spec"]["colour"], "grey");
        done(&client, Call::delete(&one), 200).await;
        done(&client, Call::get(&stored), 404).await;
    })
    .await;
}

/// HK-80: managers own fields in their own versions, and lose those that somebody else changes in
/// another version.
#[tokio::test]
async fn owners_of_other_versions_lose_what_is_changed_hk_80() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let webhook = renaming(&Arc::default()).await;
    establish(&client, &converted(&webhook, "v1beta1")).await;
    let red = lamp("a", json!({"colour": "red"}));
    let made = Call::post(&format!("{LAMPS}?fieldManager=maker"), &red);
    done(&client, made, 201).await;
    let one = format!("{SHOWN}/a");
    let patch = json!({"spec": {"shade": "blue"}});
    let patched = Call::merge_patch(&format!("{one}?fieldManager=painter"), &patch);
    let patched = done(&client, patched, 200).await;
    let owned = |of: &Value, at: usize| of["metadata"]["managedFields"][at].clone();
    let maker = owned(&patched, 0);
    assert_eq!(
        (&maker["manager"], &maker["apiVersion"]),
        (&json!("maker"), &json!("example.com/v1"))
    );
    assert_eq!(
        maker["fieldsV1"],
        json!({"f:spec": {".": {}, "f:watts": {}}})
    );
    let painter = owned(&patched, 1);
    assert_eq!(painter["fieldsV1"], json!({"f:spec": {"f:shade": {}}}));
    let applied = shown_lamp("a", json!({"shade": "grey"}));
    let apply = |force: &str| {
        let path = format!("{one}?fieldManager=applier{force}");
        Call::new("PATCH", &path).body("application/apply-patch+yaml", applied.to_string())
    };
    let conflict = done(&client, apply(""), 409).await;
    assert_eq!(conflict["details"]["causes"][0]["field"], ".spec.shade");
    let forced = done(&client, apply("&force=true"), 200).await;
    assert_eq!(forced["spec"]["shade"], "grey");
}

/// CRD-215, D-15: an event costs one conversion for a watched version, however many watch it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_converted_once_for_all_watches_d_15() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let webhook = renaming(&Arc::default()).await;
        establish(&client, &converted(&webhook, "v1")).await;
        let list = done(&client, Call::get(LAMPS), 200).await;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{SHOWN}?watch=true&resourceVersion={revision}");
        let mut watches = Vec::new();
        for _ in 0..4 {
            watches.push(client.watch(&path).await);
        }
        let red = lamp("a", json!({"colour": "red"}));
        done(&client, Call::post(LAMPS, &red), 201).await;
        for watch in &mut watches {
            let event = watch.event().await;
            assert_eq!(
                (&event["type"], &event["object"]["spec"]["shade"]),
                (&json!("ADDED"), &json!("red"))
            );
            assert_eq!(event["object"]["apiVersion"], "example.com/v2");
        }
        assert_eq!(webhook.asked().len(), 1);
        done(&client, Call::delete(&format!("{LAMPS}/a")), 200).await;
        for watch in &mut watches {
            let event = watch.event().await;
            assert_eq!(
                (&event["type"], &event["object"]["spec"]["shade"]),
                (&json!("DELETED"), &json!("red"))
            );
        }
        assert_eq!(webhook.asked().len(), 1);
        // Nobody else asked: a watch of the stored version, and the collector, need nobody.
        drop(watches);
        let resumed = format!("{path}&timeoutSeconds=1");
        let mut resumed = client.watch(&resumed).await;
        let kinds: Vec<Value> = resumed
            .rest()
            .await
            .iter()
            .map(|one| one["type"].clone())
            .collect();
        assert_eq!(kinds, ["ADDED", "DELETED"]);
    })
    .await;
}

/// CRD-209, HK-82: while conversion fails, the stored version works in full, and so do starts,
/// readiness and the deletion of namespaces. The other version fails with the text of the webhook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_conversion_fails_its_version_alone_hk_82() {
    over_each_killed(async |daemon: &mut Daemon| {
        let mut client = daemon.client();
        let fails = Arc::new(AtomicBool::new(false));
        let webhook = renaming(&fails).await;
        let lamps = converted(&webhook, "v1");
        establish(&client, &lamps).await;
        let room = json!({"metadata": {"name": "room"}});
        done(&client, Call::post("/api/v1/namespaces", &room), 201).await;
        let there = LAMPS.replace("default", "room");
        let red = lamp("a", json!({"colour": "red"}));
        for path in [LAMPS, &there] {
            done(&client, Call::post(path, &red), 201).await;
        }
        let list = done(&client, Call::get(LAMPS), 200).await;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{SHOWN}?watch=true&resourceVersion={revision}");
        let mut watch = client.watch(&path).await;
        fails.store(true, Ordering::Relaxed);
        let one = format!("{SHOWN}/a");
        let patch = json!({"spec": {"shade": "blue"}});
        for (call, sent) in [
            (Call::get(&one), "v1"),
            (Call::get(SHOWN), "v1"),
            (Call::merge_patch(&one, &patch), "v1"),
            (Call::delete(&one), "v1"),
            (
                Call::post(SHOWN, &shown_lamp("b", json!({"shade": "x"}))),
                "v2",
            ),
        ] {
            let refused = done(&client, call, 500).await;
            let text =
                format!("conversion webhook for example.com/{sent}, Kind=Lamp failed: broken");
            assert_eq!(
                (&refused["message"], refused.get("reason")),
                (&json!(text), None)
            );
        }
        let patch = json!({"spec": {"colour": "blue"}});
        let stored = format!("{LAMPS}/a");
        done(&client, Call::merge_patch(&stored, &patch), 200).await;
        let event = watch.event().await;
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(500))
        );
        done(&client, Call::delete("/api/v1/namespaces/room"), 200).await;
        gone(&client, "/api/v1/namespaces/room").await;
        daemon.kill().await;
        daemon.restart().await;
        client = daemon.client();
        assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
        done(&client, Call::get(&stored), 200).await;
        fails.store(false, Ordering::Relaxed);
        let back = done(&client, Call::get(&one), 200).await;
        assert_eq!(back["spec"]["shade"], "blue");
        // A changed webhook counts with the new state of its definition.
        let nobody = json!({"spec": {"conversion": {"webhook": {"clientConfig": {
            "url": "https://127.0.0.1:1/convert"}}}}});
        done(&client, Call::merge_patch(&path_of(&lamps), &nobody), 200).await;
        let refused = |answer: &crate::harness::Answer| answer.status == 500;
        until(&client, || Call::get(&one), refused).await;
        let refused = done(&client, Call::get(&one), 500).await;
        let message = refused["message"].as_str().unwrap();
        let text = "Post \"https://127.0.0.1:1/convert?timeout=30s\": dial tcp 127.0.0.1:1: \
                    connect: connection refused";
        assert!(message.ends_with(text), "{message}");
        done(&client, Call::delete(&path_of(&lamps)), 200).await;
        gone(&client, &path_of(&lamps)).await;
        done(&client, Call::get(DEFINITIONS), 200).await;
    })
    .await;
}

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The rules of hooks that know lamps in one version.
fn lamps_in(version: &str) -> Value {
    json!([{ "apiGroups": ["example.com"], "apiVersions": [version], "resources": ["lamps"],
        "operations": ["CREATE", "UPDATE"] }])
}

/// Installs a webhook of both sorts and a policy that know lamps in this version. The mutating
/// webhook sets `field` to `seen`, and the policy demands it.
async fn hooks_in(client: &Client, hooks: &HookServer, version: &str, field: &str) {
    let patch = json!([{ "op": "replace", "path": format!("/spec/{field}"), "value": "seen" }]);
    hooks.tell("change", json!({ "patch": patch }));
    for (kind, name) in [("Mutating", "change"), ("Validating", "check")] {
        let webhook = json!({
            "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("{}/admit/{name}", hooks.url()), "caBundle": hooks.ca_bundle,
            },
            "rules": lamps_in(version),
        });
        let body = json!({ "metadata": { "name": name }, "webhooks": [webhook] });
        let plural = format!("{}webhookconfigurations", kind.to_lowercase());
        done(client, Call::post(&format!("{HOOKS}/{plural}"), &body), 201).await;
    }
    let expression = format!("object.spec.{field} == 'seen' && object.spec.watts > 0");
    let meta = json!({ "name": "seen" });
    let policy = json!({ "metadata": meta, "spec": {
        "matchConstraints": { "resourceRules": lamps_in(version) },
        "validations": [{ "expression": expression }],
    } });
    let binding = json!({ "metadata": meta, "spec": {
        "policyName": "seen", "validationActions": ["Deny"],
    } });
    for (plural, body) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        done(client, Call::post(&format!("{HOOKS}/{plural}"), &body), 201).await;
    }
}

/// HK-10, HK-15: hooks see objects in the version that they know, as the webhook of the resource
/// converts them, whether that is the stored version or another one, and change them there. A
/// failing conversion refuses the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_see_objects_as_the_webhook_converts_them_hk_10_hk_15() {
    for (path, other, own_field, other_version, other_field) in [
        (LAMPS, SHOWN, "colour", "v2", "shade"),
        (SHOWN, LAMPS, "shade", "v1", "colour"),
    ] {
        over_each(async |daemon: &Daemon| {
            let (client, hooks) = (daemon.client(), HookServer::start().await);
            let fails = Arc::new(AtomicBool::new(false));
            let webhook = renaming(&fails).await;
            establish(&client, &converted(&webhook, "v1")).await;
            hooks_in(&client, &hooks, other_version, other_field).await;
            let mut red = lamp("a", json!({ own_field: "red" }));
            if path == SHOWN {
                red["apiVersion"] = json!("example.com/v2");
            }
            let made = done(&client, Call::post(path, &red), 201).await;
            assert_eq!(made["spec"], json!({ own_field: "seen", "watts": 5 }));
            let shown = done(&client, Call::get(&format!("{other}/a")), 200).await;
            assert_eq!(shown["spec"][other_field], "seen");
            let patch = json!({ "spec": { own_field: "blue" } });
            let patch = Call::merge_patch(&format!("{path}/a"), &patch);
            done(&client, patch.clone(), 200).await;
            let reviews = hooks.reviews("change");
            let api_version = format!("example.com/{other_version}");
            for (member, values) in [("object", ["red", "blue"]), ("oldObject", ["", "seen"])] {
                for (review, value) in reviews.iter().zip(values) {
                    let object = &review["request"][member];
                    if value.is_empty() {
                        assert_eq!(object, &Value::Null);
                        continue;
                    }
                    assert_eq!(object["apiVersion"], *api_version);
                    assert_eq!(object["spec"], json!({ other_field: value, "watts": 5 }));
                    assert_eq!(object["metadata"]["name"], "a");
                }
            }
            let old = &reviews[1]["request"]["oldObject"]["metadata"]["resourceVersion"];
            assert_eq!(old, &made["metadata"]["resourceVersion"]);
            assert_eq!(
                hooks.reviews("check")[1]["request"]["object"]["spec"][other_field],
                "seen"
            );
            fails.store(true, Ordering::Relaxed);
            if path == LAMPS {
                let refused = done(&client, patch, 500).await;
                let text = "Internal error occurred: conversion webhook for example.com/v1, \
                            Kind=Lamp failed: broken";
                assert_eq!(refused["message"], text);
            }
        })
        .await;
    }
}

/// Makes another version of a definition the stored one.
fn store_in(definition: &mut Value, stored: &str) {
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == stored);
    }
}

/// CRD-206, HK-77: when a definition stores another version than before, objects that were not
/// written since are converted wherever they are read. A write that changes nothing stores them in
/// the version of today.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_former_stored_version_are_converted_crd_206_hk_77() {
    over_each_killed(stored_in_another_version).await;
}

/// The same for encrypted objects (CRD-206, KV-28).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_objects_of_a_former_stored_version_are_converted_crd_206() {
    let keys = Keys::new(&[("'*.*'", &["aesgcm:one=1"])]);
    over_each_started(&[&keys.flag()], stored_in_another_version).await;
}

async fn stored_in_another_version(daemon: &mut Daemon) {
    let client = daemon.client();
    let fails = Arc::new(AtomicBool::new(false));
    let webhook = renaming(&fails).await;
    let mut lamps = converted(&webhook, "v1");
    establish(&client, &lamps).await;
    for name in ["a", "b", "c"] {
        let red = lamp(name, json!({ "colour": name }));
        done(&client, Call::post(LAMPS, &red), 201).await;
    }
    let before = done(&client, Call::get(LAMPS), 200).await;
    store_in(&mut lamps, "v2");
    let versions = json!({ "spec": { "versions": lamps["spec"]["versions"] } });
    let path = path_of(&lamps);
    done(&client, Call::merge_patch(&path, &versions), 200).await;
    let is_stored = |answer: &crate::harness::Answer| {
        let versions = &answer.json()["status"]["storedVersions"];
        versions == &json!(["v1", "v2"])
    };
    until(&client, || Call::get(&path), is_stored).await;
    // A new object is stored in v2 as soon as the new state is served.
    let green = shown_lamp("d", json!({ "shade": "d" }));
    done(&client, Call::post(SHOWN, &green), 201).await;
    for (path, field, version) in [(LAMPS, "colour", "v1"), (SHOWN, "shade", "v2")] {
        let list = done(&client, Call::get(path), 200).await;
        let items = list["items"].as_array().unwrap();
        let shown = |item: &Value| item["spec"][field].as_str().unwrap().to_owned();
        let values: Vec<String> = items.iter().map(shown).collect();
        assert_eq!(values, ["a", "b", "c", "d"]);
        for name in ["a", "b", "c", "d"] {
            let one = done(&client, Call::get(&format!("{path}/{name}")), 200).await;
            assert_eq!(one["spec"], json!({ field: name, "watts": 5 }));
            assert_eq!(one["apiVersion"], format!("example.com/{version}"));
        }
    }
    let revision = |list: &Value| {
        list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // Objects keep their versions until they are written.
    let now = done(&client, Call::get(SHOWN), 200).await;
    for place in 0..3 {
        let (old, new) = (&before["items"][place], &now["items"][place]);
        assert_eq!(
            old["metadata"]["resourceVersion"],
            new["metadata"]["resourceVersion"]
        );
        assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"]);
    }
    // The definition says which versions are stored before the new state is served, in which the
    // same write stores the object in v2.
    let same = now["items"][0].clone();
    let again = || Call::put(&format!("{SHOWN}/a"), &same);
    let is_written = |answer: &crate::harness::Answer| {
        answer.json()["metadata"]["resourceVersion"] != same["metadata"]["resourceVersion"]
    };
    let put = until(&client, again, is_written).await.expect(200);
    let now = done(&client, Call::get(SHOWN), 200).await;
    let path_of_watch = format!("{SHOWN}?watch=true&resourceVersion={}", revision(&now));
    let mut watch = client.watch(&path_of_watch).await;
    // Now it is stored in v2, so the same write changes nothing.
    let again = done(&client, Call::put(&format!("{SHOWN}/a"), &put), 200).await;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        put["metadata"]["resourceVersion"]
    );
    let patch = json!({ "spec": { "shade": "new" } });
    let patched = Call::merge_patch(&format!("{SHOWN}/b"), &patch);
    done(&client, patched, 200).await;
    let event = watch.event().await;
    assert_eq!(event["object"]["spec"]["shade"], "new");
    done(&client, Call::delete(&format!("{SHOWN}/b")), 200).await;
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["spec"]["shade"]),
        (&json!("DELETED"), &json!("new"))
    );
    // The values before these writes are in the history, and the last one is not written yet.
    fails.store(true, Ordering::Relaxed);
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    let refused = done(&client, Call::get(&format!("{SHOWN}/c")), 500).await;
    let text = "conversion webhook for example.com/v1, Kind=Lamp failed: broken";
    assert_eq!(refused["message"], text);
    done(&client, Call::get(&format!("{SHOWN}/a")), 200).await;
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    fails.store(false, Ordering::Relaxed);
    let is_back = |answer: &crate::harness::Answer| answer.status == 200;
    until(&client, || Call::get(SHOWN), is_back).await;
    let list = done(&client, Call::get(SHOWN), 200).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    done(&client, Call::delete(LAMPS), 200).await;
    done(&client, Call::delete(&path), 200).await;
    gone(&client, &path).await;
}
