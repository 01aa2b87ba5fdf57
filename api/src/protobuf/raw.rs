//! JSON that stays JSON in protobuf: a document of any form within an object.

use std::fmt;

use crate::go_json::write_json;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Writes a value as compact JSON, without a tree of it. Says false of null, of which it writes
/// nothing.
pub(super) struct RawJson<'o>(pub &'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for RawJson<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<bool, D::Error> {
        value.deserialize_any(self)
    }
}

/// A value within another one, where null is a value.
struct Inner<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Inner<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        let out = self.0;
        if !RawJson(out).deserialize(value)? {
            out.extend_from_slice(b"null");
        }
        Ok(())
    }
}

impl RawJson<'_> {
    fn print<E: Error>(self, value: impl serde::Serialize) -> Result<bool, E> {
        write_json(self.0, &value);
        Ok(true)
    }
}

impl<'de> Visitor<'de> for RawJson<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        self.print(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let out = self.0;
        out.push(b'[');
        let begun = out.len();
        loop {
            let before = out.len();
            if before > begun {
                out.push(b',');
            }
            if items.next_element_seed(Inner(out))?.is_none() {
                out.truncate(before);
                break;
            }
        }
        out.push(b']');
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let out = self.0;
        out.push(b'{');
        let begun = out.len();
        while let Some(name) = map.next_key_seed(super::encode::Name)? {
            if out.len() > begun {
                out.push(b',');
            }
            write_json(out, &*name);
            out.push(b':');
            map.next_value_seed(Inner(out))?;
        }
        out.push(b'}');
        Ok(true)
    }
}
