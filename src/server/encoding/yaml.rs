//! `application/yaml`.

use serde_json::Value;

use super::media_type::{MediaType, YAML};
use crate::api::indentation::is_out_of_proportion;

/// Documents as YAML with members sorted by name. It has no streams.
pub(super) struct Yaml;

impl MediaType for Yaml {
    fn name(&self) -> &'static str {
        YAML
    }

    /// The document stays compact JSON, which is also YAML, if indentation would multiply its
    /// length.
    fn document(&self, mut json: Vec<u8>, _pretty: bool) -> Vec<u8> {
        if is_out_of_proportion(&json) {
            json.push(b'\n');
            return json;
        }
        let value: Value = serde_json::from_slice(&json).unwrap_or_default();
        serde_saphyr::to_string(&value)
            .map(String::into_bytes)
            // If the writer fails, the JSON is sent, which is also YAML.
            .unwrap_or(json)
    }
}
