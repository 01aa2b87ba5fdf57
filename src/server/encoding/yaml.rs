//! `application/yaml`.

use serde_json::Value;

use super::media_type::{MediaType, YAML};
use crate::api::indentation::is_out_of_proportion;

/// Lists with more levels are JSON. A tree of an item has at most 127.
pub(super) const DEPTH_MAX: usize = 127;

/// Documents as YAML with members sorted by name. It has no streams.
pub(super) struct Yaml;

impl MediaType for Yaml {
    fn name(&self) -> &'static str {
        YAML
    }

    fn is_yaml(&self) -> bool {
        true
    }

    /// The document stays compact JSON, which is also YAML, if indentation would multiply its
    /// length, or if it is too deep.
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

/// A value as YAML. If the writer fails, it is JSON, which is also YAML.
pub(super) fn written(value: &Value) -> Vec<u8> {
    let written = serde_saphyr::to_string(value);
    written.unwrap_or_else(|_| value.to_string()).into_bytes()
}
