//! Nested schemas, which may be as deep as any JSON, stay within the stack limit per level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../api/tests/stack/mod.rs"]
mod stack;

use api::decode::{BodyFormat, decode_object};
use api::deep::{LEVEL_BYTES, MAX_DEPTH};
use api::error_list::ErrorList;
use api::protobuf::{Texts, to_json, write_document};
use kinds::definitions::apiextensions::customresourcedefinitions;
use kinds::types::TYPES;

/// The levels around a schema.
const AROUND: usize = 6;

fn definition(open: &str, close: &str, levels: usize) -> String {
    let inside = r#"{"type":"object"}"#;
    let schema = format!("{}{inside}{}", open.repeat(levels), close.repeat(levels));
    format!(
        r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",
        "metadata":{{"name":"foos.d.example.com"}},"spec":{{"group":"d.example.com",
        "scope":"Cluster","names":{{"plural":"foos","kind":"Foo"}},"versions":[{{"name":"v1",
        "served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    )
}

#[test]
fn schemas() {
    for (open, close) in [
        (r#"{"type":"object","items":"#, "}"),
        (r#"{"type":"object","items":["#, "]}"),
        (r#"{"type":"object","properties":{"a":"#, "}}"),
        (r#"{"type":"object","additionalProperties":"#, "}"),
        (
            r#"{"type":"object","x-kubernetes-validations":[{"rule":"true"}],"default":{},
                "properties":{"a":"#,
            "}}",
        ),
        (r#"{"type":"object","dependencies":{"a":"#, "}}"),
        (r#"{"type":"object","not":"#, "}"),
        (r#"{"type":"object","allOf":["#, "]}"),
    ] {
        let levels = (MAX_DEPTH - AROUND) / close.len() - 1;
        let text = definition(open, close, levels);
        stack::fits(open.to_owned(), LEVEL_BYTES, move || {
            let row = customresourcedefinitions();
            let read = decode_object(text.as_bytes(), BodyFormat::Json, &row).unwrap();
            let mut object = read.object;
            let kind = &row.behaviour;
            kind.set_defaults(&mut object);
            row.canonicalize(&mut object);
            ErrorList::of(|errors| kind.validate(&object, errors));
            ErrorList::of(|errors| kind.validate_update("", &object, &object, errors));
            let mut message = Vec::new();
            assert!(write_document(&TYPES, text.as_bytes(), &mut message));
            let json = to_json(&message, "", "", &TYPES, Texts::Strict).unwrap();
            assert!(decode_object(&json, BodyFormat::Json, &row).is_ok());
        });
    }
}
