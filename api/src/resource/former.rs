//! Other versions of a resource that are read as the one of a definition.

use std::fmt;

use serde_json::{Map, Value};

use super::ResourceDefinition;
use crate::decode::{TypedDocument, type_patched};
use crate::object::Object;
use crate::schema::{Empty, ObjectType, Schema, StructId};

/// A version that an object may say in a store, or after a patch, where that of a definition is
/// wanted. Most are no longer served.
#[derive(Clone, Copy)]
pub struct FormerVersion {
    /// `extensions/v1beta1`. The group may be another one than that of the resource.
    pub api_version: &'static str,
    /// The type of its objects.
    pub object_type: ObjectType,
    /// Fills in what this version fills in, and gives an object the form of the other one.
    pub convert: fn(&mut Object),
}

impl FormerVersion {
    /// Makes an object of this version, read by its type, one of the version of a definition.
    pub fn apply(&self, object: &mut Object, definition: &ResourceDefinition) {
        if let Some((schema, id)) = self.object_type.found() {
            schema.add_structs(id, &mut object.0);
        }
        (self.convert)(object);
        object.set_type(&definition.kind, &definition.api_version());
    }

    /// The object of the version of a definition that the document of an object of this version
    /// means.
    ///
    /// # Errors
    /// Why it can't be read, in words that have no part of it.
    pub fn read(
        &self,
        document: Map<String, Value>,
        definition: &ResourceDefinition,
    ) -> Result<Object, String> {
        let mut object = Object::of(self.typed(document)?);
        self.apply(&mut object, definition);
        if definition.why_unreadable(&object).is_some() {
            return Err("one of its fields can't be read".to_owned());
        }
        // Go distinguishes an empty list from an absent one where it prints both.
        definition.canonicalize_with(&mut object, Empty::Printed);
        Ok(object)
    }

    /// The members of a document that the type of this version has.
    fn typed(&self, document: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let of = self.object_type.found();
        let is_open =
            |(schema, id): (&'static Schema, StructId)| schema.get(id).is_none_or(|of| of.is_open);
        if of.is_none_or(is_open) {
            return Ok(document);
        }
        match type_patched(&Value::Object(document), of) {
            Ok(TypedDocument {
                value: Value::Object(members),
                refusal: None,
                ..
            }) => Ok(members),
            _ => Err("one of its fields is not of the type of its kind".to_owned()),
        }
    }
}

impl fmt::Debug for FormerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version)
    }
}

impl ResourceDefinition {
    /// The other version of its kind that this is, if it is one.
    pub fn former_version(&self, kind: &str, api_version: &str) -> Option<&FormerVersion> {
        let is_this = |former: &&FormerVersion| former.api_version == api_version;
        self.former
            .iter()
            .find(is_this)
            .filter(|_| kind == self.kind)
    }

    /// Whether all versions that its objects may say are known. Little is known of the types of
    /// other resources, so versions of theirs may have been served once.
    pub fn knows_its_versions(&self) -> bool {
        let found = self.object_type.found();
        let of = found.and_then(|(schema, id)| schema.get(id));
        of.is_some_and(|of| !of.is_open)
    }
}
