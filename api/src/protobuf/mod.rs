//! Bodies in Kubernetes' protobuf (API-58), which typed clients such as `kubectl create configmap`
//! send by default.
//!
//! This folder owns the conversion of such bodies to JSON documents. Bytes enter, and a JSON
//! document leaves for the decoding of all bodies. Kinds and fields that the schema does not have
//! are refused, so that no data of a client is lost silently. Answers are never protobuf. This
//! folder must not know resource definitions or storage.

mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::decode::MAX_DEPTH;
use crate::schema::{Field, Scalar, Schema, Shape, Struct, Type};
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

/// Reads an object or options whose kinds the schema has. Missing kind and version are set to the
/// expected ones.
///
/// # Errors
/// [`ProtobufError`]
pub fn to_json(
    body: &[u8],
    expected_version: &str,
    expected_kind: &str,
    schema: &Schema,
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
    let of = kind_of(schema, &version, &kind)
        .ok_or_else(|| ProtobufError::Unsupported(format!("{kind} of {version}")))?;
    let message = Message {
        schema,
        of,
        within: &[],
        depth: 0,
    };
    let mut document = Map::new();
    message.read(raw, &mut document, &kind)?;
    document.insert("kind".to_owned(), kind.into());
    document.insert("apiVersion".to_owned(), version.into());
    Ok(Value::Object(document).to_string().into_bytes())
}

/// The struct of a kind. Options are the same in each version.
fn kind_of<'s>(schema: &'s Schema, version: &str, kind: &str) -> Option<&'s Struct> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let mut structs = schema.structs();
    let own = structs.find(|of| {
        let name = of.kind.as_ref();
        name.is_some_and(|name| name.kind == kind && name.group == group && name.version == version)
    });
    own.or_else(|| schema.get(schema.find(&format!("meta.v1.{kind}"))?))
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

/// A message that is read: its schema and struct, and the fields through which the struct has the
/// message, if it is that of an embedded struct.
#[derive(Clone, Copy)]
struct Message<'m> {
    schema: &'m Schema,
    of: &'m Struct,
    within: &'m [u32],
    depth: usize,
}

