//! The keys of items in granular lists (API-192, API-193).

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use super::forms::Items;
use super::kind::{Item, Kind};
use crate::field_set::PathElement;
use crate::schema::{Schema, Shape};
use crate::text::quoting::GoQuoted;

/// The reason why an item has no valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemFault {
    NullInMap,
    NoMapInMap,
    NoKeys(Vec<String>),
    MapInSet,
    ListInSet,
    NullInSet,
    Atomic,
}

impl fmt::Display for ItemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ItemFault::NullInMap => "associative list with keys may not have a null element",
            ItemFault::NoMapInMap => "associative list with keys may not have non-map elements",
            ItemFault::NoKeys(names) => {
                let names = names.iter().map(|name| GoQuoted(name).to_string());
                let names: Vec<String> = names.collect();
                return write!(
                    f,
                    "associative list with keys has an element that omits all key fields [{}] \
                     (and doesn't have default values for any key fields)",
                    names.join(" ")
                );
            }
            ItemFault::MapInSet => "associative list without keys has an element that's a map type",
            ItemFault::ListInSet => "not supported: associative list with lists as elements",
            ItemFault::NullInSet => {
                "associative list without keys has an element that's an explicit null"
            }
            ItemFault::Atomic => "invalid indexing of non-associative list",
        })
    }
}

/// Returns the path element of an item in a list. Absent key fields have their defaults.
pub(super) fn element(
    schema: &Schema,
    of: Item<'_>,
    items: Items<'_>,
    item: &Value,
) -> Result<PathElement, ItemFault> {
    let names = match items {
        Items::Atomic => return Err(ItemFault::Atomic),
        Items::Set => {
            return match item {
                Value::Object(_) => Err(ItemFault::MapInSet),
                Value::Array(_) => Err(ItemFault::ListInSet),
                Value::Null => Err(ItemFault::NullInSet),
                scalar => Ok(PathElement::Value(Arc::new(scalar.clone()))),
            };
        }
        Items::Map(keys) => keys.names(),
    };
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err(ItemFault::NullInMap),
        _ => return Err(ItemFault::NoMapInMap),
    };
    let mut fields = Vec::with_capacity(names.len());
    for name in names {
        let value = match members.get(name) {
            Some(value) => Some(value.clone()),
            None => default(schema, of, name),
        };
        if let Some(value) = value {
            fields.push((SmolStr::new(name), value));
        }
    }
    if fields.is_empty() {
        return Err(ItemFault::NoKeys(names.to_vec()));
    }
    Ok(PathElement::key(fields))
}

/// Returns the default of a key field (API-193).
fn default(schema: &Schema, of: Item<'_>, name: &str) -> Option<Value> {
    match of {
        Item::Type(of) => match &of.shape {
            Shape::Struct(id) => schema.get(*id)?.field(name)?.value_if_absent(),
            _ => None,
        },
        Item::OfOther(list) => match list.items(schema) {
            Kind::Other(item) => item.types.default(item.id, name).cloned(),
            _ => None,
        },
        Item::Deduced => None,
    }
}
