//! A protobuf message that is being written, and the messages that both formats share.

use prost::encoding::{self, WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

/// A message that is being written.
#[derive(Default)]
pub(super) struct Message(pub Vec<u8>);

impl Message {
    /// Adds a bytes field.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a message field.
    pub(super) fn message(&mut self, field: u32, message: Message) {
        self.bytes(field, &message.0);
    }

    /// Adds a string field, if the value is a string.
    pub(super) fn text(&mut self, field: u32, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Adds the strings of a list.
    pub(super) fn texts(&mut self, field: u32, value: Option<&Value>) {
        for text in items(value) {
            self.text(field, Some(text));
        }
    }

    /// Adds a boolean field, if the value is true.
    pub(super) fn boolean(&mut self, field: u32, value: Option<&Value>) {
        if value.and_then(Value::as_bool) == Some(true) {
            encoding::bool::encode(field, &true, &mut self.0);
        }
    }

    /// Adds an integer field, if the value is an integer other than 0.
    pub(super) fn integer(&mut self, field: u32, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_i64).filter(|number| *number != 0) {
            encoding::int64::encode(field, &number, &mut self.0);
        }
    }

    /// Adds a number field, if the value is a number other than 0.
    fn number(&mut self, field: u32, value: Option<&Value>) {
        if let Some(number) = value
            .and_then(Value::as_f64)
            .filter(|number| *number != 0.0)
        {
            encoding::double::encode(field, &number, &mut self.0);
        }
    }

    /// Adds the bounds of a value by its schema. Both formats have them in the same order, so the
    /// first field number suffices.
    pub(super) fn bounds(&mut self, first: u32, schema: &Value) {
        let mut field = first..;
        let mut next = || field.next().unwrap_or_default();
        self.number(next(), schema.get("multipleOf"));
        for (number, boolean) in [
            ("maximum", "exclusiveMaximum"),
            ("minimum", "exclusiveMinimum"),
        ] {
            self.number(next(), schema.get(number));
            self.boolean(next(), schema.get(boolean));
        }
        for name in ["maxLength", "minLength"] {
            self.integer(next(), schema.get(name));
        }
        self.text(next(), schema.get("pattern"));
        for name in ["maxItems", "minItems"] {
            self.integer(next(), schema.get(name));
        }
    }

    /// Adds each member as a message with its name and the message that `pack` makes of its value.
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

    /// Adds a named message.
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

/// The methods of a path, in the order of their field numbers in both formats.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Writes a path item. The field numbers of its first method and of its parameters depend on the
/// format.
pub(super) fn path(
    given: &Value,
    first_method: u32,
    parameters: u32,
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

/// Writes a `$ref` as a reference, and any other value with `pack`.
pub(super) fn or_reference(given: &Value, pack: impl Fn(&Value) -> Message) -> Message {
    let reference = given.get("$ref");
    if reference.is_none() {
        return within(1, pack(given));
    }
    let mut message = Message::default();
    message.text(1, reference);
    within(2, message)
}

/// Writes the schema of additional properties, or whether there may be any.
pub(super) fn schema_or_boolean(given: &Value, pack: impl Fn(&Value) -> Message) -> Message {
    let Some(is_allowed) = given.as_bool() else {
        return within(1, pack(given));
    };
    let mut message = Message::default();
    // It is one of two, and so written even if it is false.
    encoding::bool::encode(2, &is_allowed, &mut message.0);
    message
}

/// Writes a reference to documentation elsewhere.
pub(super) fn external(given: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, given.get("description"));
    message.text(2, given.get("url"));
    message
}

/// Returns the items of a list.
pub(super) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Returns a message with `message` as its only field.
pub(super) fn within(field: u32, message: Message) -> Message {
    let mut outer = Message::default();
    outer.message(field, message);
    outer
}

/// Writes any value as YAML.
pub(super) fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.bytes(2, format!("{value}\n").as_bytes());
    any
}
