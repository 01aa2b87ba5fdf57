//! Bodies of server-side apply (API-170).

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::api::decode::{BodyFormat, FieldFault, decode_value, go_json_text};
use crate::api::document_paths::json_type;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::registry::UpdateSource;

/// Whether a body looks like JSON, which is read faster than YAML.
pub(super) fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

/// Reads an object that is applied. It has no type yet, as what it lacks is not meant to be empty.
/// Members that are given twice are told once it is applied (API-156).
///
/// # Errors
/// 400 for what is no object.
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

/// A body as YAML reads it. JSON is YAML too, but for how duplicate members are told.
fn decoded(body: &[u8]) -> Result<(Value, Vec<FieldFault>), String> {
    // What is no text in JSON is no YAML either.
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
