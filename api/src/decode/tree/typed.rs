//! Typed values: validation, Go's error messages, and Go's printed form.

use std::fmt;

use serde_json::{Map, Value};

use super::{Guide, Node, Numbers, Reading, is_minus_zero};
use crate::quantity::{self, QuantityError};
use crate::schema::{Field, Scalar, Shape, Struct, Type};
use crate::text::go_time::{self, Decimals};
use crate::text::{base64, floats, go_duration, json_type};

/// A field as Go's errors name it: with the struct that has it, and without list indexes or map
/// keys.
pub(super) struct GoPath<'g> {
    pub above: Option<&'g GoPath<'g>>,
    pub owner: &'g Struct,
    pub field: &'g Field,
}

impl fmt::Display for GoPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            write!(f, "{above}.")?;
        }
        write!(f, "{}{}", self.field.embedded_in, self.field.name)
    }
}

/// Returns the error for `found` at the field `at` of the struct `owner`.
pub(super) fn type_error(
    found: impl fmt::Display,
    wanted: &str,
    owner: &Struct,
    at: impl fmt::Display,
) -> String {
    let owner = &owner.name;
    format!("json: cannot unmarshal {found} into Go struct field {owner}.{at} of type {wanted}")
}

impl Node<'_> {
    /// Returns a scalar as its type prints it. Records a value that does not fit the type, and
    /// returns null for it. `fraction` is the value of a number that was not written as an integer.
    pub(super) fn scalar(self, value: Value, fraction: Option<f64>) -> Value {
        let Guide::Type(_, of, at) = self.guide else {
            return value;
        };
        if value.is_null() {
            return value;
        }
        let fraction = match self.reading.numbers {
            Numbers::AsWritten | Numbers::Kept => fraction.filter(|number| !is_minus_zero(*number)),
            Numbers::ByValue => fraction.filter(|number| number.fract() != 0.0),
        };
        match &of.shape {
            Shape::Any => match of.schema_or {
                Some((_, or)) => self.schema_or_single(or, value),
                None => value,
            },
            Shape::Object => value,
            Shape::Scalar(scalar) => self.typed_scalar(value, fraction, *scalar),
            Shape::List(_) | Shape::Map(_) | Shape::Struct(_) => {
                self.reading.refuse_type(json_type(&value), &of.go_name, at);
                Value::Null
            }
        }
    }

    /// Returns whether a quantity is expected.
    pub(super) fn is_quantity(&self) -> bool {
        matches!(&self.guide, Guide::Type(_, of, _) if of.shape == Shape::Scalar(Scalar::Quantity))
    }

    fn typed_scalar(self, value: Value, fraction: Option<f64>, scalar: Scalar) -> Value {
        let Guide::Type(_, of, at) = self.guide else {
            return value;
        };
        let reading = self.reading;
        let found = |value: &Value| match (value, fraction) {
            (Value::Number(_), Some(number)) => format!("number {number:?}"),
            (Value::Number(number), None) => format!("number {number}"),
            _ => json_type(value).to_owned(),
        };
        match (scalar, value) {
            (Scalar::Float64, Value::Number(number)) => floats::as_float(number).into(),
            (Scalar::String, value @ Value::String(_))
            | (Scalar::Bool, value @ Value::Bool(_))
            | (Scalar::IntOrString, value @ Value::String(_)) => value,
            (Scalar::Int32 | Scalar::IntOrString, value)
                if fraction.is_none() && is_int32(&value) =>
            {
                value
            }
            (Scalar::Int64, value) if fraction.is_none() && value.is_i64() => value,
            (Scalar::Bytes, Value::String(text)) => match base64::canonical(text) {
                Ok(text) => text.into(),
                Err(why) => {
                    if reading.decoder_error.is_none() {
                        reading.type_error.get_or_insert(why);
                    }
                    Value::Null
                }
            },
            (Scalar::Time, Value::String(text)) => {
                reading.parsed_time(go_time::canonical(&text, Decimals::Any))
            }
            (Scalar::MicroTime, Value::String(text)) => {
                reading.parsed_time(go_time::canonical(&text, Decimals::Six))
            }
            (Scalar::Duration, Value::String(text)) => {
                reading.parsed(go_duration::canonical(&text))
            }
            (Scalar::Quantity, Value::String(text)) => reading.quantity(&text),
            (Scalar::Quantity, value) => reading.quantity(&quantity::written(&value)),
            (Scalar::Time | Scalar::MicroTime | Scalar::Duration, value) => {
                reading.refuse(|| type_error(json_type(&value), "string", at.owner, at));
                Value::Null
            }
            (Scalar::IntOrString, value) => {
                reading.refuse(|| type_error(found(&value), "int32", at.owner, at));
                Value::Null
            }
            (Scalar::Int32 | Scalar::Int64 | Scalar::Float64, value) => {
                reading.refuse_type(found(&value), &of.go_name, at);
                Value::Null
            }
            (Scalar::String | Scalar::Bool | Scalar::Bytes, value) => {
                reading.refuse_type(json_type(&value), &of.go_name, at);
                Value::Null
            }
        }
    }

    /// Records an error about a list or an object that does not fit the type. Returns null.
    pub(super) fn refuse_compound(self, found: &'static str) -> Value {
        let Guide::Type(_, of, at) = self.guide else {
            return Value::Null;
        };
        let reading = self.reading;
        match &of.shape {
            Shape::Scalar(Scalar::Time | Scalar::MicroTime | Scalar::Duration) => {
                reading.refuse(|| type_error(found, "string", at.owner, at));
            }
            Shape::Scalar(Scalar::IntOrString) => {
                reading.refuse(|| type_error(found, "int32", at.owner, at));
            }
            Shape::Scalar(Scalar::Quantity) => reading.refuse(|| QuantityError::Form.to_string()),
            _ => reading.refuse_type(found, &of.go_name, at),
        }
        Value::Null
    }
}

