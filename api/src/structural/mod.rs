//! The schemas of custom resources: JSON schemas in the structural form, where the type of each
//! value is known without looking at values (crd.md 2.3, 2.4).
//!
//! This folder owns their model, what they say of values, and what they drop. It reads schemas
//! that have been found to be structural, and knows no kind. Which schemas are refused is decided
//! where definitions are checked. Schemas are read where they are needed and never copied, so they
//! take no memory besides their document.

mod budget;
mod classes;
mod formats;
mod numbers;
pub mod pattern;
mod patterns;
mod prune;
mod values;

use serde_json::{Map, Value};

pub use self::budget::Budget;
pub use self::patterns::Patterns;
pub use self::prune::prune;
pub use self::values::{ValueFault, ValueFaultKind, validate_value};

/// A schema, or a validation inside `allOf`, `anyOf`, `oneOf` and `not`. The schemas in it are
/// documents that are read when they are needed.
#[derive(Clone, Debug, Default)]
pub struct Structural<'s> {
    /// The type: `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty.
    pub kind: &'s str,
    /// Whether `null` is a value.
    pub is_nullable: bool,
    /// What is filled in.
    pub default: Option<&'s Value>,
    /// The items of a list.
    pub items: Option<&'s Value>,
    /// The members with names.
    pub properties: Option<&'s Map<String, Value>>,
    /// The other members.
    pub additional: Additional<'s>,
    /// Whether unknown members are kept.
    pub keeps_unknown: bool,
    /// Whether it is an object with a kind and metadata.
    pub is_embedded: bool,
    /// What is asked of values.
    pub rules: ValueRules<'s>,
}

/// What is said of members without a schema of their own.
#[derive(Clone, Copy, Debug, Default)]
pub enum Additional<'s> {
    /// Nothing.
    #[default]
    Unsaid,
    /// They are there, or not.
    Allowed(bool),
    /// All of them have this schema.
    Schema(&'s Value),
}

/// What is asked of values, besides their type.
#[derive(Clone, Debug, Default)]
pub struct ValueRules<'s> {
    /// The name of a format.
    pub format: &'s str,
    /// The largest number.
    pub maximum: Option<f64>,
    /// Whether it is too large itself.
    pub is_maximum_exclusive: bool,
    /// The smallest number.
    pub minimum: Option<f64>,
    /// Whether it is too small itself.
    pub is_minimum_exclusive: bool,
    /// What divides a number.
    pub multiple_of: Option<f64>,
    /// The most characters of a text.
    pub max_length: Option<i64>,
    /// The fewest characters of a text.
    pub min_length: Option<i64>,
    /// What a text matches; empty for nothing. An invalid pattern is not checked.
    pub pattern: &'s str,
    /// The most items of a list.
    pub max_items: Option<i64>,
    /// The fewest items of a list.
    pub min_items: Option<i64>,
    /// The most members of an object.
    pub max_properties: Option<i64>,
    /// The fewest members of an object.
    pub min_properties: Option<i64>,
    /// The values that there are.
    pub values: &'s [Value],
    /// The names of the members that must be there.
    pub required: &'s [Value],
    /// All of these schemas hold.
    pub all_of: &'s [Value],
    /// At least one of these holds.
    pub any_of: &'s [Value],
    /// Exactly one of these holds.
    pub one_of: &'s [Value],
    /// This doesn't hold.
    pub not: Option<&'s Value>,
}

impl<'s> Structural<'s> {
    /// Reads a schema. What has another form than that of schemas is as absent.
    pub fn read(schema: &'s Value) -> Structural<'s> {
        let mut read = Structural::default();
        for (name, value) in schema.as_object().into_iter().flatten() {
            read.word(name, value);
        }
        read
    }

    fn word(&mut self, name: &str, value: &'s Value) {
        let is_true = *value == Value::Bool(true);
        let schema = Some(value).filter(|value| value.is_object());
        match name {
            "type" => self.kind = value.as_str().unwrap_or_default(),
            "nullable" => self.is_nullable = is_true,
            "default" => self.default = Some(value).filter(|value| !value.is_null()),
            "items" => self.items = schema,
            "properties" => self.properties = value.as_object(),
            "additionalProperties" => {
                self.additional = match value {
                    Value::Bool(are_allowed) => Additional::Allowed(*are_allowed),
                    Value::Object(_) => Additional::Schema(value),
                    _ => Additional::Unsaid,
                };
            }
            "x-kubernetes-preserve-unknown-fields" => self.keeps_unknown = is_true,
            "x-kubernetes-embedded-resource" => self.is_embedded = is_true,
            name => self.rules.word(name, value),
        }
    }

    /// The schema of a member with a name of its own.
    fn property(&self, name: &str) -> Option<&'s Value> {
        self.properties.and_then(|properties| properties.get(name))
    }
}

impl<'s> ValueRules<'s> {
    fn word(&mut self, name: &str, value: &'s Value) {
        let is_true = *value == Value::Bool(true);
        let text = value.as_str().unwrap_or_default();
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        match name {
            "format" => self.format = text,
            "maximum" => self.maximum = value.as_f64(),
            "exclusiveMaximum" => self.is_maximum_exclusive = is_true,
            "minimum" => self.minimum = value.as_f64(),
            "exclusiveMinimum" => self.is_minimum_exclusive = is_true,
            "multipleOf" => self.multiple_of = value.as_f64(),
            "maxLength" => self.max_length = value.as_i64(),
            "minLength" => self.min_length = value.as_i64(),
            "pattern" => self.pattern = text,
            "maxItems" => self.max_items = value.as_i64(),
            "minItems" => self.min_items = value.as_i64(),
            "maxProperties" => self.max_properties = value.as_i64(),
            "minProperties" => self.min_properties = value.as_i64(),
            "enum" => self.values = list,
            "required" => self.required = list,
            "allOf" => self.all_of = list,
            "anyOf" => self.any_of = list,
            "oneOf" => self.one_of = list,
            "not" => self.not = Some(value).filter(|value| value.is_object()),
            _ => {}
        }
    }
}
