//! Values in Go's format, as errors of strategic merge patches show them (API-165).

use std::fmt;

use serde_json::{Map, Number, Value};

use crate::text::go_kind;
use crate::text::truncation::truncated_display;

/// The limit on the values that one error shows.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// A value, formatted like `%v`.
pub(super) struct Printed<'v>(pub &'v Value);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => print_number(number, f),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => write!(f, "{}", List(items)),
            Value::Object(members) => write!(f, "{}", Members(members)),
        }
    }
}

/// The members of an object, formatted like `%v`.
pub(super) struct Members<'m>(pub &'m Map<String, Value>);

impl fmt::Display for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("map[")?;
        for (place, (name, value)) in self.0.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{name}:{}", Printed(value))?;
        }
        f.write_str("]")
    }
}

/// The items of a list, formatted like `%v`.
pub(super) struct List<'v>(pub &'v [Value]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (place, item) in self.0.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{}", Printed(item))?;
        }
        f.write_str("]")
    }
}

/// A value, formatted like `%s`, which marks values that are not texts.
pub(super) struct AsText<'v>(pub &'v Value);

impl fmt::Display for AsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("%!s(<nil>)"),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    write!(f, "{space}{}", AsText(item))?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                f.write_str("map[")?;
                for (place, (name, value)) in members.iter().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    write!(f, "{space}{name}:{}", AsText(value))?;
                }
                f.write_str("]")
            }
            value => write!(f, "%!s({}={})", go_kind(value), Printed(value)),
        }
    }
}

/// Writes a number like Go: one that is not an integer, or too large, is a float.
fn print_number(number: &Number, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(whole) = number.as_i64() {
        return write!(f, "{whole}");
    }
    let float = number.as_f64().unwrap_or_default();
    // The digits and exponent of the shortest text that parses to this number.
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        write!(f, "{float}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{digits}e{sign}{:02}", exponent.abs())
    }
}

/// Returns the Go type of a value whose type is unknown.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        scalar => go_kind(scalar),
    }
}

/// Returns the text of an error, cut to its limit.
pub(super) fn shown(text: impl fmt::Display) -> String {
    truncated_display(text, MAX_SHOWN_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_formatted_as_in_go() {
        let value = json!({"b": [1, "x", null, true, {}], "a": {"c": 1.5}});
        assert_eq!(
            Printed(&value).to_string(),
            "map[a:map[c:1.5] b:[1 x <nil> true map[]]]"
        );
        assert_eq!(
            AsText(&value).to_string(),
            "map[a:map[c:%!s(float64=1.5)] b:[%!s(int64=1) x %!s(<nil>) %!s(bool=true) map[]]]"
        );
        for (number, text) in [
            (1.5, "1.5"),
            (0.00001, "1e-05"),
            (0.0001, "0.0001"),
            (1234567.5, "1.2345675e+06"),
            (123456.5, "123456.5"),
            (1e30, "1e+30"),
            (-2.5e-9, "-2.5e-09"),
        ] {
            assert_eq!(Printed(&json!(number)).to_string(), text);
        }
    }

    #[test]
    fn long_values_are_cut() {
        let long = json!(vec!["word"; 100_000]);
        assert!(shown(Printed(&long)).len() <= MAX_SHOWN_BYTES + 8);
    }
}
