//! FieldsV1, the text form of field sets in managedFields (API-182), as structured-merge-diff reads
//! and writes it.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::{FieldSet, Node, PathElement};
use crate::deep::{self, levels};
use crate::text::quoting::go_quote;

/// A text that is not valid FieldsV1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldsV1Error(String);

impl FieldSet {
    /// Parses FieldsV1.
    ///
    /// # Errors
    /// The text is not a JSON object, has invalid names, or is nested too deeply.
    pub fn from_fields_v1(text: &str) -> Result<FieldSet, FieldsV1Error> {
        let mut deserializer = deep::reader(text.as_bytes());
        let read = whole().deserialize(&mut deserializer);
        if let (Ok((_, set)), Ok(())) = (read, deserializer.end()) {
            return Ok(set);
        }
        // Errors of a tree name no line and column, as errors about managedFields do not either.
        let value: Value =
            deep::from_json(text.as_bytes()).map_err(|error| FieldsV1Error(error.to_string()))?;
        FieldSet::from_fields_v1_value(&value)
    }

    /// Reads FieldsV1 from parsed JSON. Skips unknown kinds of path elements, which a later version
    /// may define. `null` is the empty set.
    ///
    /// # Errors
    /// As [`FieldSet::from_fields_v1`].
    pub fn from_fields_v1_value(value: &Value) -> Result<FieldSet, FieldsV1Error> {
        match whole().deserialize(value) {
            Ok((_, set)) => Ok(set),
            Err(error) => Err(FieldsV1Error(error.to_string())),
        }
    }

    /// Returns the set as FieldsV1, byte for byte as Kubernetes writes it.
    pub fn to_fields_v1(&self) -> String {
        let mut text = String::with_capacity(64 * self.nodes.len());
        self.write_fields_v1(&mut text);
        text
    }

    /// Appends the set as FieldsV1.
    pub(crate) fn write_fields_v1(&self, text: &mut String) {
        write_set(self, false, text);
    }
}

/// Returns the reader of a whole set.
fn whole() -> Below<'static> {
    Below {
        name: None,
        depth: 0,
        levels: levels(),
    }
}

/// Reads the value of a name without building a JSON tree: whether it has a member `.`, and the set
/// below it.
struct Below<'n> {
    /// The name, `None` for the whole set.
    name: Option<&'n str>,
    depth: usize,
    /// The number of further levels that are allowed.
    levels: usize,
}

impl Below<'_> {
    fn no_object<E: Error>(&self) -> E {
        E::custom(match self.name {
            Some(name) => format!(
                "FieldsV1 has a value that is not an object for {}",
                go_quote(name)
            ),
            None => "FieldsV1 is not an object".to_owned(),
        })
    }
}

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = (bool, FieldSet);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Below<'_> {
    type Value = (bool, FieldSet);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FieldsV1")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok((true, FieldSet::default()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Err(self.no_object())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Err(self.no_object())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Err(self.no_object())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Err(self.no_object())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(self.no_object())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(self.no_object())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if self.depth > self.levels {
            deep::note();
            let problem = format!("FieldsV1 is nested deeper than {} levels", self.levels);
            return Err(A::Error::custom(problem));
        }
        let mut has_dot = false;
        let mut nodes = Vec::new();
        let mut name = String::new();
        while map.next_key_seed(Name(&mut name))?.is_some() {
            if name == "." {
                map.next_value::<IgnoredAny>()?;
                has_dot = true;
                continue;
            }
            let Some(element) = element(&name).map_err(A::Error::custom)? else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let (is_member, below) = map.next_value_seed(Below {
                name: Some(&name),
                depth: self.depth + 1,
                levels: self.levels,
            })?;
            nodes.push(Node {
                element,
                is_member: is_member || below.is_empty(),
                below,
            });
        }
        Ok((has_dot, FieldSet::of_nodes(nodes)))
    }
}

/// Reads a name into a buffer that is reused for the next one.
struct Name<'n>(&'n mut String);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name of FieldsV1")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        self.0.clear();
        self.0.push_str(name);
        Ok(())
    }
}

