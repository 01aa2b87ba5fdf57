//! Single values as Go reads and prints them, for whoever has a tree already.

use super::go_time::Decimals;
use super::{go_duration, scalar, tree};
use crate::schema::Type;
use serde_json::{Number, Value};

/// A time in whole seconds. The zero time is none.
///
/// # Errors
/// Why it is none, in the words of Go.
pub fn time(text: &str) -> Result<Option<String>, String> {
    scalar::time(text, Decimals::Any)
}

/// A time with six decimals. The zero time is none.
///
/// # Errors
/// Why it is none, in the words of Go.
pub fn micro_time(text: &str) -> Result<Option<String>, String> {
    scalar::time(text, Decimals::Six)
}

/// A duration.
///
/// # Errors
/// Why it is none, in the words of Go.
pub fn duration(text: &str) -> Result<String, String> {
    go_duration::canonical(text)
}

/// Base64 in its canonical form.
///
/// # Errors
/// Where it is none, in the words of Go.
pub fn base64(text: String) -> Result<String, String> {
    scalar::base64(text)
}

/// A float as it is printed if it is a whole number of 64 bits.
pub fn float(number: f64) -> Option<Number> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0; // 2^63
    match number {
        number if number.fract() != 0.0 => None,
        number if (-LIMIT..LIMIT).contains(&number) => Some((number as i64).into()),
        number if (LIMIT..2.0 * LIMIT).contains(&number) => Some((number as u64).into()),
        _ => None,
    }
}

/// A number as a float holds and prints it.
pub fn as_float(number: Number) -> Number {
    let printed = number.as_f64();
    let printed = printed.and_then(|value| float(value).or_else(|| Number::from_f64(value)));
    printed.unwrap_or(number)
}

/// What null means in a list or a map of this type.
pub fn zero(of: &Type) -> Value {
    tree::zero(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go prints what it has read into a float64.
    #[test]
    fn whole_floats_are_printed_as_whole_numbers() {
        for (given, printed) in [
            ("3", "3"),
            ("-2.5", "-2.5"),
            ("9007199254740993", "9007199254740992"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775808"),
            ("1e18", "1000000000000000000"),
        ] {
            let number: Number = serde_json::from_str(given).unwrap();
            assert_eq!(as_float(number).to_string(), printed, "{given}");
        }
    }
}
