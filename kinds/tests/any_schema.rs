//! CustomResourceDefinitions with arbitrary schemas: none causes a panic, and nested schemas are
//! decoded as in kube-apiserver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;

use api::decode::{BodyFormat, decode_object};
use api::error_list::ErrorList;
use api::object::Object;
use kinds::definitions::apiextensions::customresourcedefinitions;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.d.example.com"},
        "spec": {
            "group": "d.example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.a"}],
                "subresources": {"status": {}},
            }],
        },
    })
}

fn decoded(schema: &Value) -> Result<Object, String> {
    let body = definition(schema).to_string();
    let row = customresourcedefinitions();
    let read = decode_object(body.as_bytes(), BodyFormat::Json, &row);
    read.map(|read| read.object)
        .map_err(|error| error.to_string())
}

fn schema_of(object: &Object) -> &Value {
    let versions = object.at(&["spec", "versions"]).unwrap();
    &versions[0]["schema"]["openAPIV3Schema"]
}

/// Answers of kube-apiserver 1.36 (CRD-11).
#[test]
fn schemas_in_schemas_are_decoded_by_their_type() {
    let items =
        json!({"type": "string", "foo": 1, "default": null, "additionalProperties": {"bar": 2}});
    let read = decoded(&json!({"type": "object", "properties": {"a": {"items": items}}})).unwrap();
    assert_eq!(
        schema_of(&read)["properties"]["a"]["items"],
        json!({"type": "string", "additionalProperties": {}})
    );
    let start = "CustomResourceDefinition in version \"v1\" cannot be handled as a \
                 CustomResourceDefinition: ";
    for (schema, why) in [
        (
            json!({"properties": {"a": {"items": {"type": 5}}}}),
            "json: cannot unmarshal number into Go struct field \
             JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items.type of type \
             string",
        ),
        (
            json!({"properties": {"a": {"additionalProperties": "x"}}}),
            "boolean or JSON schema expected",
        ),
        (
            json!({"properties": {"a": {"items": {"maxLength": 1.5}}}}),
            "json: cannot unmarshal number 1.5 into Go struct field \
             JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items.maxLength of \
             type int64",
        ),
    ] {
        assert_eq!(decoded(&schema).unwrap_err(), format!("{start}{why}"));
    }
}

/// Generates a value for a member of a schema, or any other one.
fn value(depth: u32) -> BoxedStrategy<Value> {
    let texts = prop::sample::select(vec![
        "object",
        "array",
        "string",
        "integer",
        "map",
        "set",
        "atomic",
        "[",
        "^a$",
        "int32",
        "x",
        "self.a == oldSelf",
        "self.all(x, x)",
        "",
    ]);
    let leaf = prop_oneof![
        texts.prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (-3_i64..5).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!(null)),
        Just(json!(["a", "a"])),
        Just(json!([{"rule": "self.a.b", "message": " ", "fieldPath": ".a['b']"}])),
        Just(json!({"a": 1, "apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a": 1}}})),
    ];
    match depth {
        0 => leaf.boxed(),
        _ => {
            let list = prop::collection::vec(schema(depth - 1), 0..3).prop_map(Value::from);
            let of = prop::collection::btree_map("a|b|metadata|kind", schema(depth - 1), 0..3);
            let members = of.prop_map(|of| Value::Object(of.into_iter().collect()));
            prop_oneof![3 => leaf, 2 => schema(depth - 1), 1 => list, 2 => members].boxed()
        }
    }
}

fn schema(depth: u32) -> BoxedStrategy<Value> {
    let names = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "default",
        "enum",
        "required",
        "nullable",
        "allOf",
        "anyOf",
        "not",
        "pattern",
        "format",
        "maximum",
        "maxLength",
        "$ref",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "minimum",
        "oneOf",
        "maxProperties",
        "multipleOf",
    ]);
    let members = prop::collection::vec((names, value(depth)), 0..5);
    members
        .prop_map(|members| {
            let members = members.into_iter();
            let mut schema: Map<String, Value> = members
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            schema.entry("type").or_insert_with(|| "object".into());
            Value::Object(schema)
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// Schemas that no definition may have, too.
    #[test]
    fn any_object_is_pruned_defaulted_and_validated(schema in schema(4), object in value(4)) {
        if let Value::Object(members) = &object {
            checks::structural::check(&schema, members);
        }
    }

    #[test]
    fn objects_near_a_schema_are_pruned_defaulted_and_validated(
        schema in schema(5),
        choices in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        checks::structural::check_fitting(&schema, &choices);
    }

    #[test]
    fn any_schema_is_checked_without_a_panic(schema in schema(4)) {
        let row = customresourcedefinitions();
        // The decoder refuses members of other types. Such schemas are checked without it.
        let body = Object::of(definition(&schema).as_object().unwrap().clone());
        let mut bodies = vec![body];
        bodies.extend(decoded(&schema).ok());
        for mut body in bodies {
            let kind = &row.behaviour;
            kind.set_defaults(&mut body);
            let create = |object: &Object, errors: &mut ErrorList| kind.validate(object, errors);
            let update = |object: &Object, stored: &Object, errors: &mut ErrorList| {
                kind.validate_update("", object, stored, errors);
            };
            let errors = ErrorList::of(|errors| create(&body, errors));
            let again = ErrorList::of(|errors| create(&body, errors));
            prop_assert_eq!(errors.kept(), again.kept());
            ErrorList::of(|errors| update(&body, &body, errors));
        }
    }
}
