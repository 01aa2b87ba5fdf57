//! Kubernetes' protobuf (API-58, KV-21): conversion between JSON documents and bodies by the schema
//! of their kind.
//!
//! Contains the envelope, the wire format, and conversion in both directions. `encode` writes the
//! same bytes as Go. `decode` writes JSON in the canonical form. Nothing here knows resource
//! definitions or storage.

mod decode;
mod encode;
mod fields;
mod measure;
mod member_name;
mod raw;
mod wire;

use std::borrow::Cow;

use serde_json::Value;

use decode::Decoder;
pub use decode::Texts;
use encode::Encoder;
use measure::Measure;
use wire::{Piece, Reader};

use crate::completeness::Completeness;
use crate::deep;
use crate::schema::{DELIMITED, Schema, StructId, push_number};

/// The first bytes of a protobuf body.
pub const MAGIC: &[u8] = b"k8s\0";

/// The end of the envelope, after the object: its content encoding and content type, which are
/// empty.
pub const END: &[u8] = &[0x1a, 0, 0x22, 0];

/// The reason why a body can't be decoded or encoded.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtobufError {
    /// It does not begin with the magic bytes.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Unmarked,
    /// It is not a valid message.
    #[error("the body is not a protobuf object: {0}")]
    Malformed(String),
    /// Its kind has no protobuf form.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The version.
        api_version: String,
    },
}

fn malformed(what: impl std::fmt::Display) -> ProtobufError {
    ProtobufError::Malformed(what.to_string())
}

/// An object in its envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// Its apiVersion. May be empty.
    pub api_version: &'b str,
    /// Its kind. May be empty.
    pub kind: &'b str,
    /// The object, without apiVersion and kind.
    pub raw: &'b [u8],
}

