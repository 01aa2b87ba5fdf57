//! The description of objects whose kind has a schema instead of a type.

use serde_json::Value;

/// The JSON schema of the objects of a custom resource, as its definition has it.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonSchema {
    /// The schema. `None` if the definition has none, or one that is not structural.
    pub schema: Option<Value>,
    /// Whether objects keep every field, whatever the schema says.
    pub keeps_unknown: bool,
    /// The paths of the fields for selectors: `spec.colour`.
    pub selectable: Vec<String>,
}
