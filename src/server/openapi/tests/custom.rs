//! Schemas of definitions as documents show them (CRD-107, CRD-108).

use super::super::structural::{Embedded, published};
use super::*;
use crate::schema::OpenApiVersion;

fn shown(version: OpenApiVersion, schema: Value) -> Value {
    let fields = [
        ("apiVersion", json!(1)),
        ("kind", json!(2)),
        ("metadata", json!(3)),
    ];
    let own = [("apiVersion", json!("a")), ("kind", json!("k"))];
    published(schema, &Embedded { version, fields }, own)
}

/// Returns the schemas of the same field in both formats.
fn both(field: &Value) -> (Value, Value) {
    let of = |version| {
        let whole = json!({"type": "object", "properties": {"a": field}});
        shown(version, whole)["properties"]["a"].take()
    };
    (of(OpenApiVersion::V2), of(OpenApiVersion::V3))
}

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

#[test]
fn an_object_has_the_fields_of_all_objects_crd_106() {
    for version in [OpenApiVersion::V2, OpenApiVersion::V3] {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {
            "metadata": {"type": "object", "properties": {"name": {"maxLength": 3}}}}});
        let expected = json!({"type": "object", "required": ["spec"], "properties": {
            "apiVersion": "a", "kind": "k", "metadata": 3}});
        assert_eq!(shown(version, schema), expected);
        let expected = json!({"type": "object", "properties": {
            "apiVersion": "a", "kind": "k", "metadata": 3}});
        assert_eq!(shown(version, json!({"type": "object"})), expected);
    }
}

#[test]
fn the_second_format_is_weaker_crd_107() {
    let text = json!({"type": "string"});
    for (field, weaker) in [
        (
            json!({"type": "integer", "minimum": 1, "default": 5, "not": {"minimum": 9},
                "oneOf": [{"minimum": 2}], "anyOf": [{"minimum": 2}], "allOf": [{"minimum": 2}]}),
            json!({"type": "integer", "minimum": 1}),
        ),
        (
            json!({"type": "object", "nullable": true, "properties": {"b": text}}),
            json!({}),
        ),
        (
            json!({"type": "array", "nullable": true, "items": text, "maxItems": 3}),
            json!({"maxItems": 3}),
        ),
        (
            json!({"type": "object", OPEN: true, "properties": {"b": text}}),
            json!({OPEN: true}),
        ),
        (
            json!({"type": "array", OPEN: true, "items": text}),
            json!({OPEN: true}),
        ),
        (
            json!({"type": "object", "required": ["b", "c"], "properties": {
                "b": {"type": "string", "nullable": true}, "c": text}}),
            json!({"type": "object", "required": ["c"], "properties": {"b": {}, "c": text}}),
        ),
        (
            json!({"type": "object", "required": ["b"],
                "additionalProperties": {"type": "string", "nullable": true}}),
            json!({"type": "object", "additionalProperties": {}}),
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {
                "default": {"type": "string", "default": "x"}}}}),
            json!({"type": "array", "items": {"type": "object", "properties": {
                "default": text}}}),
        ),
    ] {
        let (v2, v3) = both(&field);
        assert_eq!(v2, weaker, "{field}");
        assert_eq!(v3, field);
    }
}

#[test]
fn integers_or_strings_are_alternatives_in_the_third_format_crd_107() {
    let kinds = json!([{"type": "integer"}, {"type": "string"}]);
    let pattern = json!({"pattern": "^a"});
    for (field, expected) in [
        (
            json!({INT_OR_STRING: true}),
            json!({INT_OR_STRING: true, "anyOf": kinds}),
        ),
        (
            json!({INT_OR_STRING: true, "anyOf": kinds, "allOf": [pattern]}),
            json!({INT_OR_STRING: true, "anyOf": kinds, "allOf": [pattern]}),
        ),
        (
            json!({INT_OR_STRING: true, "allOf": [{"anyOf": kinds}, pattern]}),
            json!({INT_OR_STRING: true, "allOf": [{"anyOf": kinds}, pattern]}),
        ),
        (
            json!({INT_OR_STRING: true, "anyOf": [pattern], "allOf": [pattern]}),
            json!({INT_OR_STRING: true, "anyOf": [pattern], "allOf": [{"anyOf": kinds}, pattern]}),
        ),
    ] {
        let (v2, v3) = both(&field);
        assert_eq!(v2, json!({INT_OR_STRING: true}), "{field}");
        assert_eq!(v3, expected);
    }
}

