//! Numbers as Go reads and compares them: 64-bit integers and floats.

use serde_json::{Number, Value};

/// The integers that a float holds exactly, in both directions.
const EXACT: f64 = 9_007_199_254_740_991.0; // 2^53 - 1

/// 2^63, the first float that is too large for an integer.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// The relative difference below which a float counts as whole.
const EPSILON: f64 = 1e-9;

/// A number as Go's decoder makes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GoNumber {
    Int(i64),
    Float(f64),
}

impl GoNumber {
    pub fn of(number: &Number) -> GoNumber {
        match number.as_i64() {
            Some(whole) => GoNumber::Int(whole),
            None => GoNumber::Float(number.as_f64().unwrap_or_default()),
        }
    }

    pub fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as in Go")]
            GoNumber::Int(whole) => whole as f64,
            GoNumber::Float(float) => float,
        }
    }
}

/// Returns whether a float counts as an integer, within the precision of floats.
pub(super) fn is_whole(float: f64) -> bool {
    if !float.is_finite() || float.abs() > EXACT {
        return false;
    }
    let whole = float.trunc();
    if float == whole {
        return true;
    }
    // Of a negative float Go makes a very large unsigned integer, which is never near.
    let difference = (float - whole).abs();
    float > 0.0 && whole > 0.0 && difference / (float + whole) < EPSILON
}

/// Returns whether a value equals one of an enum. As in Go, it is converted to the type of the
/// latter first: a float is cut, and an integer becomes the character of this number.
pub(super) fn is_value_of_enum(value: &Value, known: &Value) -> bool {
    match (value, known) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(known)) => {
            match (GoNumber::of(value), GoNumber::of(known)) {
                (GoNumber::Int(value), GoNumber::Int(known)) => value == known,
                (GoNumber::Float(value), GoNumber::Int(known)) => cut(value) == known,
                (value, GoNumber::Float(known)) => value.float() == known,
            }
        }
        (Value::Number(value), Value::String(known)) => {
            let letter = value.as_i64().and_then(|number| u32::try_from(number).ok());
            letter
                .and_then(char::from_u32)
                .is_some_and(|letter| known.chars().eq([letter]))
        }
        (value, known) => value == known,
    }
}

/// Cuts a float to an integer. One that is out of range becomes the smallest integer, as on most
/// machines that run kube-apiserver.
pub(crate) fn cut(float: f64) -> i64 {
    match (-TOO_LARGE..TOO_LARGE).contains(&float) {
        #[expect(clippy::cast_possible_truncation, reason = "it is in the range")]
        true => float as i64,
        false => i64::MIN,
    }
}

/// Returns why a number is not in the range of its type and format, if so.
pub(super) fn out_of_range(number: GoNumber, kind: &str, format: &str) -> Option<String> {
    let float = number.float();
    let is_integer = match number {
        GoNumber::Int(_) => true,
        GoNumber::Float(float) => float.fract() == 0.0 && (-TOO_LARGE..TOO_LARGE).contains(&float),
    };
    let is_outside = match (kind, format) {
        ("integer", "int32") => {
            !is_integer || float > f64::from(i32::MAX) || float < f64::from(i32::MIN)
        }
        ("integer", _) => !is_integer,
        ("number", "float") => float.abs() > f64::from(f32::MAX),
        _ => false,
    };
    is_outside.then(|| match (kind, format) {
        (_, "") => "(default format)".to_owned(),
        (_, format) => format!("with format {format}"),
    })
}

/// Returns whether a factor divides a float, within the precision of floats.
pub(super) fn is_multiple(number: f64, factor: f64) -> bool {
    is_whole(if factor < 1.0 {
        1.0 / factor * number
    } else {
        number / factor
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_near_an_integer_count_as_one() {
        for (float, whole) in [
            (1.0, true),
            (1.000_000_000_1, true),
            (1.000_001, false),
            (-3.0, true),
            (-1.000_000_000_1, false),
            (0.5, false),
            (1e300, false),
        ] {
            assert_eq!(is_whole(float), whole, "{float}");
        }
        assert!(is_multiple(0.3, 0.1) && !is_multiple(0.35, 0.1));
    }

    #[test]
    fn values_are_converted_to_the_types_of_an_enum() {
        for (value, known, is_one) in [
            (json!(1), json!(1.0), true),
            (json!(1.5), json!(1), true),
            (json!(97), json!("a"), true),
            (json!([1]), json!([1.0]), false),
            (json!(null), json!(null), false),
            (json!("1"), json!(1), false),
        ] {
            assert_eq!(is_value_of_enum(&value, &known), is_one, "{value} {known}");
        }
    }
}
