//! JSON as Go writes it, and what Go says of a document that it can't read.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};

use crate::deep::MAX_DEPTH;

/// Writes compact JSON as Go writes it. Clients compare the text of values of any form, such as the
/// data of ControllerRevisions.
pub fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let mut serializer = serde_json::Serializer::with_formatter(out, HtmlSafe);
    // Writing strings and numbers into memory can't fail.
    let _ = value.serialize(&mut serializer);
}

/// Writes a value as [`write_json`] does, in fewer steps: objects are written this way.
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

/// Writes a text as [`write_json`] does.
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

/// The text may stand in HTML and in JavaScript: what begins tags and entities is escaped, and so
/// are the line ends of Unicode.
struct HtmlSafe;

impl Formatter for HtmlSafe {
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
            let (before, behind) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut behind = behind.chars();
            if let Some(special) = behind.next() {
                write!(writer, "\\u{:04x}", u32::from(special))?;
            }
            rest = behind.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// JSON without white space, as Go writes it where it stands within an object. All else stays as it
/// was written.
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
    // Where the part begins that is not written yet.
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

/// Whether any byte of a text is one of these. Many are looked at in one step, so none ends the
/// search within such a part.
fn has_any(text: &str, is_one: impl Fn(u8) -> bool) -> bool {
    let mut parts = text.as_bytes().chunks(64);
    parts.any(|part| part.iter().fold(false, |found, byte| found | is_one(*byte)))
}

/// What a document should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// An object.
    Object,
    /// A list.
    List,
}

/// Why a document is no JSON object, in Go's words; nothing if it is one, or `null`.
pub fn object_error(document: &[u8]) -> Option<String> {
    document_error(document, Expected::Object, "map[string]interface {}")
}

/// Why a document can't be read into a type of Go, in Go's words; nothing if it is what is
/// expected, or `null`. The insides are not compared with the type.
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

/// Why bytes are no JSON document, in Go's words.
pub fn syntax_error(document: &[u8]) -> Option<String> {
    let mut reader = Reader {
        bytes: document,
        at: 0,
    };
    reader.document().err()
}

/// Whether a document may be deeper than Go reads any. [`syntax_error`] tells.
pub fn may_be_too_deep(document: &[u8]) -> bool {
    is_deeper_than(document, MAX_DEPTH)
}

/// Whether JSON has more objects and lists inside each other. Of what is no JSON it may say so
/// wrongly.
pub fn is_deeper_than(json: &[u8], most: usize) -> bool {
    // Of most documents the length, or the number of openings, says enough. Each level takes two
    // bytes at least.
    if json.len() / 2 <= most || openings(json) <= most {
        return false;
    }
    let (mut levels, mut is_text, mut is_escaped) = (0_usize, false, false);
    json.iter().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => levels += 1,
            b'}' | b']' if !is_text => levels = levels.saturating_sub(1),
            _ => {}
        }
        levels > most
    })
}

/// The number of brackets and braces that open. Sums of bytes over short chunks, which the compiler
/// makes vector instructions of.
fn openings(json: &[u8]) -> usize {
    let is_opening = |byte: &u8| u8::from(byte | 0x20 == b'{');
    let chunks = json.chunks(usize::from(u8::MAX));
    let counts = chunks.map(|chunk| chunk.iter().map(is_opening).sum::<u8>());
    counts.map(usize::from).sum()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A character as Go quotes it.
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
        // Bytes are shown as the characters with their numbers.
        0x80..=0xa0 | 0xad => format!("'\\u{:04x}'", byte),
        _ => format!("'{}'", char::from(byte)),
    }
}

/// Reads a document from its start.
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

    /// The next byte that is no space.
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

    /// A value that begins with this byte. Levels are counted and not called into, so depth is
    /// bounded.
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
            // After a value: the next one on a level, or the end of levels.
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

    /// The start of an item: of a list, its first byte; of an object, that of the value behind
    /// its key.
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

    /// At least one digit.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_of_texts() {
        for most in [1, 127, 300] {
            let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
            assert!(!is_deeper_than(nested(most).as_bytes(), most));
            assert!(is_deeper_than(nested(most + 1).as_bytes(), most));
            let text = format!("{{\"a\":\"{}\"}}", "[{\\\"".repeat(1000));
            assert!(!is_deeper_than(text.as_bytes(), most));
            let flat = format!("[{}1]", "[],{},".repeat(1000));
            assert_eq!(openings(flat.as_bytes()), 2001);
            assert_eq!(is_deeper_than(flat.as_bytes(), most), most == 1);
        }
    }

    /// Clients compare texts with what Go writes.
    #[test]
    fn tags_entities_and_line_ends_are_escaped() {
        let value = serde_json::json!({"a<b": ["x && y > z", "\u{2028}\u{2029}\u{20ac}\n\"", 1.5]});
        let mut text = Vec::new();
        write_json(&mut text, &value);
        let wanted = "{\"a\\u003cb\":[\"x \\u0026\\u0026 y \\u003e z\",\"\\u2028\\u2029\u{20ac}\\n\\\"\",1.5]}";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    /// Each character stands at each place of a text, also beyond the part that is looked at first.
    #[test]
    fn values_are_written_in_fewer_steps_as_in_more() {
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
    fn documents_that_are_no_objects_are_explained() {
        for good in [
            "{}",
            " {\"a\": [1, -0.5e+3, {\"b\": null}, [], true]}\n",
            "null",
        ] {
            assert_eq!(object_error(good.as_bytes()), None, "{good}");
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
