//! A v3 document as gnostic's protobuf message `openapi.v3.Document` (API-41). It supports only the
//! members that [`super::v3`] writes.

use descriptions::Descriptions;
use prost::encoding;
use serde_json::Value;

use super::message::{
    Message, any, external, items, or_reference, path, schema_or_boolean, within,
};
use super::operations::{self, Path};
use super::schemas::{self, Versions};
use super::v3;

/// Writes the document about these paths.
pub(super) fn document(
    paths: &[Path<'_>],
    versions: Versions<'_>,
    descriptions: &Descriptions,
) -> Vec<u8> {
    let context = v3::context(descriptions, versions);
    let rest = v3::rest(versions);
    let mut packed = Message::default();
    packed.text(1, rest.get("openapi"));
    if let Some(given) = rest.get("info") {
        let mut info = Message::default();
        info.text(1, given.get("title"));
        info.text(6, given.get("version"));
        packed.message(2, info);
    }
    let mut all = Message::default();
    for of in paths {
        let item = v3::item(of, &context);
        let item = path(&item, 4, 13, operation, parameter_or_reference);
        all.entry(1, &of.template, item);
    }
    packed.message(4, all);
    let mut types = Message::default();
    for (name, source) in schemas::all(operations::roots(paths).copied(), &context) {
        let schema = schema_or_reference(&source.schema(&name, &context));
        types.entry(1, &name, schema);
    }
    let mut components = Message::default();
    components.message(1, types);
    if let Some(schemes) = v3::security(versions) {
        let mut security = Message::default();
        security.named(1, Some(&schemes), api_key);
        components.message(7, security);
    }
    packed.message(5, components);
    packed.0
}

fn api_key(given: &Value) -> Message {
    let mut key = Message::default();
    key.text(1, given.get("type"));
    key.text(2, given.get("description"));
    key.text(3, given.get("name"));
    key.text(4, given.get("in"));
    within(1, key)
}

fn operation(given: &Value) -> Message {
    let mut operation = Message::default();
    operation.texts(1, given.get("tags"));
    operation.text(3, given.get("description"));
    operation.text(5, given.get("operationId"));
    for given in items(given.get("parameters")) {
        operation.message(6, parameter_or_reference(given));
    }
    if let Some(given) = given.get("requestBody") {
        let mut body = Message::default();
        body.message(2, content(given.get("content")));
        body.boolean(3, given.get("required"));
        operation.message(7, within(1, body));
    }
    let mut responses = Message::default();
    responses.named(2, given.get("responses"), |given| {
        within(1, response(given))
    });
    operation.message(8, responses);
    operation.extensions(13, given);
    operation
}

fn response(given: &Value) -> Message {
    let mut response = Message::default();
    response.text(1, given.get("description"));
    if given.get("content").is_some() {
        response.message(3, content(given.get("content")));
    }
    response
}

fn content(given: Option<&Value>) -> Message {
    let mut content = Message::default();
    content.named(1, given, |given| {
        let mut media_type = Message::default();
        if let Some(given) = given.get("schema") {
            media_type.message(1, schema_or_reference(given));
        }
        media_type
    });
    content
}

/// Writes a parameter. v3 documents have no references to parameters.
fn parameter_or_reference(given: &Value) -> Message {
    within(1, parameter(given))
}

fn parameter(given: &Value) -> Message {
    let mut parameter = Message::default();
    parameter.text(1, given.get("name"));
    parameter.text(2, given.get("in"));
    parameter.text(3, given.get("description"));
    parameter.boolean(4, given.get("required"));
    if let Some(given) = given.get("schema") {
        parameter.message(10, schema_or_reference(given));
    }
    parameter
}

fn schema_or_reference(given: &Value) -> Message {
    or_reference(given, schema)
}

/// Writes a schema.
pub(super) fn schema(given: &Value) -> Message {
    let mut of = Message::default();
    of.boolean(1, given.get("nullable"));
    if let Some(given) = given.get("externalDocs") {
        of.message(6, external(given));
    }
    if let Some(given) = given.get("example") {
        of.message(7, any(given));
    }
    of.text(9, given.get("title"));
    of.bounds(10, given);
    of.boolean(20, given.get("uniqueItems"));
    of.integer(21, given.get("maxProperties"));
    of.integer(22, given.get("minProperties"));
    of.texts(23, given.get("required"));
    for value in items(given.get("enum")) {
        of.message(24, any(value));
    }
    of.text(25, given.get("type"));
    for (field, name) in [(26, "allOf"), (27, "oneOf"), (28, "anyOf")] {
        for given in items(given.get(name)) {
            of.message(field, schema_or_reference(given));
        }
    }
    if let Some(given) = given.get("not") {
        of.message(29, schema(given));
    }
    if let Some(given) = given.get("items") {
        of.message(30, within(1, schema_or_reference(given)));
    }
    if given.get("properties").is_some() {
        let mut properties = Message::default();
        properties.named(1, given.get("properties"), schema_or_reference);
        of.message(31, properties);
    }
    if let Some(given) = given.get("additionalProperties") {
        of.message(32, schema_or_boolean(given, schema_or_reference));
    }
    if let Some(given) = given.get("default") {
        of.message(33, default(given));
    }
    of.text(34, given.get("description"));
    of.text(35, given.get("format"));
    of.extensions(36, given);
    of
}

/// Writes a default value. One that is not a scalar is an empty message.
fn default(given: &Value) -> Message {
    let mut message = Message::default();
    match given {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            encoding::double::encode(1, &number, &mut message.0);
        }
        Value::Bool(value) => encoding::bool::encode(2, value, &mut message.0),
        Value::String(text) => message.bytes(3, text.as_bytes()),
        _ => {}
    }
    message
}
