//! Values that stay JSON in protobuf: documents of any form inside an object.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::member_name::Name;
use crate::deep;
use crate::go_json::write_json;
use crate::indentation::text_length;

/// Writes a value as compact JSON. Returns false for null, which it does not write. Copies text
/// that is already written that way, as are most field sets, which make up half of an object.
pub(super) fn write_raw<'de, D: Deserializer<'de>>(
    value: D,
    out: &mut Vec<u8>,
) -> Result<bool, D::Error> {
    let text = Box::<RawValue>::deserialize(value)?;
    let text = text.get();
    if text != "null" && is_written_so(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
        return Ok(true);
    }
    let mut document = deep::reader(text.as_bytes());
    RawJson(out)
        .deserialize(&mut document)
        .map_err(D::Error::custom)
}

/// Returns whether JSON is already written as this module does it. Returns false if that takes a
/// closer look: for numbers, white space, and escapes except those of quotes and backslashes.
fn is_written_so(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some((byte, following)) = rest.split_first() {
        rest = following;
        match byte {
            b'{' | b'}' | b'[' | b']' | b':' | b',' | b'a'..=b'z' => {}
            b'"' => {
                let (length, has_ended) = text_length(rest, &mut false);
                let (text, following) = rest.split_at(length);
                if !has_ended || !is_text_written_so(text) {
                    return false;
                }
                rest = following;
            }
            _ => return false,
        }
    }
    true
}

/// Returns whether a text has nothing that Go would escape, and no escapes except those of quotes
/// and backslashes.
fn is_text_written_so(mut text: &[u8]) -> bool {
    if text
        .iter()
        .any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2))
    {
        return false;
    }
    while let Some(at) = memchr::memchr(b'\\', text) {
        if !matches!(text.get(at + 1), Some(b'"' | b'\\')) {
            return false;
        }
        text = text.get(at + 2..).unwrap_or_default();
    }
    true
}

/// Writes a value as compact JSON, without building a tree. Returns false for null, which it does
/// not write.
struct RawJson<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for RawJson<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<bool, D::Error> {
        value.deserialize_any(self)
    }
}

/// A value inside another one, where null counts as a value.
struct Inner<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Inner<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        let out = self.0;
        if !RawJson(out).deserialize(value)? {
            out.extend_from_slice(b"null");
        }
        Ok(())
    }
}

impl RawJson<'_> {
    fn print<E: Error>(self, value: impl serde::Serialize) -> Result<bool, E> {
        write_json(self.0, &value);
        Ok(true)
    }
}

impl<'de> Visitor<'de> for RawJson<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let out = self.0;
        out.push(b'[');
        let begun = out.len();
        loop {
            let before = out.len();
            if before > begun {
                out.push(b',');
            }
            if items.next_element_seed(Inner(out))?.is_none() {
                out.truncate(before);
                break;
            }
        }
        out.push(b']');
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let out = self.0;
        out.push(b'{');
        let begun = out.len();
        while let Some(name) = map.next_key_seed(Name)? {
            if out.len() > begun {
                out.push(b',');
            }
            write_json(out, &*name);
            out.push(b':');
            map.next_value_seed(Inner(out))?;
        }
        out.push(b'}');
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_text_equals_written_text() {
        for text in [
            r#"{"f:a":{".":{},"k:{\"name\":\"x\\y\"}":{}},"b":[true,false,null]}"#,
            r#"{"a":1}"#,
            r#"{"a":1.50,"b":1e3}"#,
            r#"{"a": "b"}"#,
            r#"{"a":"b c"}"#,
            r#"{"a":"<&>"}"#,
            "{\"a\":\"\u{2028}\u{20ac}\u{e9}\"}",
            r#"{"a":"\u00e9\/\n"}"#,
            "null",
            "[]",
        ] {
            let (mut copied, mut written) = (Vec::new(), Vec::new());
            let from = |text| serde_json::Deserializer::from_str(text);
            let is_given = write_raw(&mut from(text), &mut copied).unwrap();
            let expected = RawJson(&mut written).deserialize(&mut from(text)).unwrap();
            assert_eq!((is_given, &copied), (expected, &written), "{text}");
        }
        assert!(is_written_so(br#"{"f:a":{".":{}},"k:{\"a\":\"b\"}":{}}"#));
        assert!(!is_written_so(br#"{"a":1.50}"#));
    }
}
