//! JSON as Go writes it, and the errors of Go's `encoding/json`.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};

use crate::deep::{MAX_DEPTH, is_deeper_than};
use crate::text::floats;

/// Writes compact JSON as Go does. Clients compare the text of values of any form, such as the data
/// of ControllerRevisions.
pub fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let mut serializer = serde_json::Serializer::with_formatter(out, HtmlSafe);
    // Writing strings and numbers into memory can't fail.
    let _ = value.serialize(&mut serializer);
}

/// Writes a value as [`write_json`] does, in fewer steps, because every object is written this way.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_text(out, name);
                out.push(b':');
                write_value(out, value);
            }
            out.push(b'}');
        }
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Number(_) => write_json(out, value),
    }
}

/// Writes a text in quotes as [`write_json`] does.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    let needs_escape =
        |byte: u8| (byte < 0x20) | matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
    if has_any(text, needs_escape) {
        return write_json(out, text);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Escapes JSON text as Go does, so that it is safe inside HTML and JavaScript: `<`, `>`, `&` and
/// Unicode's line separators become `\u` escapes.
struct HtmlSafe;

impl Formatter for HtmlSafe {
    /// Writes a float as Go does: without an exponent from a millionth to a sextillion. One that
    /// equals an integer of 64 bits keeps its point, because only the canonical form turns it into
    /// that integer.
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if floats::float(value).is_some_and(|whole| whole.is_i64()) {
            return CompactFormatter.write_f64(writer, value);
        }
        let magnitude = value.abs();
        if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(writer, "{digits}e+{exponent}")
            }
            _ => writer.write_all(text.as_bytes()),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_special = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
        if !fragment.as_bytes().iter().any(is_special) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (before, following) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut following = following.chars();
            if let Some(special) = following.next() {
                write!(writer, "\\u{:04x}", u32::from(special))?;
            }
            rest = following.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Returns JSON without white space and with Go's escapes, as Go prints a `json.RawMessage` inside
/// an object. Everything else keeps its spelling.
pub fn compacted(json: &str) -> Vec<u8> {
    let is_other = |byte: u8| {
        matches!(
            byte,
            b' ' | b'\t' | b'\r' | b'\n' | b'<' | b'>' | b'&' | 0xe2
        )
    };
    if !has_any(json, is_other) {
        return json.as_bytes().to_vec();
    }
    let mut out = Vec::with_capacity(json.len());
    let mut write = |part: &str| out.extend_from_slice(part.as_bytes());
    // The start of the part that is not written yet.
    let mut begin = 0;
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in json.bytes().enumerate() {
        if is_other(byte) && (!is_text || !byte.is_ascii_whitespace()) {
            let letter = json.get(at..).and_then(|rest| rest.chars().next());
            let letter = letter.unwrap_or_default();
            let is_special = matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
            if is_special || byte.is_ascii_whitespace() {
                write(json.get(begin..at).unwrap_or_default());
                begin = at + letter.len_utf8();
            }
            if is_special {
                write(&format!("\\u{:04x}", u32::from(letter)));
            }
        }
        is_text ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
    }
    write(json.get(begin..).unwrap_or_default());
    out
}

/// Returns whether a text has any byte for which `is_one` holds. Checks 64 bytes per step without
/// an early exit, so that the compiler can vectorize the loop.
fn has_any(text: &str, is_one: impl Fn(u8) -> bool) -> bool {
    let mut parts = text.as_bytes().chunks(64);
    parts.any(|part| part.iter().fold(false, |found, byte| found | is_one(*byte)))
}

/// The expected type of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// An object.
    Object,
    /// A list.
    List,
}

/// Returns Go's error if a document is not a JSON object or `null`.
pub fn object_error(document: &[u8]) -> Option<String> {
    document_error(document, Expected::Object, "map[string]interface {}")
}

