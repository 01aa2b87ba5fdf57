//! JSON of an object as values, as its shape declares them (CRD-170, CRD-171).

use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE;
use base64::{DecodeError, Engine as _};
use serde_json::{Map as Members, Value as Json};

use super::super::shape::{FieldShape, Kind, ObjectShape, Shape, unescaped};
use super::times::{read_date, read_date_time, read_span};
use super::{JsonList, JsonMap, List, ListOf, Map, MapOf, Outcome, Text, Value, error};

/// Returns a value as its shape declares it.
pub(super) fn value_of<'v>(json: &'v Json, shape: &'v Shape) -> Outcome<Value<'v>> {
    match (&shape.kind, json) {
        (Kind::Any, json) => Ok(plain(json)),
        (_, Json::Null) if shape.is_nullable => Ok(Value::Null),
        (_, Json::Null) => error("invalid data, got null for schema with nullable=false"),
        (Kind::String, Json::String(text)) => Ok(Value::String(Text::Borrowed(text))),
        (Kind::Int, Json::Number(number)) if number.is_i64() => {
            Ok(Value::Int(number.as_i64().unwrap_or_default()))
        }
        (Kind::Double, Json::Number(number)) => {
            Ok(Value::Double(number.as_f64().unwrap_or_default()))
        }
        (Kind::Bool, Json::Bool(of)) => Ok(Value::Bool(*of)),
        (Kind::Object(_) | Kind::Map(_), Json::Object(members)) => map_of(members, shape),
        (Kind::List(Some(of)), Json::Array(items)) => Ok(Value::List(List::Json(JsonList {
            items,
            of: Some(ListOf(of)),
        }))),
        (Kind::IntOrString, Json::String(text)) => Ok(Value::String(Text::Borrowed(text))),
        (Kind::IntOrString, Json::Number(number)) if number.is_i64() => {
            Ok(Value::Int(number.as_i64().unwrap_or_default()))
        }
        (Kind::Preserved, json) => Ok(Value::Preserved(json)),
        (kind, json) => formatted(kind, json),
    }
}

/// Returns the members of an object as a value.
pub(super) fn map_of<'v>(
    members: &'v Members<String, Json>,
    shape: &'v Shape,
) -> Outcome<Value<'v>> {
    let of = match &shape.kind {
        Kind::Object(of) => MapOf::Fields(of),
        Kind::Map(of) => MapOf::Values(of),
        _ => return error("invalid data, the provided schema is not that of an object"),
    };
    Ok(Value::Map(Map::Json(JsonMap { members, of })))
}

/// Returns a text whose format has a type of its own, or the error for JSON of another type.
fn formatted<'v>(kind: &Kind, json: &'v Json) -> Outcome<Value<'v>> {
    let found = || match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    let text = match (kind, json) {
        (Kind::Duration | Kind::Date | Kind::DateTime | Kind::Bytes, Json::String(text)) => text,
        _ => {
            return error(match kind {
                Kind::IntOrString => {
                    "invalid data, expected XIntOrString value to be either a string or integer"
                        .to_owned()
                }
                Kind::Object(_) | Kind::Map(_) => {
                    "invalid data, expected a map for the provided schema with type=object"
                        .to_owned()
                }
                Kind::List(None) => {
                    "invalid array type, expected Items with a non-empty Schema".to_owned()
                }
                Kind::List(_) => {
                    "invalid data, expected an array for the provided schema with type=array"
                        .to_owned()
                }
                Kind::Double => format!("invalid data, expected float, got {}", found()),
                Kind::Int => format!("invalid data, expected int, got {}", found()),
                Kind::Bool => format!("invalid data, expected bool, got {}", found()),
                Kind::Unknown(name) => format!(
                    "invalid type, expected object, array, number, integer, boolean or string, \
                     or no type with x-kubernetes-int-or-string or \
                     x-kubernetes-preserve-unknown-fields is true, got {name}"
                ),
                _ => format!("invalid data, expected string, got {}", found()),
            });
        }
    };
    match kind {
        Kind::Duration => match read_span(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => error(format!(
                "Invalid duration {text}: unable to parse {text} as duration"
            )),
        },
        Kind::Bytes => match URL_SAFE.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(Arc::from(bytes))),
            Err(why) => {
                let at = match why {
                    DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                    _ => text.len(),
                };
                error(format!(
                    "Invalid byte formatted string {text}: illegal base64 data at input byte {at}"
                ))
            }
        },
        _ => {
            let is_date = matches!(kind, Kind::Date);
            let read = if is_date { read_date } else { read_date_time };
            let name = if is_date { "date" } else { "date-time" };
            match read(text) {
                Ok(time) => Ok(Value::Timestamp(time)),
                Err(why) => error(format!("Invalid {name} formatted string {text}: {why}")),
            }
        }
    }
}

/// Returns JSON without a schema as a value.
fn plain(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(of) => Value::Bool(*of),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Uint(number),
            _ => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Json(JsonList { items, of: None })),
        Json::Object(members) => Value::Map(Map::Json(JsonMap {
            members,
            of: MapOf::Any,
        })),
    }
}

/// Returns the member of an object with this name in expressions.
#[inline]
pub(super) fn member_of<'v>(
    members: &'v Members<String, Json>,
    of: &'v ObjectShape,
    name: &str,
) -> Outcome<Option<Value<'v>>> {
    match of.member(name) {
        Some(field) => present(members, of, field),
        None => hidden(members, of, name),
    }
}

fn present<'v>(
    members: &'v Members<String, Json>,
    of: &ObjectShape,
    field: &'v FieldShape,
) -> Outcome<Option<Value<'v>>> {
    match members.get(&*field.name) {
        // A null member of an object counts as absent.
        None | Some(Json::Null) if of.has_properties => Ok(None),
        None => Ok(None),
        Some(value) => value_of(value, &field.shape).map(Some),
    }
}

/// Looks a member up whose name can't be written in expressions, or whose name is not escaped.
fn hidden<'v>(
    members: &'v Members<String, Json>,
    of: &'v ObjectShape,
    name: &str,
) -> Outcome<Option<Value<'v>>> {
    let Some(name) = unescaped(name) else {
        return Ok(None);
    };
    match of.property(&name) {
        Some(field) => present(members, of, field),
        None => Ok(None),
    }
}
