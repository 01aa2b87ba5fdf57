//! Reads documents by the type of their object, with the errors of Kubernetes' decoders: files of
//! the operator, and answers of other servers.

use serde_json::Value;

use crate::api::decode::{BodyFormat, TYPE_OF_ANY, decode_answer, type_answer};
use crate::api::field_validation::{StrictDecodingError, strict_decoding_error};
use crate::api::text::json_type;
use crate::schema::{META, ObjectType, Schema, SharedSchema};

/// A document without the members that its type does not have.
#[derive(Debug)]
pub struct Document {
    /// The tree.
    pub value: Value,
    /// Unknown and repeated members.
    pub faults: Vec<StrictDecodingError>,
}

impl Document {
    /// Returns the value of a file that has no unknown and no repeated members.
    ///
    /// # Errors
    /// These members, in the words of Kubernetes and in one line.
    pub fn strict(self) -> Result<Value, String> {
        match self.faults.is_empty() {
            true => Ok(self.value),
            false => Err(one_line(&strict_decoding_error(&self.faults))),
        }
    }
}

/// The kind and version of a document. Both are empty if the document does not have them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KindAndVersion {
    pub kind: String,
    pub api_version: String,
}

/// A text as a tree, whose type is not known yet.
pub struct Tree {
    value: Value,
    repeated: Vec<StrictDecodingError>,
}

impl Tree {
    /// Takes a tree that was read as a part of another document.
    pub fn of(value: Value) -> Tree {
        Tree {
            value,
            repeated: Vec::new(),
        }
    }

    /// Reads a text as Kubernetes' decoders do: JSON if it begins with a brace, or else YAML.
    ///
    /// # Errors
    /// The fault in the text.
    pub fn read(text: &[u8]) -> Result<Tree, String> {
        let format = match begins_with_brace(text) {
            true => BodyFormat::Json,
            false => BodyFormat::Yaml,
        };
        Tree::in_format(text, format)
    }

    /// Reads a file of the operator: JSON, or YAML, which may begin with a brace, too.
    ///
    /// # Errors
    /// The fault in the text, in one line.
    pub fn of_file(text: &[u8]) -> Result<Tree, String> {
        // YAML has no tabs before members, JSON may.
        if begins_with_brace(text)
            && let Ok(tree) = Tree::in_format(text, BodyFormat::Json)
        {
            return Ok(tree);
        }
        Tree::in_format(text, BodyFormat::Yaml).map_err(|why| one_line(&why))
    }

    fn in_format(text: &[u8], format: BodyFormat) -> Result<Tree, String> {
        let (value, repeated) = decode_answer(text, format)?;
        Ok(Tree { value, repeated })
    }

    /// Returns the kind and version of an answer of another server.
    ///
    /// # Errors
    /// As [`Tree::kind_and_version`], in the words of Go's decoder if the document is not an
    /// object.
    pub fn kind_and_version_of_answer(&self) -> Result<KindAndVersion, String> {
        if matches!(self.value, Value::Object(_) | Value::Null) {
            return self.kind_and_version();
        }
        let found = json_type(&self.value);
        Err(format!(
            "json: cannot unmarshal {found} into Go value of type {TYPE_OF_ANY}"
        ))
    }

    /// Returns the kind and version.
    ///
    /// # Errors
    /// The document is not an object, or they are not texts.
    pub fn kind_and_version(&self) -> Result<KindAndVersion, String> {
        let members = match &self.value {
            Value::Object(members) => members,
            Value::Null => return Ok(KindAndVersion::default()),
            _ => return Err("it is not an object".to_owned()),
        };
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(format!("{name} is not a string")),
        };
        Ok(KindAndVersion {
            kind: text("kind")?,
            api_version: text("apiVersion")?,
        })
    }

    /// Reads the tree by its type.
    ///
    /// # Errors
    /// The first value of a wrong type, in the words of Go's decoder.
    pub fn typed(mut self, of: &ObjectType) -> Result<Document, String> {
        let typed = type_answer(&self.value, of).map_err(|error| error.to_string())?;
        if let Some(refusal) = typed.refusal {
            return Err(refusal);
        }
        self.repeated.extend(typed.faults);
        Ok(Document {
            value: typed.value,
            faults: self.repeated,
        })
    }
}

fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ")
}

fn begins_with_brace(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

/// Returns the types of a text in the notation of [`crate::schema`].
pub fn types(notation: &'static str) -> SharedSchema {
    SharedSchema::new(move || {
        Schema::read(&[META, notation]).unwrap_or_else(|error| {
            // A test reads the types of each notation.
            tracing::error!(%error, "cannot parse the types of a configuration");
            Schema::default()
        })
    })
}
