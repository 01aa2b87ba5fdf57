//! A document as a tree, read from any serde format, with limits and a record of duplicate members.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::document_paths::{Paths, Place};

/// The maximum nesting of objects and lists. The JSON parsers of common clients stop at 128, and
/// the difference leaves room for the lists and watch events around an object.
pub const MAX_DEPTH: usize = 100;

/// The limit on the text of a document together with a few bytes for every value. A plain body is
/// always smaller. A body that expands through aliases may not be.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;

/// The weight of a value in addition to its text.
const WEIGHT_OF_VALUE: usize = 2;

/// The limit on the memory of a document's tree, estimated from the allocator's block sizes.
/// Objects that people store need up to forty times their text. `[{"":0},{"":0},...]` needs a
/// hundred times its text.
pub const MAX_TREE_BYTES: usize = 64 * 1024 * 1024;

/// The memory of a text in addition to its bytes.
const BYTES_OF_TEXT: usize = 16;

/// The memory of a map node with its first members. A node has room for eleven, and nodes of large
/// maps are about half full.
const BYTES_OF_NODE: usize = 640;
const BYTES_OF_MEMBER: usize = BYTES_OF_NODE / 6;

/// A whole document, whose tree uses at most `TREE_BYTES`.
pub struct Document<const TREE_BYTES: usize> {
    /// Its tree.
    pub value: Value,
    /// Paths of members that were given more than once, each path once.
    pub duplicates: Vec<String>,
}

impl<'de, const TREE_BYTES: usize> Deserialize<'de> for Document<TREE_BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut reading = Reading {
            weight: 0,
            tree_bytes_left: TREE_BYTES,
            duplicates: Paths::default(),
        };
        let node = Node {
            reading: &mut reading,
            place: &Place::Top,
            depth: 0,
        };
        let value = node.deserialize(deserializer)?;
        Ok(Document {
            value,
            duplicates: reading.duplicates.into_vec(),
        })
    }
}

/// The progress of a read.
struct Reading {
    weight: usize,
    tree_bytes_left: usize,
    duplicates: Paths,
}

impl Reading {
    /// Counts a value with the length of its text, if it has one.
    fn weigh<E: Error>(&mut self, text: Option<usize>) -> Result<(), E> {
        self.weight += text.unwrap_or(0) + WEIGHT_OF_VALUE;
        let text_bytes = text.map_or(0, |bytes| bytes + BYTES_OF_TEXT);
        self.take(size_of::<Value>() + text_bytes)
    }

    /// Counts a member's name and its place in the map.
    fn weigh_member<E: Error>(&mut self, name: usize, is_first: bool) -> Result<(), E> {
        self.weight += name + WEIGHT_OF_VALUE;
        let place = if is_first {
            BYTES_OF_NODE
        } else {
            BYTES_OF_MEMBER
        };
        self.take(name + BYTES_OF_TEXT + place)
    }

    fn take<E: Error>(&mut self, tree_bytes: usize) -> Result<(), E> {
        match self.tree_bytes_left.checked_sub(tree_bytes) {
            Some(left) if self.weight <= MAX_WEIGHT => {
                self.tree_bytes_left = left;
                Ok(())
            }
            _ => Err(E::custom("the document expands to too much data")),
        }
    }
}

/// One value at its depth.
struct Node<'r> {
    reading: &'r mut Reading,
    place: &'r Place<'r>,
    depth: usize,
}

impl Node<'_> {
    fn inside<'i, E: Error>(&'i mut self, place: &'i Place<'i>) -> Result<Node<'i>, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(format_args!(
                "exceeded max depth: nested deeper than {MAX_DEPTH} levels"
            )));
        }
        Ok(Node {
            reading: self.reading,
            place,
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(small), _) => self.visit_i64(small),
            (_, Ok(small)) => self.visit_u64(small),
            _ => self.visit_f64(value as f64),
        }
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        match u64::try_from(value) {
            Ok(small) => self.visit_u64(small),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.reading.weigh(None)?;
        if let Some(whole) = whole_number(value) {
            return Ok(whole.into());
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format_args!("unsupported value: {value}")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.reading.weigh(Some(text.len()))?;
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.reading.weigh(Some(text.len()))?;
        Ok(Value::String(text))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.visit_str(text),
            Err(_) => Err(E::custom("binary data that is no UTF-8 text")),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        self.deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.reading.weigh(None)?;
        let above = self.place;
        let mut items = Vec::new();
        loop {
            let place = Place::Item(above, items.len());
            match access.next_element_seed(self.inside(&place)?)? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.reading.weigh(None)?;
        let above = self.place;
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            self.reading.weigh_member(name.len(), members.is_empty())?;
            let place = Place::Member(above, &name);
            let value = access.next_value_seed(self.inside(&place)?)?;
            if members.contains_key(&name) {
                self.reading.duplicates.note(place);
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

/// Converts a float that is a whole number, as Go prints it. Both zeros become 0.
fn whole_number(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53: beyond it floats skip whole numbers
    (value.fract() == 0.0 && value.abs() <= LIMIT).then_some(value as i64)
}

/// The estimated memory of a tree, computed as for a document.
pub fn tree_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len() + BYTES_OF_TEXT,
        Value::Array(items) => items.iter().map(tree_bytes).sum(),
        Value::Object(members) => {
            let names = members.keys().map(|name| name.len() + BYTES_OF_TEXT);
            let node = BYTES_OF_NODE.min(members.len() * BYTES_OF_NODE);
            let more = members.len().saturating_sub(1) * BYTES_OF_MEMBER;
            let values = members.values().map(tree_bytes);
            node + more + names.sum::<usize>() + values.sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

/// Whether a tree has more than `levels` levels of objects and lists.
pub fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let exceeds = |inner: &Value| is_deeper_than(inner, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(exceeds),
        Value::Object(members) => levels == 0 || members.values().any(exceeds),
        _ => false,
    }
}