impl<'b> Envelope<'b> {
    /// Parses the envelope of a body.
    ///
    /// # Errors
    /// [`ProtobufError::Malformed`]
    pub fn read(body: &'b [u8]) -> Result<Envelope<'b>, ProtobufError> {
        let message = body.strip_prefix(MAGIC).ok_or(ProtobufError::Unmarked)?;
        if message.is_empty() {
            return Err(malformed("empty body"));
        }
        let mut envelope = Envelope::default();
        let mut reader = Reader::new(message);
        while let Some((number, piece)) = reader.next()? {
            match (number, piece) {
                (1, Piece::Bytes(types)) => envelope.read_types(types)?,
                (2, Piece::Bytes(bytes)) => envelope.raw = bytes,
                (1..=4, Piece::Number(_) | Piece::Fixed(_) | Piece::Group) => {
                    return Err(malformed(format!("field {number} is not of its type")));
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_types(&mut self, bytes: &'b [u8]) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(bytes);
        while let Some((number, piece)) = reader.next()? {
            if let Piece::Bytes(bytes) = piece {
                match number {
                    1 => self.api_version = utf8(bytes, "apiVersion")?,
                    2 => self.kind = utf8(bytes, "kind")?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Writes the envelope before an object of this length. The caller must write [`END`] after the
    /// object.
    pub fn write_opening(api_version: &str, kind: &str, raw: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let mut types = Vec::with_capacity(api_version.len() + kind.len() + 4);
        push_bytes(&mut types, 1, api_version.as_bytes());
        push_bytes(&mut types, 2, kind.as_bytes());
        push_bytes(out, 1, &types);
        push_opening(out, 2, raw);
    }

    /// Writes the whole body.
    pub fn write(&self, out: &mut Vec<u8>) {
        Envelope::write_opening(self.api_version, self.kind, self.raw.len(), out);
        out.extend_from_slice(self.raw);
        out.extend_from_slice(END);
    }
}

/// Appends a field that contains bytes.
pub fn push_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    push_opening(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the tag and length of a field that contains bytes.
pub fn push_opening(out: &mut Vec<u8>, number: u32, length: usize) {
    push_number(out, u64::from(number) << 3 | DELIMITED);
    push_number(out, length as u64);
}

fn utf8<'b>(bytes: &'b [u8], path: &str) -> Result<&'b str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| malformed(format!("{path} is not UTF-8 text")))
}

/// Decodes a body whose kind the schema has into JSON in the canonical form. Sets a missing kind
/// and apiVersion to the expected ones.
///
/// # Errors
/// [`ProtobufError`]
pub fn to_json(
    body: &[u8],
    expected_version: &str,
    expected_kind: &str,
    schema: &Schema,
    texts: Texts,
) -> Result<Vec<u8>, ProtobufError> {
    let mut envelope = Envelope::read(body)?;
    if envelope.api_version.is_empty() {
        envelope.api_version = expected_version;
    }
    if envelope.kind.is_empty() {
        envelope.kind = expected_kind;
    }
    let Envelope {
        api_version, kind, ..
    } = envelope;
    let id = schema
        .kind(api_version, kind)
        .ok_or_else(|| unknown(api_version, kind))?;
    object_json(schema, id, envelope, texts)
}

/// Decodes the object in an envelope by a struct into JSON in the canonical form. Writes apiVersion
/// and kind of the envelope.
///
/// # Errors
/// [`ProtobufError`]
pub fn object_json(
    schema: &Schema,
    id: StructId,
    envelope: Envelope<'_>,
    texts: Texts,
) -> Result<Vec<u8>, ProtobufError> {
    let Envelope {
        api_version,
        kind,
        raw,
    } = envelope;
    let mut out = Vec::with_capacity(raw.len() * 2 + 64);
    out.extend_from_slice(b"{\"kind\":");
    out.extend_from_slice(Value::from(kind).to_string().as_bytes());
    out.extend_from_slice(b",\"apiVersion\":");
    out.extend_from_slice(Value::from(api_version).to_string().as_bytes());
    Decoder::new(schema, texts, &mut out).members(id, raw, Some("metadata"))?;
    out.push(b'}');
    Ok(out)
}

fn unknown(api_version: &str, kind: &str) -> ProtobufError {
    ProtobufError::UnknownKind {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
    }
}

/// Appends the message of a struct to `out`. Its JSON may be a text or a tree.
///
/// # Errors
/// The JSON is invalid, or does not fit the type.
pub fn write_message<'de, D: serde::Deserializer<'de>>(
    schema: &Schema,
    id: StructId,
    document: D,
    out: &mut Vec<u8>,
) -> Result<(), D::Error> {
    Encoder::new(schema, out).object(id, document)
}

/// As [`write_message`], for JSON text, which may be deep.
///
/// # Errors
/// The same.
pub fn write_json_message(
    schema: &Schema,
    id: StructId,
    json: &[u8],
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    let begun = out.len();
    deep::retry_with_room(|| {
        out.truncate(begun);
        let written = write_message(schema, id, &mut deep::reader(json), out);
        deep::noted(json, written)
    })
}

/// Returns the length that [`write_message`] appends for compact JSON, without writing it. Returns
/// `None` for JSON that does not fit the type or is unusual, such as unsorted maps: its message has
/// to be written.
pub fn message_length(schema: &Schema, id: StructId, json: &[u8]) -> Option<usize> {
    Measure::new(schema, json)?.document(id)
}

/// Checks that compact JSON fits a type, as far as protobuf distinguishes types. Types without
/// protobuf form accept anything.
///
/// # Errors
/// A field has another type, or a text is not UTF-8.
pub fn check_json(schema: &Schema, id: StructId, json: &[u8]) -> serde_json::Result<()> {
    if schema.message(id).is_none() || message_length(schema, id, json).is_some() {
        return Ok(());
    }
    write_json_message(schema, id, json, &mut Vec::new())
}

/// As [`check_json`]. Returns whether the object has all defaults of its kind. False may also mean
/// that this can't be decided here.
///
/// # Errors
/// The same.
pub fn check_complete(
    schema: &Schema,
    id: StructId,
    json: &[u8],
    completeness: &Completeness,
) -> serde_json::Result<bool> {
    if schema.message(id).is_none() {
        return Ok(false);
    }
    let measure = Measure::new(schema, json);
    match measure.and_then(|measure| measure.document_of(id, completeness)) {
        Some(is_complete) => Ok(is_complete),
        None => write_json_message(schema, id, json, &mut Vec::new()).map(|()| false),
    }
}

/// Writes a JSON document as a body, by the kind that it names. Returns false and writes nothing if
/// the schema lacks its kind or the document does not fit its type.
pub fn write_document(schema: &Schema, json: &[u8], out: &mut Vec<u8>) -> bool {
    let named;
    let (kind, api_version) = match leading_types(json) {
        Some(found) => found,
        None => {
            let Ok(types) = serde_json::from_slice::<Types<'_>>(json) else {
                return false;
            };
            named = types;
            (&*named.kind, &*named.api_version)
        }
    };
    let Some(id) = schema.kind(api_version, kind) else {
        return false;
    };
    let mut raw = Vec::with_capacity(json.len());
    if write_json_message(schema, id, json, &mut raw).is_err() {
        return false;
    }
    let envelope = Envelope {
        api_version,
        kind,
        raw: &raw,
    };
    out.reserve(raw.len() + 64);
    envelope.write(out);
    true
}

/// Returns kind and apiVersion of a document that begins with both, as this server's do.
fn leading_types(json: &[u8]) -> Option<(&str, &str)> {
    let (kind, rest) = leading_text(json.strip_prefix(b"{\"kind\":\"")?)?;
    let (api_version, _) = leading_text(rest.strip_prefix(b",\"apiVersion\":\"")?)?;
    Some((kind, api_version))
}

/// Returns a text up to its quote, and the rest. Returns `None` if it has escapes.
fn leading_text(json: &[u8]) -> Option<(&str, &[u8])> {
    let end = json.iter().position(|byte| *byte == b'"')?;
    let (text, rest) = json.split_at(end);
    let text = std::str::from_utf8(text).ok()?;
    (!text.contains('\\')).then_some((text, rest.get(1..)?))
}

/// The members with a document's kind and apiVersion.
#[derive(serde::Deserialize)]
struct Types<'d> {
    #[serde(default, rename = "apiVersion", borrow)]
    api_version: Cow<'d, str>,
    #[serde(borrow)]
    kind: Cow<'d, str>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;

    const TEXT: &str = "package a.v1\n\ntype Thing kind\n  1 items []Item\n\n\
        type Item\n  1 name string always\n  2 inner Inner\n\n\
        type Inner\n  1 first string always\n  2 second string always\n";

    /// An item that takes two bytes takes forty in JSON.
    #[test]
    fn what_takes_no_bytes_is_bounded() {
        let schema = Schema::read(&[TEXT]).unwrap();
        let read = |items: usize| {
            let raw = [0x0a, 0].repeat(items);
            let envelope = Envelope {
                api_version: "v1",
                kind: "Thing",
                raw: &raw,
            };
            let mut body = Vec::new();
            envelope.write(&mut body);
            to_json(&body, "", "", &schema, Texts::Strict)
        };
        let one = String::from_utf8(read(1).unwrap()).unwrap();
        let item = r#"{"inner":{"first":"","second":""},"name":""}"#;
        assert!(one.contains(item), "{one}");
        assert!(read(10_000).is_ok());
        let refused = read(1_500_000).unwrap_err();
        assert!(refused.to_string().contains("too long"), "{refused}");
    }

    #[test]
    fn a_map_is_written_in_order_of_its_keys_once_each_kv_25() {
        let text = "package a.v1\n\ntype Thing kind\n  1 labels map[string]string\n";
        let schema = Schema::read(&[text]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let written = |json: &str| {
            let mut out = Vec::new();
            let mut document = serde_json::Deserializer::from_str(json);
            write_message(&schema, id, &mut document, &mut out).unwrap();
            out
        };
        let sorted = written(r#"{"labels":{"a":"1","b":"2"}}"#);
        assert_eq!(
            sorted,
            b"\x0a\x06\x0a\x01a\x12\x011\x0a\x06\x0a\x01b\x12\x012"
        );
        assert_eq!(written(r#"{"labels":{"b":"2","a":"0","a":"1"}}"#), sorted);
    }

    /// An empty text takes no bytes, so it begins where the next one does.
    #[test]
    fn long_lists_with_empty_texts_keep_their_order_kv_25() {
        let text = "package a.v1\n\ntype Thing kind\n  1 args []string\n  2 name string always\n";
        let schema = Schema::read(&[text]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        for count in 1..200 {
            for every in 1..7 {
                let args: Vec<String> = (0..count)
                    .map(|number| {
                        if usize::is_multiple_of(number, every) {
                            String::new()
                        } else {
                            number.to_string()
                        }
                    })
                    .collect();
                let document = json!({"args": args, "name": "n"});
                let mut raw = Vec::new();
                write_message(&schema, id, &document, &mut raw).unwrap();
                let envelope = Envelope {
                    api_version: "v1",
                    kind: "Thing",
                    raw: &raw,
                };
                let mut body = Vec::new();
                envelope.write(&mut body);
                let read = to_json(&body, "", "", &schema, Texts::Strict).unwrap();
                let read: Value = serde_json::from_slice(&read).unwrap();
                assert_eq!(read["args"], document["args"], "{count} {every}");
            }
        }
    }

    /// The length is exact or `None`.
    #[test]
    fn a_length_is_exact_or_not_there() {
        let text = "package a.v1\n\ntype Thing kind\n  1 labels map[string]string\n\
            \x20 2 whole int64 always\n  3 data map[string]bytes\n  4 time time always\n\
            \x20 5 inner Inner\n  6 items []Inner\n  7 any fieldset\n\n\
            type Inner\n  1 first string always\n  2 second *bool\n  3 inner *Inner\n";
        let schema = Schema::read(&[text]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let lengths = |json: &str| {
            let mut out = Vec::new();
            let mut document = serde_json::Deserializer::from_str(json);
            let written = write_message(&schema, id, &mut document, &mut out);
            let written = written.and_then(|()| document.end()).ok();
            let measured = message_length(&schema, id, json.as_bytes());
            (measured, written.map(|()| out.len()))
        };
        let long = "long \u{e9} ".repeat(50);
        for json in [
            "{}".to_owned(),
            r#"{"labels":{"a":"","b":"\"\\\n\u00e9\u003c"},"other":{"a":[true]}}"#.to_owned(),
            r#"{"inner":{"first":"a","inner":{"inner":{},"second":true}}}"#.to_owned(),
            r#"{"items":[{},{"second":false},{"inner":null}],"labels":null}"#.to_owned(),
            r#"{"time":"2026-01-02T03:04:05Z","whole":-1}"#.to_owned(),
            r#"{"time":null,"whole":123456789012}"#.to_owned(),
            r#"{"data":{"a":"","b":"YQ==","c":"YWJjZGVm"}}"#.to_owned(),
            r#"{"any":{"f:a":{".":{},"k:{\"a\":\"b\"}":{}},"l":["",null]}}"#.to_owned(),
            format!(r#"{{"inner":{{"first":"{long}"}}}}"#),
        ] {
            let (measured, written) = lengths(&json);
            assert_eq!(measured, written, "{json}");
            assert!(measured.is_some(), "{json}");
            // No single wrong byte results in a length of a message that can't be written.
            for at in 0..json.len() {
                for wrong in [
                    "", "\"", "\\", "{", "}", ",", "0", "n", "<", "\u{1}", " ", "=",
                ] {
                    let Some((before, following)) = json.split_at_checked(at) else {
                        continue;
                    };
                    let following = following.chars().as_str().get(1..).unwrap_or_default();
                    let json = format!("{before}{wrong}{following}");
                    if let (Some(measured), written) = lengths(&json) {
                        assert_eq!(Some(measured), written, "{json}");
                    }
                }
            }
        }
        for unusual in [
            r#"{"labels":{"b":"","a":""}}"#,
            r#"{"data":{"a":"YR=="}}"#,
            r#"{"any":{"a":1.0}}"#,
            r#"{"whole":1.5}"#,
        ] {
            assert_eq!(lengths(unusual).0, None, "{unusual}");
        }
    }
}
