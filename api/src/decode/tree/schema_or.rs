//! Fields that hold a schema or something else: `items`, `additionalProperties` and `dependencies`
//! in the schemas of CustomResourceDefinitions. Kubernetes reads each by a decoder of its own,
//! which drops unknown members without a word.

use serde::de::{IgnoredAny, SeqAccess};
use serde_json::Value;

use super::typed::{GoPath, type_error};
use super::{Guide, MAX_TREE_BYTES, Node, Numbers, Reading};
use crate::document_paths::{Place, json_type};
use crate::schema::{Schema, SchemaOr, Struct};

/// What is said of a value that is neither a schema nor true or false.
const NOT_BOOL_OR_SCHEMA: &str = "boolean or JSON schema expected";

impl SchemaOr {
    /// A value that is no object and no list: it is kept, refused, or nothing.
    fn single(self, value: Value) -> Result<Value, &'static str> {
        match (self, value) {
            (SchemaOr::Bool, value @ Value::Bool(_)) => Ok(value),
            (SchemaOr::Bool, _) => Err(NOT_BOOL_OR_SCHEMA),
            (SchemaOr::Schemas | SchemaOr::Strings, _) => Ok(Value::Null),
        }
    }

    /// An item of a list, where null is the value that Go has without being given any. An error
    /// names the type that an item must have.
    fn item(self, value: &mut Value) -> Result<(), &'static str> {
        let (is_right, zero, wanted) = match self {
            SchemaOr::Strings => (value.is_string(), Value::String(String::new()), "string"),
            SchemaOr::Schemas | SchemaOr::Bool => (
                value.is_object(),
                Value::Object(serde_json::Map::new()),
                "v1.JSONSchemaProps",
            ),
        };
        match value {
            Value::Null => *value = zero,
            _ if is_right => {}
            _ => return Err(wanted),
        }
        Ok(())
    }
}

impl Node<'_> {
    /// Reads a value that is no object and no list in such a field.
    pub(super) fn schema_or_single(self, or: SchemaOr, value: Value) -> Value {
        or.single(value).unwrap_or_else(|why| {
            self.reading.refuse(|| why.to_owned());
            Value::Null
        })
    }

    /// Reads a list in such a field.
    pub(super) fn schema_or_list<'de, A: SeqAccess<'de>>(
        mut self,
        or: SchemaOr,
        (schema, at): (&Schema, &GoPath<'_>),
        mut access: A,
    ) -> Result<Value, A::Error> {
        if or == SchemaOr::Bool {
            self.reading.refuse(|| NOT_BOOL_OR_SCHEMA.to_owned());
            return skipped(access);
        }
        let above = self.place;
        let mut items = Vec::new();
        loop {
            let place = Place::Item(above, items.len());
            let guide = Guide::Object(schema, at.owner);
            self.reading.silent += 1;
            let read = access.next_element_seed(self.inside(&place, guide));
            self.reading.silent -= 1;
            let Some(mut item) = read? else {
                return Ok(Value::Array(items));
            };
            if let Err(wanted) = or.item(&mut item) {
                let found = json_type(&item);
                self.reading
                    .refuse(|| type_error(found, wanted, at.owner, at));
                return skipped(access);
            }
            items.push(item);
        }
    }
}

/// Reads over the rest of a list that is refused.
fn skipped<'de, A: SeqAccess<'de>>(mut access: A) -> Result<Value, A::Error> {
    while access.next_element::<IgnoredAny>()?.is_some() {}
    Ok(Value::Null)
}

/// Reads what is in such a field of `owner` and in a tree already.
///
/// # Errors
/// The first value of a wrong type, in the words of that decoder.
pub(in crate::decode) fn read_schema_or(
    or: SchemaOr,
    schema: &Schema,
    owner: &Struct,
    value: &mut Value,
) -> Result<(), String> {
    match value {
        Value::Object(_) => read_schema(schema, owner, value),
        Value::Array(items) if or != SchemaOr::Bool => {
            for item in items {
                if item.is_object() && or == SchemaOr::Schemas {
                    read_schema(schema, owner, item)?;
                }
                or.item(item).map_err(|wanted| {
                    let found = json_type(item);
                    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
                })?;
            }
            Ok(())
        }
        other => {
            *other = or.single(other.take())?;
            Ok(())
        }
    }
}

fn read_schema(schema: &Schema, owner: &Struct, value: &mut Value) -> Result<(), String> {
    let mut reading = Reading::new(MAX_TREE_BYTES, Numbers::ByValue);
    reading.silent = 1;
    let read = reading.read(Guide::Object(schema, owner), value.take());
    *value = read.map_err(|error: serde_json::Error| error.to_string())?;
    match reading.decoder_error.or(reading.type_error) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}
