//! Objects that older releases stored without defaults: the daemon returns each as kube-apiserver
//! 1.36 does, and does not write it for that.

use actors::engine::Engine as _;
use rustix::process::Signal;
use serde_json::{Value, json};
use taffrail::api::object::Object;
use taffrail::kinds::definitions::built_in;
use taffrail::storage::codec::{Codec, MediaType, StoredForm, TypeName};
use taffrail::storage::etcd::EtcdEngine;

use crate::backups::{done, path, restored};
use crate::encryption::rotation::{begin, end};
use crate::former_versions::{Place, is_item, place, without_version};
use crate::harness::{Call, Client, Daemon};
use crate::overrides::{cluster, other, put, raw};

/// Objects without their defaults, with their keys, and as they are shown.
const BARE: &str = include_str!("../fixtures/bare-objects.json");

struct Case {
    /// Without the prefix of the store.
    key: String,
    stored: Value,
    shown: Value,
    place: Place,
}

/// The forms in which a value may lie in a store.
const FORMS: [Form; 3] = [Form::Canonical, Form::Protobuf, Form::OfGo];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Canonical,
    Protobuf,
    /// With members in another order, and a line's end.
    OfGo,
}

fn cases() -> Vec<Case> {
    let cases: Vec<Value> = serde_json::from_str(BARE).unwrap();
    let of = |case: Value| {
        let (stored, shown) = (case["stored"].clone(), case["shown"].clone());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (version, kind) = (text(&stored["apiVersion"]), text(&stored["kind"]));
        Case {
            key: text(&case["key"]),
            place: place(&version, &kind, &text(&stored["metadata"]["name"])),
            stored,
            shown,
        }
    };
    cases.into_iter().map(of).collect()
}

impl Case {
    fn name(&self) -> &str {
        self.stored["metadata"]["name"].as_str().unwrap()
    }

    fn value(&self, form: Form) -> Vec<u8> {
        let rows = built_in();
        let is_this = |row: &&std::sync::Arc<taffrail::api::resource::ResourceDefinition>| {
            self.stored["kind"] == row.kind && self.stored["apiVersion"] == row.api_version()
        };
        let row = rows.iter().find(is_this).unwrap();
        let name = TypeName::of(row);
        let codec = Codec::new(row.clone());
        let object = Object::of(self.stored.as_object().unwrap().clone());
        match form {
            Form::Canonical => codec.encode(&object),
            Form::OfGo => format!("{}\n", self.stored).into_bytes(),
            Form::Protobuf => codec
                .stored_as(StoredForm {
                    media_type: MediaType::Protobuf,
                    stored: name.clone(),
                    served: name,
                    read: Vec::new(),
                })
                .encode(&object),
        }
    }

    fn watch(&self, version: &str) -> String {
        format!(
            "{}?watch=true&resourceVersion={version}&fieldSelector=metadata.name%3D{}",
            self.place.collection,
            self.name()
        )
    }
}

fn version(object: &Value) -> String {
    let version = &object["metadata"]["resourceVersion"];
    version.as_str().unwrap().to_owned()
}

/// Everything is shown with its defaults: alone, in lists and in watches. `at` is a revision at
/// which all objects lie in the store.
async fn all_are_shown(client: &Client, cases: &[Case], at: Option<&str>) {
    for case in cases {
        let Case { place, shown, .. } = case;
        let found = client.call(Call::get(&place.object)).await.expect(200);
        assert_eq!(&without_version(&found), shown);
        let exact = at.map(|at| format!("?resourceVersion={at}&resourceVersionMatch=Exact"));
        for query in ["", "?resourceVersion=0"]
            .into_iter()
            .chain(exact.as_deref())
        {
            let list = format!("{}{query}", place.collection);
            let list = client.call(Call::get(&list)).await.expect(200);
            let mut items = list["items"].as_array().unwrap().iter();
            assert!(items.any(|item| is_item(item, shown)), "{}", case.key);
        }
        if let Some(query) = &exact {
            let object = format!("{}{query}", place.object);
            let found = client.call(Call::get(&object)).await.expect(200);
            assert_eq!(&without_version(&found), shown);
        }
        let event = client.watch(&case.watch("0")).await.event().await;
        assert_eq!(event["type"], "ADDED");
        assert_eq!(&without_version(&event["object"]), shown);
    }
}