/// Returns Go's error if a document can't be read into a Go type. `null` is accepted. Members and
/// items are not compared with the type.
pub fn document_error(document: &[u8], expected: Expected, go_type: &str) -> Option<String> {
    if let Some(wrong) = syntax_error(document) {
        return Some(wrong);
    }
    let first = document.iter().find(|byte| !is_space(**byte));
    let what = match (first, expected) {
        (Some(b'{'), Expected::List) => "object",
        (Some(b'['), Expected::Object) => "array",
        (Some(b'"'), _) => "string",
        (Some(b't' | b'f'), _) => "bool",
        (Some(b'-' | b'0'..=b'9'), _) => "number",
        _ => return None,
    };
    Some(format!(
        "json: cannot unmarshal {what} into Go value of type {go_type}"
    ))
}

/// Returns Go's error if bytes are not a JSON document.
pub fn syntax_error(document: &[u8]) -> Option<String> {
    let mut reader = Reader {
        bytes: document,
        at: 0,
    };
    reader.document().err()
}

/// Returns whether a document may exceed Go's limit on depth; [`syntax_error`] decides.
pub fn may_be_too_deep(document: &[u8]) -> bool {
    is_deeper_than(document, MAX_DEPTH)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Returns a character as Go quotes it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        // Go takes each byte as the character with that code point.
        0x80..=0xa0 | 0xad => format!("'\\u{:04x}'", byte),
        _ => format!("'{}'", char::from(byte)),
    }
}

/// Checks the syntax of a document from its start.
struct Reader<'d> {
    bytes: &'d [u8],
    at: usize,
}

type Read = Result<(), String>;

