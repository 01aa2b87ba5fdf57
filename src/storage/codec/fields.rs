//! Extracts the values of selectable fields from JSON text, without building a tree.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smol_str::SmolStr;

use crate::api::resource::SelectableField;

/// Collects the values of a resource's selectable fields, in the order of its definition.
pub(super) struct FieldCollector<'d> {
    fields: &'d [SelectableField],
    /// For each field its text, and the index of the path where it was found. An earlier path of a
    /// field wins.
    found: Vec<Option<(usize, SmolStr)>>,
}

/// A path still looked for below the current member: field, path index, rest.
type Wanted<'d> = (usize, usize, &'d [String]);

impl<'d> FieldCollector<'d> {
    pub(super) fn new(fields: &'d [SelectableField]) -> FieldCollector<'d> {
        FieldCollector {
            fields,
            found: vec![None; fields.len()],
        }
    }

    /// The values in a JSON document. An absent or empty field has its definition's default; a
    /// boolean is `true` or `false` (API-215).
    pub(super) fn collect<'de, D: Deserializer<'de>>(
        &mut self,
        document: D,
    ) -> Result<Box<[SmolStr]>, D::Error> {
        if self.fields.is_empty() {
            return Ok(Box::default());
        }
        let wanted = self
            .fields
            .iter()
            .enumerate()
            .flat_map(|(field, definition)| {
                definition
                    .paths
                    .iter()
                    .enumerate()
                    .map(move |(path, rest)| (field, path, &**rest))
            })
            .collect();
        Below {
            found: &mut self.found,
            wanted,
        }
        .deserialize(document)?;
        let absent = self.fields.iter().map(|field| &field.absent);
        Ok(self
            .found
            .iter_mut()
            .zip(absent)
            .map(|(found, absent)| match found.take() {
                Some((_, text)) => text,
                None => SmolStr::new(absent),
            })
            .collect())
    }
}

/// The value at one place in the document, with the paths looked for there and below.
struct Below<'c, 'd> {
    found: &'c mut Vec<Option<(usize, SmolStr)>>,
    wanted: Vec<Wanted<'d>>,
}

impl Below<'_, '_> {
    fn scalar(self, text: &str) {
        if text.is_empty() {
            return;
        }
        for (field, path, rest) in self.wanted {
            if !rest.is_empty() {
                continue;
            }
            if let Some(slot) = self.found.get_mut(field)
                && slot.as_ref().is_none_or(|(earlier, _)| path < *earlier)
            {
                *slot = Some((path, SmolStr::from(text)));
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Below<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.wanted.is_empty() {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Below<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<SmolStr>()? {
            let wanted = self
                .wanted
                .iter()
                .filter_map(|(field, path, rest)| match rest.split_first() {
                    Some((first, rest)) if name == first.as_str() => Some((*field, *path, rest)),
                    _ => None,
                })
                .collect();
            map.next_value_seed(Below {
                found: &mut *self.found,
                wanted,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalar(text);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
