//! Correlation of values with those before an update (CRD-160, CRD-161): members by their names,
//! items of lists by their keys if the list is a map.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::node::{ListType, Node};
use super::view::View;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The key of an item, by which kube-apiserver correlates it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Int(i64),
    /// The bits of a float.
    Float(u64),
    Text(String),
    /// Of several members.
    Several(String),
}

impl Key {
    /// Returns the key of an item, unless a member is absent or not a scalar.
    fn of(members: &Map<String, Value>, names: &[String]) -> Option<Key> {
        if let [name] = names {
            return Some(match members.get(name)? {
                Value::Bool(value) => Key::Bool(*value),
                Value::Number(number) => match number.as_i64() {
                    Some(whole) => Key::Int(whole),
                    None => Key::Float(number.as_f64()?.to_bits()),
                },
                Value::String(text) => Key::Text(text.clone()),
                _ => return None,
            });
        }
        let mut key = String::new();
        for name in names {
            key.push('\0');
            key.push_str(&match members.get(name)? {
                Value::Number(number) if !number.is_i64() => format!("{:.6}", number.as_f64()?),
                value @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => value.to_string(),
                _ => return None,
            });
        }
        Some(Key::Several(key))
    }
}

/// The items of a list before the update, by their keys. Rules in CEL correlate items in the same
/// way.
pub struct OldItems<'v> {
    names: &'v [String],
    by_key: HashMap<Key, &'v Value>,
}

impl<'v> OldItems<'v> {
    /// Returns the items of the old list. They are empty if its items can't be correlated.
    pub fn of(old: Option<View<'v>>, schema: Node<'v>) -> OldItems<'v> {
        let mut olds = OldItems {
            names: schema.list_keys(),
            by_key: HashMap::new(),
        };
        let is_map = schema.list_type() == ListType::Map && !olds.names.is_empty();
        if let Some(View::List(items)) = old
            && is_map
        {
            for item in items {
                let members = item.as_object();
                // The first of several items with a key counts.
                if let Some(key) = members.and_then(|members| Key::of(members, olds.names)) {
                    olds.by_key.entry(key).or_insert(item);
                }
            }
        }
        olds
    }

    /// Returns the old item with the key of an item.
    pub fn find(&self, item: &Value) -> Option<View<'v>> {
        if self.by_key.is_empty() {
            return None;
        }
        let key = Key::of(item.as_object()?, self.names)?;
        self.by_key.get(&key).map(|old| View::from(*old))
    }
}

/// Returns whether a value equals the old one, with items of maps in any order. As in
/// kube-apiserver, members without a schema are never equal. `known` has the results for parts, by
/// their addresses.
pub fn is_same<'v>(
    known: &mut HashMap<usize, bool>,
    value: View<'v>,
    old: View<'v>,
    schema: Node<'v>,
) -> bool {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, || match (value, old) {
        (View::List(items), View::List(olds)) => {
            items.len() == olds.len() && are_same_items(known, items, olds, schema)
        }
        (View::Object(members), View::Object(olds)) => {
            let address = std::ptr::from_ref(members).addr();
            if let Some(known) = known.get(&address) {
                return *known;
            }
            let is_same = members.len() == olds.len()
                && members.iter().all(|(name, value)| {
                    let below = olds.get(name).zip(schema.member(name));
                    below.is_some_and(|(old, of)| is_same(known, value.into(), old.into(), of))
                });
            known.insert(address, is_same);
            is_same
        }
        (value, old) => value == old,
    })
}

fn are_same_items<'v>(
    known: &mut HashMap<usize, bool>,
    items: &'v [Value],
    olds: &'v [Value],
    schema: Node<'v>,
) -> bool {
    if schema.list_type() != ListType::Map {
        return items == olds;
    }
    let by_key = OldItems::of(Some(View::List(olds)), schema);
    let of = schema.items();
    items.iter().all(|item| {
        let old = by_key.find(item).zip(of);
        old.is_some_and(|(old, of)| is_same(known, item.into(), old, of))
    })
}
