//! Values in other forms than the configured one, which are read and rewritten by the next update.

use std::rc::Rc;

use actors::engine::{At, Change, Expect, Key, LeaseId, Mutation, Outcome, Prepared, Revision};
use actors::object::Decode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::Value;
use taffrail::api::resource::ConversionStrategy;
use taffrail::kinds::definitions::built_in;
use taffrail::storage::Asked;
use taffrail::storage::codec::{Codec, MediaType, StoredForm, TypeName, object_of};

use crate::harness::{Harness, List, key_of, names, origin, pod, pods};

fn stored_as(media_type: MediaType) -> Codec {
    Codec::new(pods()).stored_as(StoredForm {
        media_type,
        stored: TypeName::of(&pods()),
        served: TypeName::of(&pods()),
        read: vec![(TypeName::of(&pods()), ConversionStrategy::TypeOnly)],
    })
}

async fn raw(h: &Harness, name: &str) -> Bytes {
    let key = Key::new(format!("/registry/pods/ns/{name}"));
    let answer = h.engine.get(key, At::Latest).await.unwrap();
    answer.item.unwrap().value
}

/// ST-60, PF-4: an update that changes nothing migrates, and the one after it writes nothing.
pub async fn kv_23_what_was_stored_in_another_form_is_read_and_rewritten_by_updates(
    h: Rc<Harness>,
) {
    for (from, to) in [
        (MediaType::Json, MediaType::Yaml),
        (MediaType::Yaml, MediaType::Protobuf),
        (MediaType::Protobuf, MediaType::Json),
    ] {
        let before = h.stored_by(stored_as(from)).await;
        for name in ["a", "b", "c"] {
            before.create(&pod("ns", name)).await;
        }
        let old = raw(&before, "a").await;
        before.end().await;
        assert_eq!(old.starts_with(b"{"), from == MediaType::Json);

        let after = h.stored_by(stored_as(to)).await;
        let list = after.list(List::below("/pods")).await.unwrap();
        assert_eq!(names(&list), ["ns/a", "ns/b", "ns/c"]);
        let empty = |key| after.update(key, |current| Ok(current.unwrap()));
        let read = after
            .get("/pods/ns/a", Asked::Unset)
            .await
            .unwrap()
            .unwrap();
        let rewritten = empty("/pods/ns/a").await.unwrap();
        assert!(
            rewritten.revision > read.revision,
            "an empty update migrates"
        );
        // Protobuf has all fields of a struct: these pods have no `spec` before.
        if to != MediaType::Protobuf {
            assert_eq!(rewritten.stored_form(), read.stored_form());
        }
        assert_eq!(raw(&after, "a").await, after.codec.stored_form(&rewritten));
        let again = empty("/pods/ns/a").await.unwrap();
        assert_eq!(
            again.revision, rewritten.revision,
            "now it is in the new form"
        );

        after.set_node("/pods/ns/b", "n").await;
        let changed = after
            .get("/pods/ns/b", Asked::Unset)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            object_of(&changed).unwrap().text(&["spec", "nodeName"]),
            "n"
        );
        assert_eq!(raw(&after, "b").await, after.codec.stored_form(&changed));
        assert_eq!(
            raw(&after, "c").await.starts_with(b"{"),
            from == MediaType::Json
        );
        let list = after.list(List::below("/pods")).await.unwrap();
        assert_eq!(names(&list), ["ns/a", "ns/b", "ns/c"]);
        for name in ["a", "b", "c"] {
            after.delete(&key_of(&pod("ns", name))).await.unwrap();
        }
        after.end().await;
    }
}

