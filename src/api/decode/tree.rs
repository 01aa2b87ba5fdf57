//! A document as a tree, from any serde format, with limits and a note of duplicate members.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep objects and lists may be nested. The JSON parsers of common clients give up at 128;
/// some of that is kept for the lists and watch events around an object.
pub const MAX_DEPTH: usize = 100;

/// What the texts of a document may weigh together, a few bytes for every value included. A body
/// is smaller than that by itself; one that aliases blow up is not.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;

/// What a value weighs beside its text.
const WEIGHT_OF_VALUE: usize = 2;

/// Paths of duplicates that are kept; answers name no more than 100 (API-90).
const MAX_DUPLICATES: usize = 100;

/// A whole document.
pub struct Document {
    /// Its tree.
    pub value: Value,
    /// Paths of members that were given more than once, each path once.
    pub duplicates: Vec<String>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        let mut reading = Reading::default();
        let node = Node {
            reading: &mut reading,
            depth: 0,
        };
        let value = node.deserialize(deserializer)?;
        Ok(Document {
            value,
            duplicates: reading.duplicates,
        })
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    weight: usize,
    duplicates: Vec<String>,
}

impl Reading {
    fn weigh<E: Error>(&mut self, text: usize) -> Result<(), E> {
        self.weight += text + WEIGHT_OF_VALUE;
        if self.weight > MAX_WEIGHT {
            return Err(E::custom("the document expands to too much data"));
        }
        Ok(())
    }

    fn note_duplicate(&mut self, path: String) {
        if self.duplicates.len() < MAX_DUPLICATES && !self.duplicates.contains(&path) {
            self.duplicates.push(path);
        }
    }

    /// Puts what encloses them in front of the duplicates found since there were `known`. So
    /// paths cost nothing while there are no duplicates.
    fn enclose(&mut self, known: usize, parent: impl std::fmt::Display) {
        for path in self.duplicates.iter_mut().skip(known) {
            let separator = if path.starts_with('[') { "" } else { "." };
            *path = format!("{parent}{separator}{path}");
        }
    }
}

/// One value at a depth.
struct Node<'r> {
    reading: &'r mut Reading,
    depth: usize,
}

impl Node<'_> {
    fn inside<E: Error>(&mut self) -> Result<Node<'_>, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(format_args!(
                "exceeded max depth: nested deeper than {MAX_DEPTH} levels"
            )));
        }
        Ok(Node {
            reading: self.reading,
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
        self.reading.weigh(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.reading.weigh(0)?;
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.reading.weigh(0)?;
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
        self.reading.weigh(0)?;
        if let Some(whole) = whole_number(value) {
            return Ok(whole.into());
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format_args!("unsupported value: {value}")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.reading.weigh(text.len())?;
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.reading.weigh(text.len())?;
        Ok(Value::String(text))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.visit_str(text),
            Err(_) => Err(E::custom("binary data that is no UTF-8 text")),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.reading.weigh(0)?;
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
        self.reading.weigh(0)?;
        let mut items = Vec::new();
        loop {
            let known = self.reading.duplicates.len();
            let Some(item) = access.next_element_seed(self.inside()?)? else {
                return Ok(Value::Array(items));
            };
            self.reading
                .enclose(known, format_args!("[{}]", items.len()));
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.reading.weigh(0)?;
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            self.reading.weigh(name.len())?;
            let known = self.reading.duplicates.len();
            let value = access.next_value_seed(self.inside()?)?;
            self.reading.enclose(known, &name);
            if members.contains_key(&name) {
                self.reading.note_duplicate(name.clone());
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

/// A float that is a whole number, which is how Go prints it; both zeros are 0.
fn whole_number(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53: beyond it floats skip whole numbers
    (value.fract() == 0.0 && value.abs() <= LIMIT).then_some(value as i64)
}

/// Whether a tree has more levels of objects and lists than this.
pub fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let exceeds = |inner: &Value| is_deeper_than(inner, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(exceeds),
        Value::Object(members) => levels == 0 || members.values().any(exceeds),
        _ => false,
    }
}
