//! Conversion of protobuf to JSON in the canonical form ([`crate::schema`]): members sorted by
//! name, without those that Go does not print.
//!
//! The positions of a message's fields are recorded, sorted by name, and then their values are
//! written. Unknown fields are skipped, as in Go.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::wire::{Piece, Reader};
use super::{ProtobufError, fields, malformed};
use crate::abandoned;
use crate::decode::{BodyFormat, decode_value};
use crate::go_json::{compacted, write_json};
use crate::quantity;
use crate::schema::{
    Field, Message, MessagePart, Scalar, Schema, SchemaOr, Shape, Struct, StructId, Type,
    is_list_message,
};
use crate::text::go_time::{Decimals, GoTime};
use crate::text::{floats, go_duration};

/// The limit on the resulting JSON. Absent values take no bytes in protobuf, but some in JSON.
const TEXT_BYTES_MAX: usize = 32 << 20;

/// Nanoseconds in a second.
const NANOSECONDS: i64 = 1_000_000_000;

/// The handling of texts that are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Texts {
    /// They are an error.
    Strict,
    /// Invalid bytes become U+FFFD.
    Lossy,
}

/// A field found in a message.
#[derive(Clone, Copy)]
struct Found<'b> {
    /// Its index among the fields of the struct, which are sorted by name.
    place: usize,
    /// Its position in the message.
    order: usize,
    piece: Piece<'b>,
}

pub(super) struct Decoder<'s, 'o> {
    schema: &'s Schema,
    out: &'o mut Vec<u8>,
    texts: Texts,
    depth: usize,
}

impl<'s, 'o> Decoder<'s, 'o> {
    /// Returns a decoder that appends to `out`.
    pub(super) fn new(schema: &'s Schema, texts: Texts, out: &'o mut Vec<u8>) -> Decoder<'s, 'o> {
        Decoder {
            schema,
            out,
            texts,
            depth: 0,
        }
    }

    /// Writes the members of a struct, the one with the name `first` before all others. The text
    /// before them must end with `{` or another member.
    pub(super) fn members(
        &mut self,
        id: StructId,
        bytes: &[u8],
        first: Option<&str>,
    ) -> Result<(), ProtobufError> {
        let schema = self.schema;
        let Some((of, message)) = schema.message(id) else {
            return Err(malformed("its kind has no form in protobuf"));
        };
        let mut found = Vec::with_capacity(16);
        note(bytes, &message.parts, &mut found)?;
        found.sort_unstable_by_key(|field| (field.place, field.order));
        let first = first.and_then(|name| of.place(name));
        if let Some(place) = first {
            let start = found.partition_point(|field| field.place < place);
            let end = found.partition_point(|field| field.place <= place);
            self.member(
                of,
                message,
                place,
                found.get(start..end).unwrap_or_default(),
            )?;
        }
        let mut rest = &*found;
        for place in 0..of.fields().len() {
            let count = rest.iter().take_while(|field| field.place == place).count();
            let (own, others) = rest.split_at(count);
            rest = others;
            if first != Some(place) {
                self.member(of, message, place, own)?;
            }
        }
        Ok(())
    }

