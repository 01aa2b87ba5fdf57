//! Structs as protobuf messages (API-58, KV-21), prepared for fast encoding and decoding.
//!
//! Go writes the fields of a message in the order of their numbers. An embedded struct is a message
//! of its own in protobuf, whereas JSON has its fields among the others. A field that is not a
//! pointer is written even if it has no value.

use serde_json::Value;

use super::message::{Message, MessageField, MessagePart};
use super::model::{Field, Scalar, Schema, SchemaOr, Shape, Struct, StructId, Type};

/// The limit on nested structs that are not pointers.
const DEPTH_MAX: usize = 16;

impl Schema {
    /// Returns the message of a struct. Returns `None` if the struct has no protobuf form: a field
    /// has no number, or it keeps unknown members.
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

    /// Returns the content of a zero value. Returns `None` for lists, maps and bytes, which are not
    /// written then.
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

/// Returns whether a value is either a boolean or a schema.
fn is_one_of_several(of: &Type) -> bool {
    matches!(of.schema_or, Some((_, SchemaOr::Bool)))
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

/// Adds the indexes of the fields in the order in which they are written.
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

/// The wire type of length-delimited values.
pub(crate) const DELIMITED: u64 = 2;

/// Returns the wire type of a value, or of an item of a list.
pub(crate) fn wire_type(of: &Type) -> u64 {
    match &of.shape {
        Shape::Scalar(Scalar::Bool | Scalar::Int32 | Scalar::Int64) => 0,
        Shape::Scalar(Scalar::Float64) => 1,
        Shape::List(item) if !is_list_message(of) => wire_type(item),
        _ => DELIMITED,
    }
}

/// Returns whether a list is wrapped in a message: the named types of lists of texts (`Verbs`,
/// `ExtraValue`).
pub(crate) fn is_list_message(of: &Type) -> bool {
    match &of.shape {
        Shape::List(item) => {
            !of.go_name.starts_with("[]") && item.shape == Shape::Scalar(Scalar::String)
        }
        _ => false,
    }
}

/// Appends a number as a varint.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
