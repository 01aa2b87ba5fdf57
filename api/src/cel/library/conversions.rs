//! Conversions between types: `int`, `string` and the like.

use std::sync::Arc;

use super::super::values::times::{Time, printed_duration, read_time};
use super::super::values::value::{Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use super::networks::printed_cidr;
use crate::text::go_duration;
use crate::text::quoting::go_double;

/// Converts a value to the type with the name of the function.
pub(in super::super) fn convert<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    let [value] = arguments else {
        return no_overload();
    };
    match (name, value) {
        ("dyn", value)
        | ("int", value @ Value::Int(_))
        | ("uint", value @ Value::Uint(_))
        | ("double", value @ Value::Double(_))
        | ("string", value @ Value::String(_))
        | ("bytes", value @ Value::Bytes(_))
        | ("bool", value @ Value::Bool(_))
        | ("timestamp", value @ Value::Timestamp(_))
        | ("duration", value @ Value::Duration(_)) => Ok(value.clone()),
        ("type", value) => Ok(Value::Type(value.type_name().into())),
        ("string", value) => string(value, work),
        (name, Value::String(text)) => of_text(name, text, work),
        (name, value) => of_number(name, value),
    }
}

fn string<'v>(value: &Value<'v>, work: &Work) -> Outcome<Value<'v>> {
    let text = match value {
        Value::Bool(of) => of.to_string(),
        Value::Int(of) => of.to_string(),
        Value::Uint(of) => of.to_string(),
        Value::Double(of) => go_double(*of),
        Value::Timestamp(of) => of.printed(),
        Value::Duration(of) => printed_duration(*of),
        Value::Opaque(Opaque::Ip(of)) => of.to_string(),
        Value::Opaque(Opaque::Cidr(of, bits)) => printed_cidr(*of, *bits),
        Value::Bytes(bytes) => {
            work.make_bytes(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => return error("invalid UTF-8 in bytes, cannot convert to string"),
            }
        }
        _ => return no_overload(),
    };
    Ok(Value::text(text))
}

/// Returns the name of a type by the function that converts to it.
fn type_of(name: &str) -> &str {
    match name {
        "timestamp" => "google.protobuf.Timestamp",
        "duration" => "google.protobuf.Duration",
        other => other,
    }
}

fn of_text<'v>(name: &str, text: &str, work: &Work) -> Outcome<Value<'v>> {
    let value = match name {
        "int" => text.parse().ok().map(Value::Int),
        "uint" => {
            let unsigned = Some(text).filter(|text| !text.starts_with('+'));
            unsigned.and_then(|text| text.parse().ok()).map(Value::Uint)
        }
        "double" => double(text).map(Value::Double),
        "bool" => match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        "bytes" => {
            work.make_bytes(text.len())?;
            Some(Value::Bytes(Arc::from(text.as_bytes())))
        }
        "duration" => go_duration::parse(text).ok().map(Value::Duration),
        "timestamp" => Some(Value::Timestamp(read_time(text)?)),
        _ => return no_overload(),
    };
    match value {
        Some(value) => Ok(value),
        None => error(format!(
            "type conversion error from 'string' to '{}'",
            type_of(name)
        )),
    }
}

fn double(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        let number = hexadecimal(digits)?;
        return Some(if text.starts_with('-') {
            -number
        } else {
            number
        });
    }
    let number: f64 = text.parse().ok()?;
    let is_named = text.contains(['n', 'N']);
    (number.is_finite() || is_named).then_some(number)
}

/// Parses a hexadecimal float after its prefix: digits, perhaps with a point, and a power of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, power) = text.split_once(['p', 'P'])?;
    let mut power: i32 = power.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa: u64 = 0;
    let letters = whole.chars().map(|digit| (digit, 0));
    for (digit, scale) in letters.chain(fraction.chars().map(|digit| (digit, 4))) {
        let digit = u64::from(digit.to_digit(16)?);
        power = power.checked_sub(scale)?;
        match mantissa >> 60 {
            0 => mantissa = mantissa << 4 | digit,
            // Digits past these only decide how the last bit is rounded.
            _ => {
                mantissa |= u64::from(digit > 0);
                power = power.checked_add(4)?;
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "it is rounded")]
    let number = mantissa as f64 * f64::from(power).exp2();
    number.is_finite().then_some(number)
}

fn of_number<'v>(name: &str, value: &Value<'v>) -> Outcome<Value<'v>> {
    #[expect(clippy::cast_precision_loss, reason = "as the conversion of Go")]
    Ok(match (name, value) {
        ("int", Value::Uint(of)) => match i64::try_from(*of) {
            Ok(of) => Value::Int(of),
            Err(_) => return error("integer overflow"),
        },
        ("int", Value::Double(of)) => {
            if !of.is_finite() || *of <= i64::MIN as f64 || *of >= i64::MAX as f64 {
                return error("integer overflow");
            }
            #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
            Value::Int(*of as i64)
        }
        ("int", Value::Timestamp(of)) => Value::Int(of.seconds()),
        ("int", Value::Duration(of)) => Value::Int(*of),
        ("uint", Value::Int(of)) => match u64::try_from(*of) {
            Ok(of) => Value::Uint(of),
            Err(_) => return error("unsigned integer overflow"),
        },
        ("uint", Value::Double(of)) => {
            if !of.is_finite() || *of < 0.0 || *of >= u64::MAX as f64 {
                return error("unsigned integer overflow");
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is in range"
            )]
            Value::Uint(*of as u64)
        }
        ("double", Value::Int(of)) => Value::Double(*of as f64),
        ("double", Value::Uint(of)) => Value::Double(*of as f64),
        ("timestamp", Value::Int(of)) => Value::Timestamp(Time::of_seconds(*of)?),
        ("duration", Value::Int(_)) => {
            return error("type conversion error from 'int' to 'google.protobuf.Duration'");
        }
        _ => return no_overload(),
    })
}
