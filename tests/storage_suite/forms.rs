//! Values in other forms than the configured one, which are read and rewritten by the next update.

use std::io::Read as _;
use std::rc::Rc;

use actors::engine::{At, Change, Expect, Key, LeaseId, Mutation, Outcome, Prepared, Revision};
use actors::object::Decode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};
use taffrail::api::protobuf::Envelope;
use taffrail::api::resource::Conversion;
use taffrail::kinds::definitions::built_in;
use taffrail::storage::Asked;
use taffrail::storage::codec::{Codec, MediaType, StoredForm, TypeName, object_of};
use taffrail::storage::factory::{GroupResource, StorageFactory, StorageOptions};

use crate::harness::{Harness, List, key_of, names, origin, pod, pods};

fn stored_as(media_type: MediaType) -> Codec {
    Codec::new(pods()).stored_as(StoredForm {
        media_type,
        stored: TypeName::of(&pods()),
        served: TypeName::of(&pods()),
        read: vec![(TypeName::of(&pods()), Conversion::of(&pods()))],
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
    for (recording, name) in [(JSON, "json"), (YAML, "yaml")] {
        let pod = recorded(recording)["/api/v1/namespaces/default/pods"].clone();
        let (key, value) = (text_of(&pod, "key"), text_of(&pod, "value"));
        let key = key.replace("/sweep", &format!("/{name}"));
        let value = value.replace("sweep", name);
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
        assert_eq!(tree.text(&["metadata", "labels", "v"]), "w");
        assert_eq!(tree.resource_version(), event.revision.to_string());
        let selected = List::below("/pods").select("v=w", "");
        let list = h.list(selected).await.unwrap();
        assert!(names(&list).contains(&format!("{namespace}/{name}")));
        let rewritten = h.update(relative, |current| Ok(current.unwrap())).await;
        let rewritten = rewritten.unwrap();
        assert!(rewritten.revision > event.revision, "ST-60");
        let answer = h.engine.get(Key::new(&key), At::Latest).await.unwrap();
        assert_eq!(answer.item.unwrap().value, h.codec.encode(&tree));
    }
}

const JSON: &[u8] = include_bytes!("stored/json.json.gz");
const YAML: &[u8] = include_bytes!("stored/yaml.json.gz");
const PROTOBUF: &[u8] = include_bytes!("stored/protobuf.json.gz");

/// What kube-apiserver stored, from `stored/`: a key and a value for each path of a collection.
fn recorded(recording: &[u8]) -> Map<String, Value> {
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(recording);
    reader.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn text_of(recorded: &Value, member: &str) -> String {
    recorded[member].as_str().unwrap().to_owned()
}

/// The group, the version and the resource of the path of a collection.
fn served_at(path: &str) -> (&str, &str, &str) {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let (group, version) = match parts[0] {
        "api" => ("", parts[1]),
        _ => (parts[1], parts[2]),
    };
    (group, version, parts.last().unwrap())
}

fn factory(media_type: MediaType) -> StorageFactory {
    let options = StorageOptions {
        media_type,
        ..StorageOptions::default()
    };
    StorageFactory::new(options, built_in()).unwrap()
}

/// KV-1 to KV-6, SF-43: every resource is below the key, in the version and in the form of those in
/// which kube-apiserver stored it.
#[test]
fn every_resource_is_stored_where_and_in_the_version_that_kube_apiserver_stores_it_in() {
    let all = recorded(PROTOBUF);
    let factory = factory(MediaType::Protobuf);
    for row in built_in() {
        let is_own = |path: &&String| {
            let own = (&*row.group, &*row.version, &*row.plural);
            served_at(path) == own
        };
        let path = all.keys().find(is_own);
        let path = path.unwrap_or_else(|| panic!("nothing recorded of {row:?}"));
        let (key, value) = (text_of(&all[path], "key"), text_of(&all[path], "value"));
        let resource = GroupResource::new(&row.group, &row.plural);
        let destination = factory.destination(&resource).unwrap();
        let scope = if row.is_namespaced() { "default/" } else { "" };
        let place = format!("{}{scope}", destination.keys.resource_prefix());
        let name = key.strip_prefix(&place);
        assert!(
            name.is_some_and(|name| !name.contains('/')),
            "{key} {place}"
        );
        let (is_json, version) = match serde_json::from_str::<Value>(&value) {
            Ok(object) => (true, text_of(&object, "apiVersion")),
            Err(_) => {
                let value = BASE64_STANDARD.decode(value).unwrap();
                let envelope = Envelope::read(&value).unwrap();
                (false, envelope.api_version.to_owned())
            }
        };
        assert_eq!(destination.storage_version.to_string(), version, "{path}");
        assert_eq!(destination.media_type == MediaType::Json, is_json, "{path}");
    }
    assert_eq!(all.len(), built_in().len());
}

/// KV-21 to KV-24: every recorded value is read in every form, is written as the same object, and
/// in protobuf as the same bytes.
#[test]
fn every_resource_is_read_and_written_as_kube_apiserver_stores_it_kv_21_kv_22_kv_23() {
    for media_type in [MediaType::Json, MediaType::Yaml, MediaType::Protobuf] {
        let factory = factory(media_type);
        for recording in [JSON, YAML, PROTOBUF] {
            for (path, stored) in recorded(recording) {
                let (group, _, plural) = served_at(&path);
                let codec = factory.codec(&GroupResource::new(group, plural)).unwrap();
                let key = Key::new(text_of(&stored, "key"));
                let text = text_of(&stored, "value");
                let (value, told) = match serde_saphyr::from_str::<Value>(&text) {
                    Ok(told) if told.is_object() => (text.into_bytes(), Some(told)),
                    _ => (BASE64_STANDARD.decode(text).unwrap(), None),
                };
                let value = Bytes::from(value);
                let read = codec.decode(&key, Revision(7), &value).unwrap();
                assert_eq!(object_of(&read).unwrap().resource_version(), "7");
                let written = Bytes::from(codec.stored_form(&read));
                let again = codec.decode(&key, Revision(7), &written).unwrap();
                assert_eq!(again, read, "{path}");
                if let Some(told) = told {
                    // The version it is stored in, of the same content.
                    if let Ok(shown) = serde_saphyr::from_slice::<Value>(&written) {
                        assert_eq!(shown, told, "{path}");
                    }
                } else if media_type == MediaType::Protobuf {
                    assert!(codec.is_stored_as(&read, &value), "{path}");
                    assert_eq!(written, value, "{path}");
                }
            }
        }
    }
}
