//! A body on its way to an object: what form it is in, how large it is, and what the client wants
//! to hear of members that it gave more than once, or that nobody knows.

use bytes::Bytes;

use crate::api::decode::{BodyFormat, decode_object};
use crate::api::object::Object;
use crate::api::options::FieldValidation;
use crate::api::protobuf::{self, ProtobufError};
use crate::api::resource::ResourceDefinition;
use crate::api::status::{Status, StatusReason};
use crate::api::warnings::Warnings;
use crate::server::large_requests::LARGE_REQUEST_BYTES;
use crate::server::negotiation::BodyForm;

/// A body that was read, not decoded yet.
pub(super) struct Document {
    /// Its bytes.
    pub body: Bytes,
    /// What they are.
    pub form: BodyForm,
}

impl Document {
    /// Whether it is to be decoded where it holds up nobody. YAML always is: its parser waits for a
    /// thread of its own, and a few bytes of aliases may stand for megabytes.
    pub(super) fn is_large(&self) -> bool {
        matches!(self.form, BodyForm::Text(BodyFormat::Yaml))
            || self.body.len() > LARGE_REQUEST_BYTES
    }

    /// Decodes an object, and says of duplicate and unknown members what the client wants to hear
    /// of them (API-88 to API-90).
    pub(super) fn decode(
        self,
        definition: &ResourceDefinition,
        validation: FieldValidation,
        warnings: &Warnings,
    ) -> Result<Object, Box<Status>> {
        let (body, format) = self.into_text(&definition.api_version(), &definition.kind)?;
        let decoded = decode_object(&body, format, definition)?;
        judge(decoded.faults(), validation, warnings, |error| {
            let kind = &definition.kind;
            Status::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {error}",
                definition.version
            ))
        })?;
        Ok(decoded.object)
    }

    /// The body as text; protobuf becomes JSON, of this version and kind unless it names others.
    pub(super) fn into_text(
        self,
        version: &str,
        kind: &str,
    ) -> Result<(Bytes, BodyFormat), Box<Status>> {
        let Document { body, form } = self;
        match form {
            BodyForm::Text(format) => Ok((body, format)),
            BodyForm::Protobuf => match protobuf::to_json(&body, version, kind) {
                Ok(json) => Ok((json.into(), BodyFormat::Json)),
                Err(error @ ProtobufError::Malformed(_)) => {
                    Err(Box::new(Status::bad_request(error.to_string())))
                }
                Err(error @ ProtobufError::Unsupported(_)) => Err(Box::new(Status::failure(
                    415,
                    StatusReason::UNSUPPORTED_MEDIA_TYPE,
                    error.to_string(),
                ))),
            },
        }
    }
}

/// Warns of members that are unknown or were given more than once, or refuses them, as the client
/// wishes (API-90, API-156).
pub(super) fn judge(
    faults: Vec<String>,
    validation: FieldValidation,
    warnings: &Warnings,
    refuse: impl FnOnce(&str) -> Status,
) -> Result<(), Box<Status>> {
    match validation {
        FieldValidation::Strict if !faults.is_empty() => {
            let error = format!("strict decoding error: {}", faults.join(", "));
            return Err(Box::new(refuse(&error)));
        }
        FieldValidation::Warn => faults.into_iter().for_each(|text| warnings.add(text)),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(())
}