impl Message<'_> {
    /// Reads the fields of the message into the members of its struct. Error messages show `path`.
    fn read(
        self,
        bytes: &[u8],
        members: &mut Map<String, Value>,
        path: &str,
    ) -> Result<(), ProtobufError> {
        if self.depth > MAX_DEPTH {
            return Err(malformed(format!(
                "it is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, piece)) = reader.next()? {
            let fields = self.of.fields();
            let own = fields.iter().find(|field| {
                field.number == Some(number) && field.embedded_numbers == self.within
            });
            if let Some(field) = own {
                let path = format!("{path}.{}", field.name);
                self.add(members, field, piece, &path)?;
                continue;
            }
            let inner = [self.within, &[number]].concat();
            let is_embedded = fields
                .iter()
                .any(|f| f.embedded_numbers.starts_with(&inner));
            let (true, Piece::Bytes(bytes)) = (is_embedded, piece) else {
                let what = format!("field {number} of {path}");
                return Err(ProtobufError::Unsupported(what));
            };
            let message = Message {
                within: &inner,
                depth: self.depth + 1,
                ..self
            };
            message.read(bytes, members, path)?;
        }
        Ok(())
    }

    /// Adds the value of a field. Lists and maps arrive one item at a time.
    fn add(
        self,
        members: &mut Map<String, Value>,
        field: &Field,
        piece: Piece<'_>,
        path: &str,
    ) -> Result<(), ProtobufError> {
        match &field.of.shape {
            Shape::List(item) => {
                let item = self.value(item, piece, path)?;
                let items = members.entry(&*field.name).or_insert_with(|| json!([]));
                if let Value::Array(items) = items {
                    items.push(item);
                }
            }
            Shape::Map(item) => {
                let Piece::Bytes(bytes) = piece else {
                    return Err(of_another_type(path));
                };
                let (key, value) = entry(bytes, path)?;
                let value = self.map_value(item, value, path)?;
                let entries = members.entry(&*field.name).or_insert_with(|| json!({}));
                if let Value::Object(entries) = entries {
                    entries.insert(key, value);
                }
            }
            _ => {
                let value = self.value(&field.of, piece, path)?;
                members.insert(field.name.clone(), value);
            }
        }
        Ok(())
    }

    /// The value of an entry of a map. A list there is a message with its items.
    fn map_value(
        self,
        of: &Type,
        value: Option<Piece<'_>>,
        path: &str,
    ) -> Result<Value, ProtobufError> {
        match (&of.shape, value) {
            (Shape::List(item), Some(Piece::Bytes(bytes))) => {
                let mut items = Vec::new();
                let mut reader = Reader::new(bytes);
                while let Some((1, piece)) = reader.next()? {
                    items.push(self.value(item, piece, path)?);
                }
                Ok(items.into())
            }
            (_, Some(piece)) => self.value(of, piece, path),
            (_, None) => Ok(Value::Null),
        }
    }

    fn value(self, of: &Type, piece: Piece<'_>, path: &str) -> Result<Value, ProtobufError> {
        Ok(match (&of.shape, piece) {
            (Shape::Scalar(Scalar::Bool), Piece::Number(number)) => (number != 0).into(),
            // Negative numbers arrive in two's complement, as large positive ones.
            (Shape::Scalar(Scalar::Int32 | Scalar::Int64), Piece::Number(number)) => {
                (number as i64).into()
            }
            (Shape::Scalar(Scalar::Float64), Piece::Number(bits)) => f64::from_bits(bits).into(),
            (Shape::Scalar(Scalar::String), Piece::Bytes(bytes)) => utf8(bytes, path)?.into(),
            (Shape::Scalar(Scalar::Bytes), Piece::Bytes(bytes)) => STANDARD.encode(bytes).into(),
            (Shape::Scalar(Scalar::Time), Piece::Bytes(bytes)) => {
                time(bytes, "%Y-%m-%dT%H:%M:%SZ", path)?
            }
            (Shape::Scalar(Scalar::MicroTime), Piece::Bytes(bytes)) => {
                time(bytes, "%Y-%m-%dT%H:%M:%S%.6fZ", path)?
            }
            (Shape::Scalar(Scalar::Duration), Piece::Bytes(bytes)) => {
                let [nanoseconds, _] = numbers(bytes)?;
                format!("{}ns", nanoseconds as i64).into()
            }
            (Shape::Scalar(Scalar::IntOrString), Piece::Bytes(bytes)) => int_or_text(bytes, path)?,
            (Shape::Scalar(Scalar::Quantity), Piece::Bytes(bytes)) => {
                match first_bytes(bytes, 1)?.unwrap_or_default() {
                    b"" => Value::Null,
                    text => utf8(text, path)?.into(),
                }
            }
            (Shape::Object, Piece::Bytes(bytes)) => raw_json(bytes, path)?,
            (Shape::Any, Piece::Bytes(bytes)) => self.any(of, bytes, path)?,
            (Shape::Struct(id), Piece::Bytes(bytes)) => {
                let Some(of) = self.schema.get(*id) else {
                    return Err(of_another_type(path));
                };
                let message = Message {
                    of,
                    within: &[],
                    depth: self.depth + 1,
                    ..self
                };
                let mut members = Map::new();
                message.read(bytes, &mut members, path)?;
                Value::Object(members)
            }
            _ => return Err(of_another_type(path)),
        })
    }

    /// A value of several forms. Any JSON is a message around its text; the others have a field for
    /// each form, one of which is a schema.
    fn any(self, of: &Type, bytes: &[u8], path: &str) -> Result<Value, ProtobufError> {
        let name = of.schema_name.map_or("", |(_, name)| name);
        if name == "JSON" {
            return raw_json(bytes, path);
        }
        let unsupported = || ProtobufError::Unsupported(path.to_owned());
        let schema = self.schema.find("apiextensions.v1.JSONSchemaProps");
        let of_schema = Type {
            shape: Shape::Struct(schema.ok_or_else(unsupported)?),
            is_pointer: false,
            go_name: String::new(),
            values: Vec::new(),
            schema_name: None,
        };
        let mut value = Value::Null;
        let mut reader = Reader::new(bytes);
        while let Some((number, piece)) = reader.next()? {
            match (name, number, piece) {
                ("JSONSchemaPropsOrBool", 1, Piece::Number(allows)) => {
                    if value.is_null() {
                        value = (allows != 0).into();
                    }
                }
                ("JSONSchemaPropsOrBool", 2, piece)
                | ("JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray", 1, piece) => {
                    value = self.value(&of_schema, piece, path)?;
                }
                ("JSONSchemaPropsOrArray", 2, piece) => {
                    push(&mut value, self.value(&of_schema, piece, path)?);
                }
                ("JSONSchemaPropsOrStringArray", 2, Piece::Bytes(text)) => {
                    push(&mut value, utf8(text, path)?.into());
                }
                _ => return Err(unsupported()),
            }
        }
        Ok(value)
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

fn of_another_type(path: &str) -> ProtobufError {
    malformed(format!("{path} is not of its type"))
}

/// The key and value of a map entry.
fn entry<'b>(bytes: &'b [u8], path: &str) -> Result<(String, Option<Piece<'b>>), ProtobufError> {
    let (mut key, mut value) = ("", None);
    let mut reader = Reader::new(bytes);
    while let Some((number, piece)) = reader.next()? {
        match (number, piece) {
            (1, Piece::Bytes(bytes)) => key = utf8(bytes, path)?,
            (2, piece) => value = Some(piece),
            _ => {}
        }
    }
    Ok((key.to_owned(), value))
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

/// Seconds and nanoseconds since 1970. An empty message is the zero time.
fn time(bytes: &[u8], form: &str, path: &str) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let [seconds, nanoseconds] = numbers(bytes)?;
    let time = i32::try_from(nanoseconds)
        .ok()
        .and_then(|nanoseconds| Timestamp::new(seconds as i64, nanoseconds).ok())
        .ok_or_else(|| malformed(format!("{path} is no time")))?;
    Ok(time.strftime(form).to_string().into())
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
fn raw_json(bytes: &[u8], path: &str) -> Result<Value, ProtobufError> {
    let Some(raw) = first_bytes(bytes, 1)?.filter(|raw| !raw.is_empty()) else {
        return Ok(Value::Null);
    };
    let parsed = super::decode::decode_value(raw, super::decode::BodyFormat::Json);
    let (value, _) = parsed.map_err(|why| malformed(format!("{path}: {why}")))?;
    Ok(value)
}
