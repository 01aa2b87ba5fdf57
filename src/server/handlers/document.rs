//! A request body of an object: its format, its size, and its decoding with field validation.

use std::sync::Arc;

use bytes::Bytes;

use crate::api::decode::{BodyFormat, decode_object, unrecognized};
use crate::api::field_validation::apply_field_validation;
use crate::api::large::{LARGE_BYTES, is_large};
use crate::api::object::Object;
use crate::api::options::FieldValidation;
use crate::api::protobuf::{self, ProtobufError, Texts};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::warnings::Warnings;
use crate::schema::Schema;
use crate::server::audit::Holds;
use crate::server::encoding::{JSON, YAML};
use crate::server::negotiation::BodyForm;
use crate::server::request_scope::RequestScope;
use crate::transport::RequestBody;

/// Protobuf bodies above this size are large. A message without fields takes two bytes, but at
/// least twenty as JSON.
const LARGE_PROTOBUF_BYTES: usize = LARGE_BYTES / 4;

/// A body that was read but not yet decoded.
#[derive(Clone)]
pub(super) struct Document {
    /// The bytes.
    pub body: Bytes,
    /// Their format.
    pub form: BodyForm,
}

impl RequestScope<'_> {
    /// Reads the whole body, which holds an object of this kind.
    pub(super) async fn document(
        &self,
        body: RequestBody,
        kind: &Arc<ResourceDefinition>,
    ) -> Result<Document, Box<Status>> {
        let form = self.form_of(kind)?;
        let body = self.read(body, Holds::Object(Arc::clone(kind))).await?;
        Ok(Document { body, form })
    }

    /// Returns the form of the body, which holds an object of this kind.
    pub(super) fn form_of(&self, kind: &ResourceDefinition) -> Result<BodyForm, Box<Status>> {
        let form = self.body_form()?;
        if form == BodyForm::Protobuf && kind.rules().is_unstructured {
            // Custom resources have no protobuf (CRD-88).
            return Err(Box::new(Status::unsupported_media_type(&[JSON, YAML])));
        }
        Ok(form)
    }
}

impl Document {
    /// Whether to decode the body off the HTTP thread. YAML always counts as large: its parser
    /// waits for a thread of its own, and a few bytes of aliases can expand to megabytes.
    pub(super) fn is_large(&self) -> bool {
        match self.form {
            BodyForm::Text(BodyFormat::Yaml) => true,
            BodyForm::Text(BodyFormat::Json) => is_large(&self.body),
            BodyForm::Protobuf => self.body.len() > LARGE_PROTOBUF_BYTES,
        }
    }

    /// Decodes an object. Reports duplicate and unknown fields as `fieldValidation` says (API-88 to
    /// API-90).
    pub(super) fn decode(
        &self,
        definition: &ResourceDefinition,
        validation: FieldValidation,
        warnings: &Warnings,
    ) -> Result<Object, Box<Status>> {
        let schema = definition.object_type().schema();
        let (version, kind) = (definition.api_version(), &definition.kind);
        if self.form == BodyForm::Protobuf && !self.body.starts_with(protobuf::MAGIC) {
            let why = ProtobufError::Unmarked.to_string();
            return Err(unrecognized(&self.body, &why, definition).into());
        }
        let (body, format) = self.text(&version, kind, schema)?;
        let decoded = decode_object(&body, format, definition)?;
        apply_field_validation(&decoded.faults, validation, warnings, |error| {
            let kind = &definition.kind;
            Status::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {error}",
                definition.version
            ))
        })?;
        Ok(decoded.object)
    }

    /// Returns the body as text. Protobuf is converted to JSON by the schema of its kind. A body
    /// without version and kind gets these.
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
