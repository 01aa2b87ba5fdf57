//! Writes objects as YAML. Members are sorted, so that equal objects have equal bytes (KV-25).

use serde_json::{Map, Value};

use crate::api::indentation::is_out_of_proportion;

/// The document of these members. Written as JSON if indentation would make it many times longer.
pub(super) fn encode(members: Map<String, Value>) -> Vec<u8> {
    let tree = Value::Object(members);
    let json = tree.to_string();
    // JSON is valid YAML.
    if is_out_of_proportion(json.as_bytes()) {
        return json.into_bytes();
    }
    match serde_saphyr::to_string(&tree) {
        Ok(text) => text.into_bytes(),
        // If the YAML writer fails, JSON is written.
        Err(_) => json.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::api::decode::{BodyFormat, decode_value};

    fn members(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other} is not an object"),
        }
    }

    fn read(bytes: &[u8]) -> Value {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (value, duplicates) = decode_value(bytes, BodyFormat::Yaml).expect(&text);
        assert!(duplicates.is_empty(), "{text}");
        value
    }

    /// Texts that YAML might take for something else.
    const TRAPS: &[&str] = &[
        "",
        " ",
        "~",
        "null",
        "Null",
        "true",
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "n",
        "0",
        "007",
        "0x1F",
        "0o17",
        "0b1",
        "1_000",
        "1e3",
        ".5",
        "1.",
        "-",
        "+1",
        ".inf",
        "-.INF",
        ".nan",
        "12:30:45",
        "2001-12-14",
        "=",
        "<<",
        "- a",
        "? a",
        ": a",
        "a: b",
        "a:",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!a",
        "!!str a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "'a'",
        "\"a\"",
        "a'b",
        "a\"b",
        "\\",
        "[a]",
        "{a}",
        "a,b",
        "---",
        "...",
        "--- a",
        "a\n---\nb",
        "a\n",
        "\na",
        " a",
        "a ",
        "a\n\n",
        "\n",
        "\ta",
        "a\tb",
        "a\r\nb",
        "\r",
        "\u{0}",
        "\u{1b}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}a",
        "\u{e9}",
        "\u{1f600}",
        "a\n  b\n c",
        "  a\nb",
        "k8s\0",
    ];

    #[test]
    fn texts_that_look_like_something_else_stay_texts() {
        for trap in TRAPS {
            let object = json!({"a": trap, "b": [trap, {"c": trap}], (*trap): 1});
            let bytes = encode(members(object.clone()));
            assert_eq!(
                read(&bytes),
                object,
                "{trap:?} as {}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }

    #[test]
    fn numbers_keep_their_value() {
        let object = json!({
            "numbers": [0, -1, i64::MIN, i64::MAX, u64::MAX, 0.5, -1e-9, 1e300, 123456.789],
            "others": [true, false, null, [], {}, [[]], [{}]],
        });
        assert_eq!(read(&encode(members(object.clone()))), object);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[ -~\n\t]{0,40}",
            proptest::sample::select(TRAPS).prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(text.clone(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_and_written_alike_kv_25(value in any_value()) {
            let object = members(json!({"kind": "Thing", "it": value}));
            let bytes = encode(object.clone());
            let read = read(&bytes);
            prop_assert_eq!(&read, &Value::Object(object));
            prop_assert_eq!(encode(members(read)), bytes);
        }
    }
}
