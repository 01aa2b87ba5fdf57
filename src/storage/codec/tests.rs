use actors::engine::{Key, Revision};
use actors::object::Decode;
use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::api::resource::{ConversionStrategy, SelectableField};

fn things() -> ResourceDefinition {
    ResourceDefinition {
        selectable_fields: vec![
            SelectableField::text("spec.node", &["spec.node", "spec.host"]),
            SelectableField::text("spec.ready", &["spec.ready"]),
            SelectableField {
                absent: "nothing".to_owned(),
                ..SelectableField::text("none", &["spec.empty", "none"])
            },
        ],
        ..ResourceDefinition::named("ex.com", "v1", "Thing", "things")
    }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is no object"),
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
        read: vec![(TypeName::of(&things()), ConversionStrategy::TypeOnly)],
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
            .map(|name| (name, ConversionStrategy::TypeOnly))
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
