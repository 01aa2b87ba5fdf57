//! Documents that are read whole: without a type, as parts of others, as YAML, or by a type.

use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use serde_json::Value;

use super::{Guide, MAX_TREE_BYTES, Numbers, Reading};
use crate::document_paths::FieldFault;
use crate::schema::{Schema, StructId};

/// A whole document, whose tree uses at most `TREE_BYTES`, read without a type.
pub struct Document<const TREE_BYTES: usize> {
    /// Its tree.
    pub value: Value,
    /// Members that were given more than once, each listed once.
    pub duplicates: Vec<FieldFault>,
}

impl<const TREE_BYTES: usize> Document<TREE_BYTES> {
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

/// A [`Document`] that is put into another one, whose numbers stay as they are written.
pub struct Part<const TREE_BYTES: usize>(pub Document<TREE_BYTES>);

impl<'de, const TREE_BYTES: usize> Deserialize<'de> for Part<TREE_BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::read(deserializer, Numbers::Kept, false).map(Part)
    }
}

/// A [`Document`] in YAML, which tells the lines of duplicate members.
pub struct YamlDocument<const TREE_BYTES: usize>(pub Document<TREE_BYTES>);

impl<'de, const TREE_BYTES: usize> Deserialize<'de> for YamlDocument<TREE_BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::read(deserializer, Numbers::AsWritten, true).map(YamlDocument)
    }
}

/// What was read of a document by its type.
pub struct TypedDocument {
    /// Its tree, with nothing in it that is not of the type.
    pub value: Value,
    /// Unknown and duplicate members, in the order of the document.
    pub faults: Vec<FieldFault>,
    /// The refusal of the first value of a wrong type, in the words of Kubernetes' decoder.
    pub refusal: Option<String>,
    /// The text of the managedFields, which are not in the tree then.
    pub managed_fields: Option<String>,
}

/// Reads a document by the type of its object.
pub struct TypedSeed {
    /// The type. Without one anything is read.
    pub of: Option<(&'static Schema, StructId)>,
    /// How the document writes numbers.
    pub numbers: Numbers,
    /// Whether managedFields as the server writes them stay text. Only a reader of JSON can do
    /// that.
    pub keeps_managed_fields: bool,
}

impl TypedSeed {
    /// For a document that was read as a tree before.
    pub fn of_tree(of: Option<(&'static Schema, StructId)>, numbers: Numbers) -> TypedSeed {
        TypedSeed {
            of,
            numbers,
            keeps_managed_fields: false,
        }
    }
}

impl<'de> DeserializeSeed<'de> for TypedSeed {
    type Value = TypedDocument;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TypedDocument, D::Error> {
        let mut reading = Reading::new(MAX_TREE_BYTES, self.numbers);
        reading.keeps_managed_fields = self.keeps_managed_fields;
        let found = self
            .of
            .and_then(|(schema, id)| Some((schema, schema.get(id)?)));
        let guide = match found {
            Some((schema, of)) => {
                reading.merges = !of.is_open;
                Guide::Object(schema, of)
            }
            // A test finds the type of each resource.
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
