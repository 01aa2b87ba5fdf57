use super::super::media_type::{JSON, MediaTypeRef, YAML};
use crate::api::decode::{BodyFormat, decode_value};

fn document(media_type: &str, pretty: bool, json: &[u8]) -> Vec<u8> {
    let media_type = MediaTypeRef::named(media_type).expect("a media type");
    media_type.get().document(json.to_vec(), pretty)
}

#[test]
fn indentation_is_two_spaces_without_a_newline_at_the_end_api_60() {
    let json = br#"{"a":[1,{"b":"x,{\"}:"}],"c":{},"d":[]}"#;
    let expected = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{\\\"}:\"\n    }\n  ],\n  \
                    \"c\": {},\n  \"d\": []\n}";
    assert_eq!(
        String::from_utf8(document(JSON, true, json)).unwrap(),
        expected
    );
}

#[test]
fn compact_json_ends_with_a_newline_api_60() {
    assert_eq!(document(JSON, false, b"{}"), b"{}\n");
}

#[test]
fn a_document_that_indentation_would_blow_up_stays_compact() {
    let zeros = vec!["0"; 200_000].join(",");
    let json = format!("{}{zeros}{}", "[".repeat(90), "]".repeat(90)).into_bytes();
    for (name, pretty) in [(JSON, true), (YAML, false)] {
        assert_eq!(document(name, pretty, &json).len(), json.len() + 1);
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
        let written = document(YAML, false, value.to_string().as_bytes());
        let read = decode_value(&written, BodyFormat::Yaml).map(|(value, _)| value);
        assert_eq!(read, Ok(value), "{}", String::from_utf8_lossy(&written));
    }
    let numbers =
        serde_json::json!({"a": i64::MIN, "b": u64::MAX, "c": 1.5, "d": null, "e": {}, "f": []});
    let written = document(YAML, false, numbers.to_string().as_bytes());
    let read = decode_value(&written, BodyFormat::Yaml).map(|(value, _)| value);
    assert_eq!(read, Ok(numbers), "{}", String::from_utf8_lossy(&written));
}
