//! Encodes objects into stored bytes and decodes them. Stored objects have the canonical JSON form
//! (KV-22, KV-25); caches keep the wire form. If another form is configured, `form.rs` writes it.
//! `recognise.rs` reads every form (KV-23). The codec must not know keys' prefixes, encryption or
//! engines.
//!
//! Canonical means compact JSON with `kind`, `apiVersion` and `metadata` first, in this order, and
//! every other member sorted by name, without `metadata.resourceVersion` and `metadata.selfLink`
//! (ST-7). Sorting makes encoding deterministic, so an update that changes nothing yields equal
//! bytes (PF-3). The wire form is the canonical one with `resourceVersion` inserted as the first
//! member of `metadata`. [`actors::object::CachedObject`] holds it with the offsets.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::{
    Attributes, CachedObject, Decode, DecodeError, TypeMembers, WireParts, revision_member,
};
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::api::decode::keep_texts;
use crate::api::deep::{self, is_deeper_than};
use crate::api::go_json::{write_text, write_value};
use crate::api::object::Object;
use crate::api::resource::{FormerVersion, ResourceDefinition};
use fields::FieldCollector;

mod checks;
mod copied_members;
mod fields;
mod form;
mod media_type;
mod other_versions;
mod protobuf;
mod recognise;
mod yaml;

pub use form::{StoredForm, TypeName};
pub use media_type::MediaType;
pub(in crate::storage) use other_versions::CONVERTED;
pub(in crate::storage) use recognise::is_stored_form;

/// Members of `metadata` that are never stored.
const NEVER_STORED: [&str; 2] = ["resourceVersion", "selfLink"];

/// The beginning of an object after its type.
const METADATA: &[u8] = b"\"metadata\":";

/// Encodes and decodes the objects of one resource.
#[derive(Clone, Debug)]
pub struct Codec {
    definition: Arc<ResourceDefinition>,
    /// How objects are stored, if not in the canonical form of the served version.
    form: Option<Arc<StoredForm>>,
    /// The beginning of every object of this resource, up to and with the brace of `metadata`.
    head: Vec<u8>,
    /// The part of it before `"metadata"`, which the objects share.
    types: Arc<TypeMembers>,
}

impl Codec {
    /// A codec that stores a resource in the canonical form of the served version.
    pub fn new(definition: impl Into<Arc<ResourceDefinition>>) -> Codec {
        let definition = definition.into();
        let mut head = type_members(&definition.kind, &definition.api_version());
        let types = Arc::new(TypeMembers(head.clone().into()));
        head.extend_from_slice(b"\"metadata\":{");
        Codec {
            definition,
            form: None,
            types,
            head,
        }
    }

    /// The same resource, stored in another form.
    pub fn stored_as(self, form: StoredForm) -> Codec {
        let served = TypeName::of(&self.definition);
        let form = Some(form).filter(|form| !form.is_canonical(&served));
        Codec {
            form: form.map(Arc::new),
            ..self
        }
    }

