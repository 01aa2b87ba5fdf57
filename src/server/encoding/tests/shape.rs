use actors::engine::Key;

use actors::engine::Revision;
use serde_json::Value;

use super::super::shape::metadata_of;
use super::super::*;
use crate::api::object::Object;
use crate::kinds::definitions::core::configmaps;
use crate::storage::codec::Codec;

fn cached(document: Value, revision: u64) -> CachedObject {
    let Value::Object(members) = document else {
        panic!("no object");
    };
    let mut object = Object::of(members);
    object.set_type("ConfigMap", "v1");
    Codec::new(configmaps())
        .wire(
            &Key::new("/registry/configmaps/d/a"),
            &object,
            Revision(revision),
        )
        .expect("it can be encoded")
}

#[test]
fn metadata_is_a_slice_of_the_wire_form_api_71() {
    let metadata = serde_json::json!({
        "name": "a", "namespace": "d", "annotations": {"brace": "}", "quote": "\"}{\\"},
        "labels": {"l": "1"},
    });
    let object = cached(
        serde_json::json!({"metadata": metadata, "data": {"k": "}"}}),
        7,
    );
    let slice: Value = serde_json::from_slice(metadata_of(&object)).expect("a document");
    let mut expected = metadata;
    expected["resourceVersion"] = "7".into();
    assert_eq!(slice, expected);
}

#[test]
fn include_object_is_one_of_three_api_69() {
    assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("Object"), Ok(IncludeObject::Object));
    assert_eq!(IncludeObject::parse("None"), Ok(IncludeObject::None));
    let refused = IncludeObject::parse("Nonsense").expect_err("refused");
    assert_eq!(
        refused.message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Nonsense\": \
         must be 'Metadata', 'Object', 'None', or empty"
    );
}

#[test]
fn a_row_has_cells_and_the_part_of_the_object_asked_for_api_68() {
    let object = cached(
        serde_json::json!({"metadata": {"name": "a"}, "data": {"k": "1"}}),
        7,
    );
    for (include, kind) in [
        (IncludeObject::Metadata, Some("PartialObjectMetadata")),
        (IncludeObject::Object, Some("ConfigMap")),
        (IncludeObject::None, None),
    ] {
        let encoding = Encoding {
            conversion: Some(Conversion::Table(MetaVersion::V1)),
            include,
            ..Encoding::default()
        };
        let out = encoding.object(&configmaps().into(), &object);
        let table: Value = serde_json::from_slice(&out.expect("a Table")).expect("a document");
        assert_eq!(table["kind"], "Table");
        assert_eq!(table["metadata"]["resourceVersion"], "7");
        assert_eq!(table["columnDefinitions"][0]["name"], "Name");
        assert_eq!(table["rows"][0]["cells"][0], "a");
        assert_eq!(table["rows"][0]["object"]["kind"].as_str(), kind);
    }
}
