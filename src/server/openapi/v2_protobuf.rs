//! The v2 document as gnostic's protobuf message `openapi.v2.Document`, which older clients prefer
//! (API-39). It supports only the members that [`super::v2`] writes.

use std::sync::Arc;

use descriptions::Descriptions;
use serde_json::Value;

use super::merged::Merged;
use super::message::{
    Message, any, external, items, or_reference, path, schema_or_boolean, within,
};
use super::operations::{self, Path};
use super::{schemas, v2};
use crate::aggregation::openapi::Reduced;

/// Writes the document about these paths, and the parts of these extensions.
pub(super) fn document(
    paths: &[Path<'_>],
    extensions: &[Arc<Reduced>],
    descriptions: &Descriptions,
) -> Vec<u8> {
    let context = v2::context(descriptions);
    let rest = v2::rest();
    let mut packed = Message::default();
    packed.text(1, rest.get("swagger"));
    if let Some(given) = rest.get("info") {
        let mut info = Message::default();
        info.text(1, given.get("title"));
        info.text(2, given.get("version"));
        packed.message(2, info);
    }
    let mut parameters = v2::Parameters::new(&context);
    let mut all = Message::default();
    for of in paths {
        let item = parameters.item(of);
        let item = path(&item, 2, 9, operation, parameter_or_reference);
        all.entry(2, &of.template, item);
    }
    let own = schemas::all(operations::roots(paths).copied(), &context);
    let merged = Merged::new(extensions, &own, &parameters.shared, &context);
    merged.paths(|name, item| {
        let item = path(item, 2, 9, operation, parameter_or_reference);
        all.entry(2, name, item);
    });
    packed.message(8, all);
    let mut types = Message::default();
    for (name, source) in &own {
        let mut of = source.schema(name, &context);
        merged.add_kinds(name, &mut of);
        types.entry(1, name, schema(&of));
    }
    merged.definitions(|name, of| types.entry(1, name, schema(of)));
    packed.message(9, types);
    let mut shared = Message::default();
    for (name, given) in &parameters.shared {
        shared.entry(1, name, parameter(given));
    }
    merged.parameters(|name, given| shared.entry(1, name, parameter(given)));
    packed.message(10, shared);
    for given in items(rest.get("security")) {
        let mut requirement = Message::default();
        requirement.named(1, Some(given), |_| Message::default());
        packed.message(12, requirement);
    }
    let mut security = Message::default();
    security.named(1, rest.get("securityDefinitions"), api_key);
    packed.message(13, security);
    packed.0
}

fn api_key(given: &Value) -> Message {
    let mut key = Message::default();
    key.text(1, given.get("type"));
    key.text(2, given.get("name"));
    key.text(3, given.get("in"));
    key.text(4, given.get("description"));
    within(2, key)
}

fn operation(given: &Value) -> Message {
    let mut operation = Message::default();
    operation.texts(1, given.get("tags"));
    operation.text(3, given.get("description"));
    operation.text(5, given.get("operationId"));
    operation.texts(6, given.get("produces"));
    operation.texts(7, given.get("consumes"));
    for given in items(given.get("parameters")) {
        operation.message(8, parameter_or_reference(given));
    }
    let mut responses = Message::default();
    responses.named(1, given.get("responses"), |given| {
        within(1, response(given))
    });
    operation.message(9, responses);
    operation.texts(10, given.get("schemes"));
    operation.extensions(13, given);
    operation
}

fn response(given: &Value) -> Message {
    let mut response = Message::default();
    response.text(1, given.get("description"));
    if let Some(given) = given.get("schema") {
        response.message(2, within(1, schema(given)));
    }
    response
}

/// Writes a `ParametersItem`.
fn parameter_or_reference(given: &Value) -> Message {
    or_reference(given, parameter)
}

/// Writes a `Parameter`.
fn parameter(given: &Value) -> Message {
    let place = given.get("in").and_then(Value::as_str).unwrap_or_default();
    match place {
        "body" => within(1, body_parameter(given)),
        "query" => within(2, within(3, query_parameter(given))),
        _ => within(2, within(4, path_parameter(given))),
    }
}

fn body_parameter(given: &Value) -> Message {
    let mut parameter = Message::default();
    parameter.text(1, given.get("description"));
    parameter.text(2, given.get("name"));
    parameter.text(3, given.get("in"));
    parameter.boolean(4, given.get("required"));
    if let Some(given) = given.get("schema") {
        parameter.message(5, schema(given));
    }
    parameter
}

fn common_parameter(given: &Value) -> Message {
    let mut parameter = Message::default();
    parameter.boolean(1, given.get("required"));
    parameter.text(2, given.get("in"));
    parameter.text(3, given.get("description"));
    parameter.text(4, given.get("name"));
    parameter
}

fn query_parameter(given: &Value) -> Message {
    let mut parameter = common_parameter(given);
    parameter.text(6, given.get("type"));
    parameter.boolean(20, given.get("uniqueItems"));
    parameter
}

fn path_parameter(given: &Value) -> Message {
    let mut parameter = common_parameter(given);
    parameter.text(5, given.get("type"));
    parameter.boolean(19, given.get("uniqueItems"));
    parameter
}

/// Writes a schema.
pub(super) fn schema(given: &Value) -> Message {
    let mut schema_of = Message::default();
    schema_of.text(1, given.get("$ref"));
    schema_of.text(2, given.get("format"));
    schema_of.text(3, given.get("title"));
    schema_of.text(4, given.get("description"));
    schema_of.bounds(6, given);
    schema_of.boolean(16, given.get("uniqueItems"));
    schema_of.integer(17, given.get("maxProperties"));
    schema_of.integer(18, given.get("minProperties"));
    schema_of.texts(19, given.get("required"));
    for value in items(given.get("enum")) {
        schema_of.message(20, any(value));
    }
    if let Some(given) = given.get("additionalProperties") {
        schema_of.message(21, schema_or_boolean(given, schema));
    }
    if given.get("type").is_some() {
        let mut of_type = Message::default();
        of_type.text(1, given.get("type"));
        schema_of.message(22, of_type);
    }
    if let Some(given) = given.get("items") {
        schema_of.message(23, within(1, schema(given)));
    }
    if let Some(given) = given.get("properties") {
        let mut properties = Message::default();
        properties.named(1, Some(given), schema);
        schema_of.message(25, properties);
    }
    if let Some(given) = given.get("externalDocs") {
        schema_of.message(29, external(given));
    }
    if let Some(given) = given.get("example") {
        schema_of.message(30, any(given));
    }
    schema_of.extensions(31, given);
    schema_of
}
