//! Names in YAML as Kubernetes' reader converts them: a name that is a number or a boolean becomes
//! the text of its value.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::text::quoting::go_quote;

/// A name, with its YAML value.
pub(super) struct Key {
    pub name: String,
    /// Go's form of a name that is not a text. Two names are duplicates only if these are equal,
    /// too.
    shown: Option<Shown>,
}

#[derive(Clone, PartialEq)]
enum Shown {
    Bool,
    Int,
    Float(String),
}

impl Key {
    pub(super) fn text(name: String) -> Key {
        Key { name, shown: None }
    }

    fn other(name: String, shown: Shown) -> Key {
        Key {
            name,
            shown: Some(shown),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            None => write!(f, "{}", go_quote(&self.name)),
            Some(Shown::Bool | Shown::Int) => f.write_str(&self.name),
            Some(Shown::Float(text)) => f.write_str(text),
        }
    }
}

/// The names of a map that are not texts.
#[derive(Default)]
pub(super) struct Others(BTreeMap<String, Shown>);

impl Others {
    /// Records a name. `has_one` says that the map already has the same text as a name. Returns
    /// whether that name is also the same YAML value.
    pub(super) fn is_same(&mut self, key: &Key, has_one: bool) -> bool {
        let earlier = match &key.shown {
            Some(shown) => self.0.insert(key.name.clone(), shown.clone()),
            None if self.0.is_empty() => None,
            None => self.0.remove(&key.name),
        };
        has_one && earlier == key.shown
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Key, E> {
        Ok(Key::other(value.to_string(), Shown::Bool))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Key, E> {
        Ok(Key::other(value.to_string(), Shown::Int))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Key, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom(format_args!(
                "unsupported map key of type: uint64, key: {value:#x}"
            ))),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Key, E> {
        // The reader parses it as a 32-bit number here.
        let half = value as f32;
        let name = match half {
            half if half.is_nan() => ".nan".to_owned(),
            f32::INFINITY => ".inf".to_owned(),
            f32::NEG_INFINITY => "-.inf".to_owned(),
            half => shortest(&format!("{half:e}"), &half.to_string()),
        };
        let shown = shortest(&format!("{value:e}"), &value.to_string());
        Ok(Key::other(name, Shown::Float(shown)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
        Ok(Key::text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Key, E> {
        Ok(Key::text(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Key, E> {
        Err(E::custom(
            "unsupported map key of type: %!s(<nil>), key: <nil>",
        ))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Key, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("invalid map key: a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Key, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("invalid map key: a map"))
    }
}

/// Returns the shorter of Go's two forms of a number: with an exponent if that is below -4 or at
/// least 6.
fn shortest(scientific: &str, plain: &str) -> String {
    let parts = scientific.split_once('e');
    let parts = parts.and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    match parts {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => plain.to_owned(),
    }
}
