//! Recognises the form of a stored value, whatever form is configured (KV-23).
//!
//! Protobuf was recognised before. This module tries the configured form, then the form that the
//! bytes resemble, then base64 around either. Errors never repeat a part of the value, because it
//! may be a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::media_type::MediaType;
use crate::api::decode::decode_stored_yaml;
use crate::api::deep;

/// The prefix of every value that Kubernetes has stored as protobuf (KV-21).
const PROTOBUF: &[u8] = b"k8s\0";

/// Parses the members of the object in a value.
///
/// # Errors
/// Why it is not an object, in one phrase.
pub(super) fn recognise(value: &[u8], configured: MediaType) -> Result<Map<String, Value>, String> {
    let refused = match plain(value, configured) {
        Ok(members) => return Ok(members),
        Err(refused) => refused,
    };
    let inner = STANDARD.decode(value.trim_ascii()).ok();
    let inner = inner.filter(|inner| !inner.is_empty());
    match inner.map(|inner| plain(&inner, configured)) {
        Some(Ok(members)) => Ok(members),
        Some(Err(refused)) => Err(format!("it is base64, and in there {refused}")),
        None => Err(refused),
    }
}

/// Whether bytes are a stored object of any known form, even a damaged one. Cheap for JSON.
pub(in crate::storage) fn is_stored_form(value: &[u8]) -> bool {
    let is_json = value.trim_ascii_start().starts_with(b"{")
        && std::str::from_utf8(value)
            .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    is_json
        || is_protobuf(value)
        || deep::retry_with_room(|| recognise(value, MediaType::Yaml).map(drop)).is_ok()
}

/// Whether bytes are protobuf as Kubernetes stores it, or base64 around it.
fn is_protobuf(value: &[u8]) -> bool {
    value.starts_with(PROTOBUF)
        || STANDARD
            .decode(value.trim_ascii())
            .is_ok_and(|inner| inner.starts_with(PROTOBUF))
}

fn plain(value: &[u8], configured: MediaType) -> Result<Map<String, Value>, String> {
    let looks_like_json = value.trim_ascii_start().starts_with(b"{");
    let forms = match (configured, looks_like_json) {
        (MediaType::Json | MediaType::Protobuf, _) | (MediaType::Yaml, true) => {
            [MediaType::Json, MediaType::Yaml]
        }
        (MediaType::Yaml, false) => [MediaType::Yaml, MediaType::Json],
    };
    let mut refused = None;
    for form in forms {
        match read(value, form) {
            Ok(members) => return Ok(members),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Err(refused.unwrap_or_default())
}

fn read(value: &[u8], form: MediaType) -> Result<Map<String, Value>, String> {
    let tree = match form {
        MediaType::Json | MediaType::Protobuf => {
            deep::from_json(value).map_err(|error| format!("it is not valid JSON: {error}"))?
        }
        MediaType::Yaml => {
            decode_stored_yaml(value).map_err(|error| format!("it is not valid YAML: {error}"))?
        }
    };
    match tree {
        Value::Object(members) => Ok(members),
        _ => Err("it is not an object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BOTH: [MediaType; 2] = [MediaType::Json, MediaType::Yaml];

    fn recognised(value: &[u8], configured: MediaType) -> Result<Value, String> {
        recognise(value, configured).map(Value::Object)
    }

    #[test]
    fn json_yaml_and_base64_around_either_are_read_whatever_is_configured_kv_23() {
        let object = json!({"kind": "Thing", "data": {"a": "1", "b": "<&>"}});
        for configured in BOTH {
            for value in [
                r#"{"kind":"Thing","data":{"a":"1","b":"<&>"}}"#,
                "{\"data\":{\"b\":\"\\u003c\\u0026\\u003e\",\"a\":\"1\"},\"kind\":\"Thing\"}\n",
                "data:\n  a: \"1\"\n  b: <&>\nkind: Thing\n",
                "---\nkind: Thing\ndata: {a: '1', b: '<&>'}\n",
            ] {
                assert_eq!(recognised(value.as_bytes(), configured), Ok(object.clone()));
                let wrapped = STANDARD.encode(value);
                assert_eq!(
                    recognised(wrapped.as_bytes(), configured),
                    Ok(object.clone())
                );
            }
        }
    }

    #[test]
    fn every_stored_form_is_told_from_what_nobody_stores_kv_23() {
        for value in [
            &br#" {"kind":"Thing","data":{"a":"1"}}"#[..],
            b"kind: Thing\n",
            b"k8s\0\x0a\x0c",
        ] {
            assert!(is_stored_form(value), "{value:?}");
            assert!(is_stored_form(STANDARD.encode(value).as_bytes()));
        }
        for value in [
            &b""[..],
            b"{",
            b"[]",
            b"text",
            b"{\"a\":\"\xff\"}",
            b"\x80garbage",
        ] {
            assert!(!is_stored_form(value), "{value:?}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused_without_being_repeated() {
        for configured in BOTH {
            for value in [
                &b""[..],
                b"[]",
                b"topsecret",
                b"\xff\xfe\0topsecret",
                b"{\"topsecret\":",
                b"topsecret: [",
                b"- topsecret",
            ] {
                let refused = recognised(value, configured).unwrap_err();
                assert!(!refused.contains("topsecret"), "{refused}");
            }
        }
    }
}
