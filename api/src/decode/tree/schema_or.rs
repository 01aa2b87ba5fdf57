//! Fields that contain a schema or another value: `items`, `additionalProperties` and
//! `dependencies` in the schemas of CustomResourceDefinitions. Kubernetes decodes each by a custom
//! decoder, which drops unknown members without reporting them.

use serde::de::{IgnoredAny, SeqAccess};
use serde_json::Value;

use super::typed::{GoPath, type_error};
use super::{Guide, MAX_TREE_BYTES, Node, Numbers, Reading};
use crate::field_validation::Place;
use crate::schema::{Schema, SchemaOr, Struct};
use crate::text::json_type;

/// The error for a value that is neither a schema nor a boolean.
const NOT_BOOL_OR_SCHEMA: &str = "boolean or JSON schema expected";

impl SchemaOr {
    /// Returns a value that is not an object or list, or null in its place, or an error.
    fn single(self, value: Value) -> Result<Value, &'static str> {
        match (self, value) {
            (SchemaOr::Bool, value @ Value::Bool(_)) => Ok(value),
            (SchemaOr::Bool, _) => Err(NOT_BOOL_OR_SCHEMA),
            (SchemaOr::Schemas | SchemaOr::Strings, _) => Ok(Value::Null),
        }
    }

    /// Checks an item of a list, where null becomes Go's zero value. An error names the type that
    /// an item must have. `of` is the struct of schemas.
    fn item(self, value: &mut Value, of: &Struct) -> Result<(), String> {
        let (is_right, zero) = match self {
            SchemaOr::Strings => (value.is_string(), Value::String(String::new())),
            SchemaOr::Schemas | SchemaOr::Bool => {
                (value.is_object(), Value::Object(serde_json::Map::new()))
            }
        };
        match (value, self) {
            (value @ Value::Null, _) => *value = zero,
            _ if is_right => {}
            (_, SchemaOr::Strings) => return Err("string".to_owned()),
            (_, SchemaOr::Schemas | SchemaOr::Bool) => {
                return Err(format!("{}.{}", of.version(), of.name));
            }
        }
        Ok(())
    }
}

impl Node<'_> {
    /// Reads a value that is not an object or list in such a field.
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
        schema: &Schema,
        at: &GoPath<'_>,
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
            if let Err(wanted) = or.item(&mut item, at.owner) {
                let found = json_type(&item);
                self.reading
                    .refuse(|| type_error(found, &wanted, at.owner, at));
                return skipped(access);
            }
            items.push(item);
        }
    }
}

/// Skips the rest of a list that is refused.
fn skipped<'de, A: SeqAccess<'de>>(mut access: A) -> Result<Value, A::Error> {
    while access.next_element::<IgnoredAny>()?.is_some() {}
    Ok(Value::Null)
}

/// Reads a value in such a field of `owner` that is already a tree.
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
                or.item(item, owner).map_err(|wanted| {
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