impl Reader<'_> {
    fn peek(&self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied();
        byte.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    /// Returns the next byte that is not white space.
    fn next_mark(&mut self) -> Result<u8, String> {
        loop {
            let byte = self.next()?;
            if !is_space(byte) {
                return Ok(byte);
            }
        }
    }

    fn document(&mut self) -> Read {
        let first = self.next_mark()?;
        self.value(first)?;
        while let Ok(byte) = self.next() {
            if !is_space(byte) {
                return wrong(byte, "after top-level value");
            }
        }
        Ok(())
    }

    /// Reads a value that begins with this byte. Counts levels instead of recursing into them, so
    /// depth takes no stack.
    fn value(&mut self, first: u8) -> Read {
        let mut levels: Vec<u8> = Vec::new();
        let mut first = first;
        loop {
            let opens = matches!(first, b'{' | b'[');
            if opens {
                levels.push(first);
                if levels.len() > MAX_DEPTH {
                    return Err("exceeded max depth".to_owned());
                }
                let mark = self.next_mark()?;
                let is_end = matches!((first, mark), (b'{', b'}') | (b'[', b']'));
                if !is_end {
                    first = self.item(first, mark)?;
                    continue;
                }
                levels.pop();
            } else {
                self.scalar(first)?;
            }
            // After a value, the next one on the same level follows, or levels end.
            loop {
                let Some(level) = levels.last().copied() else {
                    return Ok(());
                };
                match (level, self.next_mark()?) {
                    (b'{', b'}') | (b'[', b']') => {
                        levels.pop();
                    }
                    (_, b',') => {
                        let mark = self.next_mark()?;
                        first = self.item(level, mark)?;
                        break;
                    }
                    (b'{', other) => return wrong(other, "after object key:value pair"),
                    (_, other) => return wrong(other, "after array element"),
                }
            }
        }
    }

    /// Reads the start of an item and returns the first byte of its value: for an object, of the
    /// value after the key.
    fn item(&mut self, level: u8, mark: u8) -> Result<u8, String> {
        if level == b'[' {
            return Ok(mark);
        }
        if mark != b'"' {
            return Err(format!(
                "invalid character {} looking for beginning of object key string",
                quoted(mark)
            ));
        }
        self.string()?;
        match self.next_mark()? {
            b':' => self.next_mark(),
            other => Err(format!(
                "invalid character {} after object key",
                quoted(other)
            )),
        }
    }

    fn scalar(&mut self, first: u8) -> Read {
        match first {
            b'"' => self.string(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'-' => match self.next()? {
                digit @ b'0'..=b'9' => self.number(digit),
                other => wrong(other, "in numeric literal"),
            },
            digit @ b'0'..=b'9' => self.number(digit),
            other => wrong(other, "looking for beginning of value"),
        }
    }

    fn word(&mut self, word: &str) -> Read {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                let expected = quoted(expected);
                return wrong(byte, &format!("in literal {word} (expecting {expected})"));
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Ok(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn number(&mut self, first: u8) -> Read {
        if first != b'0' {
            self.digits();
        }
        if matches!(self.peek(), Ok(b'.')) {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Ok(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Reads at least one digit.
    fn digit(&mut self, place: &str) -> Read {
        let byte = self.next()?;
        if !byte.is_ascii_digit() {
            return wrong(byte, place);
        }
        self.digits();
        Ok(())
    }

    fn string(&mut self) -> Read {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                byte if byte < 0x20 => return wrong(byte, "in string literal"),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Read {
        match self.next()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    let byte = self.next()?;
                    if !byte.is_ascii_hexdigit() {
                        return wrong(byte, "in \\u hexadecimal character escape");
                    }
                }
                Ok(())
            }
            other => wrong(other, "in string escape code"),
        }
    }
}

fn wrong(byte: u8, place: &str) -> Read {
    Err(format!("invalid character {} {place}", quoted(byte)))
}

/// Returns the length of a value's JSON, as serde_json prints it.
pub fn json_bytes(value: &impl Serialize) -> usize {
    /// Counts the written bytes without storing them.
    struct Counter(usize);

    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients compare texts with what Go writes.
    #[test]
    fn tags_entities_and_line_ends_are_escaped() {
        let value = serde_json::json!({"a<b": ["x && y > z", "\u{2028}\u{2029}\u{20ac}\n\"", 1.5]});
        let mut text = Vec::new();
        write_json(&mut text, &value);
        let wanted = "{\"a\\u003cb\":[\"x \\u0026\\u0026 y \\u003e z\",\"\\u2028\\u2029\u{20ac}\\n\\\"\",1.5]}";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    /// CRD-117.
    #[test]
    fn floats_have_gos_form() {
        for (float, written) in [
            (1.5, "1.5"),
            (0.000_01, "0.00001"),
            (0.000_000_1, "1e-7"),
            (-2.5e-9, "-2.5e-9"),
            (1.2e20, "120000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (7.0, "7.0"),
        ] {
            let mut text = Vec::new();
            write_value(&mut text, &float.into());
            assert_eq!(String::from_utf8(text).unwrap(), written);
        }
    }

    /// Tests each character at each place of a text, also beyond the first 64-byte step.
    #[test]
    fn both_ways_of_writing_agree() {
        let characters = (0..0x100).chain([0x2027, 0x2028, 0x2029, 0x202a, 0x1f600]);
        for character in characters.filter_map(char::from_u32) {
            for length in [0, 1, 63, 64, 65, 130] {
                let plain = "v".repeat(length);
                let text = format!("{plain}{character}{plain}");
                let items = serde_json::json!([null, true, false, 1.5, -7, &text]);
                let value = serde_json::json!({"n": items, text.as_str(): {}});
                let (mut few, mut many) = (Vec::new(), Vec::new());
                write_value(&mut few, &value);
                write_json(&mut many, &value);
                assert_eq!(few, many);
            }
        }
    }

    /// The messages of Go's `encoding/json`.
    #[test]
    fn documents_that_are_not_objects_have_gos_errors() {
        for accepted in [
            "{}",
            " {\"a\": [1, -0.5e+3, {\"b\": null}, [], true]}\n",
            "null",
        ] {
            assert_eq!(object_error(accepted.as_bytes()), None, "{accepted}");
        }
        for (bad, why) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            (
                "bad",
                "invalid character 'b' looking for beginning of value",
            ),
            ("{} x", "invalid character 'x' after top-level value"),
            (
                "{a",
                "invalid character 'a' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 2}",
                "invalid character '2' after object key:value pair",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            ("01", "invalid character '1' after top-level value"),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.a",
                "invalid character 'a' after decimal point in numeric literal",
            ),
            (
                "1ea",
                "invalid character 'a' in exponent of numeric literal",
            ),
            (
                "nul1",
                "invalid character '1' in literal null (expecting 'l')",
            ),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\ux\"",
                "invalid character 'x' in \\u hexadecimal character escape",
            ),
            (
                "[]",
                "json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                "1",
                "json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
        ] {
            assert_eq!(object_error(bad.as_bytes()).as_deref(), Some(why), "{bad}");
        }
    }
}
