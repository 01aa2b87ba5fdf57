//! The v2 document as the protobuf message `openapi.v2.Document` of gnostic, which older clients
//! prefer (API-39). It packs only what [`super::v2`] writes.

use descriptions::Descriptions;
use prost::encoding::{self, WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

use super::{operations, schemas, v2};
use crate::api::resource::ResourceDefinition;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, message: Message) {
        self.bytes(field, &message.0);
    }

    fn text(&mut self, field: u32, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u32, value: Option<&Value>) {
        for text in items(value) {
            self.text(field, Some(text));
        }
    }

    fn boolean(&mut self, field: u32, value: Option<&Value>) {
        if value.and_then(Value::as_bool) == Some(true) {
            encoding::bool::encode(field, &true, &mut self.0);
        }
    }

    /// Writes each member as a message with its name and the result of `pack` for its value.
    fn named(&mut self, field: u32, members: Option<&Value>, pack: impl Fn(&Value) -> Message) {
        for (name, value) in members.and_then(Value::as_object).into_iter().flatten() {
            self.entry(field, name, pack(value));
        }
    }

    /// Writes a message with a name.
    fn entry(&mut self, field: u32, name: &str, message: Message) {
        let mut named = Message::default();
        named.bytes(1, name.as_bytes());
        named.message(2, message);
        self.message(field, named);
    }

    /// Writes members whose names begin with `x-` as YAML.
    fn extensions(&mut self, field: u32, members: &Value) {
        let members = members.as_object().into_iter().flatten();
        let extensions: Map<String, Value> = members
            .filter(|(name, _)| name.starts_with("x-"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        self.named(field, Some(&Value::Object(extensions)), any);
    }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// A message with `message` as its only field.
fn within(field: u32, message: Message) -> Message {
    let mut outer = Message::default();
    outer.message(field, message);
    outer
}

/// The v2 document about all resources.
pub(super) fn document(
    definitions: &[&ResourceDefinition],
    descriptions: &Descriptions<'_>,
) -> Vec<u8> {
    let words = v2::words(descriptions);
    let rest = v2::rest();
    let mut packed = Message::default();
    packed.text(1, rest.get("swagger"));
    if let Some(given) = rest.get("info") {
        let mut info = Message::default();
        info.text(1, given.get("title"));
        info.text(2, given.get("version"));
        packed.message(2, info);
    }
    let mut paths = Message::default();
    for (template, of) in operations::paths(definitions) {
        paths.entry(2, &template, path(&v2::item(&of)));
    }
    packed.message(8, paths);
    let mut types = Message::default();
    for (name, source) in schemas::all(definitions, &words) {
        types.entry(1, &name, schema(&source.schema(&name, &words)));
    }
    packed.message(9, types);
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

fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.bytes(2, format!("{value}\n").as_bytes());
    any
}

fn api_key(given: &Value) -> Message {
    let mut key = Message::default();
    key.text(1, given.get("type"));
    key.text(2, given.get("name"));
    key.text(3, given.get("in"));
    key.text(4, given.get("description"));
    within(2, key)
}

fn path(given: &Value) -> Message {
    let mut item = Message::default();
    for (field, method) in [
        (2, "get"),
        (3, "put"),
        (4, "post"),
        (5, "delete"),
        (8, "patch"),
    ] {
        if let Some(given) = given.get(method) {
            item.message(field, operation(given));
        }
    }
    for given in items(given.get("parameters")) {
        item.message(9, parameter(given));
    }
    item
}

fn operation(given: &Value) -> Message {
    let mut operation = Message::default();
    operation.text(3, given.get("description"));
    operation.text(5, given.get("operationId"));
    operation.texts(6, given.get("produces"));
    operation.texts(7, given.get("consumes"));
    for given in items(given.get("parameters")) {
        operation.message(8, parameter(given));
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

/// A `ParametersItem` that holds a `Parameter`.
fn parameter(given: &Value) -> Message {
    let place = given.get("in").and_then(Value::as_str).unwrap_or_default();
    let parameter = match place {
        "body" => within(1, body_parameter(given)),
        "query" => within(2, within(3, query_parameter(given))),
        _ => within(2, within(4, path_parameter(given))),
    };
    within(1, parameter)
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

fn schema(given: &Value) -> Message {
    let mut schema_of = Message::default();
    schema_of.text(1, given.get("$ref"));
    schema_of.text(2, given.get("format"));
    schema_of.text(4, given.get("description"));
    schema_of.texts(19, given.get("required"));
    for value in items(given.get("enum")) {
        schema_of.message(20, any(value));
    }
    if let Some(given) = given.get("additionalProperties") {
        schema_of.message(21, within(1, schema(given)));
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
    schema_of.extensions(31, given);
    schema_of
}
