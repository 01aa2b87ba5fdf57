//! Floats as Go decodes and prints them.

use serde_json::Number;

/// Returns a float as the 64-bit integer that it equals, because Go prints it like one.
pub fn float(number: f64) -> Option<Number> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0; // 2^63
    match number {
        number if number.fract() != 0.0 => None,
        number if (-LIMIT..LIMIT).contains(&number) => Some((number as i64).into()),
        number if (LIMIT..2.0 * LIMIT).contains(&number) => Some((number as u64).into()),
        _ => None,
    }
}

/// Returns a number as a float64 holds it and Go prints it.
pub fn as_float(number: Number) -> Number {
    let printed = number.as_f64();
    let printed = printed.and_then(|value| float(value).or_else(|| Number::from_f64(value)));
    printed.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go prints a value of a float64 field.
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
