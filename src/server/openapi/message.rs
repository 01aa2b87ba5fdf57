//! A protobuf message that is being written, and what the messages of both formats have in common.

use prost::encoding::{self, WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

/// A message that is being written.
#[derive(Default)]
pub(super) struct Message(pub Vec<u8>);

impl Message {
    /// Adds a field of bytes.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a message.
    pub(super) fn message(&mut self, field: u32, message: Message) {
        self.bytes(field, &message.0);
    }

    /// Adds a text, if it is one.
    pub(super) fn text(&mut self, field: u32, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Adds the texts of a list.
    pub(super) fn texts(&mut self, field: u32, value: Option<&Value>) {
        for text in items(value) {
            self.text(field, Some(text));
        }
    }

    /// Adds a boolean that is true.
    pub(super) fn boolean(&mut self, field: u32, value: Option<&Value>) {
        if value.and_then(Value::as_bool) == Some(true) {
            encoding::bool::encode(field, &true, &mut self.0);
        }
    }

    /// Adds each member as a message with its name and the result of `pack` for its value.
    pub(super) fn named(
        &mut self,
        field: u32,
        members: Option<&Value>,
        pack: impl Fn(&Value) -> Message,
    ) {
        for (name, value) in members.and_then(Value::as_object).into_iter().flatten() {
            self.entry(field, name, pack(value));
        }
    }

    /// Adds a message with a name.
    pub(super) fn entry(&mut self, field: u32, name: &str, message: Message) {
        let mut named = Message::default();
        named.bytes(1, name.as_bytes());
        named.message(2, message);
        self.message(field, named);
    }

    /// Adds the members whose names begin with `x-` as YAML.
    pub(super) fn extensions(&mut self, field: u32, members: &Value) {
        let members = members.as_object().into_iter().flatten();
        let extensions: Map<String, Value> = members
            .filter(|(name, _)| name.starts_with("x-"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        self.named(field, Some(&Value::Object(extensions)), any);
    }
}

/// The methods of a path, in the order of their numbers in both formats.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// A path. The number of its first method and that of its parameters are those of the format.
pub(super) fn path(
    given: &Value,
    (first_method, parameters): (u32, u32),
    operation: impl Fn(&Value) -> Message,
    parameter: impl Fn(&Value) -> Message,
) -> Message {
    let mut item = Message::default();
    for (field, method) in (first_method..).zip(METHODS) {
        if let Some(given) = given.get(method) {
            item.message(field, operation(given));
        }
    }
    for given in items(given.get("parameters")) {
        item.message(parameters, parameter(given));
    }
    item
}

/// A thing itself, or a reference to it.
pub(super) fn or_reference(given: &Value, pack: impl Fn(&Value) -> Message) -> Message {
    let reference = given.get("$ref");
    if reference.is_none() {
        return within(1, pack(given));
    }
    let mut message = Message::default();
    message.text(1, reference);
    within(2, message)
}

/// The items of a list.
pub(super) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// A message with `message` as its only field.
pub(super) fn within(field: u32, message: Message) -> Message {
    let mut outer = Message::default();
    outer.message(field, message);
    outer
}

/// Any value, as YAML.
pub(super) fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.bytes(2, format!("{value}\n").as_bytes());
    any
}
