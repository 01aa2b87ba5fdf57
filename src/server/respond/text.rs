//! Compact JSON as JSON with a newline, as indented JSON, or as YAML (API-60).

use serde_json::Value;

use crate::api::indentation::is_out_of_proportion;
use crate::server::negotiation::{Accepted, Format};

/// The document in the form that was agreed on; compact where indentation would make it many times
/// as long.
pub(super) fn rendered(mut json: Vec<u8>, accepted: Accepted) -> Vec<u8> {
    let is_compact = match accepted.format {
        Format::Json => !accepted.pretty,
        Format::Yaml => false,
    };
    // JSON is YAML, too.
    if is_compact || is_out_of_proportion(&json) {
        json.push(b'\n');
        return json;
    }
    match accepted.format {
        Format::Json => indented(&json),
        Format::Yaml => yaml(&json),
    }
}

/// Two spaces a level, no newline at the end. Works on the text, so that members keep their order.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + json.len() / 2);
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if matches!(bytes.peek(), Some(b'}' | b']')) {
                    out.extend(bytes.next());
                } else {
                    depth += 1;
                    new_line(depth, &mut out);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(depth, &mut out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(depth, &mut out);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

fn new_line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

/// The same document as YAML; members are sorted by name.
fn yaml(json: &[u8]) -> Vec<u8> {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    serde_saphyr::to_string(&value)
        .map(String::into_bytes)
        // JSON is YAML, should the writer ever fail.
        .unwrap_or_else(|_| json.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::decode::{BodyFormat, decode_value};

    #[test]
    fn indentation_is_two_spaces_without_a_newline_at_the_end_api_60() {
        let json = br#"{"a":[1,{"b":"x,{\"}:"}],"c":{},"d":[]}"#;
        let expected = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{\\\"}:\"\n    }\n  ],\n  \
                        \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8(indented(json)).unwrap(), expected);
    }

    #[test]
    fn compact_json_ends_with_a_newline_api_60() {
        let accepted = Accepted::default();
        assert_eq!(rendered(b"{}".to_vec(), accepted), b"{}\n");
    }

    #[test]
    fn a_document_that_indentation_would_blow_up_stays_compact() {
        let zeros = vec!["0"; 200_000].join(",");
        let json = format!("{}{zeros}{}", "[".repeat(90), "]".repeat(90)).into_bytes();
        for (format, pretty) in [(Format::Json, true), (Format::Yaml, false)] {
            let accepted = Accepted {
                format,
                pretty,
                ..Accepted::default()
            };
            assert_eq!(rendered(json.clone(), accepted).len(), json.len() + 1);
        }
    }

    #[test]
    fn yaml_reads_back_as_the_same_document() {
        let texts = [
            "yes",
            "on",
            "~",
            "null",
            "0644",
            "0x1f",
            "1_000",
            "1e3",
            "2001-01-01",
            " lead",
            "trail ",
            "a: b",
            "- a",
            "#c",
            "two\nlines\n",
            "\n",
            "\ttab",
            "",
            "ü",
            "'",
            "\"",
            "\\",
            "{a}",
            "[a]",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "|",
            ">",
            "?",
            "-",
            "=",
            "<<",
            "y",
            "n",
            "12:30:45",
            ".inf",
            "true",
            "False",
            "\u{7}",
            "\u{2028}",
            "a\r\nb",
            "x\n\n\n",
            "  \n x",
        ];
        for text in texts {
            let value = serde_json::json!({"k": text, "list": [text, {"n": text}], text: 1});
            let written = yaml(value.to_string().as_bytes());
            let read = decode_value(&written, BodyFormat::Yaml).map(|(value, _)| value);
            assert_eq!(read, Ok(value), "{}", String::from_utf8_lossy(&written));
        }
        let numbers = serde_json::json!({"a": i64::MIN, "b": u64::MAX, "c": 1.5, "d": null, "e": {}, "f": []});
        let written = yaml(numbers.to_string().as_bytes());
        let read = decode_value(&written, BodyFormat::Yaml).map(|(value, _)| value);
        assert_eq!(read, Ok(numbers), "{}", String::from_utf8_lossy(&written));
    }
}
