//! Recognition of field sets (`fieldsV1`) that are already in the canonical form. Nearly all are,
//! and need no tree.

use std::cmp::Ordering;

/// The caller parses deeper ones.
const DEPTH_MAX: usize = 64;

/// Returns whether a text consists only of objects, without spaces, with sorted keys, and without
/// escapes except those of quotes and backslashes. Parsing and printing such a text would not
/// change it.
pub(super) fn is_canonical(text: &[u8]) -> bool {
    let mut rest = text;
    is_object(&mut rest, 0) && rest.is_empty() && std::str::from_utf8(text).is_ok()
}

fn is_object(rest: &mut &[u8], depth: usize) -> bool {
    if depth == DEPTH_MAX || !take(rest, b'{') {
        return false;
    }
    if take(rest, b'}') {
        return true;
    }
    let mut last: Option<&[u8]> = None;
    loop {
        let Some(key) = key(rest) else {
            return false;
        };
        if last.is_some_and(|last| !is_before(last, key)) {
            return false;
        }
        last = Some(key);
        if !take(rest, b':') || !is_object(rest, depth + 1) {
            return false;
        }
        if !take(rest, b',') {
            return take(rest, b'}');
        }
    }
}

fn take(rest: &mut &[u8], wanted: u8) -> bool {
    match rest.split_first() {
        Some((byte, following)) if *byte == wanted => {
            *rest = following;
            true
        }
        _ => false,
    }
}

/// Takes a key, and returns the text between its quotes.
fn key<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let text = rest.strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => break,
            b'\\' if matches!(text.get(at + 1), Some(b'"' | b'\\')) => at += 2,
            b'\\' | 0..0x20 => return None,
            _ => at += 1,
        }
    }
    *rest = text.get(at + 1..)?;
    text.get(..at)
}

/// Returns whether one key is less than the next, compared without escapes.
fn is_before(one: &[u8], next: &[u8]) -> bool {
    match one.contains(&b'\\') || next.contains(&b'\\') {
        true => unescaped(one).cmp(unescaped(next)) == Ordering::Less,
        false => one < next,
    }
}

fn unescaped(key: &[u8]) -> impl Iterator<Item = u8> {
    let mut is_escaped = false;
    key.iter().copied().filter(move |byte| {
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_escaped
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn canonical_texts_are_printed_unchanged() {
        for (text, expected) in [
            (r#"{}"#, true),
            (r#"{"f:a":{},"f:b":{".":{},"k:{\"name\":\"x\"}":{}}}"#, true),
            (r#"{"v:\"a\\\\b\"":{},"v:\"ä\"":{}}"#, true),
            // `"` is less than `!` only with its backslash.
            (r#"{"a\"":{},"aA":{}}"#, true),
            (r#"{"a!":{},"a\"":{}}"#, true),
            (r#"{"aA":{},"a\"":{}}"#, false),
            (r#"{"b":{},"a":{}}"#, false),
            (r#"{"a":{},"a":{}}"#, false),
            (r#"{"a": {}}"#, false),
            (r#"{"\u0061":{}}"#, false),
            (r#"{"a\/b":{}}"#, false),
            (r#"{"a":1}"#, false),
            (r#"{"a":{},}"#, false),
            (r#"{"a":{}"#, false),
            (r#"{"a"}"#, false),
            (r#"{"a":{}}}"#, false),
            ("{\"a\u{1}\":{}}", false),
            ("", false),
        ] {
            assert_eq!(is_canonical(text.as_bytes()), expected, "{text}");
            let printed = serde_json::from_str::<Value>(text).map(|value| value.to_string());
            if expected {
                assert_eq!(printed.unwrap(), text);
            }
        }
        assert!(!is_canonical(b"{\"\xff\":{}}"));
        let deep =
            |depth: usize| format!("{}{}{}", "{\"a\":".repeat(depth), "{}", "}".repeat(depth));
        assert!(is_canonical(deep(DEPTH_MAX - 1).as_bytes()));
        assert!(!is_canonical(deep(DEPTH_MAX).as_bytes()));
    }
}
