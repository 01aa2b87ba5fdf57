//! `application/yaml`.

use serde_json::Value;

use super::media_type::{MediaType, YAML};
use crate::api::indentation::is_out_of_proportion;

/// The number of levels above which lists are JSON, because an item parses as a tree of at most
/// 127.
pub(super) const DEPTH_MAX: usize = 127;

/// Documents as YAML with members sorted by name. YAML has no streams.
pub(super) struct Yaml;

impl MediaType for Yaml {
    fn name(&self) -> &'static str {
        YAML
    }

    fn is_yaml(&self) -> bool {
        true
    }

    /// Encodes a document. It stays compact JSON, which is also YAML, if indentation would multiply
    /// its length or if it nests too deeply.
    fn document(&self, mut json: Vec<u8>, _pretty: bool) -> Vec<u8> {
        if !is_out_of_proportion(&json)
            && let Ok(value) = serde_json::from_slice::<Value>(&json)
        {
            return written(&value);
        }
        json.push(b'\n');
        json
    }
}

/// Encodes a value as YAML. If the encoder fails, the value is JSON, which is also YAML.
pub(super) fn written(value: &Value) -> Vec<u8> {
    let written = serde_saphyr::to_string(value);
    written.unwrap_or_else(|_| value.to_string()).into_bytes()
}
