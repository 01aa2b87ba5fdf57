//! The canonical form of custom resources: the JSON that Go prints of the values that it has read.

use serde_json::{Map, Number, Value};

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// From this magnitude on Go prints floats with an exponent.
const EXPONENT: f64 = 1e21;

/// Brings the numbers of a value into the form that a second reading keeps: Go prints a float that
/// is whole like an integer, and reads it as one if it fits into 64 bits (CRD-117).
pub fn canonicalize_numbers(members: &mut Map<String, Value>) {
    members.values_mut().for_each(canonicalize);
}

/// Returns a value in this form.
pub(crate) fn printed(value: &Value) -> Value {
    let mut value = value.clone();
    canonicalize(&mut value);
    value
}

fn canonicalize(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            if let Some(printed) = number.as_f64().and_then(canonical) {
                *number = printed;
            }
        }
        Value::Array(items) => stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
            items.iter_mut().for_each(canonicalize);
        }),
        Value::Object(members) => stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
            canonicalize_numbers(members);
        }),
        _ => {}
    }
}

/// Returns a float as Go reads it after it has printed it.
fn canonical(float: f64) -> Option<Number> {
    if float.fract() != 0.0 || float.abs() >= EXPONENT {
        return Number::from_f64(float);
    }
    // The digits that identify the float, with zeros up to the point.
    let printed = format!("{float}");
    match printed.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(float),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// CRD-117.
    #[test]
    fn numbers_are_read_again_as_they_are() {
        for (read, printed) in [
            ("9223372036854775807", "9223372036854775807"),
            ("0.0", "0"),
            ("-0.0", "0"),
            ("7.0", "7"),
            ("1e3", "1000"),
            ("1.5", "1.5"),
            ("1e21", "1e+21"),
        ] {
            let mut value = json!({"a": [serde_json::from_str::<Value>(read).unwrap()]});
            canonicalize(&mut value);
            let once = value.clone();
            canonicalize(&mut value);
            assert_eq!(once, value);
            assert_eq!(value["a"][0].to_string(), printed);
        }
    }
}
