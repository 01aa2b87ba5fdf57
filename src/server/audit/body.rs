//! The bodies in events: that of a request, as kube-apiserver decodes it, and that of a response.
//!
//! The thread that writes events decodes them with the code of the handlers, so the handlers'
//! limits on expansion apply.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::decode::{BodyFormat, decode_object, decode_value};
use crate::api::object::Object;
use crate::api::protobuf::{self, Texts};
use crate::api::resource::ResourceDefinition;
use crate::api::text::go_json_text;
use crate::api::{deep, go_json};
use crate::kinds::types::TYPES;
use crate::schema::{Empty, Schema};
use crate::server::negotiation::{self, BodyForm};

/// Longer objects are omitted, and the event gets the annotation `audit.k8s.io/truncated`.
pub(super) const OBJECT_BYTES_MAX: usize = 4 << 20;

/// The content of a request body.
#[derive(Clone, Debug)]
pub enum Holds {
    /// An object of this kind.
    Object(Arc<ResourceDefinition>),
    /// DeleteOptions.
    DeleteOptions,
    /// A patch, which is recorded as it was sent.
    Patch,
}

/// The object that a request writes, as far as its handler knows it. Logs include its name.
#[derive(Debug, Default)]
pub struct Subject {
    sent: OnceLock<ObjectNames>,
    created: OnceLock<String>,
}

/// The names in an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectNames {
    pub(super) name: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl Subject {
    /// Records that the body was decoded. Events show only decoded bodies.
    pub fn decoded(&self, object: &Object) {
        let text = |name: &str| Some(object.meta(name).to_owned()).filter(|text| !text.is_empty());
        // The first call counts, because a request has one body.
        let _ = self.sent.set(ObjectNames {
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        });
    }

    /// Records that a body without an object was decoded.
    pub fn decoded_options(&self) {
        let _ = self.sent.set(ObjectNames::default());
    }

    /// Records the name under which the object was created, which may be a generated one.
    pub fn created(&self, name: &str) {
        let _ = self.created.set(name.to_owned());
    }

    /// Returns the name of the created object, or else the name in the body.
    pub fn name(&self) -> Option<&str> {
        let sent = || self.sent.get()?.name.as_deref();
        self.created.get().map(String::as_str).or_else(sent)
    }

    pub(super) fn sent(&self) -> Option<&ObjectNames> {
        self.sent.get()
    }
}

/// A body, as it was sent.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) form: BodyForm,
    pub(super) is_gzip: bool,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestBody {
    pub(super) body: Body,
    pub(super) holds: Holds,
}

impl Body {
    /// Returns the body of a request or response with these headers. `None` if events cannot show
    /// it.
    pub(super) fn of(headers: &HeaderMap, bytes: Bytes) -> Option<Body> {
        let media_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
        let is_apply = media_type.is_some_and(|one| one.starts_with(b"application/apply-patch+"));
        let is_patch = media_type.is_some_and(|one| one.windows(7).any(|part| part == b"-patch+"));
        let form = match (is_apply, is_patch) {
            (true, _) => BodyForm::Text(BodyFormat::Yaml),
            (false, true) => BodyForm::Text(BodyFormat::Json),
            (false, false) => negotiation::body_form(headers)?,
        };
        Some(Body {
            bytes,
            form,
            is_gzip: headers.contains_key(CONTENT_ENCODING),
        })
    }

