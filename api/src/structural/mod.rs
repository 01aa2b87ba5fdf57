//! The schemas of custom resources: JSON schemas in the structural form, where the type of each
//! value is known without looking at values (crd.md 2.3, 2.4).
//!
//! This folder owns their model, what they say of values, and what they drop. It reads schemas
//! that have been found to be structural, and knows no kind. Which schemas are refused is decided
//! where definitions are checked.

mod formats;
pub mod pattern;
mod prune;
mod values;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use self::pattern::Pattern;

pub use self::prune::prune;
pub use self::values::{ValueFault, ValueFaultKind, validate_value};

/// A schema, or a validation inside `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    /// The type: `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty.
    pub kind: String,
    /// Whether `null` is a value.
    pub is_nullable: bool,
    /// What is filled in.
    pub default: Option<Value>,
    /// The items of a list.
    pub items: Option<Box<Structural>>,
    /// The members with names.
    pub properties: BTreeMap<String, Structural>,
    /// The other members.
    pub additional: Additional,
    /// Whether unknown members are kept.
    pub keeps_unknown: bool,
    /// Whether it is an object with a kind and metadata.
    pub is_embedded: bool,
    /// Whether it is a whole number or a text.
    pub is_int_or_string: bool,
    /// What is asked of values.
    pub rules: ValueRules,
}

/// What is said of members without a schema of their own.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Nothing.
    #[default]
    Unsaid,
    /// They are there, or not.
    Allowed(bool),
    /// All of them have this schema.
    Schema(Box<Structural>),
}

/// What is asked of values, besides their type.
#[derive(Clone, Debug, Default)]
pub struct ValueRules {
    /// The name of a format.
    pub format: String,
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
    /// What a text matches. One that is no pattern is asked of nothing.
    pub pattern: Option<Pattern>,
    /// The most items of a list.
    pub max_items: Option<i64>,
    /// The fewest items of a list.
    pub min_items: Option<i64>,
    /// The most members of an object.
    pub max_properties: Option<i64>,
    /// The fewest members of an object.
    pub min_properties: Option<i64>,
    /// The values that there are.
    pub values: Vec<Value>,
    /// The members that must be there.
    pub required: Vec<String>,
    /// All of these hold.
    pub all_of: Vec<Structural>,
    /// At least one of these holds.
    pub any_of: Vec<Structural>,
    /// Exactly one of these holds.
    pub one_of: Vec<Structural>,
    /// This doesn't hold.
    pub not: Option<Box<Structural>>,
}

impl Structural {
    /// Reads a schema. What has another form than that of schemas is as absent.
    pub fn read(schema: &Value) -> Structural {
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let text = |name: &str| {
            let text = schema.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let items = schema.get("items").filter(|items| items.is_object());
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flat_map(Map::iter);
        Structural {
            kind: text("type"),
            is_nullable: flag("nullable"),
            default: schema
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            items: items.map(|items| Box::new(Structural::read(items))),
            properties: properties
                .map(|(name, schema)| (name.clone(), Structural::read(schema)))
                .collect(),
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(are_allowed)) => Additional::Allowed(*are_allowed),
                Some(of @ Value::Object(_)) => Additional::Schema(Box::new(Structural::read(of))),
                _ => Additional::Unsaid,
            },
            keeps_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            is_embedded: flag("x-kubernetes-embedded-resource"),
            is_int_or_string: flag("x-kubernetes-int-or-string"),
            rules: ValueRules::read(schema),
        }
    }
}

impl ValueRules {
    fn read(schema: &Value) -> ValueRules {
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let float = |name: &str| schema.get(name).and_then(Value::as_f64);
        let int = |name: &str| schema.get(name).and_then(Value::as_i64);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let list = |name: &str| {
            let list = schema.get(name).and_then(Value::as_array);
            list.map(Vec::as_slice).unwrap_or_default()
        };
        let schemas = |name: &str| list(name).iter().map(Structural::read).collect();
        let not = schema.get("not").filter(|not| not.is_object());
        ValueRules {
            format: text("format").to_owned(),
            maximum: float("maximum"),
            is_maximum_exclusive: flag("exclusiveMaximum"),
            minimum: float("minimum"),
            is_minimum_exclusive: flag("exclusiveMinimum"),
            multiple_of: float("multipleOf"),
            max_length: int("maxLength"),
            min_length: int("minLength"),
            pattern: match text("pattern") {
                "" => None,
                pattern => Pattern::new(pattern).ok(),
            },
            max_items: int("maxItems"),
            min_items: int("minItems"),
            max_properties: int("maxProperties"),
            min_properties: int("minProperties"),
            values: list("enum").to_vec(),
            required: list("required")
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: not.map(|not| Box::new(Structural::read(not))),
        }
    }
}
