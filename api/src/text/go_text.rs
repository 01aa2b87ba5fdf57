//! Pure: clients' texts as Go decodes them. Invalid characters become U+FFFD.

use std::borrow::Cow;

const REPLACED: &str = "\\ufffd";

/// Returns a text with U+FFFD for each byte that is not part of a UTF-8 character.
pub fn go_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            Cow::Owned(text)
        }
    }
}

/// Returns a JSON document whose texts have U+FFFD for each byte that is not part of a UTF-8
/// character, and for each unpaired escape of a surrogate.
pub fn go_json_text(document: &[u8]) -> Cow<'_, str> {
    let text = go_text(document);
    match with_pairs_only(&text) {
        Some(repaired) => Cow::Owned(repaired),
        None => text,
    }
}

/// Returns the document with U+FFFD for unpaired surrogates. `None` if it has none of them.
fn with_pairs_only(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut repaired = String::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(escape) = next_escape(bytes, at) {
        at = match surrogate(bytes, escape) {
            // Skip the escaped character, which may be a backslash.
            None => escape + 2,
            Some(Half::First) if surrogate(bytes, escape + 6) == Some(Half::Second) => escape + 12,
            Some(_) => {
                repaired.push_str(text.get(kept..escape).unwrap_or_default());
                repaired.push_str(REPLACED);
                kept = escape + 6;
                kept
            }
        };
    }
    (kept > 0).then(|| repaired + text.get(kept..).unwrap_or_default())
}

fn next_escape(bytes: &[u8], from: usize) -> Option<usize> {
    let found = memchr::memchr(b'\\', bytes.get(from..)?)?;
    Some(from + found)
}

/// A half of a surrogate pair in UTF-16.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

/// Returns the half of a surrogate pair that is escaped at this byte.
fn surrogate(bytes: &[u8], at: usize) -> Option<Half> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-63: as kube-apiserver 1.36 decodes them.
    #[test]
    fn invalid_characters_are_replaced() {
        for (given, wanted) in [
            (&b"{\"a\":\"b\"}"[..], "{\"a\":\"b\"}"),
            (b"x\xff\xfey\xe2\x82z\xf0\x9f\x98", "x��y��z���"),
            (b"\"\\ud800\"", "\"\\ufffd\""),
            (b"\"a\\udc00b\"", "\"a\\ufffdb\""),
            (b"\"\\ud800\\ud800\"", "\"\\ufffd\\ufffd\""),
            (b"\"\\ud83d\\ude00\"", "\"\\ud83d\\ude00\""),
            (b"\"\\ud800\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\""),
            (b"\"\\uD83Dx\"", "\"\\ufffdx\""),
            (b"\"\\\\ud800\"", "\"\\\\ud800\""),
            (b"\"\\n\\ud8\"", "\"\\n\\ud8\""),
            (b"\"\\u+800\\ud800", "\"\\u+800\\ufffd"),
        ] {
            assert_eq!(go_json_text(given), wanted);
        }
    }
}
