//! The stored form of objects when it is not the canonical JSON of the served version: YAML,
//! another version.

use std::fmt;

use serde_json::{Map, Value};

use super::{MediaType, NEVER_STORED, protobuf, type_members, write_object, yaml};
use crate::api::object::Object;
use crate::api::resource::{Conversion, ResourceDefinition};

/// A kind in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// `Event`.
    pub kind: String,
    /// `events.k8s.io/v1`.
    pub api_version: String,
}

impl TypeName {
    /// The type of a resource's objects.
    pub fn of(definition: &ResourceDefinition) -> TypeName {
        TypeName {
            kind: definition.kind.to_owned(),
            api_version: definition.api_version(),
        }
    }
}

impl TypeName {
    /// The type that an object claims to have.
    pub(super) fn said(members: &Map<String, Value>) -> TypeName {
        let text = |name| members.get(name).and_then(Value::as_str);
        TypeName {
            kind: text("kind").unwrap_or_default().to_owned(),
            api_version: text("apiVersion").unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.api_version)
    }
}

/// The stored form of a resource's objects.
#[derive(Clone, Debug)]
pub struct StoredForm {
    /// The media type of the bytes.
    pub media_type: MediaType,
    /// The type that objects are stored as (KV-24).
    pub stored: TypeName,
    /// The type that objects are served as: their memory version (SF-44).
    pub served: TypeName,
    /// The types that the same objects may have been stored as, and how they are converted: all
    /// versions, in all groups that share the key prefix (SF-45).
    pub read: Vec<(TypeName, Conversion)>,
}

impl StoredForm {
    /// Whether this equals the canonical form.
    pub(super) fn is_canonical(&self, served: &TypeName) -> bool {
        let is_own = |name: &TypeName| name == served;
        self.media_type == MediaType::Json
            && is_own(&self.stored)
            && self.read.iter().all(|(name, _)| is_own(name))
    }

    /// Whether a value of this type is an object of the resource.
    pub(super) fn reads(&self, found: &TypeName) -> bool {
        *found == self.stored || self.read.iter().any(|(name, _)| name == found)
    }

    /// The conversion of a type. `None` for one that differs from the common form in its type
    /// only.
    fn conversion(&self, of: &TypeName) -> Option<&Conversion> {
        let mut read = self.read.iter();
        let found = read.find(|(name, _)| name == of);
        let conversion = found.map(|(_, conversion)| conversion);
        conversion.filter(|conversion| !conversion.is_type_only())
    }

    /// Converts an object of one type into the form of another one.
    fn convert(&self, from: &TypeName, to: &TypeName, object: &mut Object) {
        if let Some(from) = self.conversion(from) {
            from.convert_to_hub(object);
        }
        if let Some(to) = self.conversion(to) {
            to.convert_from_hub(object);
        }
    }

    /// Converts an object of a type that was stored to the served version, except for its type.
    pub(super) fn to_served(&self, found: &TypeName, object: &mut Object) {
        if *found != self.served {
            self.convert(found, &self.served, object);
        }
    }

    /// Whether objects of this type differ from the served ones only in their type.
    pub(super) fn is_type_only(&self, found: &TypeName) -> bool {
        *found == self.served
            || self.conversion(found).is_none() && self.conversion(&self.served).is_none()
    }

    /// The bytes to store.
    pub(super) fn encode(&self, object: &Object, definition: &ResourceDefinition) -> Vec<u8> {
        let converted;
        let is_same = self.is_type_only(&self.stored);
        let object = if is_same {
            object
        } else {
            let mut object = object.clone();
            self.convert(&self.served, &self.stored, &mut object);
            converted = object;
            &converted
        };
        let TypeName { kind, api_version } = &self.stored;
        match self.media_type {
            MediaType::Json => self.json(object),
            MediaType::Protobuf => protobuf::encode(self.json(object), &self.stored, definition),
            MediaType::Yaml => {
                let mut object = object.clone();
                object.set_type(kind, api_version);
                let metadata = object.metadata_mut();
                metadata.retain(|name, _| !NEVER_STORED.contains(&name.as_str()));
                yaml::encode(object.into_document())
            }
        }
    }

    fn json(&self, object: &Object) -> Vec<u8> {
        let TypeName { kind, api_version } = &self.stored;
        let mut bytes = type_members(kind, api_version);
        bytes.extend_from_slice(b"\"metadata\":{");
        write_object(&mut bytes, object);
        bytes
    }
}
