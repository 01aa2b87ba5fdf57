//! Messages that expressions of mutating policies build, and values as the JSON of an object
//! (HK-66 to HK-68).

use std::collections::btree_map;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Members, Number, Value as Json};

use super::times::printed_duration;
use super::value::{List, Map, Message, Outcome, PATCH, Value, error};
use crate::structural::json_bytes;

/// The most bytes of JSON that the values of one mutation may become: those of a request.
const MAX_BYTES: usize = 3 << 20;

/// The bytes for which a value counts beyond its text.
const BYTES_OF_VALUE: usize = 8;

/// The integers up to this one are the same as floating-point numbers.
const MAX_SAFE: u64 = 1 << 53;

/// The most faults of type names that are reported.
const MAX_FAULTS: usize = 100;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

impl<'v> Message<'v> {
    /// Returns a message with this name. Of several fields with one name the last one counts.
    pub(in super::super) fn build(
        name: &Arc<str>,
        fields: Vec<(Arc<str>, Value<'v>)>,
    ) -> Outcome<Value<'v>> {
        let message = Message {
            name: Arc::clone(name),
            fields: fields.into_iter().collect(),
        };
        if **name == *PATCH {
            for field in ["op", "path", "from"] {
                match message.fields.get(field) {
                    None | Some(Value::String(_)) => {}
                    Some(other) => {
                        return error(format!(
                            "unexpected type {} for JSONPatchType '{field}' field",
                            go_type(other)
                        ));
                    }
                }
            }
        }
        Ok(Value::Message(Arc::new(message)))
    }

    /// Returns the name of its type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fields by name.
    pub fn fields(&self) -> btree_map::Iter<'_, Arc<str>, Value<'v>> {
        self.fields.iter()
    }

    /// Returns a field.
    pub fn field(&self, name: &str) -> Option<&Value<'v>> {
        self.fields.get(name)
    }

    /// Returns a text field, or nothing if it is absent.
    pub fn text(&self, name: &str) -> &str {
        match self.fields.get(name) {
            Some(Value::String(text)) => text,
            _ => "",
        }
    }

    /// Checks that the types of the messages in it are named after their places (HK-67).
    ///
    /// # Errors
    /// All that are not, one on each line.
    pub fn check_type_names(&self) -> Result<(), String> {
        let mut names = Names {
            left: MAX_BYTES / BYTES_OF_VALUE,
            path: self.name.to_string(),
            faults: Vec::new(),
        };
        names.message(self);
        match names.faults.is_empty() {
            true => Ok(()),
            false => Err(names.faults.join("\n")),
        }
    }
}

/// A check of type names.
struct Names {
    /// The number of values that may still be looked at. More are refused when they become JSON.
    left: usize,
    path: String,
    faults: Vec<String>,
}

impl Names {
    fn message(&mut self, message: &Message<'_>) {
        if self.path != *message.name && self.faults.len() < MAX_FAULTS {
            self.faults.push(format!(
                "unexpected type name {:?}, expected {:?}, which matches field name path from \
                 root Object type",
                message.name(),
                self.path
            ));
        }
        for (name, value) in &message.fields {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(name);
            self.value(value);
            self.path.truncate(length);
        }
    }

    fn value(&mut self, value: &Value<'_>) {
        let Some(left) = self.left.checked_sub(1) else {
            return;
        };
        self.left = left;
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match value {
            Value::Message(message) => self.message(message),
            Value::List(list) if !matches!(list, List::Json(_)) => {
                for item in list.iter().flatten() {
                    self.value(&item);
                }
            }
            Value::Map(map @ Map::Built(_)) => {
                for (_, item) in map.entries() {
                    if let Ok(item) = item {
                        self.value(&item);
                    }
                }
            }
            _ => {}
        });
    }
}

/// The use of a value as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonUse {
    /// A part of an applied object.
    Applied,
    /// The value of a patch, in which integers beyond those of floating-point numbers are texts.
    Patched,
}

/// Writes the values of one mutation as JSON. All of them together are bounded, because an
/// expression can name a large value very often for little.
#[derive(Debug)]
pub struct JsonWriter {
    left: usize,
    what_for: JsonUse,
}

