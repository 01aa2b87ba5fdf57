//! Decoding of other versions that are read as the version of a definition.

use serde_json::{Map, Value};

use super::{TypedDocument, type_patched};
use crate::object::Object;
use crate::resource::{FormerVersion, ResourceDefinition};
use crate::schema::{Empty, Schema, StructId};

impl FormerVersion {
    /// Decodes the document of an object of this version, and converts it to the version of a
    /// definition.
    ///
    /// # Errors
    /// The reason why the object can't be decoded, without any part of the document.
    pub fn read(
        &self,
        document: Map<String, Value>,
        definition: &ResourceDefinition,
    ) -> Result<Object, String> {
        let mut object = Object::of(self.typed(document)?);
        self.apply(&mut object, definition);
        if definition.behaviour.why_unreadable(&object).is_some() {
            return Err("one of its fields can't be read".to_owned());
        }
        // Go distinguishes an empty list from an absent one where it prints both.
        definition.canonicalize_with(&mut object, Empty::Printed);
        Ok(object)
    }

    /// Returns the members of a document that the type of this version has.
    fn typed(&self, document: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let of = self.object_type.found();
        let is_open =
            |(schema, id): (&Schema, StructId)| schema.get(id).is_none_or(|of| of.is_open);
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
