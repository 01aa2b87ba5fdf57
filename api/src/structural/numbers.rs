//! How schemas see numbers: floats that are whole, and the ranges of types and formats.

use serde_json::Value;

/// Whether two values are the same. A float that is whole is the same as the whole number.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => left == right,
    }
}

/// Why a number is not in the range of its type and format.
pub(super) fn out_of_range(number: f64, kind: &str, format: &str) -> Option<String> {
    let is_outside = match (kind, format) {
        ("integer", "int32") => {
            number.fract() != 0.0 || number > f64::from(i32::MAX) || number < f64::from(i32::MIN)
        }
        ("integer", _) => number.fract() != 0.0,
        ("number", "float") => number.abs() > f64::from(f32::MAX),
        _ => false,
    };
    is_outside.then(|| match (kind, format) {
        ("integer", "int32" | "int64") | ("number", "float") => format!("with format {format}"),
        _ => "(default format)".to_owned(),
    })
}

/// Whether a factor divides a number, but for what floats get wrong.
pub(super) fn is_multiple(number: f64, factor: f64) -> bool {
    let quotient = if factor < 1.0 {
        1.0 / factor * number
    } else {
        number / factor
    };
    let nearest = quotient.round();
    (quotient - nearest).abs() < 1e-9 * quotient.abs().max(1.0)
}

pub(super) fn number_value(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    match is_whole {
        true => Value::from(number as i64),
        false => Value::from(number),
    }
}
