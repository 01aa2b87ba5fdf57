//! Bodies in Kubernetes' protobuf (API-58), which typed clients such as `kubectl create configmap`
//! send by default.
//!
//! This folder owns the conversion of such bodies to JSON documents. Bytes enter, and a JSON
//! document leaves for the decoding of all bodies. Only the kinds and fields in [`messages`] are
//! read. Others are refused, so that no data of a client is lost silently. Answers are never
//! protobuf. This folder must not know resource definitions or storage.

mod messages;
#[cfg(test)]
mod tests;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use messages::{Field, Message, Shape};
use wire::{Piece, Reader};

/// The first bytes of a protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// The reason why a body can't be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtobufError {
    /// It is not a message, or a broken one (400).
    #[error("the body is not a protobuf object: {0}")]
    Malformed(String),
    /// Its kind or one of its fields is only read as JSON or YAML (415).
    #[error("{0} can't be read as protobuf here: send it as application/json")]
    Unsupported(String),
}

fn malformed(what: impl std::fmt::Display) -> ProtobufError {
    ProtobufError::Malformed(what.to_string())
}

/// Reads an object or options. Missing kind and version are set to the expected ones.
///
/// # Errors
/// [`ProtobufError`]
pub fn to_json(
    body: &[u8],
    expected_version: &str,
    expected_kind: &str,
) -> Result<Vec<u8>, ProtobufError> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or_else(|| malformed("it does not begin with the four bytes that mark one"))?;
    let mut version = expected_version.to_owned();
    let mut kind = expected_kind.to_owned();
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(envelope);
    while let Some((number, piece)) = reader.next()? {
        match (number, piece) {
            (1, Piece::Bytes(types)) => read_types(types, &mut version, &mut kind)?,
            (2, Piece::Bytes(bytes)) => raw = bytes,
            (3, Piece::Bytes(encoding)) if !encoding.is_empty() => {
                return Err(ProtobufError::Unsupported("an encoded object".to_owned()));
            }
            _ => {}
        }
    }
    let message = messages::of(&version, &kind)
        .ok_or_else(|| ProtobufError::Unsupported(format!("{kind} of {version}")))?;
    let mut document = object(message, raw, &kind)?;
    document.insert("kind".to_owned(), kind.into());
    document.insert("apiVersion".to_owned(), version.into());
    Ok(Value::Object(document).to_string().into_bytes())
}

fn read_types(bytes: &[u8], version: &mut String, kind: &mut String) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, piece)) = reader.next()? {
        if let Piece::Bytes(bytes) = piece {
            match number {
                1 if !bytes.is_empty() => *version = utf8(bytes, "apiVersion")?.to_owned(),
                2 if !bytes.is_empty() => *kind = utf8(bytes, "kind")?.to_owned(),
                _ => {}
            }
        }
    }
    Ok(())
}

fn utf8<'b>(bytes: &'b [u8], path: &str) -> Result<&'b str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| malformed(format!("{path} is no UTF-8 text")))
}

/// A message as a JSON object. Error messages show `path`.
fn object(
    message: &Message,
    bytes: &[u8],
    path: &str,
) -> Result<Map<String, Value>, ProtobufError> {
    let mut members = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, piece)) = reader.next()? {
        let field = message
            .fields()
            .find(|field| field.number == number)
            .ok_or_else(|| ProtobufError::Unsupported(format!("field {number} of {path}")))?;
        let path = format!("{path}.{}", field.name);
        let Some(value) = value(field, piece, &path)? else {
            continue;
        };
        add(&mut members, field, value);
    }
    Ok(members)
}

fn add(members: &mut Map<String, Value>, field: &Field, value: Value) {
    if field.shape.is_map() {
        let entries = members
            .entry(field.name)
            .or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(entries), Value::Object(entry)) = (entries, value) {
            entries.extend(entry);
        }
    } else if field.is_list {
        let items = members
            .entry(field.name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(items) = items {
            items.push(value);
        }
    } else {
        members.insert(field.name.to_owned(), value);
    }
}

