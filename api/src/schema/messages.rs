//! Structs as messages of protobuf (API-58, KV-21): what is needed to write and read them fast.
//!
//! Go writes the fields of a message in order of their numbers. A struct that is embedded is a
//! message of its own there, whose fields JSON has beside the others. What is no pointer is written
//! without a value too.

use std::sync::OnceLock;

use serde_json::Value;

use super::model::{Field, Scalar, Schema, Shape, Struct, StructId, Type};

/// How many structs that are no pointers may be within each other.
const DEPTH_MAX: usize = 16;

/// The message of a struct, made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct LazyMessage(OnceLock<Option<Box<Message>>>);

/// A struct as a message.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its parts in order of their numbers.
    pub(crate) parts: Vec<MessagePart>,
    /// The fields in order of their names, as in [`Struct::fields`].
    pub(crate) fields: Vec<MessageField>,
}

/// A part of a message.
#[derive(Debug)]
pub(crate) enum MessagePart {
    /// A field, by its place among the fields of the struct.
    Field {
        /// Its number.
        number: u32,
        /// Its place.
        place: usize,
    },
    /// An embedded struct.
    Embedded {
        /// Its number.
        number: u32,
        /// Its parts.
        parts: Vec<MessagePart>,
    },
}

/// What is known of a field beside its [`Field`].
#[derive(Debug)]
pub(crate) struct MessageField {
    /// Its number and wire type, encoded.
    pub(crate) tag: Vec<u8>,
    /// Whether its content is bytes with a length in front.
    pub(crate) is_delimited: bool,
    /// Where it comes when fields are written.
    pub(crate) rank: u32,
    /// What is written without a value.
    pub(crate) zero: Vec<u8>,
    /// Its name in JSON with quotes and a colon.
    pub(crate) label: Vec<u8>,
    /// What JSON has without a value, if anything.
    pub(crate) absent: Option<String>,
}

impl MessagePart {
    /// The number.
    pub(crate) fn number(&self) -> u32 {
        match self {
            MessagePart::Field { number, .. } | MessagePart::Embedded { number, .. } => *number,
        }
    }
}

impl Schema {
    /// The message of a struct. `None` if a field has no number, or if it keeps members that are no
    /// fields: then it has no form in protobuf.
    pub(crate) fn message(&self, id: StructId) -> Option<(&Struct, &Message)> {
        let of = self.get(id)?;
        let made = of.message.0.get_or_init(|| {
            let message = self.made(of, 0);
            message.map(Box::new)
        });
        Some((of, made.as_deref()?))
    }

    fn made(&self, of: &Struct, depth: usize) -> Option<Message> {
        if of.is_open || depth > DEPTH_MAX {
            return None;
        }
        let mut parts = Vec::new();
        for (place, field) in of.fields().iter().enumerate() {
            let number = field.number?;
            insert(&mut parts, &field.embedded_numbers, number, place);
        }
        let mut order = Vec::new();
        add_places(&parts, &mut order);
        let fields = of.fields().iter().enumerate().map(|(place, field)| {
            let rank = order.iter().position(|other| *other == place)?;
            self.message_field(field, rank, depth)
        });
        Some(Message {
            fields: fields.collect::<Option<_>>()?,
            parts,
        })
    }

    fn message_field(&self, field: &Field, rank: usize, depth: usize) -> Option<MessageField> {
        let wire_type = wire_type(&field.of);
        let mut tag = Vec::new();
        push_number(&mut tag, u64::from(field.number?) << 3 | wire_type);
        let mut zero = Vec::new();
        if let (false, Some(content)) = (field.of.is_pointer, self.zero(&field.of, depth)) {
            zero.extend_from_slice(&tag);
            if wire_type == DELIMITED {
                push_number(&mut zero, content.len() as u64);
            }
            zero.extend_from_slice(&content);
        }
        Some(MessageField {
            tag,
            is_delimited: wire_type == DELIMITED,
            rank: u32::try_from(rank).ok()?,
            zero,
            label: format!("{}:", Value::from(&*field.name)).into_bytes(),
            absent: self.absent(field).map(|value| value.to_string()),
        })
    }

