//! Merge rules of a patch's members by their types (API-163, API-169).

use serde_json::Value;

use super::refusal::Refusal;
use crate::schema::{Field, PatchStrategy, Schema, Shape, Struct, Type};

/// The type of a merged object.
#[derive(Clone, Copy)]
pub(super) enum Of<'s> {
    /// A struct, and whether the field is a pointer to it.
    Struct(&'s Schema, &'s Struct, bool),
    /// A value of another type.
    Other(&'s Schema, &'s Type),
}

/// The merge rule of a list.
#[derive(Clone, Copy)]
pub(super) struct ListRule<'s> {
    /// The type of its items.
    pub items: Of<'s>,
    /// Whether items are merged. If not, the list is replaced.
    pub merges: bool,
    /// The merge key, for items that are objects.
    pub key: Option<&'s str>,
}

impl<'s> Of<'s> {
    /// Returns the type for the members of a value of this type.
    fn of_type(schema: &'s Schema, of: &'s Type) -> Of<'s> {
        match &of.shape {
            Shape::Struct(id) => match schema.get(*id) {
                Some(found) => Of::Struct(schema, found, of.is_pointer),
                None => Of::Other(schema, of),
            },
            _ => Of::Other(schema, of),
        }
    }

    /// Returns the field with a member's name. Falls back to a name in other case, like Go.
    fn field(self, name: &str) -> Result<(&'s Schema, &'s Field), Refusal> {
        let (schema, of, type_name) = match self {
            Of::Struct(schema, of, _) => (schema, Some(of), of.name.as_str()),
            Of::Other(schema, of) => match (&of.shape, of.schema_name.as_deref()) {
                // In Go these are structs without JSON fields.
                (Shape::Object | Shape::Any, Some(found)) => (schema, None, &*found.name),
                _ => {
                    let kind = self.kind();
                    return Err(Refusal::Other(format!(
                        "merging an object in json but data type is not struct, instead is: {kind}"
                    )));
                }
            },
        };
        let found = of.and_then(|of| {
            let is_like = |field: &&Field| field.name.eq_ignore_ascii_case(name);
            of.field(name).or_else(|| of.fields().iter().find(is_like))
        });
        found.map(|field| (schema, field)).ok_or_else(|| {
            let name = crate::text::quoting::go_quote(name);
            Refusal::Other(format!(
                "unable to find api field in struct {type_name} for the json field {name}"
            ))
        })
    }

    /// Returns the type of an object in a member, and whether it is replaced instead of merged.
    pub fn object(self, name: &str) -> Result<(Of<'s>, bool), Refusal> {
        let (schema, field) = self.field(name)?;
        Ok((
            Of::of_type(schema, &field.of),
            has(field, PatchStrategy::Replace),
        ))
    }

    /// Returns the merge rule of a list in a member.
    pub fn list(self, name: &str) -> Result<ListRule<'s>, Refusal> {
        let (schema, field) = self.field(name)?;
        let items = match &field.of.shape {
            Shape::List(item) => Of::of_type(schema, item),
            _ if field.of.is_pointer => Of::of_type(schema, &field.of),
            _ => {
                let kind = self.kind();
                return Err(Refusal::Other(format!(
                    "expected slice or array type, but got: {kind}"
                )));
            }
        };
        Ok(ListRule {
            items,
            merges: has(field, PatchStrategy::Merge),
            key: field.patch.as_ref().and_then(|patch| patch.key.as_deref()),
        })
    }

    /// Returns the kind of the Go type.
    pub fn kind(self) -> &'static str {
        use crate::schema::Scalar;
        match self {
            Of::Struct(_, _, true) => "ptr",
            Of::Struct(..) => "struct",
            Of::Other(_, of) if of.is_pointer => "ptr",
            Of::Other(_, of) => match &of.shape {
                Shape::List(_) | Shape::Scalar(Scalar::Bytes) => "slice",
                Shape::Map(_) => "map",
                Shape::Scalar(Scalar::String) => "string",
                Shape::Scalar(Scalar::Bool) => "bool",
                Shape::Scalar(Scalar::Int32) => "int32",
                Shape::Scalar(Scalar::Int64) => "int64",
                Shape::Scalar(Scalar::Float64) => "float64",
                Shape::Scalar(_) | Shape::Struct(_) | Shape::Object | Shape::Any => "struct",
            },
        }
    }
}

fn has(field: &Field, strategy: PatchStrategy) -> bool {
    let patch = field.patch.as_ref();
    patch.is_some_and(|patch| patch.strategies.contains(&strategy))
}

/// The identity of an item in a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Whole(i64),
    /// A float, by its bits.
    Float(u64),
    /// A text.
    Text(smol_str::SmolStr),
    /// An object or a list, which equals no other item.
    Compound,
}

impl Identity {
    /// Returns the identity of a scalar.
    pub fn of(value: &Value) -> Identity {
        match value {
            Value::Null => Identity::Null,
            Value::Bool(value) => Identity::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Identity::Whole(whole),
                None => Identity::Float(number.as_f64().unwrap_or_default().to_bits()),
            },
            Value::String(text) => Identity::Text(text.into()),
            Value::Array(_) | Value::Object(_) => Identity::Compound,
        }
    }

    /// Returns the identity of an item: its merge key, or without a key the item itself.
    ///
    /// # Errors
    /// The item is not an object, or lacks the key; without a key, the item is not a scalar.
    pub fn of_item(item: &Value, key: Option<&str>) -> Result<Identity, Refusal> {
        match (key, item) {
            (None, Value::Array(_) | Value::Object(_)) => Err(Refusal::incomparable()),
            (None, item) => Ok(Identity::of(item)),
            (Some(key), Value::Object(members)) => match members.get(key) {
                Some(value) => Ok(Identity::of(value)),
                None => Err(Refusal::no_key(members, key)),
            },
            (Some(_), other) => Err(Refusal::not_a("map[string]interface {}", other)),
        }
    }
}
