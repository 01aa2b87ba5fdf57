//! Turns a request body into an object. It knows the format and size of the body, and how the
//! client wants duplicate and unknown fields reported.

use bytes::Bytes;

use crate::api::decode::{BodyFormat, decode_object, judge, unrecognized};
use crate::api::object::Object;
use crate::api::options::FieldValidation;
use crate::api::protobuf::{self, ProtobufError, Texts};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::warnings::Warnings;
use crate::schema::Schema;
use crate::server::large_requests::{LARGE_REQUEST_BYTES, is_large};
use crate::server::negotiation::BodyForm;

/// Bodies of protobuf above this size are large. A message without fields takes two bytes, and as
/// JSON twenty and more.
const LARGE_PROTOBUF_BYTES: usize = LARGE_REQUEST_BYTES / 4;

/// A body that was read but not decoded.
#[derive(Clone)]
pub(super) struct Document {
    /// Its bytes.
    pub body: Bytes,
    /// The format of the bytes.
    pub form: BodyForm,
}

impl Document {
    /// Whether to decode the body away from the HTTP thread. YAML always counts as large: its
    /// parser waits for a thread of its own, and a few bytes of aliases may expand to megabytes.
    pub(super) fn is_large(&self) -> bool {
        match self.form {
            BodyForm::Text(BodyFormat::Yaml) => true,
            BodyForm::Text(BodyFormat::Json) => is_large(&self.body),
            BodyForm::Protobuf => self.body.len() > LARGE_PROTOBUF_BYTES,
        }
    }

    /// Decodes an object, and reports duplicate and unknown fields as the client asked (API-88 to
    /// API-90).
    pub(super) fn decode(
        &self,
        definition: &ResourceDefinition,
        validation: FieldValidation,
        warnings: &Warnings,
    ) -> Result<Object, Box<Status>> {
        let schema = definition.object_type.schema;
        let (version, kind) = (definition.api_version(), &definition.kind);
        if self.form == BodyForm::Protobuf && !self.body.starts_with(protobuf::MAGIC) {
            let why = ProtobufError::Unmarked.to_string();
            return Err(unrecognized(&self.body, &why, definition));
        }
        let (body, format) = self.text(&version, kind, schema)?;
        let decoded = decode_object(&body, format, definition)?;
        judge(&decoded.faults, validation, warnings, |error| {
            let kind = &definition.kind;
            Status::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {error}",
                definition.version
            ))
        })?;
        Ok(decoded.object)
    }

    /// The body as text. Protobuf becomes JSON by the schema of its kind, with this version and
    /// kind unless it names others.
    pub(super) fn text(
        &self,
        version: &str,
        kind: &str,
        schema: &Schema,
    ) -> Result<(Bytes, BodyFormat), Box<Status>> {
        let Document { body, form } = self;
        match *form {
            BodyForm::Text(format) => Ok((body.clone(), format)),
            BodyForm::Protobuf => {
                match protobuf::to_json(body, version, kind, schema, Texts::Strict) {
                    Ok(json) => Ok((json.into(), BodyFormat::Json)),
                    Err(error) => Err(Box::new(Status::bad_request(error.to_string()))),
                }
            }
        }
    }
}