    /// The content of a value that Go has without being given any. `None` for lists, maps and
    /// bytes, which it does not write then.
    pub(crate) fn zero(&self, of: &Type, depth: usize) -> Option<Vec<u8>> {
        match &of.shape {
            Shape::Scalar(scalar) => zero_scalar(*scalar),
            Shape::List(_) | Shape::Map(_) => None,
            Shape::Object => Some(Vec::new()),
            Shape::Any if is_one_of_several(of) => Some(vec![0x08, 0]),
            Shape::Any => Some(Vec::new()),
            Shape::Struct(id) => {
                let message = self.made(self.get(*id)?, depth + 1)?;
                let mut content = Vec::new();
                push_zeros(&message, &message.parts, &mut content);
                Some(content)
            }
        }
    }
}

/// Whether a value is either true or false, or a schema.
fn is_one_of_several(of: &Type) -> bool {
    of.go_name.ends_with("OrBool")
}

fn insert(parts: &mut Vec<MessagePart>, within: &[u32], number: u32, place: usize) {
    let outer = within.first().copied();
    let wanted = outer.unwrap_or(number);
    let at = parts.partition_point(|part| part.number() < wanted);
    match (parts.get_mut(at), within) {
        (
            Some(MessagePart::Embedded {
                number: found,
                parts,
            }),
            [_, within @ ..],
        ) if *found == wanted => {
            insert(parts, within, number, place);
        }
        (_, [_, within @ ..]) => {
            let mut inner = Vec::new();
            insert(&mut inner, within, number, place);
            let part = MessagePart::Embedded {
                number: wanted,
                parts: inner,
            };
            parts.insert(at, part);
        }
        (_, []) => parts.insert(at, MessagePart::Field { number, place }),
    }
}

/// The places of the fields in the order in which they are written.
fn add_places(parts: &[MessagePart], order: &mut Vec<usize>) {
    for part in parts {
        match part {
            MessagePart::Field { place, .. } => order.push(*place),
            MessagePart::Embedded { parts, .. } => add_places(parts, order),
        }
    }
}

fn push_zeros(message: &Message, parts: &[MessagePart], out: &mut Vec<u8>) {
    for part in parts {
        match part {
            MessagePart::Field { place, .. } => {
                let zero = message.fields.get(*place).map(|field| &*field.zero);
                out.extend_from_slice(zero.unwrap_or_default());
            }
            MessagePart::Embedded { number, parts } => {
                let mut inner = Vec::new();
                push_zeros(message, parts, &mut inner);
                push_number(out, u64::from(*number) << 3 | DELIMITED);
                push_number(out, inner.len() as u64);
                out.extend_from_slice(&inner);
            }
        }
    }
}

fn zero_scalar(scalar: Scalar) -> Option<Vec<u8>> {
    Some(match scalar {
        Scalar::Bytes => return None,
        Scalar::Bool | Scalar::Int32 | Scalar::Int64 => vec![0],
        Scalar::Float64 => vec![0; 8],
        Scalar::String | Scalar::Time | Scalar::MicroTime => Vec::new(),
        Scalar::Duration => vec![0x08, 0],
        Scalar::Quantity => b"\x0a\x010".to_vec(),
        Scalar::IntOrString => vec![0x08, 0, 0x10, 0, 0x1a, 0],
    })
}

/// The wire type of what has a length in front.
pub(crate) const DELIMITED: u64 = 2;

/// The wire type of a value, or of an item of a list.
pub(crate) fn wire_type(of: &Type) -> u64 {
    match &of.shape {
        Shape::Scalar(Scalar::Bool | Scalar::Int32 | Scalar::Int64) => 0,
        Shape::Scalar(Scalar::Float64) => 1,
        Shape::List(item) if !is_list_message(of) => wire_type(item),
        _ => DELIMITED,
    }
}

/// Whether a list is a message around its items: the types of texts that have a name of their own
/// (`Verbs`, `ExtraValue`).
pub(crate) fn is_list_message(of: &Type) -> bool {
    match &of.shape {
        Shape::List(item) => {
            !of.go_name.starts_with("[]") && item.shape == Shape::Scalar(Scalar::String)
        }
        _ => false,
    }
}

/// Appends a number in the form that protobuf calls a varint.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
