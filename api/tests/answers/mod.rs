//! Texts and numbers in the form of the recorded answers about CEL, which
//! `tools/facts/cel_reference.go` documents. `tools/second-opinion` prints with it, too.

use std::fmt::Write as _;

/// Prints a text.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            ' '..='~' => out.push(letter),
            other => {
                // A text takes all that is written.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(other));
            }
        }
    }
    out.push('"');
    out
}

/// Prints a number.
pub fn double(number: f64) -> String {
    match number {
        of if of.is_nan() => "dNaN".to_owned(),
        f64::INFINITY => "d+Inf".to_owned(),
        f64::NEG_INFINITY => "d-Inf".to_owned(),
        of => format!("d{of:e}"),
    }
}
