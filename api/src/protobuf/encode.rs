//! Conversion of JSON to protobuf, as Go writes it: fields sorted by number, maps sorted by key,
//! and fields that are not pointers written even without a value.
//!
//! One pass over the JSON appends the content of each field to the buffer and records its range. At
//! the end of a struct the contents are put in order.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::member_name::Name;
use super::raw::write_raw;
use crate::go_json::compacted;
use crate::schema::{
    DELIMITED, Message, MessagePart, Scalar, Schema, SchemaOr, Shape, StructId, Type,
    is_list_message, push_number, wire_type,
};
use crate::text::go_duration;
use crate::text::go_time::GoTime;

/// The range of a field's content in the buffer.
#[derive(Clone, Copy)]
struct Content {
    rank: u32,
    start: usize,
    end: usize,
}

/// An encoder with its buffer.
pub(super) struct Encoder<'s> {
    schema: &'s Schema,
    out: &'s mut Vec<u8>,
    contents: Vec<Content>,
}

impl<'s> Encoder<'s> {
    /// Returns an encoder that appends to `out`.
    pub(super) fn new(schema: &'s Schema, out: &'s mut Vec<u8>) -> Encoder<'s> {
        Encoder {
            schema,
            out,
            contents: Vec::new(),
        }
    }

    /// Writes the message of a struct. Skips unknown members.
    pub(super) fn object<'de, D: Deserializer<'de>>(
        &mut self,
        id: StructId,
        document: D,
    ) -> Result<(), D::Error> {
        let of = Type::plain(Shape::Struct(id), String::new());
        let value = ValueSeed {
            encoder: self,
            of: &of,
        };
        value.deserialize(document).map(|_| ())
    }

    /// Writes the members of a struct as its message.
    fn message<'de, A: MapAccess<'de>>(
        &mut self,
        id: StructId,
        mut map: A,
    ) -> Result<(), A::Error> {
        let schema = self.schema;
        let (of, message) = schema
            .message(id)
            .ok_or_else(|| A::Error::custom("it has no form in protobuf"))?;
        let (begun, first) = (self.out.len(), self.contents.len());
        while let Some(name) = map.next_key_seed(Name)? {
            let place = of.place(&name);
            let found = place.and_then(|place| {
                let field = of.fields().get(place)?;
                Some((field, message.fields.get(place)?))
            });
            match found {
                Some((field, planned)) => map.next_value_seed(FieldSeed {
                    encoder: self,
                    of: &field.of,
                    rank: planned.rank,
                })?,
                None => {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
        }
        self.put_in_order(message, begun, first);
        Ok(())
    }

    /// Sorts the contents of a message, and adds the zero values.
    fn put_in_order(&mut self, message: &Message, begun: usize, first: usize) {
        let contents = self.contents.get_mut(first..).unwrap_or_default();
        // An empty content begins where the next one does, and comes first because it ends there.
        contents.sort_unstable_by_key(|content| (content.rank, content.start, content.end));
        let end = self.out.len();
        let contents = self.contents.get(first..).unwrap_or_default();
        let mut rest = contents;
        append(self.out, message, &message.parts, &mut rest);
        self.contents.truncate(first);
        let length = self.out.len() - end;
        self.out.copy_within(end.., begun);
        self.out.truncate(begun + length);
    }

    /// Records everything from `start` on as the content of a field.
    fn note(&mut self, rank: u32, start: usize) {
        let end = self.out.len();
        self.contents.push(Content { rank, start, end });
    }

    /// Writes the zero value of a type.
    fn zero(&mut self, of: &Type) {
        let zero = self.schema.zero(of, 0).unwrap_or_default();
        self.out.extend_from_slice(&zero);
    }

    fn delimited(&mut self, number: u8, bytes: &[u8]) {
        self.out.push(number << 3 | DELIMITED as u8);
        push_number(self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }
}

/// Appends parts of a message: the recorded contents, and zero values.
fn append(out: &mut Vec<u8>, message: &Message, parts: &[MessagePart], contents: &mut &[Content]) {
    for part in parts {
        match part {
            MessagePart::Field { place, .. } => {
                let Some(field) = message.fields.get(*place) else {
                    continue;
                };
                let mut is_given = false;
                while let Some((content, rest)) = contents.split_first()
                    && content.rank == field.rank
                {
                    *contents = rest;
                    is_given = true;
                    out.extend_from_slice(&field.tag);
                    if field.is_delimited {
                        push_number(out, (content.end - content.start) as u64);
                    }
                    out.extend_from_within(content.start..content.end);
                }
                if !is_given {
                    out.extend_from_slice(&field.zero);
                }
            }
            MessagePart::Embedded { number, parts } => {
                let start = out.len();
                append(out, message, parts, contents);
                prefix(out, start, u64::from(*number) << 3 | DELIMITED);
            }
        }
    }
}

/// Inserts a tag and the length before everything from `start` on.
fn prefix(out: &mut Vec<u8>, start: usize, tag: u64) {
    let end = out.len();
    push_number(out, tag);
    push_number(out, (end - start) as u64);
    let mut header = [0; 2 * NUMBER_BYTES_MAX];
    let length = out.len() - end;
    let (Some(header), Some(written)) = (header.get_mut(..length), out.get(end..)) else {
        return;
    };
    header.copy_from_slice(written);
    out.copy_within(start..end, start + length);
    if let Some(place) = out.get_mut(start..start + length) {
        place.copy_from_slice(header);
    }
}

/// The maximum length of a varint.
const NUMBER_BYTES_MAX: usize = 10;

/// The value of a field. A list or a map has several contents.
struct FieldSeed<'e, 's> {
    encoder: &'e mut Encoder<'s>,
    of: &'e Type,
    rank: u32,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        if matches!(self.of.shape, Shape::List(_) | Shape::Map(_)) && !is_list_message(self.of) {
            return value.deserialize_any(self);
        }
        let start = self.encoder.out.len();
        let value_seed = ValueSeed {
            encoder: self.encoder,
            of: self.of,
        };
        if value_seed.deserialize(value)? {
            self.encoder.note(self.rank, start);
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.of.go_name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Shape::List(item) = &self.of.shape else {
            return Err(of_another_type(self.of));
        };
        let mut start = self.encoder.out.len();
        while let Some(is_given) = items.next_element_seed(ValueSeed {
            encoder: self.encoder,
            of: item,
        })? {
            if !is_given {
                self.encoder.zero(item);
            }
            self.encoder.note(self.rank, start);
            start = self.encoder.out.len();
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Shape::Map(item) = &self.of.shape else {
            return Err(of_another_type(self.of));
        };
        let FieldSeed { encoder, rank, .. } = self;
        let first = encoder.contents.len();
        let mut last: Option<Cow<'de, str>> = None;
        let mut is_sorted = true;
        while let Some(key) = map.next_key_seed(Name)? {
            let start = encoder.out.len();
            encoder.delimited(1, key.as_bytes());
            let value = encoder.out.len();
            let is_given = map.next_value_seed(ValueSeed { encoder, of: item })?;
            if !is_given {
                encoder.zero(item);
            }
            // Absent bytes and lists are not written.
            let is_nil = matches!(item.shape, Shape::Scalar(Scalar::Bytes) | Shape::List(_));
            if is_given || !is_nil {
                match wire_type(item) {
                    DELIMITED => prefix(encoder.out, value, 2 << 3 | DELIMITED),
                    other => encoder.out.insert(value, 2 << 3 | other as u8),
                }
            }
            encoder.note(rank, start);
            is_sorted &= last.is_none_or(|last| last < key);
            last = Some(key);
        }
        if !is_sorted {
            encoder.sort_entries(first);
        }
        Ok(())
    }
}

impl Encoder<'_> {
    /// Sorts the entries of a map, from the one at `first` on, by key. Keeps the last of equal
    /// keys.
    fn sort_entries(&mut self, first: usize) {
        let start = self.contents.get(first).map_or(0, |content| content.start);
        let written = self.out.split_off(start);
        let mut entries: Vec<(&[u8], u32, &[u8])> = Vec::new();
        for content in self.contents.drain(first..) {
            let entry = written.get(content.start - start..content.end - start);
            let entry = entry.unwrap_or_default();
            let mut reader = super::wire::Reader::new(entry);
            if let Ok(Some((1, super::wire::Piece::Bytes(key)))) = reader.next() {
                entries.push((key, content.rank, entry));
            }
        }
        // The sort is stable, so the last of equal keys stays last.
        entries.sort_by_key(|(key, ..)| *key);
        let mut rest = entries.iter().peekable();
        while let Some((key, rank, entry)) = rest.next() {
            if rest.peek().is_some_and(|(next, ..)| next == key) {
                continue;
            }
            let start = self.out.len();
            self.out.extend_from_slice(entry);
            self.note(*rank, start);
        }
    }
}

/// A single value. Its content is written, unless it is null: then the seed returns false.
struct ValueSeed<'e, 's> {
    encoder: &'e mut Encoder<'s>,
    of: &'e Type,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<bool, D::Error> {
        let is_raw = match &self.of.shape {
            Shape::Object => true,
            Shape::Any => self.of.schema_or.is_none(),
            _ => false,
        };
        if !is_raw {
            return value.deserialize_any(self);
        }
        // The message of a document has one field.
        let start = self.encoder.out.len();
        let is_given = if self.of.is_raw() {
            raw_text(value, self.encoder.out)?
        } else {
            write_raw(value, self.encoder.out)?
        };
        if is_given {
            prefix(self.encoder.out, start, 1 << 3 | DELIMITED);
        }
        Ok(is_given)
    }
}

/// Writes JSON with its original text. Returns false for null, which it does not write.
fn raw_text<'de, D: Deserializer<'de>>(value: D, out: &mut Vec<u8>) -> Result<bool, D::Error> {
    let text = Box::<RawValue>::deserialize(value)?;
    let is_given = text.get() != "null";
    if is_given {
        out.extend_from_slice(&compacted(text.get()));
    }
    Ok(is_given)
}

fn of_another_type<E: Error>(of: &Type) -> E {
    E::custom(format_args!("a value is not a {}", of.go_name))
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.of.go_name)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        let out = &mut *self.encoder.out;
        match &self.of.shape {
            Shape::Scalar(Scalar::Bool) => out.push(value.into()),
            // A JSON schema or a boolean: the first field is the boolean.
            Shape::Any => out.extend_from_slice(&[0x08, value.into()]),
            _ => return Err(of_another_type(self.of)),
        }
        Ok(true)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        match &self.of.shape {
            Shape::Scalar(Scalar::Float64) => self.visit_f64(value as f64),
            // No integer in Kubernetes' types is this large.
            _ => self.visit_i64(value as i64),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        let out = &mut *self.encoder.out;
        match &self.of.shape {
            Shape::Scalar(Scalar::Int32 | Scalar::Int64) => push_number(out, value as u64),
            Shape::Scalar(Scalar::Float64) => {
                out.extend_from_slice(&(value as f64).to_le_bytes());
            }
            Shape::Scalar(Scalar::IntOrString) => {
                out.extend_from_slice(&[0x08, 0, 0x10]);
                push_number(out, value as u64);
                out.extend_from_slice(&[0x1a, 0]);
            }
            _ => return Err(of_another_type(self.of)),
        }
        Ok(true)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        match &self.of.shape {
            Shape::Scalar(Scalar::Float64) => {
                self.encoder.out.extend_from_slice(&value.to_le_bytes());
                Ok(true)
            }
            _ => Err(of_another_type(self.of)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        let wrong = || of_another_type(self.of);
        let Shape::Scalar(scalar) = &self.of.shape else {
            return Err(wrong());
        };
        let out = &mut *self.encoder.out;
        match scalar {
            Scalar::String => out.extend_from_slice(text.as_bytes()),
            Scalar::Bytes => STANDARD.decode_vec(text, out).map_err(|_| wrong())?,
            Scalar::Time | Scalar::MicroTime => {
                let time = GoTime::of_printed(text).ok_or_else(wrong)?;
                let fraction = match scalar {
                    Scalar::Time => 0,
                    _ => time.nanoseconds / 1_000 * 1_000,
                };
                write_time(out, time.seconds, fraction);
            }
            Scalar::Duration => {
                let nanoseconds = go_duration::parse(text).map_err(|_| wrong())?;
                out.push(0x08);
                push_number(out, nanoseconds as u64);
            }
            Scalar::Quantity => self.encoder.delimited(1, text.as_bytes()),
            Scalar::IntOrString => {
                out.extend_from_slice(&[0x08, 1, 0x10, 0]);
                self.encoder.delimited(3, text.as_bytes());
            }
            Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => return Err(wrong()),
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let ValueSeed { encoder, of } = self;
        let text = Type::plain(Shape::Scalar(Scalar::String), String::new());
        let schema;
        let (number, item) = match (&of.shape, of.schema_or) {
            (Shape::List(item), _) => (1, &**item),
            (Shape::Any, Some((id, SchemaOr::Schemas))) => {
                schema = Type::plain(Shape::Struct(id), String::new());
                (2, &schema)
            }
            (Shape::Any, Some((_, SchemaOr::Strings))) => (2, &text),
            _ => return Err(of_another_type(of)),
        };
        let mut start = encoder.out.len();
        while let Some(is_given) = items.next_element_seed(ValueSeed { encoder, of: item })? {
            if !is_given {
                encoder.zero(item);
            }
            prefix(encoder.out, start, number << 3 | DELIMITED);
            start = encoder.out.len();
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        let ValueSeed { encoder, of } = self;
        match (&of.shape, of.schema_or) {
            (Shape::Struct(id), _) => encoder.message(*id, map)?,
            (Shape::Any, Some((id, or))) => {
                let number = match or {
                    SchemaOr::Bool => {
                        encoder.out.extend_from_slice(&[0x08, 1]);
                        2
                    }
                    SchemaOr::Schemas | SchemaOr::Strings => 1,
                };
                let start = encoder.out.len();
                encoder.message(id, map)?;
                prefix(encoder.out, start, number << 3 | DELIMITED);
            }
            _ => return Err(of_another_type(of)),
        }
        Ok(true)
    }
}

/// Writes a time, which may be before 1970.
fn write_time(out: &mut Vec<u8>, seconds: i64, nanoseconds: u32) {
    out.push(0x08);
    push_number(out, seconds as u64);
    out.push(0x10);
    push_number(out, nanoseconds.into());
}