    /// Writes a member, if Go prints it.
    fn member(
        &mut self,
        of: &Struct,
        message: &Message,
        place: usize,
        found: &[Found<'_>],
    ) -> Result<(), ProtobufError> {
        let (Some(field), Some(planned)) = (of.fields().get(place), message.fields.get(place))
        else {
            return Ok(());
        };
        if found.is_empty() && planned.absent.is_none() {
            return Ok(());
        }
        let begun = self.out.len();
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.extend_from_slice(&planned.label);
        let start = self.out.len();
        let is_given = !found.is_empty() && self.field(field, found)?;
        let shown = self.out.get(start..).unwrap_or_default();
        if is_given && (field.of.is_pointer || !is_zero(&field.of, shown)) {
            return self.check_length();
        }
        match &planned.absent {
            Some(absent) => {
                self.out.truncate(start);
                self.out.extend_from_slice(absent.as_bytes());
            }
            None => self.out.truncate(begun),
        }
        self.check_length()
    }

    fn check_length(&self) -> Result<(), ProtobufError> {
        if self.out.len() > TEXT_BYTES_MAX {
            return Err(malformed("as JSON it is too long"));
        }
        abandoned::check().map_err(malformed)
    }

    /// Writes the value of a field. Returns false for null, which it does not write.
    fn field(&mut self, field: &Field, found: &[Found<'_>]) -> Result<bool, ProtobufError> {
        match &field.of.shape {
            Shape::List(item) if !is_list_message(&field.of) => {
                self.list(item, found.iter().map(|found| Ok(found.piece)), field)
            }
            Shape::Map(item) => self.map(item, found, field),
            Shape::Struct(_) => {
                let merged = merged(found, field)?;
                self.value(&field.of, Piece::Bytes(&merged), field)
            }
            _ => match found.last() {
                Some(found) => self.value(&field.of, found.piece, field),
                None => Ok(false),
            },
        }
    }

    fn list<'b>(
        &mut self,
        item: &Type,
        pieces: impl Iterator<Item = Result<Piece<'b>, ProtobufError>>,
        field: &Field,
    ) -> Result<bool, ProtobufError> {
        self.out.push(b'[');
        for (number, piece) in pieces.enumerate() {
            if number > 0 {
                self.out.push(b',');
            }
            if !self.value(item, piece?, field)? {
                self.out.extend_from_slice(b"null");
            }
            self.check_length()?;
        }
        self.out.push(b']');
        Ok(true)
    }

    /// Writes a map, sorted by key. The last of equal keys counts.
    fn map(
        &mut self,
        item: &Type,
        found: &[Found<'_>],
        field: &Field,
    ) -> Result<bool, ProtobufError> {
        let mut entries = Vec::with_capacity(found.len());
        for found in found {
            let (mut key, mut value) = (&b""[..], None);
            let mut reader = Reader::new(bytes_of(found.piece, field)?);
            while let Some((number, piece)) = reader.next()? {
                match number {
                    1 => key = bytes_of(piece, field)?,
                    2 => value = Some(piece),
                    _ => {}
                }
            }
            entries.push((self.text(key, field)?, value));
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.out.push(b'{');
        let mut rest = entries.iter().peekable();
        while let Some((key, value)) = rest.next() {
            if rest.peek().is_some_and(|(next, _)| next == key) {
                continue;
            }
            if self.out.last() != Some(&b'{') {
                self.out.push(b',');
            }
            self.string(key);
            self.out.push(b':');
            let is_given = match value {
                Some(piece) => self.value(item, *piece, field)?,
                None => self.absent_value(item, field)?,
            };
            if !is_given {
                self.out.extend_from_slice(b"null");
            }
            self.check_length()?;
        }
        self.out.push(b'}');
        Ok(true)
    }

    /// Writes the value of a map entry that has only a key.
    fn absent_value(&mut self, of: &Type, field: &Field) -> Result<bool, ProtobufError> {
        let piece = match &of.shape {
            Shape::Scalar(Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float64) => {
                Piece::Number(0)
            }
            Shape::List(_) => return Ok(false),
            _ => Piece::Bytes(b""),
        };
        self.value(of, piece, field)
    }

    /// Writes a value. Returns false for null, which it does not write.
    fn value(&mut self, of: &Type, piece: Piece<'_>, field: &Field) -> Result<bool, ProtobufError> {
        match (&of.shape, piece) {
            (Shape::Scalar(scalar), piece) => return self.scalar(*scalar, piece, field),
            (Shape::Object, piece) => {
                let bytes = bytes_of(piece, field)?;
                return if of.is_raw() {
                    self.text_of_json(bytes, field)
                } else {
                    self.raw(bytes, field)
                };
            }
            (Shape::Any, piece) => return self.any(of, bytes_of(piece, field)?, field),
            (Shape::List(item), piece) => {
                let mut reader = Reader::new(bytes_of(piece, field)?);
                let pieces = std::iter::from_fn(|| {
                    loop {
                        match reader.next() {
                            Ok(Some((1, piece))) => return Some(Ok(piece)),
                            Ok(Some(_)) => {}
                            Ok(None) => return None,
                            Err(error) => return Some(Err(error)),
                        }
                    }
                });
                return self.list(item, pieces, field);
            }
            (Shape::Struct(id), Piece::Bytes(bytes)) => {
                let levels = crate::deep::levels();
                if self.depth >= levels {
                    crate::deep::note();
                    return Err(malformed(format!(
                        "it is nested deeper than {levels} levels"
                    )));
                }
                self.depth += 1;
                self.out.push(b'{');
                if field.has_types {
                    self.types(*id);
                }
                self.members(*id, bytes, None)?;
                self.out.push(b'}');
                self.depth -= 1;
            }
            _ => return Err(of_another_type(field)),
        }
        Ok(true)
    }

    /// Writes apiVersion and kind of an embedded object, which come before all other members.
    fn types(&mut self, id: StructId) {
        if let Some(name) = self.schema.get(id).and_then(|of| of.kind.as_ref()) {
            self.out.extend_from_slice(b"\"apiVersion\":");
            self.string(&name.api_version());
            self.out.extend_from_slice(b",\"kind\":");
            self.string(&name.kind);
        }
    }

    fn scalar(
        &mut self,
        scalar: Scalar,
        piece: Piece<'_>,
        field: &Field,
    ) -> Result<bool, ProtobufError> {
        match (scalar, piece) {
            (Scalar::Bool, Piece::Number(number)) => {
                let text: &[u8] = if number == 0 { b"false" } else { b"true" };
                self.out.extend_from_slice(text);
            }
            // Negative numbers are encoded in two's complement, like large positive ones.
            (Scalar::Int32, Piece::Number(number)) => self.print(&(number as i32)),
            (Scalar::Int64, Piece::Number(number)) => self.print(&(number as i64)),
            (Scalar::Float64, Piece::Fixed(bits)) => {
                let number = f64::from_bits(bits);
                match floats::float(number) {
                    Some(printed) => self.print(&printed),
                    None => self.print(&number),
                }
            }
            (Scalar::String, Piece::Bytes(bytes)) => {
                let text = self.text(bytes, field)?;
                self.string(&text);
            }
            (Scalar::Bytes, Piece::Bytes(bytes)) => {
                self.out.push(b'"');
                let start = self.out.len();
                let length = bytes.len().div_ceil(3) * 4;
                self.out.resize(start + length, b'=');
                if let Some(space) = self.out.get_mut(start..) {
                    // The space is exactly as long as the text.
                    let _ = STANDARD.encode_slice(bytes, space);
                }
                self.out.push(b'"');
            }
            (Scalar::Time | Scalar::MicroTime, Piece::Bytes(bytes)) => {
                return self.time(scalar, bytes);
            }
            (Scalar::Duration, Piece::Bytes(bytes)) => {
                let [nanoseconds, _] = numbers(bytes)?;
                let text = go_duration::printed(nanoseconds as i64);
                self.string(&text);
            }
            (Scalar::IntOrString, Piece::Bytes(bytes)) => {
                let [kind, number] = numbers(bytes)?;
                if kind == 0 {
                    self.print(&(number as i32));
                } else {
                    let text = self.text(first_bytes(bytes, 3)?.unwrap_or_default(), field)?;
                    self.string(&text);
                }
            }
            (Scalar::Quantity, Piece::Bytes(bytes)) => {
                let Some(bytes) = first_bytes(bytes, 1)? else {
                    self.string("0");
                    return Ok(true);
                };
                let text = self.text(bytes, field)?;
                let canonical = quantity::printed(&text)
                    .map_err(|error| malformed(format!("{}: {error}", field.name)))?;
                self.string(&canonical);
            }
            _ => return Err(of_another_type(field)),
        }
        Ok(true)
    }

    fn print(&mut self, number: &impl serde::Serialize) {
        write_json(self.out, number);
    }

    fn string(&mut self, text: &str) {
        write_json(self.out, text);
    }

    fn text<'b>(&self, bytes: &'b [u8], field: &Field) -> Result<Cow<'b, str>, ProtobufError> {
        match (std::str::from_utf8(bytes), self.texts) {
            (Ok(text), _) => Ok(Cow::Borrowed(text)),
            (Err(_), Texts::Lossy) => Ok(String::from_utf8_lossy(bytes)),
            (Err(_), Texts::Strict) => Err(malformed(format!("{} is not UTF-8 text", field.name))),
        }
    }

    /// Writes a time from seconds and nanoseconds since 1970. An empty message is the zero time,
    /// which is null.
    fn time(&mut self, scalar: Scalar, bytes: &[u8]) -> Result<bool, ProtobufError> {
        if bytes.is_empty() {
            return Ok(false);
        }
        let [seconds, nanoseconds] = numbers(bytes)?;
        let (nanoseconds, decimals) = match scalar {
            Scalar::Time => (0, Decimals::Any),
            _ => (i64::from(nanoseconds as i32), Decimals::Six),
        };
        // Go normalizes nanoseconds outside of 0 to 999999999.
        let carried = nanoseconds.div_euclid(NANOSECONDS);
        let time = GoTime {
            seconds: (seconds as i64).wrapping_add(carried),
            nanoseconds: nanoseconds.rem_euclid(NANOSECONDS) as u32,
        };
        if time == GoTime::ZERO {
            return Ok(false);
        }
        self.string(&time.print(decimals));
        Ok(true)
    }

    /// Writes a JSON document that keeps its text.
    fn text_of_json(&mut self, bytes: &[u8], field: &Field) -> Result<bool, ProtobufError> {
        let text = first_bytes(bytes, 1)?.unwrap_or_default();
        let start = self.out.len();
        let is_given = self.raw(bytes, field)?;
        if let (true, Ok(text)) = (is_given, std::str::from_utf8(text)) {
            self.out.truncate(start);
            self.out.extend_from_slice(&compacted(text));
        }
        Ok(is_given)
    }

    /// Writes a JSON document that is wrapped in a message (`fieldsV1`).
    fn raw(&mut self, bytes: &[u8], field: &Field) -> Result<bool, ProtobufError> {
        let Some(raw) = first_bytes(bytes, 1)?.filter(|raw| !raw.is_empty()) else {
            return Ok(false);
        };
        if fields::is_canonical(raw) {
            self.out.extend_from_slice(raw);
            return Ok(true);
        }
        let parsed = decode_value(raw, BodyFormat::Json);
        let (value, _) = parsed.map_err(|why| malformed(format!("{}: {why}", field.name)))?;
        if value.is_null() {
            return Ok(false);
        }
        self.print(&value);
        Ok(true)
    }

    /// Writes a value of several forms. A message with any JSON contains its text; other messages
    /// have a field for each form, one of which is a schema.
    fn any(&mut self, of: &Type, bytes: &[u8], field: &Field) -> Result<bool, ProtobufError> {
        let Some((id, or)) = of.schema_or else {
            return self.raw(bytes, field);
        };
        let (mut allows, mut schema, mut items) = (None, None, Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some((number, piece)) = reader.next()? {
            match (number, piece) {
                (1, Piece::Number(number)) => allows = Some(number != 0),
                (1, piece) => schema = Some(piece),
                (2, piece) if or == SchemaOr::Bool => schema = Some(piece),
                (2, piece) => items.push(piece),
                _ => {}
            }
        }
        let of_schema = Type::plain(Shape::Struct(id), String::new());
        let text = Type::plain(Shape::Scalar(Scalar::String), String::new());
        match (items.is_empty(), schema, allows) {
            (false, ..) => {
                let is_schemas = or == SchemaOr::Schemas;
                let item = if is_schemas { &of_schema } else { &text };
                self.list(item, items.into_iter().map(Ok), field)
            }
            (true, Some(schema), _) => self.value(&of_schema, schema, field),
            (true, None, Some(allows)) => {
                self.print(&allows);
                Ok(true)
            }
            (true, None, None) if or == SchemaOr::Bool => {
                self.print(&false);
                Ok(true)
            }
            (true, None, None) => Ok(false),
        }
    }
}

/// Records the fields of a message, and those of embedded structs' messages.
fn note<'b>(
    bytes: &'b [u8],
    parts: &[MessagePart],
    found: &mut Vec<Found<'b>>,
) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, piece)) = reader.next()? {
        let at = parts.binary_search_by_key(&number, MessagePart::number);
        match (at.ok().and_then(|at| parts.get(at)), piece) {
            (Some(MessagePart::Field { place, .. }), piece) => found.push(Found {
                place: *place,
                order: found.len(),
                piece,
            }),
            (Some(MessagePart::Embedded { parts, .. }), Piece::Bytes(bytes)) => {
                note(bytes, parts, found)?;
            }
            (Some(MessagePart::Embedded { .. }), _) => {
                return Err(malformed(format!("field {number} is not of its type")));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// Returns the content of a message. If a field occurs several times, its parts are concatenated,
/// which merges them in protobuf.
fn merged<'b>(found: &[Found<'b>], field: &Field) -> Result<Cow<'b, [u8]>, ProtobufError> {
    if let [only] = found {
        return Ok(Cow::Borrowed(bytes_of(only.piece, field)?));
    }
    let mut whole = Vec::new();
    for found in found {
        whole.extend_from_slice(bytes_of(found.piece, field)?);
    }
    Ok(Cow::Owned(whole))
}

