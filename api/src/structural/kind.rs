//! The types that schemas declare.

/// The type that a schema declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchemaKind {
    /// None: value validations, and nodes that keep everything.
    #[default]
    Any,
    /// `object`.
    Object,
    /// `array`.
    Array,
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `number`.
    Number,
    /// `boolean`.
    Boolean,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// A type that does not exist, which no value has. Definitions with it are refused.
    Unknown,
}

impl SchemaKind {
    pub(super) fn read(name: &str) -> SchemaKind {
        match name {
            "object" => SchemaKind::Object,
            "array" => SchemaKind::Array,
            "string" => SchemaKind::String,
            "integer" => SchemaKind::Integer,
            "number" => SchemaKind::Number,
            "boolean" => SchemaKind::Boolean,
            "" => SchemaKind::Any,
            _ => SchemaKind::Unknown,
        }
    }

    /// Returns the type as messages name it, empty for [`SchemaKind::Any`] and for a type that does
    /// not exist.
    pub fn name(self) -> &'static str {
        match self {
            SchemaKind::Any | SchemaKind::Unknown => "",
            SchemaKind::Object => "object",
            SchemaKind::Array => "array",
            SchemaKind::String => "string",
            SchemaKind::Integer => "integer",
            SchemaKind::Number => "number",
            SchemaKind::Boolean => "boolean",
            SchemaKind::IntOrString => "integer,string",
        }
    }
}