/// A pod of kube-apiserver's is read as it is and stored in our form by an update that changes
/// nothing.
pub async fn kv_23_values_of_kube_apiserver_are_read_and_rewritten(h: Rc<Harness>) {
    for recording in [JSON, YAML] {
        let (key, value) = recorded(recording, "pods");
        let relative = key.strip_prefix("/registry").unwrap();
        let (namespace, _) = relative["/pods/".len()..].split_once('/').unwrap();
        let mutation = Mutation {
            key: Key::new(&key),
            expect: Expect::Absent,
            change: Change::Put {
                value: Bytes::from(value),
                lease: LeaseId::default(),
            },
            origin: origin(),
            prepared: Prepared::default(),
        };
        let stored = h.engine.commit(mutation).await.unwrap();
        let Outcome::Committed(event) = stored else {
            panic!("{stored:?}")
        };
        let read = h.get(relative, Asked::Unset).await.unwrap().unwrap();
        let tree = object_of(&read).unwrap();
        assert_eq!(tree.text(&["spec", "nodeName"]), "n1");
        assert_eq!(tree.resource_version(), event.revision.to_string());
        let selected = List::below("/pods").select("app=x", "spec.nodeName=n1");
        let list = h.list(selected).await.unwrap();
        assert!(names(&list).contains(&format!("{namespace}/p")));
        let rewritten = h.update(relative, |current| Ok(current.unwrap())).await;
        let rewritten = rewritten.unwrap();
        assert!(rewritten.revision > event.revision, "ST-60");
        let answer = h.engine.get(Key::new(&key), At::Latest).await.unwrap();
        assert_eq!(answer.item.unwrap().value, h.codec.encode(&tree));
    }
}

const JSON: &str = include_str!("stored/json.json");
const YAML: &str = include_str!("stored/yaml.json");
const PROTOBUF: &str = include_str!("stored/protobuf.json");

/// The key and the value that kube-apiserver stored of a resource, from `stored/`.
fn recorded(recording: &str, resource: &str) -> (String, String) {
    let all: Value = serde_json::from_str(recording).unwrap();
    let text = |member| all[resource][member].as_str().unwrap().to_owned();
    (text("key"), text("value"))
}

/// The metadata and everything else are what was stored, of every recorded resource in every form,
/// and no value of one form reads as another object than that of the other.
#[test]
fn every_resource_is_read_as_kube_apiserver_stores_it_kv_21_kv_22_kv_23() {
    let all: Value = serde_json::from_str(JSON).unwrap();
    let recorded_resources: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert_eq!(recorded_resources.len(), 10);
    for resource in recorded_resources {
        let rows = built_in();
        let found = rows.iter().find(|row| row.qualified() == *resource);
        let definition = found.unwrap_or_else(|| panic!("no row for {resource}"));
        for media_type in [MediaType::Json, MediaType::Yaml, MediaType::Protobuf] {
            let codec = Codec::new(definition.clone()).stored_as(StoredForm {
                media_type,
                stored: TypeName::of(definition),
                served: TypeName::of(definition),
                read: Vec::new(),
            });
            for recording in [JSON, YAML] {
                let (key, value) = recorded(recording, resource);
                let prefix = format!("/registry/{}/", definition.key_prefix);
                assert!(key.starts_with(&prefix), "{key}");
                let mut told: Value = serde_saphyr::from_str(&value).unwrap();
                told["metadata"]["resourceVersion"] = "7".into();
                let value = Bytes::from(value);
                let read = codec.decode(&Key::new(&key), Revision(7), &value).unwrap();
                let shown = object_of(&read).unwrap().into_document();
                assert_eq!(Value::Object(shown), told, "{key}");
                let stored = Bytes::from(codec.stored_form(&read));
                let again = codec.decode(&Key::new(&key), Revision(7), &stored).unwrap();
                assert_eq!(again, read);
            }
            let (key, value) = recorded(PROTOBUF, resource);
            let value = Bytes::from(BASE64_STANDARD.decode(value).unwrap());
            let read = codec.decode(&Key::new(&key), Revision(7), &value).unwrap();
            assert_eq!(object_of(&read).unwrap().resource_version(), "7");
            if media_type == MediaType::Protobuf {
                // Byte for byte what kube-apiserver wrote (KV-21).
                assert!(codec.is_stored_as(&read, &value), "{key}");
                assert_eq!(codec.stored_form(&read), value, "{key}");
            }
        }
    }
}
