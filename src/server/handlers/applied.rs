//! Request bodies of server-side apply (API-170).

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::api::decode::{BodyFormat, decode_value};
use crate::api::field_validation::StrictDecodingError;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::text::{go_json_text, json_type};
use crate::registry::UpdateSource;

/// Whether a body looks like JSON, which parses faster than YAML.
pub(super) fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

/// Reads the applied configuration. It gets no defaults, because absent fields are not applied.
/// Duplicate fields are reported once the object has been applied (API-156).
///
/// # Errors
/// 400 if the body is not an object.
pub(super) fn read(body: &[u8]) -> Result<UpdateSource, Box<Status>> {
    let bad = |why: &str| Box::new(Status::bad_request(format!("error decoding YAML: {why}")));
    let (value, faults) = decoded(body).map_err(|why| bad(&why))?;
    let members = match value {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other => {
            return Err(bad(&format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go \
                 value of type map[string]interface {{}}",
                json_type(&other)
            )));
        }
    };
    Ok(UpdateSource::Apply {
        object: Object::of(members),
        faults,
    })
}

/// Decodes a body as YAML. JSON without duplicate fields gives the same result faster; the errors
/// for duplicates are those of YAML.
fn decoded(body: &[u8]) -> Result<(Value, Vec<StrictDecodingError>), String> {
    // JSON replaces invalid UTF-8 by U+FFFD, while YAML refuses it (API-63).
    let is_text = matches!(go_json_text(body), Cow::Borrowed(_));
    if is_text
        && is_json(body)
        && let Ok((value, duplicates)) = decode_value(body, BodyFormat::Json)
        && duplicates.is_empty()
    {
        return Ok((value, duplicates));
    }
    decode_value(body, BodyFormat::Yaml)
}
