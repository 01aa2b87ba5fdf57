//! The texts of values that are kept as JSON (`runtime.RawExtension`). Pure.
//!
//! kube-apiserver keeps the text of such a value: the order of its members, and the spelling of
//! numbers and letters. An object here is a tree, in which such a value is a tree, too, so its text
//! is kept next to the object. The text applies as long as the value stays the same. A text that is
//! equal to the printed tree, as most are, is not kept.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::go_json::write_json;

/// The texts in one object, by path. A type has few such paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawTexts(Vec<TextsAt>);

#[derive(Clone, Debug, PartialEq)]
struct TextsAt {
    /// The member names on the way to the values. Items of lists add no name.
    path: Vec<String>,
    /// The texts, by the printed form of their values. A text applies to all equal values at this
    /// path.
    texts: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl TextsAt {
    fn is_below(&self, path: &[impl AsRef<str>]) -> bool {
        let names = path.iter().map(AsRef::as_ref);
        self.path.len() >= path.len() && self.path.iter().zip(names).all(|(own, name)| own == name)
    }
}

impl RawTexts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|place| place.texts.is_empty())
    }

    /// Returns the texts at the paths that `is_left_out` does not select.
    pub(crate) fn without(&self, is_left_out: impl Fn(&[String]) -> bool) -> RawTexts {
        let places = self.0.iter().filter(|place| !is_left_out(&place.path));
        RawTexts(places.cloned().collect())
    }

    /// Returns these texts outside of a path, and those of `other` below it.
    pub(crate) fn with(&self, other: &RawTexts, path: &[impl AsRef<str>]) -> RawTexts {
        let own = self.0.iter().filter(|place| !place.is_below(path));
        let others = other.0.iter().filter(|place| place.is_below(path));
        RawTexts(own.chain(others).cloned().collect())
    }

    /// Replaces values below a path by their texts.
    pub(crate) fn replace(&self, path: &mut Vec<String>, value: &mut Value) {
        if !self.0.iter().any(|place| place.is_below(path)) {
            return;
        }
        if let Some(found) = self.of(path, value) {
            *value = String::from_utf8_lossy(found).into();
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    path.push(name.clone());
                    self.replace(path, value);
                    path.pop();
                }
            }
            Value::Array(items) => {
                for value in items {
                    self.replace(path, value);
                }
            }
            _ => {}
        }
    }

    /// Returns the text of a value, if it has one.
    fn of(&self, path: &[impl AsRef<str>], value: &Value) -> Option<&Vec<u8>> {
        let is_here = |place: &&TextsAt| place.path.len() == path.len() && place.is_below(path);
        let here = self.0.iter().find(is_here)?;
        let mut printed = Vec::new();
        write_json(&mut printed, value);
        here.texts.get(&printed)
    }

    /// Writes the value at a path as compact JSON, with these texts in it.
    pub(crate) fn write<'v>(
        &'v self,
        out: &mut Vec<u8>,
        path: &mut Vec<&'v str>,
        value: &'v Value,
    ) {
        if !self.0.iter().any(|place| place.is_below(path)) {
            return write_json(out, value);
        }
        if let Some(found) = self.of(path, value) {
            return out.extend_from_slice(found);
        }
        let start = out.len() + 1;
        match value {
            Value::Object(members) => {
                out.push(b'{');
                for (name, value) in members {
                    if out.len() > start {
                        out.push(b',');
                    }
                    write_json(out, name);
                    out.push(b':');
                    path.push(name);
                    self.write(out, path, value);
                    path.pop();
                }
                out.push(b'}');
            }
            Value::Array(items) => {
                out.push(b'[');
                for value in items {
                    if out.len() > start {
                        out.push(b',');
                    }
                    self.write(out, path, value);
                }
                out.push(b']');
            }
            value => write_json(out, value),
        }
    }

    /// Records the text of the value that is printed like this. The latest text counts.
    pub(crate) fn note(&mut self, path: &[String], printed: Vec<u8>, text: Vec<u8>) {
        let place = self.0.iter().position(|place| place.path == path);
        match (
            place.and_then(|place| self.0.get_mut(place)),
            text == printed,
        ) {
            (Some(here), true) => {
                here.texts.remove(&printed);
            }
            (Some(here), false) => {
                here.texts.insert(printed, text);
            }
            (None, true) => {}
            (None, false) => self.0.push(TextsAt {
                path: path.to_vec(),
                texts: BTreeMap::from([(printed, text)]),
            }),
        }
    }
}
