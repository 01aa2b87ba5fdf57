use actors::engine::{Key, Revision};
use actors::object::Decode;
use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::api::resource::{Conversion, ConversionStrategy, Declared, Rules, SelectableField};

fn things() -> ResourceDefinition {
    ResourceDefinition::named("ex.com", "v1", "Thing", "things").with(Declared {
        selectable_fields: vec![
            SelectableField::text("spec.node", &["spec.node", "spec.host"]),
            SelectableField::text("spec.ready", &["spec.ready"]),
            SelectableField {
                absent: "nothing".to_owned(),
                ..SelectableField::text("none", &["spec.empty", "none"])
            },
        ],
        ..Declared::default()
    })
}

/// The conversion of a version that differs in its type only.
fn type_only() -> Conversion {
    let rules = Rules {
        conversion: ConversionStrategy::TypeOnly,
        ..Rules::default()
    };
    Conversion::of(&things().with(Declared {
        rules,
        ..Declared::default()
    }))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is not an object"),
    }
}

fn thing() -> Object {
    object(json!({
        "zeta": [1, {"b": 1, "a": 2}], "spec": {"ready": true, "host": "h", "node": "n1"},
        "apiVersion": "ex.com/v1", "kind": "Thing",
        "metadata": {"resourceVersion": "99", "selfLink": "/x", "namespace": "d", "name": "a",
                     "labels": {"b": "2", "a": "1"}},
    }))
}

fn key() -> Key {
    Key::new("/registry/things/d/a")
}

const STORED: &str = r#"{"kind":"Thing","apiVersion":"ex.com/v1","metadata":{"labels":{"a":"1","b":"2"},"name":"a","namespace":"d"},"spec":{"host":"h","node":"n1","ready":true},"zeta":[1,{"a":2,"b":1}]}"#;

#[test]
fn stored_form_is_sorted_and_holds_neither_version_nor_self_link_st_7_kv_25() {
    assert_eq!(
        String::from_utf8(Codec::new(things()).encode(&thing())).unwrap(),
        STORED
    );
}