fn bytes_of<'b>(piece: Piece<'b>, field: &Field) -> Result<&'b [u8], ProtobufError> {
    match piece {
        Piece::Bytes(bytes) => Ok(bytes),
        Piece::Number(_) | Piece::Fixed(_) | Piece::Group => Err(of_another_type(field)),
    }
}

fn of_another_type(field: &Field) -> ProtobufError {
    malformed(format!("{} is not of its type", field.name))
}

/// Returns whether a text is that of Go's zero value.
fn is_zero(of: &Type, text: &[u8]) -> bool {
    match &of.shape {
        Shape::Scalar(Scalar::String | Scalar::Bytes) => text == b"\"\"",
        Shape::Scalar(Scalar::Bool) => text == b"false",
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64) => text == b"0",
        Shape::List(_) => text == b"[]",
        Shape::Struct(_) | Shape::Map(_) => text == b"{}",
        _ => false,
    }
}

fn first_bytes(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut last = None;
    while let Some((number, piece)) = reader.next()? {
        if let (true, Piece::Bytes(bytes)) = (number == wanted, piece) {
            last = Some(bytes);
        }
    }
    Ok(last)
}

fn numbers(bytes: &[u8]) -> Result<[u64; 2], ProtobufError> {
    let mut found = [0, 0];
    let mut reader = Reader::new(bytes);
    while let Some((number, piece)) = reader.next()? {
        let slot = (number as usize)
            .checked_sub(1)
            .and_then(|at| found.get_mut(at));
        if let (Some(slot), Piece::Number(value)) = (slot, piece) {
            *slot = value;
        }
    }
    Ok(found)
}