    /// Parses the document. `None` if the body is not a document.
    pub(super) fn parsed<T: DeserializeOwned>(&self) -> Option<T> {
        let mut unpacked = Vec::new();
        let bytes: &[u8] = match self.is_gzip {
            true => {
                let most = OBJECT_BYTES_MAX as u64 * 4;
                let mut reader = GzDecoder::new(&self.bytes[..]).take(most);
                reader.read_to_end(&mut unpacked).ok()?;
                &unpacked
            }
            false => &self.bytes,
        };
        let is_yaml = self.form == BodyForm::Text(BodyFormat::Yaml);
        // A string or a number is not a document. A JSON patch is an array.
        let is_document = matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['));
        match self.form {
            BodyForm::Protobuf => {
                let json = protobuf::to_json(bytes, "", "", &TYPES, Texts::Lossy).ok()?;
                deep::from_json(&json).ok()
            }
            BodyForm::Text(_) if is_yaml => {
                let (value, _) = decode_value(bytes, BodyFormat::Yaml).ok()?;
                T::deserialize(value).ok()
            }
            BodyForm::Text(_) if is_document => {
                deep::from_json(go_json_text(bytes).as_bytes()).ok()
            }
            BodyForm::Text(_) => None,
        }
    }

    /// Returns the body as JSON or YAML. Protobuf is converted to JSON by the schema of its kind.
    fn text(&self, version: &str, kind: &str, schema: &Schema) -> Option<(Bytes, BodyFormat)> {
        match self.form {
            BodyForm::Text(format) => Some((self.bytes.clone(), format)),
            BodyForm::Protobuf => {
                let json = protobuf::to_json(&self.bytes, version, kind, schema, Texts::Lossy);
                Some((json.ok()?.into(), BodyFormat::Json))
            }
        }
    }
}

impl RequestBody {
    /// Returns the document that an event shows. As in kube-apiserver, objects have their defaults,
    /// and options have their type. The handler has decoded the body, so errors are not expected.
    pub(super) fn shown(&self, omits_managed_fields: bool) -> Option<Shown> {
        let document = match &self.holds {
            Holds::Object(definition) => self.object(definition, omits_managed_fields)?,
            Holds::DeleteOptions => self.options()?,
            Holds::Patch => self.patch(omits_managed_fields)?,
        };
        if document.len() > OBJECT_BYTES_MAX {
            return Some(Shown::TooLong);
        }
        let text = String::from_utf8(document).ok()?;
        RawValue::from_string(text).ok().map(Shown::Document)
    }

    fn object(&self, of: &ResourceDefinition, omits_managed_fields: bool) -> Option<Vec<u8>> {
        let schema = of.object_type().schema();
        let (text, format) = self.body.text(&of.api_version(), &of.kind, schema)?;
        let mut object = decode_object(&text, format, of).ok()?.object;
        of.fill_in(&mut object);
        of.canonicalize_with(&mut object, Empty::Printed);
        let kept = object.managed_fields().cloned();
        if omits_managed_fields {
            object.set_managed_fields(None);
        } else if let Some(kept) = kept {
            let kept = deep::from_json(kept.as_bytes()).ok()?;
            object
                .metadata_mut()
                .insert("managedFields".to_owned(), kept);
        }
        Some(written_object(&object))
    }

    /// kube-apiserver records DeleteOptions in its internal version.
    fn options(&self) -> Option<Vec<u8>> {
        let (text, format) = self.body.text("v1", "DeleteOptions", &TYPES)?;
        let (mut value, _) = decode_value(&text, format).ok()?;
        let members = value.as_object_mut()?;
        members.insert("kind".to_owned(), "DeleteOptions".into());
        members.insert("apiVersion".to_owned(), "meta.k8s.io/__internal".into());
        Some(written(&value))
    }

    fn patch(&self, omits_managed_fields: bool) -> Option<Vec<u8>> {
        let value: Value = self.body.parsed()?;
        Some(written(&match omits_managed_fields {
            true => without_managed_fields(value),
            false => value,
        }))
    }
}

/// The result of showing a request body.
pub(super) enum Shown {
    /// The document.
    Document(Box<RawValue>),
    /// The document exceeds [`OBJECT_BYTES_MAX`].
    TooLong,
}

/// Serializes an object as compact JSON that begins with its type.
fn written_object(object: &Object) -> Vec<u8> {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let first = FIRST.map(|name| object.0.get_key_value(name));
    let others = object.0.iter();
    let others = others.filter(|(name, _)| !FIRST.iter().any(|first| name == first));
    let mut out = Vec::new();
    for (name, value) in first.into_iter().flatten().chain(others) {
        out.push(if out.is_empty() { b'{' } else { b',' });
        go_json::write_text(&mut out, name);
        out.push(b':');
        object.write_value(&mut out, name, value);
    }
    out.push(b'}');
    out
}

fn written(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    go_json::write_value(&mut out, value);
    out
}

pub(super) fn without_managed_fields(mut object: Value) -> Value {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(&mut object);
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(remove);
    }
    object
}