/// Parses a name. Returns `None` for an unknown kind of path element.
fn element(name: &str) -> Result<Option<PathElement>, FieldsV1Error> {
    let refuse = |problem: &str| FieldsV1Error(format!("{problem}: {}", go_quote(name)));
    let (kind, rest) = match name.as_bytes() {
        [kind, b':', ..] => (*kind, name.get(2..).unwrap_or_default()),
        [_, _, ..] => return Err(refuse("missing colon")),
        _ => return Err(refuse("key must be 2 characters long")),
    };
    let element = match kind {
        b'f' => PathElement::field(rest),
        b'v' => {
            let value = serde_json::from_str(rest).map_err(|_| refuse("not a JSON value"))?;
            PathElement::Value(Arc::new(value))
        }
        b'k' => {
            let fields: Map<String, Value> =
                serde_json::from_str(rest).map_err(|_| refuse("not a JSON object"))?;
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (SmolStr::new(name), value));
            PathElement::key(fields.collect())
        }
        b'i' => PathElement::Index(rest.parse().map_err(|_| refuse("not an index"))?),
        _ => return Ok(None),
    };
    Ok(Some(element))
}

pub(crate) fn write_set(set: &FieldSet, is_member: bool, text: &mut String) {
    text.push('{');
    let mut is_first = true;
    if is_member && !set.is_empty() {
        text.push_str("\".\":{}");
        is_first = false;
    }
    for node in set.nodes() {
        if !is_first {
            text.push(',');
        }
        is_first = false;
        write_name(&node.element, text);
        text.push(':');
        write_set(&node.below, node.is_member, text);
    }
    text.push('}');
}

/// Appends the name of a member, as JSON text.
pub(crate) fn write_name(element: &PathElement, text: &mut String) {
    text.push('"');
    match element {
        PathElement::Field(name) => {
            text.push_str("f:");
            escape(name, text);
        }
        PathElement::Key(fields) => {
            let mut key = String::from("k:{");
            for (place, (name, value)) in fields.iter().enumerate() {
                if place > 0 {
                    key.push(',');
                }
                key.push('"');
                escape(name, &mut key);
                key.push_str("\":");
                write_value(value, &mut key);
            }
            key.push('}');
            escape(&key, text);
        }
        PathElement::Value(value) => {
            let mut written = String::from("v:");
            write_value(value, &mut written);
            escape(&written, text);
        }
        PathElement::Index(index) => text.push_str(&format!("i:{index}")),
    }
    text.push('"');
}

/// Appends the inside of a JSON text. Unlike serde_json, Kubernetes has no short escapes except
/// those of line breaks and tabs.
fn escape(raw: &str, text: &mut String) {
    // Most names need no escapes.
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if raw.bytes().all(is_plain) {
        text.push_str(raw);
        return;
    }
    let mut rest = raw;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        let (plain, special) = rest.split_at(at);
        text.push_str(plain);
        let mut characters = special.chars();
        match characters.next() {
            Some('"') => text.push_str("\\\""),
            Some('\\') => text.push_str("\\\\"),
            Some('\n') => text.push_str("\\n"),
            Some('\r') => text.push_str("\\r"),
            Some('\t') => text.push_str("\\t"),
            Some(control) => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            None => {}
        }
        rest = characters.as_str();
    }
    text.push_str(rest);
}

/// Appends the JSON of a value within a name. HTML characters are escaped there.
fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::String(raw) => {
            text.push('"');
            write_html_safe(raw, text);
            text.push('"');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                let comma = if place > 0 { ",\"" } else { "\"" };
                text.push_str(comma);
                write_html_safe(name, text);
                text.push_str("\":");
                write_value(value, text);
            }
            text.push('}');
        }
        Value::Number(number) if number.is_f64() => {
            text.push_str(&go_json_float(number.as_f64().unwrap_or_default()));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn write_html_safe(raw: &str, text: &mut String) {
    for c in raw.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            plain if plain >= ' ' && !matches!(plain, '"' | '\\') => text.push(plain),
            special => escape(special.encode_utf8(&mut [0; 4]), text),
        }
    }
}

/// Formats a float as Go's JSON encoder does: digits, with an exponent for very large and very
/// small numbers.
fn go_json_float(float: f64) -> String {
    let size = float.abs();
    if float == 0.0 || (1e-6..1e21).contains(&size) {
        return float.to_string();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.strip_prefix('-') {
        Some(small) => format!("{digits}e-{small:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}