impl Reading {
    /// Returns a parsed time. The zero time becomes null (D-50).
    fn parsed_time(&mut self, result: Result<Option<String>, String>) -> Value {
        result
            .transpose()
            .map_or(Value::Null, |result| self.parsed(result))
    }

    /// Returns a quantity as Go prints it.
    pub(super) fn quantity(&mut self, text: &str) -> Value {
        self.parsed(quantity::printed(text).map_err(|error| error.to_string()))
    }

    /// Returns the text that a custom decoder produced, or records its error.
    fn parsed(&mut self, result: Result<String, String>) -> Value {
        match result {
            Ok(text) => text.into(),
            Err(why) => {
                self.refuse(|| why);
                Value::Null
            }
        }
    }
}

fn is_int32(value: &Value) -> bool {
    value
        .as_i64()
        .is_some_and(|number| i32::try_from(number).is_ok())
}

/// Returns whether null keeps the value of an earlier duplicate member. For other types it removes
/// that value.
pub(super) fn keeps_on_null(of: &Type) -> bool {
    let is_kept = match &of.shape {
        Shape::Scalar(scalar) => matches!(
            scalar,
            Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float64
        ),
        Shape::Struct(_) | Shape::Object => true,
        Shape::List(_) | Shape::Map(_) | Shape::Any => false,
    };
    is_kept && !of.is_pointer
}

/// Returns the value that null stands for in a list or map.
pub(in crate::decode) fn zero(of: &Type) -> Value {
    if of.is_pointer {
        return Value::Null;
    }
    match &of.shape {
        Shape::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        Shape::Scalar(Scalar::Bool) => false.into(),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString) => {
            0.into()
        }
        Shape::Scalar(Scalar::Quantity) => "0".into(),
        Shape::Scalar(Scalar::Duration) => "0s".into(),
        Shape::Struct(_) => Value::Object(Map::new()),
        Shape::Scalar(Scalar::Time | Scalar::MicroTime)
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::Object
        | Shape::Any => Value::Null,
    }
}