#[test]
fn wire_form_splices_the_version_in_and_every_other_form_is_a_slice_of_it() {
    let codec = Codec::new(things());
    let cached = codec
        .decode(&key(), Revision(7), &Bytes::from_static(STORED.as_bytes()))
        .unwrap();
    let wire = String::from_utf8(cached.wire()).unwrap();
    assert!(wire.starts_with(
        r#"{"kind":"Thing","apiVersion":"ex.com/v1","metadata":{"resourceVersion":"7","labels""#
    ));
    assert!(
        cached
            .item_body()
            .starts_with(br#""metadata":{"resourceVersion":"7","#)
    );
    assert_eq!(cached.stored_form(), STORED.as_bytes());
    let later = cached.at(Revision(1234));
    assert_eq!(later.wire(), later.wire_at(Revision(1234)));
    assert_eq!(later.stored_form(), STORED.as_bytes());
    assert_eq!(object_of(&later).unwrap().resource_version(), "1234");
    assert_eq!(later.at(Revision(7)), cached);
}

#[test]
fn an_object_that_was_never_stored_has_no_version_in_its_wire_form_st_80() {
    let cached = Codec::new(things())
        .wire(&key(), &thing(), Revision::ZERO)
        .unwrap();
    assert_eq!(cached.wire(), STORED.as_bytes());
    assert_eq!(cached.at(Revision(5)).stored_form(), STORED.as_bytes());
}

#[test]
fn attributes_are_labels_and_selectable_fields_where_the_first_path_wins_li_39() {
    let cached = Codec::new(things())
        .wire(&key(), &thing(), Revision(1))
        .unwrap();
    assert_eq!(cached.attributes().label("a"), Some("1"));
    assert_eq!(cached.attributes().label("c"), None);
    assert_eq!(cached.attributes().name(), "a");
    assert_eq!(cached.attributes().namespace(), "d");
    let fields: Vec<&str> = cached.attributes().fields().collect();
    assert_eq!(fields, ["n1", "true", "nothing"]);
}

#[test]
fn bytes_in_another_form_are_read_and_shown_in_ours_kv_23_st_60() {
    let codec = Codec::new(things());
    for other in [
        format!(" {STORED}\n"),
        STORED.replace("\"name\":\"a\"", "\"resourceVersion\":\"3\",\"name\":\"a\""),
        serde_json::to_string(&thing().0).unwrap(),
    ] {
        let cached = codec
            .decode(&key(), Revision(7), &Bytes::from(other.clone()))
            .unwrap();
        assert_eq!(cached.stored_form(), STORED.as_bytes(), "{other}");
        assert_eq!(object_of(&cached).unwrap().resource_version(), "7");
    }
}

fn type_name(kind: &str, api_version: &str) -> TypeName {
    TypeName {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
    }
}

fn form(media_type: MediaType) -> StoredForm {
    StoredForm {
        media_type,
        stored: TypeName::of(&things()),
        served: TypeName::of(&things()),
        read: vec![(TypeName::of(&things()), type_only())],
    }
}

#[test]
fn yaml_is_sorted_and_read_back_in_wire_form_kv_25_st_7() {
    let codec = Codec::new(things()).stored_as(form(MediaType::Yaml));
    let stored = codec.encode(&thing());
    let text = String::from_utf8(stored.clone()).unwrap();
    assert!(text.starts_with("apiVersion: ex.com/v1\nkind: Thing\nmetadata:\n"));
    assert!(
        !text.contains("resourceVersion") && !text.contains("selfLink"),
        "{text}"
    );
    let cached = codec.decode(&key(), Revision(7), &Bytes::from(stored.clone()));
    let cached = cached.unwrap();
    assert_eq!(cached.stored_form(), STORED.as_bytes());
    assert_eq!(codec.stored_form(&cached), stored);
    assert_eq!(codec.wire(&key(), &thing(), Revision(7)).unwrap(), cached);
    let of_json = codec.decode(&key(), Revision(7), &Bytes::from_static(STORED.as_bytes()));
    assert_eq!(of_json.unwrap(), cached);
}

#[test]
fn another_version_is_stored_and_the_one_served_is_read_kv_24_sf_45() {
    let codec = Codec::new(things()).stored_as(StoredForm {
        stored: type_name("OldThing", "old.ex.com/v1beta1"),
        read: [TypeName::of(&things()), type_name("Thing", "ex.com/v2")]
            .map(|name| (name, type_only()))
            .to_vec(),
        ..form(MediaType::Json)
    });
    let old = STORED.replace(
        r#""kind":"Thing","apiVersion":"ex.com/v1""#,
        r#""kind":"OldThing","apiVersion":"old.ex.com/v1beta1""#,
    );
    assert_eq!(codec.encode(&thing()), old.as_bytes());
    for stored in [
        old.clone(),
        STORED.to_owned(),
        STORED.replace("ex.com/v1", "ex.com/v2"),
    ] {
        let cached = codec
            .decode(&key(), Revision(7), &Bytes::from(stored))
            .unwrap();
        assert_eq!(cached.stored_form(), STORED.as_bytes());
        assert_eq!(codec.stored_form(&cached), old.as_bytes());
    }
    let unknown = Bytes::from(STORED.replace("ex.com/v1", "ex.com/v3"));
    let refused = codec.decode(&key(), Revision(7), &unknown).unwrap_err();
    assert!(refused.reason.contains("Thing of ex.com/v3"), "{refused}");
}

#[test]
fn what_is_no_object_of_the_resource_is_refused_by_name_li_16() {
    let codec = Codec::new(things());
    let wrong_kind = STORED.replace("Thing", "Other");
    for bad in ["", "[]", "{}", "{\"kind\":\"Thing\"", wrong_kind.as_str()] {
        let error = codec
            .decode_stored(&key(), Revision(7), bad.as_bytes())
            .expect_err(bad);
        assert!(
            error.to_string().contains("/registry/things/d/a"),
            "{error}"
        );
        assert!(error.to_string().contains("revision 7"), "{error}");
    }
}

/// Values of old versions, and what kube-apiserver 1.36 shows of them.
const OLD: &str = include_str!("../../../kinds/recorded/old-versions.json");

/// A value as kube-apiserver stores it by default.
fn as_protobuf(stored: &Object, by: &FormerVersion) -> Option<Vec<u8>> {
    let definition = ResourceDefinition::named("", "v1", stored.kind(), "").with(Declared {
        object_type: by.object_type.clone(),
        ..Declared::default()
    });
    let of = type_name(stored.kind(), stored.api_version());
    let json = encode_object(stored);
    let value = protobuf::encode(json, &of, &definition);
    value.starts_with(b"k8s\0").then_some(value)
}

#[test]
fn values_of_old_versions_are_served_in_the_one_that_is_stored_kv_27_kv_28() {
    let rows = crate::kinds::definitions::built_in();
    let cases: Vec<Value> = serde_json::from_str(OLD).unwrap();
    let mut lacking = 0;
    let mut in_protobuf = 0;
    for case in &cases {
        let stored = object(case["stored"].clone());
        let key = Key::new(case["key"].as_str().unwrap());
        let (kind, api_version) = (stored.kind(), stored.api_version());
        let json = Bytes::from(case["stored"].to_string());
        let Some(shown) = case["shown"].get(0) else {
            let is_stored_there = |row: &&Arc<ResourceDefinition>| {
                let prefix = format!("/registry/{}/", row.key_prefix);
                key.to_string().starts_with(&prefix)
            };
            let row = rows.iter().find(is_stored_there).unwrap().clone();
            let refused = Codec::new(row)
                .decode(&key, Revision(7), &json)
                .unwrap_err();
            let reason = format!("it is a {kind} of {api_version}, not a ");
            assert!(refused.reason.starts_with(&reason), "{refused}");
            continue;
        };
        let is_shown = |row: &&Arc<ResourceDefinition>| {
            (row.kind.as_str(), Some(row.api_version().as_str()))
                == (kind, shown["apiVersion"].as_str())
        };
        let row = rows.iter().find(is_shown).unwrap().clone();
        let codec = Codec::new(row.clone());
        let read = codec.decode(&key, Revision(7), &json).unwrap();
        let mut object = object_of(&read).unwrap();
        object.metadata_mut().remove("resourceVersion");
        assert_eq!(Value::Object(object.into_document()), *shown, "{key}");
        let renewed = codec
            .renewed(&key, Revision(7), &json, Timestamp::UNIX_EPOCH)
            .unwrap()
            .unwrap();
        assert!(renewed.starts_with(&codec.head), "{key}");
        // It may lack what the stored version fills in and the old one does not (KV-30).
        let renew = |value: &[u8]| {
            let renewed = codec.renewed(&key, Revision(7), value, Timestamp::UNIX_EPOCH);
            renewed.unwrap()
        };
        let filled = renew(&renewed);
        lacking += usize::from(filled.is_some());
        assert_eq!(renew(&filled.unwrap_or(renewed)), None, "{key}");
        assert!(!codec.is_stored_as(&read, &json));

        let former = row.former_version(kind, api_version).unwrap();
        let Some(value) = as_protobuf(&stored, former) else {
            assert_eq!(api_version, "apiextensions.k8s.io/v1beta1");
            continue;
        };
        let same = codec.decode(&key, Revision(7), &Bytes::from(value.clone()));
        // Protobuf has no empty lists.
        let mut of_json = object_of(&read).unwrap();
        row.canonicalize(&mut of_json);
        assert_eq!(object_of(&same.unwrap()).unwrap(), of_json, "{key}");
        assert!(
            codec
                .renewed(&key, Revision(7), &value, Timestamp::UNIX_EPOCH)
                .unwrap()
                .is_some()
        );
        in_protobuf += 1;
    }
    assert!(in_protobuf > 150, "{in_protobuf}");
    assert_eq!(lacking, 2);
}

/// KV-27: a value can't be read if its fields have other types than those of its old version.
#[test]
fn values_of_old_versions_with_other_types_are_refused_by_name_kv_27() {
    let row = crate::kinds::definitions::apps::deployments();
    let former = crate::kinds::definitions::built_in();
    let former = former.into_iter().find(|other| other.plural == row.plural);
    let codec = Codec::new(former.unwrap());
    for spec in [
        json!({"replicas": "3"}),
        json!({"replicas": 3.5}),
        json!({"template": []}),
        json!({"rollbackTo": 7}),
    ] {
        let value = json!({"kind": "Deployment", "apiVersion": "extensions/v1beta1",
            "metadata": {"name": "a"}, "spec": spec});
        let value = Bytes::from(value.to_string());
        let refused = codec.decode(&key(), Revision(7), &value).unwrap_err();
        assert!(refused.reason.contains("not of the type"), "{refused}");
        let renewed = codec.renewed(&key(), Revision(7), &value, Timestamp::UNIX_EPOCH);
        assert_eq!(renewed.unwrap_err(), refused);
    }
}