    /// The resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        &self.definition
    }

    /// The stored form of an object, whatever the order or version of its members.
    pub fn encode(&self, object: &Object) -> Vec<u8> {
        match &self.form {
            None => self.canonical_form(object),
            Some(form) => form.encode(object, &self.definition),
        }
    }

    /// The stored form of a cached object, as [`Codec::encode`] makes it.
    pub fn stored_form(&self, object: &CachedObject) -> Vec<u8> {
        match &self.form {
            None => object.stored_form(),
            // A cached object was decoded before, so decoding succeeds.
            Some(form) => {
                let encode = || Ok(form.encode(&self.object_of(object)?, &self.definition));
                deep::retry_with_room(encode).unwrap_or_else(|_: DecodeError| Vec::new())
            }
        }
    }

    /// Whether these are the bytes of [`Codec::stored_form`].
    pub fn is_stored_as(&self, object: &CachedObject, plain: &[u8]) -> bool {
        match &self.form {
            None => object.is_stored_as(plain),
            Some(_) => self.stored_form(object) == plain,
        }
    }

    /// The canonical form of an object in the version served.
    fn canonical_form(&self, object: &Object) -> Vec<u8> {
        let mut bytes = self.head.clone();
        write_object(&mut bytes, object);
        bytes
    }

    /// An object in wire form, as if it were stored at the revision. With 0 it has no
    /// `resourceVersion`, as an object that a dry run would create.
    ///
    /// # Errors
    /// [`DecodeError`] when the object breaks a rule that decoding checks.
    pub fn wire(
        &self,
        key: &Key,
        object: &Object,
        revision: Revision,
    ) -> Result<CachedObject, DecodeError> {
        match &self.form {
            None => self.decode(key, revision, &Bytes::from(self.encode(object))),
            // As it would be read from any stored form.
            Some(_) => self
                .served(key, revision, object)
                .map_err(|reason| fault(key, revision, reason)),
        }
    }

    /// An object of the version served in wire form.
    fn served(
        &self,
        key: &Key,
        revision: Revision,
        object: &Object,
    ) -> Result<CachedObject, String> {
        self.canonical(key, revision, &self.canonical_form(object))
            .ok_or_else(|| {
                "its metadata is not that of an object, or its key is too long".to_owned()
            })
    }

    /// Decodes stored bytes that this program has written, in any form, into the served version.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not an object of the resource.
    pub fn decode_stored(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
    ) -> Result<CachedObject, DecodeError> {
        let read = self.read(key, revision, value, true);
        read.map(|(object, _)| object)
    }

    /// Decodes an object, and returns whether the defaults of its own version were applied (KV-27).
    /// `is_own` says that this program has written it.
    fn read(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
        is_own: bool,
    ) -> Result<(CachedObject, bool), DecodeError> {
        let read = match self.canonical(key, revision, value) {
            Some(object) => (object, false),
            None => self
                .decode_uncanonical(key, revision, value, is_own)
                .map_err(|reason| fault(key, revision, reason))?,
        };
        match read {
            (object, false) if self.definition.behaviour.completes_stored() => {
                // The time is for kinds whose defaults depend on it.
                let completed = self.filled_in(key, &object, Timestamp::UNIX_EPOCH)?;
                Ok((completed.unwrap_or(object), true))
            }
            read => Ok(read),
        }
    }

    fn decode_whole(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
    ) -> Result<(CachedObject, bool), String> {
        let json = protobuf::found_in(value)
            .map(|message| self.json_of_protobuf(&message))
            .transpose()?;
        if let Some(json) = &json
            && let Some(object) = self.canonical(key, revision, json)
        {
            return Ok((object, false));
        }
        let value = json.as_deref().unwrap_or(value);
        let (mut object, is_filled) = self.recognise(value)?;
        object.set_type(&self.definition.kind, &self.definition.api_version());
        let object = self.served(key, revision, &object)?;
        Ok((object, is_filled))
    }

    /// Returns the type in a value of any form.
    fn type_of(&self, value: &[u8]) -> Result<TypeName, String> {
        if let Some(message) = protobuf::found_in(value) {
            return protobuf::type_of(&message);
        }
        let form = self.form.as_deref();
        let media_type = form.map_or(MediaType::Json, |form| form.media_type);
        recognise::recognise(value, media_type).map(|members| TypeName::said(&members))
    }

    /// Protobuf as canonical JSON. If its type differs from the served one only in name, the JSON
    /// has the served type.
    fn json_of_protobuf(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let served = TypeName::of(&self.definition);
        let found = protobuf::type_of(message)?;
        if let Some(former) = self.former(&found) {
            return protobuf::decode(message, &found, &found, &former.object_type);
        }
        if !self.is_known(&found) {
            return Err(self.other_type(&found));
        }
        let is_type_only = match &self.form {
            Some(form) => form.is_type_only(&found),
            None => self.definition.is_type_only(),
        };
        let shown = if is_type_only { &served } else { &found };
        protobuf::decode(message, &found, shown, self.definition.object_type())
    }

    /// The definition of a former version, if the type is one.
    fn former(&self, found: &TypeName) -> Option<&FormerVersion> {
        self.definition
            .former_version(&found.kind, &found.api_version)
    }

    /// Whether a value of this type is an object of the resource.
    fn is_known(&self, found: &TypeName) -> bool {
        *found == TypeName::of(&self.definition)
            || self.form.as_ref().is_some_and(|form| form.reads(found))
            || self.may_have_been_served(found)
    }

    /// Decodes stored bytes of any form into the served version, except for its type.
    /// Says whether the object was filled in as its own version is.
    fn recognise(&self, value: &[u8]) -> Result<(Object, bool), String> {
        let form = self.form.as_deref();
        let media_type = form.map_or(MediaType::Json, |form| form.media_type);
        let members = recognise::recognise(value, media_type)?;
        let found = TypeName::said(&members);
        if value.starts_with(CONVERTED) {
            return Ok((Object::of(members), true));
        }
        if let Some(former) = self.former(&found) {
            let mut object = former.read(members, &self.definition)?;
            keep_texts(&mut object, value, self.definition.object_type());
            return Ok((object, true));
        }
        if !self.is_known(&found) {
            return Err(self.other_type(&found));
        }
        let mut object = Object::of(members);
        keep_texts(&mut object, value, self.definition.object_type());
        if let Some(form) = form {
            form.to_served(&found, &mut object);
        }
        Ok((object, false))
    }

    /// Returns the reason why a value of this type does not belong to the resource.
    fn other_type(&self, found: &TypeName) -> String {
        format!("it is a {found}, not a {}", TypeName::of(&self.definition))
    }

    /// Whether a type is a version of the resource that differs in `apiVersion` only and may have
    /// been served when the value was stored. All versions of built-in resources are known.
    fn may_have_been_served(&self, found: &TypeName) -> bool {
        let group = found
            .api_version
            .rsplit_once('/')
            .map_or("", |(group, _)| group);
        self.definition.is_type_only()
            && found.kind == self.definition.kind
            && group == self.definition.group
            && !self.definition.knows_its_versions()
    }

    /// A cached object as a tree, including its `resourceVersion`, with the texts that are needed
    /// to write it again.
    ///
    /// # Errors
    /// As [`object_of`].
    pub fn object_of(&self, cached: &CachedObject) -> Result<Object, DecodeError> {
        let wire = cached.wire();
        let mut object = read(cached, &wire)?;
        keep_texts(&mut object, &wire, self.definition.object_type());
        Ok(object)
    }

    /// The attributes and offsets of stored bytes. `None` when they are not canonical.
    fn canonical(&self, key: &Key, revision: Revision, value: &[u8]) -> Option<CachedObject> {
        let is_whole = value.starts_with(&self.head) && value.ends_with(b"}");
        if !is_whole || is_deeper_than(value, deep::MAX_DEPTH) {
            return None;
        }
        let (attributes, stamped) = self.attributes(value).ok()?;
        match stamped {
            true => None,
            false => self.with_attributes(key, revision, value, &attributes),
        }
    }

    /// The cached form of canonical bytes with these attributes.
    fn with_attributes(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
        attributes: &Attributes,
    ) -> Option<CachedObject> {
        let at = self.head.len();
        // All objects that are served have a name, so bytes with empty metadata are not one of
        // them.
        let is_served = !self.definition.verbs.is_empty();
        if value.get(at) == Some(&b'}') && is_served && revision != Revision::ZERO {
            return None;
        }
        let member = match revision {
            Revision::ZERO => Vec::new(),
            revision => revision_member(revision),
        };
        let wire = WireParts {
            types: &self.types,
            before: value.get(self.types.0.len()..at)?,
            revision_member: &member,
            after: value.get(at..)?,
        };
        CachedObject::new(key, revision, wire, attributes)
    }

    /// The cached form of an object that this codec has just encoded. It reads the attributes from
    /// the object, not from its bytes.
    ///
    /// # Errors
    /// As [`Codec::decode_stored`].
    pub fn cached_form(
        &self,
        object: &Object,
        key: &Key,
        revision: Revision,
        plain: &Bytes,
    ) -> Result<CachedObject, DecodeError> {
        let is_canonical = self.form.is_none() && plain.starts_with(&self.head);
        if is_canonical && self.definition.behaviour.completes_stored() {
            let mut completed = object.clone();
            self.definition
                .fill_in_stored(&mut completed, Timestamp::UNIX_EPOCH);
            if completed.0 != object.0 {
                let served = self.served(key, revision, &completed);
                return served.map_err(|reason| fault(key, revision, reason));
            }
        }
        let attributes = match is_canonical {
            true => self.attributes_of(object),
            false => None,
        };
        let cached = attributes
            .and_then(|attributes| self.with_attributes(key, revision, plain, &attributes));
        match cached {
            Some(cached) => Ok(cached),
            None => self.decode_stored(key, revision, plain),
        }
    }

    /// The values that selectors compare, read from an object. `None` if its metadata has other
    /// types than that of an object, which decoding refuses.
    fn attributes_of(&self, object: &Object) -> Option<Attributes> {
        let head = Head::deserialize(&object.0).ok()?;
        let mut collected = FieldCollector::new(self.definition.behaviour.selectable_fields());
        let fields = collected.collect(&object.0).ok()?;
        Some(head.metadata.attributes(fields))
    }

    /// The values that selectors compare, and whether the metadata has a member that is never
    /// stored.
    fn attributes(&self, value: &[u8]) -> Result<(Attributes, bool), serde_json::Error> {
        let mut collected = FieldCollector::new(self.definition.behaviour.selectable_fields());
        let head: Head = serde_json::from_slice(value)?;
        let fields = collected.collect(&mut serde_json::Deserializer::from_slice(value))?;
        let metadata = head.metadata;
        let stamped = metadata.resource_version.is_some() || metadata.self_link.is_some();
        Ok((metadata.attributes(fields), stamped))
    }
}