/// Values that come while somebody watches have their defaults in each form, and from history.
async fn changes_are_shown(client: &Client, etcd: &EtcdEngine, cases: &[Case]) {
    for case in cases {
        let before = client.call(Call::get(&case.place.object)).await.expect(200);
        let before = version(&before);
        let mut live = client.watch(&case.watch(&before)).await;
        for form in FORMS {
            let value = case.value(form);
            put(etcd, &case.key, &value).await;
            let event = live.event().await;
            assert_eq!(event["type"], "MODIFIED", "{form:?} {event}");
            assert_eq!(&without_version(&event["object"]), &case.shown, "{form:?}");
            let found = client.call(Call::get(&case.place.object)).await.expect(200);
            assert_eq!(&without_version(&found), &case.shown, "{form:?}");
            // Reading writes nothing.
            assert_eq!(*raw(etcd, &case.key).await, *value, "{}", case.key);
        }
        let mut history = client.watch(&case.watch(&before)).await;
        for _ in FORMS {
            let event = history.event().await;
            assert_eq!(&without_version(&event["object"]), &case.shown);
        }
    }
}

/// A patch that changes nothing stores the object with its defaults, once.
async fn patches_store_defaults(client: &Client, cases: &[Case]) -> usize {
    let mut patched = 0;
    for case in cases {
        let before = client.call(Call::get(&case.place.object)).await.expect(200);
        let patch = || Call::merge_patch(&case.place.object, &json!({}));
        let answer = client.call(patch()).await;
        if answer.status != 200 {
            assert_eq!(answer.status, 422, "{}: {}", case.key, answer.text());
            continue;
        }
        let first = answer.expect(200);
        assert_ne!(version(&first), version(&before), "{}", case.key);
        let second = client.call(patch()).await.expect(200);
        assert_eq!(version(&second), version(&first), "{}", case.key);
        patched += 1;
    }
    patched
}

/// KV-30, ST-60.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_without_defaults_are_shown_with_them_and_stored_by_updates_kv_30() {
    let cluster = cluster().await;
    let etcd = other(&cluster);
    let mut cases = cases();
    // The daemon writes the conditions of APIServices (CN-16).
    cases.retain(|case| case.stored["kind"] != "APIService");
    for case in &cases {
        put(&etcd, &case.key, &case.value(Form::Canonical)).await;
    }
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    let at = client.call(Call::get("/api/v1/pods")).await.expect(200);
    all_are_shown(&client, &cases, Some(&version(&at))).await;
    changes_are_shown(&client, &etcd, &cases).await;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    done(&["backup", path(&file), "--from=etcd", &servers]).await;

    let (half, rest) = cases.split_at(cases.len() / 2);
    let patched = patches_store_defaults(&client, half).await;
    assert!(patched > half.len() / 2, "{patched}");
    // Everything else is rewritten at once.
    let output = end(begin(&daemon)).await;
    assert!(output.status.success(), "{output:?}");
    for case in rest {
        let stored: Value = serde_json::from_slice(&raw(&etcd, &case.key).await).unwrap();
        assert_eq!(stored, case.shown);
        let found = client.call(Call::get(&case.place.object)).await.expect(200);
        assert_eq!(without_version(&found), case.shown);
    }
    drop(daemon);
    etcd.close().await;

    // An embedded store that is made of the backup says nothing of its defaults (KV-31).
    let (mut elsewhere, _) = restored(&file, &[]).await;
    let client = elsewhere.client();
    let at = client.call(Call::get("/api/v1/pods")).await.expect(200);
    let at = version(&at);
    all_are_shown(&client, &cases, Some(&at)).await;
    let patched = patches_store_defaults(&client, half).await;
    assert!(patched > half.len() / 2, "{patched}");
    let output = end(begin(&elsewhere)).await;
    assert!(output.status.success(), "{output:?}");
    // The values before the rewrite are shown with defaults still.
    all_are_shown(&client, rest, Some(&at)).await;
    for case in rest {
        let history = format!("/taffrail/v1/history{}", case.place.object);
        let history = client.call(Call::get(&history)).await;
        assert_eq!(history.status, 200, "{}", history.text());
    }
    elsewhere.stop(Signal::TERM).await;
    elsewhere.restart().await;
    all_are_shown(&elsewhere.client(), rest, Some(&at)).await;
}
