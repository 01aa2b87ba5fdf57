//! A struct as a protobuf message, as encoders and decoders use it.

use std::sync::OnceLock;

/// The message of a struct, built when it is first needed.
#[derive(Debug, Default)]
pub(super) struct LazyMessage(pub(super) OnceLock<Option<Box<Message>>>);

/// A struct as a protobuf message.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its parts, sorted by number.
    pub(crate) parts: Vec<MessagePart>,
    /// Its fields, sorted by name like [`Struct::fields`](super::Struct).
    pub(crate) fields: Vec<MessageField>,
}

/// A part of a message.
#[derive(Debug)]
pub(crate) enum MessagePart {
    /// A field, by its index among the fields of the struct.
    Field {
        /// The field number.
        number: u32,
        /// The index.
        place: usize,
    },
    /// An embedded struct.
    Embedded {
        /// The field number.
        number: u32,
        /// Its parts.
        parts: Vec<MessagePart>,
    },
}

/// The encoding of a field, in addition to its [`Field`](super::Field).
#[derive(Debug)]
pub(crate) struct MessageField {
    /// The encoded field number and wire type.
    pub(crate) tag: Vec<u8>,
    /// Whether its content is length-delimited.
    pub(crate) is_delimited: bool,
    /// Its position when fields are written.
    pub(crate) rank: u32,
    /// The bytes that are written for the zero value.
    pub(crate) zero: Vec<u8>,
    /// Its name in JSON, with quotes and a colon.
    pub(crate) label: Vec<u8>,
    /// The JSON that is printed for an absent value, if any.
    pub(crate) absent: Option<String>,
}

impl MessagePart {
    /// Returns the field number.
    pub(crate) fn number(&self) -> u32 {
        match self {
            MessagePart::Field { number, .. } | MessagePart::Embedded { number, .. } => *number,
        }
    }
}