impl Decode for Codec {
    fn decode(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<CachedObject, DecodeError> {
        self.decode_stored(key, revision, value)
    }
}

fn fault(key: &Key, revision: Revision, reason: String) -> DecodeError {
    DecodeError {
        key: key.to_string(),
        revision,
        reason,
    }
}

/// A cached object as a tree for reading, including its `resourceVersion`. To write an object
/// again, read it by [`Codec::object_of`].
///
/// # Errors
/// [`DecodeError`] when the wire form is not a JSON object. Decoding has excluded that.
pub fn object_of(cached: &CachedObject) -> Result<Object, DecodeError> {
    read(cached, &cached.wire())
}

/// A cached object as a tree that has only its metadata, however deep the rest is.
///
/// # Errors
/// [`DecodeError`] as of [`object_of`].
pub fn metadata_object_of(cached: &CachedObject) -> Result<Object, DecodeError> {
    let body = cached.item_body();
    let metadata = body.strip_prefix(METADATA).unwrap_or_default();
    Object::read_metadata(metadata).map_err(|error| unreadable(cached, &error))
}

/// Members of a cached object's metadata, by the type that reads them. The metadata comes first in
/// a cached object, so nothing after it is read. `None` if it does not have this type.
pub fn metadata_of<M: DeserializeOwned>(cached: &CachedObject) -> Option<M> {
    let members = cached.item_body().strip_prefix(METADATA)?;
    M::deserialize(&mut serde_json::Deserializer::from_slice(members)).ok()
}

fn read(cached: &CachedObject, wire: &[u8]) -> Result<Object, DecodeError> {
    Object::read(wire).map_err(|error| unreadable(cached, &error))
}

fn unreadable(cached: &CachedObject, error: &serde_json::Error) -> DecodeError {
    fault(&Key::new(cached.key()), cached.revision, error.to_string())
}

/// Writes a document with `kind`, `apiVersion` and `metadata` first and all else sorted.
pub fn encode_document(document: &Map<String, Value>) -> Vec<u8> {
    encode_parts(document, None)
}

/// Writes an object with `kind`, `apiVersion` and `metadata` first and all else sorted.
pub fn encode_object(object: &Object) -> Vec<u8> {
    encode_parts(&object.0, object.managed_fields())
}

fn encode_parts(document: &Map<String, Value>, managed_fields: Option<&Arc<str>>) -> Vec<u8> {
    let mut bytes = vec![b'{'];
    for name in ["kind", "apiVersion", "metadata"] {
        match (name, document.get(name)) {
            ("metadata", Some(Value::Object(metadata))) => {
                separate(&mut bytes);
                bytes.extend_from_slice(b"\"metadata\":{");
                write_metadata(&mut bytes, metadata, managed_fields, &[]);
                bytes.push(b'}');
            }
            (_, Some(value)) => {
                separate(&mut bytes);
                write_member(&mut bytes, name, value);
            }
            (_, None) => {}
        }
    }
    for (name, value) in document {
        if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            separate(&mut bytes);
            write_member(&mut bytes, name, value);
        }
    }
    bytes.push(b'}');
    bytes
}

