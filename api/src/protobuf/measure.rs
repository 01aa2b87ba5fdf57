//! The length of a message, computed by one scan of its JSON.
//!
//! In protobuf the length of a list comes before its items. A list whose items are measured first
//! can be sent without having all of it in memory. The scan reads compact JSON, in which objects
//! are kept, and writes nothing. The result is exact or `None`: for JSON that does not fit the type
//! or is unusual, the caller has to write the message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::completeness::{Completeness, Facts, NodeId, flags_of_quantity};
use crate::schema::{
    DELIMITED, Message, MessagePart, Scalar, Schema, SchemaOr, Shape, StructId, Type,
    is_list_message, wire_type,
};
use crate::text::go_duration;
use crate::text::go_time::GoTime;

/// Deeper JSON is left to the encoder.
const DEPTH_MAX: usize = 64;
/// The number of bytes of a text after which its end is searched in large steps.
const SHORT_TEXT_BYTES: usize = 32;

/// The number of next fields that are compared with a name before it is searched in all. Members
/// usually come in the order of the fields.
const NEAR: usize = 8;

/// A scan of JSON.
pub(super) struct Measure<'s, 'j> {
    schema: &'s Schema,
    json: &'j str,
    /// The position of the next byte.
    at: usize,
    depth: usize,
    /// The lengths of the fields of all enclosing messages, sorted by name.
    lengths: Vec<usize>,
    /// The description for which the scan notes facts, if any.
    completeness: Option<&'s Completeness>,
    /// The node for structs in the current value.
    node: NodeId,
    /// The flags noted so far.
    flags: u32,
}

/// A text in JSON.
#[derive(Clone, Copy)]
struct Text<'j> {
    /// The part between its quotes.
    written: &'j str,
    /// Its length without escapes.
    length: usize,
}

impl<'j> Text<'j> {
    /// Returns the text itself, if it has no escapes.
    fn plain(self) -> Option<&'j str> {
        (self.length == self.written.len()).then_some(self.written)
    }
}

/// The role of a byte in a text.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Plain,
    /// A character that Go escapes in values that stay JSON.
    Special,
    Backslash,
    Quote,
    Control,
}

const CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut classes = [Class::Plain; 256];
    let mut byte = 0;
    while byte < classes.len() {
        classes[byte] = match byte as u8 {
            0..0x20 => Class::Control,
            b'"' => Class::Quote,
            b'\\' => Class::Backslash,
            // The first byte of Unicode's line separators, among other characters.
            b'<' | b'>' | b'&' | 0xe2 => Class::Special,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
}

/// Returns the length of a number as varint.
fn number(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Returns the length of a length-delimited field without its tag.
fn delimited(length: usize) -> usize {
    number(length as u64) + length
}

impl<'s, 'j> Measure<'s, 'j> {
    /// Starts the scan of a document. Returns `None` if it is not UTF-8.
    pub(super) fn new(schema: &'s Schema, json: &'j [u8]) -> Option<Measure<'s, 'j>> {
        Some(Measure {
            schema,
            json: std::str::from_utf8(json).ok()?,
            at: 0,
            depth: 0,
            lengths: Vec::new(),
            completeness: None,
            node: NodeId::default(),
            flags: 0,
        })
    }

    /// Returns whether a document has all defaults of its kind. `None` if the length of its message
    /// can't be computed.
    pub(super) fn document_of(
        mut self,
        id: StructId,
        completeness: &'s Completeness,
    ) -> Option<bool> {
        self.completeness = Some(completeness);
        self.node = NodeId::ROOT;
        let length = self.message(id)?;
        (self.at == self.json.len()).then_some(length)?;
        Some(completeness.is_complete(self.flags))
    }

    /// Returns the length of a struct's message.
    pub(super) fn document(mut self, id: StructId) -> Option<usize> {
        let length = self.message(id)?;
        (self.at == self.json.len()).then_some(length)
    }

    fn message(&mut self, id: StructId) -> Option<usize> {
        let (of, message) = self.schema.message(id)?;
        let first = self.lengths.len();
        self.lengths.resize(first + message.fields.len(), 0);
        let own = self.node;
        let node = self.completeness.and_then(|all| all.node(own));
        let mut noted = node.map(|node| (node, Facts::default()));
        let mut expected = 0;
        self.members(|measure, name| {
            let mut following = of.fields().iter().skip(expected).take(NEAR);
            let near = following.position(|field| field.name == name);
            let near = near.map(|skipped| expected + skipped);
            let begun = measure.at;
            let Some(place) = near.or_else(|| of.place(name)) else {
                measure.raw()?;
                if let Some((node, facts)) = &mut noted {
                    facts.note_other(node, name, measure.json.get(begun..measure.at)?);
                }
                return Some(());
            };
            expected = place + 1;
            if let Some((node, facts)) = &mut noted {
                measure.node = facts.begin(node, place);
            }
            let field = message.fields.get(place)?;
            let is_delimited = field.is_delimited;
            let length =
                measure.field(&of.fields().get(place)?.of, field.tag.len(), is_delimited)?;
            *measure.lengths.get_mut(first + place)? += length;
            if let Some((node, facts)) = &mut noted {
                facts.note(node, place, measure.json.get(begun..measure.at)?);
            }
            Some(())
        })?;
        if let Some((node, facts)) = noted {
            self.flags |= facts.flags(node);
            self.node = own;
        }
        let length = sum(message, &message.parts, self.lengths.get(first..)?);
        self.lengths.truncate(first);
        Some(length)
    }

    /// Returns the length of a field with all its contents and their tags.
    fn field(&mut self, of: &Type, tag: usize, is_delimited: bool) -> Option<usize> {
        let content = |length| {
            if is_delimited {
                tag + delimited(length)
            } else {
                tag + length
            }
        };
        let mut all = 0;
        match &of.shape {
            _ if self.null() => {}
            Shape::List(item) if !is_list_message(of) => self.items(|measure| {
                all += content(measure.value(item)?);
                Some(())
            })?,
            Shape::Map(item) => {
                let mut last = None;
                self.members(|measure, key| {
                    let value = match wire_type(item) {
                        DELIMITED => delimited(measure.value(item)?),
                        _ => measure.value(item)?,
                    };
                    all += content(1 + delimited(key.len()) + 1 + value);
                    let is_sorted = last.is_none_or(|last| last < key);
                    last = Some(key);
                    is_sorted.then_some(())
                })?;
            }
            _ => all = content(self.value(of)?),
        }
        Some(all)
    }

    /// Returns the length of a single value, which is not null.
    fn value(&mut self, of: &Type) -> Option<usize> {
        match &of.shape {
            Shape::Scalar(scalar) => self.scalar(*scalar),
            Shape::Struct(id) => self.message(*id),
            Shape::List(item) if is_list_message(of) => {
                let mut all = 0;
                self.items(|measure| {
                    all += 1 + delimited(measure.value(item)?);
                    Some(())
                })?;
                Some(all)
            }
            Shape::Object => self.document_within(),
            Shape::Any => match of.schema_or {
                None => self.document_within(),
                Some((id, or)) => self.schema_or(id, or),
            },
            Shape::List(_) | Shape::Map(_) => None,
        }
    }

    /// Measures a value that stays JSON. It is the only field of a message.
    fn document_within(&mut self) -> Option<usize> {
        let begun = self.at;
        if self.null() {
            return None;
        }
        self.raw()?;
        Some(1 + delimited(self.at - begun))
    }

    /// Measures a JSON schema, or an alternative to it.
    fn schema_or(&mut self, id: StructId, or: SchemaOr) -> Option<usize> {
        match self.next()? {
            b't' | b'f' => self.scalar(Scalar::Bool).map(|length| 1 + length),
            b'{' => {
                let marked = if or == SchemaOr::Bool { 2 } else { 0 };
                Some(marked + 1 + delimited(self.message(id)?))
            }
            _ => None,
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Option<usize> {
        Some(match scalar {
            Scalar::Bool => {
                let is_bool = self.take("true") || self.take("false");
                is_bool.then_some(1)?
            }
            Scalar::Int32 | Scalar::Int64 => number(self.integer()? as u64),
            Scalar::Float64 => {
                self.integer()?;
                8
            }
            Scalar::IntOrString if self.next()? != b'"' => 5 + number(self.integer()? as u64),
            Scalar::IntOrString => 5 + delimited(self.text()?.length),
            Scalar::String => self.text()?.length,
            Scalar::Quantity => {
                let text = self.text()?;
                if self.completeness.is_some() {
                    self.flags |= flags_of_quantity(text.written);
                }
                1 + delimited(text.length)
            }
            Scalar::Bytes => bytes_of_base64(self.text()?.plain()?)?,
            Scalar::Time | Scalar::MicroTime => {
                let time = GoTime::of_printed(self.text()?.plain()?)?;
                let fraction = match scalar {
                    Scalar::Time => 0,
                    _ => time.nanoseconds / 1_000 * 1_000,
                };
                2 + number(time.seconds as u64) + number(fraction.into())
            }
            Scalar::Duration => {
                let nanoseconds = go_duration::parse(self.text()?.plain()?).ok()?;
                1 + number(nanoseconds as u64)
            }
        })
    }

    /// Skips JSON that is written unchanged.
    fn raw(&mut self) -> Option<()> {
        match self.next()? {
            b'{' => self.within(b'{', b'}', |measure| {
                measure.raw_text()?;
                measure.expect(b':')?;
                measure.raw()
            }),
            b'[' => self.items(Measure::raw),
            b'"' => self.raw_text(),
            _ => (self.take("true") || self.take("false") || self.null()).then_some(()),
        }
    }

    /// Calls a function with the name of each member of an object. The function skips the value.
    fn members(&mut self, mut member: impl FnMut(&mut Self, &'j str) -> Option<()>) -> Option<()> {
        self.within(b'{', b'}', |measure| {
            let name = measure.text()?.plain()?;
            measure.expect(b':')?;
            member(measure, name)
        })
    }

    /// Calls a function at each item of an array. The function skips the item.
    fn items(&mut self, item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.within(b'[', b']', item)
    }

    fn within(
        &mut self,
        opening: u8,
        closing: u8,
        mut part: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.expect(opening)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        if self.next()? == closing {
            self.at += 1;
        } else {
            loop {
                part(self)?;
                let byte = self.next()?;
                self.at += 1;
                match byte {
                    b',' => {}
                    byte if byte == closing => break,
                    _ => return None,
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    /// Skips a text.
    fn text(&mut self) -> Option<Text<'j>> {
        self.expect(b'"')?;
        let begun = self.at;
        let mut escapes = 0;
        loop {
            match self.class_after_plain_text()? {
                Class::Plain | Class::Special => {}
                Class::Quote => break,
                Class::Backslash => escapes += self.escape()?,
                Class::Control => return None,
            }
        }
        let written = self.json.get(begun..self.at)?;
        self.at += 1;
        let length = written.len() - escapes;
        Some(Text { written, length })
    }

    /// Advances to the next byte of a text that is not plain.
    fn class_after_plain_text(&mut self) -> Option<Class> {
        let bytes = self.json.as_bytes();
        let begun = self.at;
        loop {
            let class = self.class()?;
            if !matches!(class, Class::Plain | Class::Special) {
                return Some(class);
            }
            self.at += 1;
            if self.at - begun == SHORT_TEXT_BYTES {
                let rest = bytes.get(self.at..)?;
                let plain = rest.get(..memchr::memchr2(b'"', b'\\', rest)?)?;
                self.at += plain.len();
                let has_control = plain
                    .iter()
                    .fold(false, |found, byte| found | (*byte < 0x20));
                return if has_control { None } else { self.class() };
            }
        }
    }

    /// Skips an escape. Returns how much longer it is than the character that it encodes.
    fn escape(&mut self) -> Option<usize> {
        let escaped = self.json.as_bytes().get(self.at + 1)?;
        match escaped {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                self.at += 2;
                Some(1)
            }
            b'u' => {
                let digits = self.json.get(self.at + 2..self.at + 6)?;
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
                self.at += 6;
                Some(6 - char::from_u32(code)?.len_utf8())
            }
            _ => None,
        }
    }

    /// Skips a text that Go writes unchanged.
    fn raw_text(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.class()? {
                Class::Plain => self.at += 1,
                Class::Quote => break,
                Class::Backslash => match self.json.as_bytes().get(self.at + 1)? {
                    b'"' | b'\\' => self.at += 2,
                    _ => return None,
                },
                Class::Special | Class::Control => return None,
            }
        }
        self.at += 1;
        Some(())
    }

    fn integer(&mut self) -> Option<i64> {
        let begun = self.at;
        let is_negative = self.take("-");
        let first = self.at;
        let mut value: i64 = 0;
        while let Some(digit) = self.next().filter(u8::is_ascii_digit) {
            value = value
                .checked_mul(10)?
                .checked_add(i64::from(digit - b'0'))?;
            self.at += 1;
        }
        let has_zero = self.json.as_bytes().get(first) == Some(&b'0');
        let is_usual = if has_zero {
            self.at - begun == 1
        } else {
            self.at > first
        };
        let is_whole = !matches!(self.next(), Some(b'.' | b'e' | b'E'));
        let value = if is_negative { -value } else { value };
        (is_usual && is_whole).then_some(value)
    }

    fn null(&mut self) -> bool {
        self.next() == Some(b'n') && self.take("null")
    }

    fn class(&self) -> Option<Class> {
        CLASSES.get(usize::from(self.next()?)).copied()
    }

    fn next(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: &str) -> bool {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        let is_there = rest.starts_with(wanted.as_bytes());
        self.at += if is_there { wanted.len() } else { 0 };
        is_there
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_there = self.next() == Some(byte);
        self.at += 1;
        is_there.then_some(())
    }
}

/// Returns the length of parts of a message from the lengths of its fields.
fn sum(message: &Message, parts: &[MessagePart], lengths: &[usize]) -> usize {
    let length = |part: &MessagePart| match part {
        MessagePart::Field { place, .. } => match lengths.get(*place) {
            Some(0) | None => message
                .fields
                .get(*place)
                .map_or(0, |field| field.zero.len()),
            Some(length) => *length,
        },
        MessagePart::Embedded { number: tag, parts } => {
            let tag = number(u64::from(*tag) << 3 | DELIMITED);
            tag + delimited(sum(message, parts, lengths))
        }
    };
    parts.iter().map(length).sum()
}

/// Returns the number of bytes that a base64 text encodes.
fn bytes_of_base64(text: &str) -> Option<usize> {
    let Some((digits, last)) = text.as_bytes().split_last_chunk::<4>() else {
        return text.is_empty().then_some(0);
    };
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() | (*byte == b'+') | (*byte == b'/');
    let are_digits = digits.iter().fold(true, |all, byte| all & is_digit(byte));
    let mut decoded = [0; 3];
    let rest = STANDARD.decode_slice(last, &mut decoded).ok()?;
    (are_digits && digits.len().is_multiple_of(4)).then_some(digits.len() / 4 * 3 + rest)
}