impl JsonWriter {
    /// Creates a writer of values for this use.
    pub fn new(what_for: JsonUse) -> JsonWriter {
        JsonWriter {
            left: MAX_BYTES,
            what_for,
        }
    }

    /// Returns a value as JSON.
    ///
    /// # Errors
    /// The reason why it has no JSON: a part has no JSON, or all values are too large.
    pub fn json(&mut self, value: &Value<'_>) -> Result<Json, String> {
        self.take(0)?;
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.value_here(value))
    }

    /// Returns a text as JSON.
    ///
    /// # Errors
    /// All values are too large.
    pub fn text(&mut self, text: &str) -> Result<Json, String> {
        self.take(text.len())?;
        Ok(Json::String(text.to_owned()))
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes.saturating_add(BYTES_OF_VALUE));
        self.left = left.ok_or_else(|| {
            format!("the value of the expression is too large: it may have {MAX_BYTES} bytes")
        })?;
        Ok(())
    }

    fn value_here(&mut self, value: &Value<'_>) -> Result<Json, String> {
        Ok(match value {
            Value::Null | Value::Optional(None) => Json::Null,
            Value::Bool(of) => Json::Bool(*of),
            Value::Int(of) if !self.is_safe(of.unsigned_abs()) => Json::String(of.to_string()),
            Value::Int(of) => Json::from(*of),
            Value::Uint(of) if !self.is_safe(*of) => Json::String(of.to_string()),
            Value::Uint(of) => Json::from(*of),
            Value::Double(of) => number(*of)?,
            Value::String(text) => self.text(text)?,
            Value::Bytes(bytes) => {
                self.take(bytes.len())?;
                Json::String(STANDARD.encode(bytes))
            }
            Value::Timestamp(time) => Json::String(time.printed()),
            Value::Duration(of) => Json::String(printed_duration(*of)),
            Value::Optional(Some(of)) => self.json(of)?,
            Value::Message(message) => {
                let mut members = Members::new();
                for (name, value) in message.fields() {
                    self.take(name.len())?;
                    members.insert(name.to_string(), self.json(value)?);
                }
                Json::Object(members)
            }
            Value::List(List::Json(list)) => {
                self.take(list.items.iter().map(json_bytes).sum())?;
                Json::Array(list.items.to_vec())
            }
            Value::List(list) => {
                let mut items = Vec::new();
                for item in list.iter() {
                    let item = item.map_err(|why| why.to_string())?;
                    items.push(self.json(&item)?);
                }
                Json::Array(items)
            }
            Value::Map(Map::Json(map)) => {
                self.take(map.members.values().map(json_bytes).sum())?;
                Json::Object(map.members.clone())
            }
            Value::Map(map) => self.members(map)?,
            Value::Preserved(of) => {
                self.take(json_bytes(of))?;
                (*of).clone()
            }
            Value::Type(_) | Value::Opaque(_) => {
                let of = value.type_name();
                return Err(format!("type conversion error from '{of}' to JSON"));
            }
        })
    }

    /// Returns whether an integer stays a number.
    fn is_safe(&self, magnitude: u64) -> bool {
        self.what_for == JsonUse::Applied || magnitude < MAX_SAFE
    }

    fn members(&mut self, map: &Map<'_>) -> Result<Json, String> {
        let mut members = Members::new();
        for (key, value) in map.entries() {
            let Value::String(name) = &key else {
                return Err(format!(
                    "map key \"{key}\" is of type {}, not string",
                    key.type_name()
                ));
            };
            self.take(name.len())?;
            let value = value.map_err(|why| why.to_string())?;
            members.insert((**name).to_owned(), self.json(&value)?);
        }
        Ok(Json::Object(members))
    }
}

/// Returns a floating-point number as JSON, where a whole one is an integer.
fn number(of: f64) -> Result<Json, String> {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
    let whole = (of.fract() == 0.0 && of.abs() < 9e18).then_some(of as i64);
    if let Some(whole) = whole {
        return Ok(Json::from(whole));
    }
    let number = Number::from_f64(of).map(Json::Number);
    number.ok_or_else(|| format!("{of} has no JSON"))
}

/// Returns the type that a value has in Go.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Bytes(_) => "[]uint8",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
        Value::Timestamp(_) => "time.Time",
        Value::Duration(_) => "time.Duration",
        other => other.type_name(),
    }
}
