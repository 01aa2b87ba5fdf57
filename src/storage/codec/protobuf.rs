//! Objects stored as protobuf, as kube-apiserver does by default (KV-20, KV-21).
//!
//! Values become JSON in the canonical form, by the schema of the resource, and the other way
//! round.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::TypeName;
use crate::api::protobuf::{
    Envelope, MAGIC, ProtobufError, Texts, object_json, write_json_message,
};
use crate::api::resource::ResourceDefinition;
use crate::api::schema::{ObjectType, Schema, StructId};

/// The bytes of an object of a type, given as canonical JSON. They stay JSON if the resource has no
/// protobuf form.
pub(super) fn encode(json: Vec<u8>, stored: &TypeName, definition: &ResourceDefinition) -> Vec<u8> {
    let Some((schema, id)) = struct_of(stored, definition.object_type()) else {
        return json;
    };
    let mut raw = Vec::with_capacity(json.len());
    if write_json_message(schema, id, &json, &mut raw).is_err() {
        return json;
    }
    let mut bytes = Vec::with_capacity(raw.len() + 64);
    let envelope = Envelope {
        api_version: &stored.api_version,
        kind: &stored.kind,
        raw: &raw,
    };
    envelope.write(&mut bytes);
    bytes
}

/// The protobuf in a value, which may be base64 around it (KV-23).
pub(super) fn found_in(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if value.starts_with(MAGIC) {
        return Some(Cow::Borrowed(value));
    }
    // The first letters of the marked bytes in base64.
    let text = value.trim_ascii();
    let inner = text
        .starts_with(b"azhz")
        .then(|| STANDARD.decode(text).ok());
    let inner = inner.flatten().filter(|inner| inner.starts_with(MAGIC));
    inner.map(Cow::Owned)
}

/// The type of an object in protobuf.
///
/// # Errors
/// Why it is not protobuf of an object, in one phrase.
pub(super) fn type_of(value: &[u8]) -> Result<TypeName, String> {
    let envelope = Envelope::read(value).map_err(unreadable)?;
    Ok(TypeName {
        kind: envelope.kind.to_owned(),
        api_version: envelope.api_version.to_owned(),
    })
}

/// An object in protobuf as canonical JSON with the type `shown`. `of` is the type by which it is
/// read if its own is not known.
///
/// # Errors
/// Why it is not an object, in one phrase.
pub(super) fn decode(
    value: &[u8],
    found: &TypeName,
    shown: &TypeName,
    of: &ObjectType,
) -> Result<Vec<u8>, String> {
    let envelope = Envelope::read(value).map_err(unreadable)?;
    let (schema, id) =
        struct_of(found, of).ok_or_else(|| format!("{found} has no form in protobuf"))?;
    let shown = Envelope {
        api_version: &shown.api_version,
        kind: &shown.kind,
        raw: envelope.raw,
    };
    object_json(schema, id, shown, Texts::Lossy).map_err(unreadable)
}

/// The struct of a type. Unknown versions are read and written as the served one, from which they
/// differ only in their type.
fn struct_of<'s>(name: &TypeName, of: &'s ObjectType) -> Option<(&'s Schema, StructId)> {
    let (schema, served) = of.found()?;
    let id = schema.object_kind(&name.api_version, &name.kind);
    let id = id.unwrap_or(served);
    // A type that keeps every member has no numbers for them.
    let is_closed = schema.get(id).is_some_and(|of| !of.is_open);
    is_closed.then_some((schema, id))
}

fn unreadable(error: ProtobufError) -> String {
    format!("it is protobuf that can't be read: {error}")
}
