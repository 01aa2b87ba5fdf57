//! Whole documents: decoded without a type, as parts of others, from YAML, or by a type.

use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use serde_json::Value;

use super::{Guide, MAX_TREE_BYTES, Numbers, Reading};
use crate::field_validation::StrictDecodingError;
use crate::schema::{Schema, StructId};

/// A whole document that is decoded without a type, and whose tree uses at most `TREE_BYTES`.
pub struct Document<const TREE_BYTES: usize> {
    /// The tree.
    pub value: Value,
    /// Duplicate members, each listed once.
    pub duplicates: Vec<StrictDecodingError>,
}

impl<const TREE_BYTES: usize> Document<TREE_BYTES> {
    /// Returns the tree, and the duplicate members.
    pub fn parts(self) -> (Value, Vec<StrictDecodingError>) {
        (self.value, self.duplicates)
    }

    fn read<'de, D: Deserializer<'de>>(
        deserializer: D,
        numbers: Numbers,
        has_lines: bool,
    ) -> Result<Self, D::Error> {
        let mut reading = Reading::new(TREE_BYTES, numbers);
        reading.has_lines = has_lines;
        let value = reading.read(Guide::Any, deserializer)?;
        Ok(Document {
            value,
            duplicates: reading.faults.into_vec(),
        })
    }
}

impl<'de, const TREE_BYTES: usize> Deserialize<'de> for Document<TREE_BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::read(deserializer, Numbers::AsWritten, false)
    }
}

/// A [`Document`] that is put into another one. Its numbers keep their spelling as integer or
/// float.
pub struct Part<const TREE_BYTES: usize>(pub Document<TREE_BYTES>);

impl<'de, const TREE_BYTES: usize> Deserialize<'de> for Part<TREE_BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::read(deserializer, Numbers::Kept, false).map(Part)
    }
}

/// A [`Document`] in YAML, whose duplicate members have lines.
pub struct YamlDocument<const TREE_BYTES: usize>(pub Document<TREE_BYTES>);

impl<'de, const TREE_BYTES: usize> Deserialize<'de> for YamlDocument<TREE_BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::read(deserializer, Numbers::AsWritten, true).map(YamlDocument)
    }
}

/// A document that was decoded by its type.
pub struct TypedDocument {
    /// The tree, pruned to the type.
    pub value: Value,
    /// Unknown and duplicate members, in the order of the document.
    pub faults: Vec<StrictDecodingError>,
    /// The error about the first value of a wrong type, in the words of Kubernetes' decoder.
    pub refusal: Option<String>,
    /// The text of the managedFields, which the tree lacks then.
    pub managed_fields: Option<String>,
}

/// Decodes a document by the type of its object.
pub struct TypedSeed<'s> {
    /// The type. Without one any value is accepted.
    pub of: Option<(&'s Schema, StructId)>,
    /// How the document spells numbers.
    pub numbers: Numbers,
    /// Whether managedFields stay text if they look as the server writes them. Only JSON readers
    /// support that.
    pub keeps_managed_fields: bool,
    /// The limit on the tree.
    pub most_tree_bytes: usize,
}

impl<'s> TypedSeed<'s> {
    /// Returns the seed for a document that was decoded into a tree before.
    pub fn of_tree(of: Option<(&'s Schema, StructId)>, numbers: Numbers) -> TypedSeed<'s> {
        TypedSeed {
            of,
            numbers,
            keeps_managed_fields: false,
            most_tree_bytes: MAX_TREE_BYTES,
        }
    }
}

impl<'de> DeserializeSeed<'de> for TypedSeed<'_> {
    type Value = TypedDocument;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TypedDocument, D::Error> {
        let mut reading = Reading::new(self.most_tree_bytes, self.numbers);
        reading.keeps_managed_fields = self.keeps_managed_fields;
        let found = self
            .of
            .and_then(|(schema, id)| Some((schema, schema.get(id)?)));
        let guide = match found {
            Some((schema, of)) => {
                reading.merges = !of.is_open;
                Guide::Object(schema, of)
            }
            // A test checks that the type of each resource is found.
            None => Guide::Any,
        };
        let value = reading.read(guide, deserializer)?;
        Ok(TypedDocument {
            value,
            faults: reading.faults.into_vec(),
            refusal: reading.decoder_error.or(reading.type_error),
            managed_fields: reading.managed_fields,
        })
    }
}
