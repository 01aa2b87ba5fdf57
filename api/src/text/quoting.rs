//! Values and texts as messages show them: quoted as in Go, printed as in Go, and cut (API-147).

use std::fmt::Write as _;

use serde_json::Value;

use super::truncation::truncated_display;

/// The limit on a value, a detail or a quoted text inside a message, in bytes.
pub(crate) const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// Returns a value as messages print it: texts are quoted as in Go, everything else is compact JSON
/// (API-147). Long values are cut.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(go_number).unwrap_or_default()
        }
        other => beginning(other),
    }
}

/// Formats a float as Go does, also one without digits.
pub fn go_double(number: f64) -> String {
    match number {
        of if of.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        of => go_number(of),
    }
}

/// Formats a floating-point number as Go does: `3`, `1.5`, `1e+06`.
pub fn go_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{number}")
}

/// Returns the part of a text that messages show.
pub fn beginning(text: impl std::fmt::Display) -> String {
    truncated_display(text, MAX_SHOWN_BYTES)
}

/// Quotes text with Go's escapes (`%q`). Long texts are cut.
pub fn go_quote(text: &str) -> String {
    beginning(GoQuoted(text))
}

/// Text that is formatted in double quotes with Go's escapes (`%q`), at any length.
pub struct GoQuoted<'t>(pub &'t str);

impl std::fmt::Display for GoQuoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\""),
                '\\' => f.write_str("\\\\"),
                '\x07' => f.write_str("\\a"),
                '\x08' => f.write_str("\\b"),
                '\x0c' => f.write_str("\\f"),
                '\n' => f.write_str("\\n"),
                '\r' => f.write_str("\\r"),
                '\t' => f.write_str("\\t"),
                '\x0b' => f.write_str("\\v"),
                ' '..='~' => f.write_char(c),
                '\0'..='\x7f' => write!(f, "\\x{:02x}", u32::from(c)),
                _ if is_go_printable(c) => f.write_char(c),
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c)),
                _ => write!(f, "\\U{:08x}", u32::from(c)),
            }?;
        }
        f.write_char('"')
    }
}

/// Returns whether Go prints a character unescaped. Beyond ASCII the standard library's table
/// decides. A letter before the character keeps the library from escaping combining marks, which Go
/// prints.
pub fn is_go_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let mut pair = String::from("a");
    pair.push(c);
    pair.escape_debug().nth(1) == Some(c)
}