#[test]
fn embedded_resources_have_the_fields_of_objects_crd_108() {
    let fields = json!({"apiVersion": 1, "kind": 2, "metadata": 3, "spec": {"type": "string"}});
    let spec = json!({"spec": {"type": "string"}});
    let field = json!({"type": "object", EMBEDDED: true, "properties": spec, "required": ["kind"]});
    let (v2, v3) = both(&field);
    let expected = json!({"type": "object", EMBEDDED: true, "properties": fields,
        "required": ["kind", "apiVersion"]});
    assert_eq!((&v2, &v3), (&expected, &expected));
    // In the second format one that keeps unknown fields shows none, in the third it does.
    let (v2, v3) = both(&json!({"type": "object", EMBEDDED: true, OPEN: true}));
    assert_eq!(v2, json!({EMBEDDED: true, OPEN: true}));
    let expected = json!({"type": "object", EMBEDDED: true, OPEN: true,
        "properties": {"apiVersion": 1, "kind": 2, "metadata": 3},
        "required": ["kind", "apiVersion"]});
    assert_eq!(v3, expected);
}

/// Value validations show neither additional properties nor floats that Go prints otherwise.
#[test]
fn values_are_as_go_prints_them_crd_106() {
    let (v2, v3) = both(
        &json!({"type": "object", "default": {"a": 1.0}, "example": 2.50,
        "not": {"additionalProperties": {"maximum": 1}, "properties": {
            "b": {"additionalProperties": {"maximum": 1}, "enum": [1.0]}}}}),
    );
    assert_eq!(v2, json!({"type": "object", "example": 2.5}));
    let expected = json!({"type": "object", "default": {"a": 1}, "example": 2.5,
        "not": {"properties": {"b": {"enum": [1]}}}});
    assert_eq!(v3, expected);
}

/// CRD-106: no custom resource has the name of a built-in type.
#[test]
fn names_of_built_in_types_are_taken_crd_106() {
    let name = |group: &str, version: &str, kind: &str| {
        let definition = crate::api::resource::ResourceDefinition::named(group, version, kind, "x");
        schemas::name(&definition)
    };
    assert_eq!(name("example.com", "v1", "Lamp"), "com.example.v1.Lamp");
    let taken = "io.k8s.api.apps.v1.Deployment_v2";
    assert_eq!(name("apps.api.k8s.io", "v1", "Deployment"), taken);
    let free = "io.k8s.api.apps.v2.Deployment";
    assert_eq!(name("apps.api.k8s.io", "v2", "Deployment"), free);
}

/// API-39, API-41: protobuf says the same of a schema.
#[test]
fn the_protobuf_forms_have_all_members_of_schemas_api_39_api_41() {
    let schema = json!({"title": "T", "multipleOf": 0.5, "maximum": 3, "exclusiveMaximum": true,
        "minimum": -1, "exclusiveMinimum": true, "maxLength": 7, "minLength": 6, "pattern": "^p",
        "maxItems": 5, "minItems": 4, "maxProperties": 9, "minProperties": 8, "enum": ["e"],
        "externalDocs": {"description": "d", "url": "u"}, "example": {"x": 1},
        "additionalProperties": false, "x-kubernetes-list-type": "set"});
    let (v2, v3) = (
        v2_protobuf::schema(&schema).0,
        v3_protobuf::schema(&schema).0,
    );
    let texts = [([3, 13, 29, 30, 31], &v2), ([9, 17, 6, 7, 36], &v3)];
    for ([title, pattern, docs, example, extension], message) in texts {
        assert_eq!(at(message, &[title]), b"T");
        assert_eq!(at(message, &[pattern]), b"^p");
        assert_eq!(at(message, &[docs, 2]), b"u");
        assert_eq!(at(message, &[example, 2]), b"{\"x\":1}\n");
        assert_eq!(at(message, &[extension, 1]), b"x-kubernetes-list-type");
    }
    let counts = [
        ([11, 12, 14, 15, 17, 18], &v2),
        ([15, 16, 18, 19, 21, 22], &v3),
    ];
    for (fields, message) in counts {
        let found = fields.map(|field| numbers(message, field)[0]);
        assert_eq!(found, [7, 6, 5, 4, 9, 8]);
    }
    for (bounds, message) in [([6, 7, 9], &v2), ([10, 11, 13], &v3)] {
        let found = bounds.map(|field| f64::from_bits(numbers(message, field)[0]));
        assert_eq!(found, [0.5, 3.0, -1.0]);
    }
    assert_eq!(numbers(at(&v2, &[21]), 2), [0]);
    assert_eq!(numbers(at(&v3, &[32]), 2), [0]);
    let third = json!({"nullable": true, "anyOf": [{"type": "a"}], "not": {"type": "n"}});
    let third = v3_protobuf::schema(&third).0;
    assert_eq!(numbers(&third, 1), [1]);
    assert_eq!(at(&third, &[28, 1, 25]), b"a");
    assert_eq!(at(&third, &[29, 25]), b"n");
}