/// The text after the opening brace of `metadata`.
fn write_object(bytes: &mut Vec<u8>, object: &Object) {
    if let Some(metadata) = object.metadata() {
        write_metadata(bytes, metadata, object.managed_fields(), &NEVER_STORED);
    }
    bytes.push(b'}');
    for (name, value) in &object.0 {
        if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            bytes.push(b',');
            write_text(bytes, name);
            bytes.push(b':');
            object.write_value(bytes, name, value);
        }
    }
    bytes.push(b'}');
}

fn type_members(kind: &str, api_version: &str) -> Vec<u8> {
    let mut bytes = vec![b'{'];
    write_member(&mut bytes, "kind", &kind.into());
    bytes.push(b',');
    write_member(&mut bytes, "apiVersion", &api_version.into());
    bytes.push(b',');
    bytes
}

/// Writes the members of `metadata` without its braces. The text of managedFields stands where its
/// name belongs.
fn write_metadata(
    bytes: &mut Vec<u8>,
    metadata: &Map<String, Value>,
    mut managed_fields: Option<&Arc<str>>,
    without: &[&str],
) {
    const NAME: &str = "managedFields";
    let mut write_kept = |bytes: &mut Vec<u8>| {
        if let Some(text) = managed_fields.take() {
            separate(bytes);
            bytes.extend_from_slice(b"\"managedFields\":");
            bytes.extend_from_slice(text.as_bytes());
        }
    };
    for (name, value) in metadata {
        if name.as_str() > NAME {
            write_kept(bytes);
        }
        if !without.contains(&name.as_str()) {
            separate(bytes);
            write_member(bytes, name, value);
        }
    }
    write_kept(bytes);
}

fn separate(bytes: &mut Vec<u8>) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
}

fn write_member(bytes: &mut Vec<u8>, name: &str, value: &Value) {
    write_text(bytes, name);
    bytes.push(b':');
    write_value(bytes, value);
}

/// The members of an object that decoding looks at.
#[derive(Deserialize)]
struct Head {
    metadata: MetadataHead,
}

#[derive(Deserialize)]
struct MetadataHead {
    name: Option<SmolStr>,
    namespace: Option<SmolStr>,
    labels: Option<BTreeMap<SmolStr, SmolStr>>,
    #[serde(rename = "resourceVersion")]
    resource_version: Option<serde::de::IgnoredAny>,
    #[serde(rename = "selfLink")]
    self_link: Option<serde::de::IgnoredAny>,
}

impl MetadataHead {
    fn attributes(self, fields: Box<[SmolStr]>) -> Attributes {
        let labels = self.labels.unwrap_or_default();
        Attributes {
            namespace: self.namespace.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            labels: labels.into_iter().collect(),
            fields,
        }
    }
}

#[cfg(test)]
mod tests;