/// The value of a field, or `None` for a zero value that JSON omits.
fn value(field: &Field, piece: Piece<'_>, path: &str) -> Result<Option<Value>, ProtobufError> {
    let keeps_zero = field.keeps_zero || field.is_list;
    Ok(match (&field.shape, piece) {
        (Shape::Bool, Piece::Number(0)) if !keeps_zero => None,
        (Shape::Bool, Piece::Number(number)) => Some((number != 0).into()),
        (Shape::Int, Piece::Number(0)) if !keeps_zero => None,
        // Negative numbers arrive in two's complement, as large positive ones.
        (Shape::Int, Piece::Number(number)) => Some((number as i64).into()),
        (Shape::Text, Piece::Bytes(b"")) if !keeps_zero => None,
        (Shape::Text, Piece::Bytes(bytes)) => Some(utf8(bytes, path)?.into()),
        (Shape::Message(message), Piece::Bytes(bytes)) => {
            Some(Value::Object(object(message, bytes, path)?))
        }
        (Shape::Time, Piece::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%SZ", path)?,
        (Shape::MicroTime, Piece::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%S%.6fZ", path)?,
        (Shape::IntOrText, Piece::Bytes(bytes)) => Some(int_or_text(bytes, path)?),
        (Shape::Json, Piece::Bytes(bytes)) => raw_json(bytes, path)?,
        (Shape::TextMap, Piece::Bytes(bytes)) => {
            let (key, value) = entry(bytes, path)?;
            Some(single(key, utf8(value, path)?.into()))
        }
        (Shape::BytesMap, Piece::Bytes(bytes)) => {
            let (key, value) = entry(bytes, path)?;
            Some(single(key, STANDARD.encode(value).into()))
        }
        (Shape::QuantityMap, Piece::Bytes(bytes)) => {
            let (key, value) = entry(bytes, path)?;
            let quantity = first_bytes(value, 1)?.unwrap_or_default();
            Some(single(key, utf8(quantity, path)?.into()))
        }
        _ => return Err(malformed(format!("{path} is not of its type"))),
    })
}

fn single(key: String, value: Value) -> Value {
    let mut entry = Map::new();
    entry.insert(key, value);
    Value::Object(entry)
}

/// The key and value of a map entry.
fn entry<'b>(bytes: &'b [u8], path: &str) -> Result<(String, &'b [u8]), ProtobufError> {
    let key = first_bytes(bytes, 1)?.unwrap_or_default();
    let value = first_bytes(bytes, 2)?.unwrap_or_default();
    Ok((utf8(key, path)?.to_owned(), value))
}

fn first_bytes(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, piece)) = reader.next()? {
        if let (true, Piece::Bytes(bytes)) = (number == wanted, piece) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
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

/// Seconds and nanoseconds since 1970. An empty message is the zero time, which is omitted.
fn time(bytes: &[u8], form: &str, path: &str) -> Result<Option<Value>, ProtobufError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let [seconds, nanoseconds] = numbers(bytes)?;
    let time = i32::try_from(nanoseconds)
        .ok()
        .and_then(|nanoseconds| Timestamp::new(seconds as i64, nanoseconds).ok())
        .ok_or_else(|| malformed(format!("{path} is no time")))?;
    Ok(Some(time.strftime(form).to_string().into()))
}

/// `type` 0 is a number, 1 a text.
fn int_or_text(bytes: &[u8], path: &str) -> Result<Value, ProtobufError> {
    let [kind, number] = numbers(bytes)?;
    if kind == 0 {
        return Ok((number as i64).into());
    }
    let text = first_bytes(bytes, 3)?.unwrap_or_default();
    Ok(utf8(text, path)?.into())
}

/// A document that is wrapped in a message (`fieldsV1`).
fn raw_json(bytes: &[u8], path: &str) -> Result<Option<Value>, ProtobufError> {
    let Some(raw) = first_bytes(bytes, 1)?.filter(|raw| !raw.is_empty()) else {
        return Ok(None);
    };
    let parsed = super::decode::decode_value(raw, super::decode::BodyFormat::Json);
    let (value, _) = parsed.map_err(|why| malformed(format!("{path}: {why}")))?;
    Ok(Some(value))
}
