//! The texts of values that are kept as JSON (`runtime.RawExtension`). Pure.
//!
//! kube-apiserver keeps the text of such a value: the order of its members, and how it writes
//! numbers and letters. An object here is a tree, in which the value is as any other, so the text
//! stands beside it. It counts as long as the value is the same. Most texts are those that would be
//! printed anyway, and need no place.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::decode::{BodyFormat, decode_value};
use crate::deep;
use crate::go_json::{compacted, write_json};
use crate::schema::{Schema, Shape, StructId, Type};

/// The texts in one object, by their places. A type has few such places.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawTexts(Vec<TextsAt>);

#[derive(Clone, Debug, PartialEq)]
struct TextsAt {
    /// The names on the way to the values. Items of lists have none.
    path: Vec<String>,
    /// The texts, by what would be printed of their values. Each counts for all equal values.
    texts: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl TextsAt {
    fn is_below(&self, path: &[impl AsRef<str>]) -> bool {
        let names = path.iter().map(AsRef::as_ref);
        self.path.len() >= path.len() && self.path.iter().zip(names).all(|(own, name)| own == name)
    }
}

impl RawTexts {
    /// The texts in a JSON document, whose tree is `members`. The values in the tree become what
    /// bodies are read as.
    pub(crate) fn find(
        document: &[u8],
        (schema, id): (&Schema, StructId),
        tree: &mut serde_json::Map<String, Value>,
    ) -> RawTexts {
        let mut found = RawTexts::default();
        let mut path = Vec::new();
        let walk = Walk {
            schema,
            at: At::Struct(id, tree),
            path: &mut path,
            found: &mut found,
        };
        let mut reader = deep::reader(document);
        // The document was read before, so this ends early only where it has a member twice in
        // different forms. The values behind it are kept without their texts.
        let _ = walk.deserialize(&mut reader);
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|place| place.texts.is_empty())
    }

    /// Those at other places than these.
    pub(crate) fn without(&self, is_left_out: impl Fn(&[String]) -> bool) -> RawTexts {
        let places = self.0.iter().filter(|place| !is_left_out(&place.path));
        RawTexts(places.cloned().collect())
    }

    /// Those here but below a path, and there those below it.
    pub(crate) fn with(&self, other: &RawTexts, path: &[impl AsRef<str>]) -> RawTexts {
        let own = self.0.iter().filter(|place| !place.is_below(path));
        let others = other.0.iter().filter(|place| place.is_below(path));
        RawTexts(own.chain(others).cloned().collect())
    }

    /// Puts these texts in the place of their values below a path.
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

    /// The text of this value.
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

    /// Notes the text of a value, and makes the value what a body with it is read as.
    fn note(&mut self, text: &str, path: &[String], value: &mut Value) {
        let Ok((read, _)) = decode_value(text.as_bytes(), BodyFormat::Json) else {
            return;
        };
        if read.is_null() {
            // It says nothing, not even of what was given before.
            return;
        }
        let mut printed = Vec::with_capacity(text.len());
        write_json(&mut printed, &read);
        *value = read;
        let text = compacted(text);
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

/// The place of a walk in the tree.
enum At<'w> {
    Struct(StructId, &'w mut serde_json::Map<String, Value>),
    Value(&'w Type, &'w mut Value),
}

/// A walk through the parts of a document that have texts.
struct Walk<'w> {
    schema: &'w Schema,
    at: At<'w>,
    path: &'w mut Vec<String>,
    found: &'w mut RawTexts,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        match self.at {
            At::Value(of, value) if of.is_raw() => {
                let text = <&RawValue>::deserialize(document)?.get();
                self.found.note(text, self.path, value);
                Ok(())
            }
            _ => document.deserialize_any(self),
        }
    }
}

impl<'de> serde::de::Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was read before")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        if let At::Value(
            Type {
                shape: Shape::List(of),
                ..
            },
            Value::Array(items),
        ) = self.at
        {
            for item in items {
                let walk = Walk {
                    schema: self.schema,
                    at: At::Value(of, item),
                    path: self.path,
                    found: self.found,
                };
                if access.next_element_seed(walk)?.is_none() {
                    return Ok(());
                }
            }
        }
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let Walk {
            schema,
            at,
            path,
            found,
        } = self;
        let (fields, of, members) = match at {
            At::Struct(id, members) => (schema.get(id), None, Some(members)),
            At::Value(of, value) => {
                let members = value.as_object_mut();
                match &of.shape {
                    Shape::Struct(id) => (schema.get(*id), None, members),
                    Shape::Map(of) => (None, Some(&**of), members),
                    _ => (None, None, None),
                }
            }
        };
        let mut nothing = serde_json::Map::new();
        let members = members.unwrap_or(&mut nothing);
        while let Some(name) = access.next_key::<String>()? {
            let field = fields.and_then(|fields| fields.field_to_raw(&name));
            let of = field.map(|field| &field.of).or(of);
            let Some((of, value)) = of.zip(members.get_mut(&name)) else {
                access.next_value::<IgnoredAny>()?;
                continue;
            };
            path.push(name);
            let walk = Walk {
                schema,
                at: At::Value(of, value),
                path: &mut *path,
                found: &mut *found,
            };
            access.next_value_seed(walk)?;
            path.pop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Object;

    const TEXT: &str = "package a.v1\n\ntype Thing kind\n  1 data raw\n  2 spec Spec\n\
        \x20 3 note string\n\n\
        type Spec\n  1 parts []Part\n  2 named map[string]Part\n  3 other *raw\n\n\
        type Part\n  1 name string\n  2 parameters raw always\n";

    fn read(text: &str) -> (RawTexts, Value) {
        let schema = Schema::read(&[TEXT]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let mut tree = serde_json::from_str(text).unwrap();
        let found = RawTexts::find(text.as_bytes(), (&schema, id), &mut tree);
        (found, Value::Object(tree))
    }

    fn written(texts: &RawTexts, tree: &Value) -> String {
        let mut out = Vec::new();
        texts.write(&mut out, &mut Vec::new(), tree);
        String::from_utf8(out).unwrap()
    }

    /// API-254.
    #[test]
    fn values_that_are_kept_as_json_keep_their_text() {
        let text = r#"{"data":{"z":1.0,"a":"<\u00e9\/","z":1e3},"note":"\u00e9","spec":{
            "parts":[{"parameters":{"b":[1, 2],"a":12345678901234567890}},{"name":"n"},
                     {"parameters": {"a": 1}}, {"parameters":null}],
            "named":{"x":{"parameters":"\/"}},"other":2.50}}"#;
        let (texts, tree) = read(text);
        assert_eq!(tree["data"], json!({"a": "<é/", "z": 1000}));
        let shown = r#"{"data":{"z":1.0,"a":"\u003c\u00e9\/","z":1e3},"note":"é","spec":{"#;
        let shown = format!(
            r#"{shown}"named":{{"x":{{"parameters":"\/"}}}},"other":2.50,"parts":[{}]}}}}"#,
            r#"{"parameters":{"b":[1,2],"a":12345678901234567890}},{"name":"n"},{"parameters":{"a":1}},{"parameters":null}"#
        );
        assert_eq!(written(&texts, &tree), shown);
        // It is read again as it was written.
        let (again, same) = read(&shown);
        assert_eq!((written(&again, &same), &same), (shown, &tree));
        // What is printed anyway has no place.
        let (texts, _) = read(r#"{"data": {"a": "\u003c", "b": [1, null]}, "spec": null}"#);
        assert!(texts.is_empty());
    }

    /// API-254.
    #[test]
    fn a_text_counts_as_long_as_its_value_is_the_same() {
        let (texts, mut tree) = read(
            r#"{"data":{"b":1,"a":2},"spec":{"parts":[{"parameters":{"d":1,"c":2}},{"name":"n"}]}}"#,
        );
        tree["data"]["a"] = 3.into();
        tree["spec"]["parts"].as_array_mut().unwrap().swap(0, 1);
        let shown = r#"{"data":{"a":3,"b":1},"spec":{"parts":[{"name":"n"},{"parameters":{"d":1,"c":2}}]}}"#;
        assert_eq!(written(&texts, &tree), shown);
        let none = RawTexts::default();
        let kept = none.with(&texts, &["spec"]);
        assert_eq!(kept, texts.without(|path| path == ["data"]));
        assert_eq!(
            texts.with(&none, &["spec"]),
            texts.without(|path| path != ["data"])
        );
    }

    /// API-254.
    #[test]
    fn equal_values_with_other_texts_are_not_the_same() {
        let object = |text| {
            let (texts, tree) = read(text);
            Object::with_texts(tree.as_object().unwrap().clone(), texts)
        };
        let one = object(r#"{"data":{"b":1,"a":2}}"#);
        let other = object(r#"{"data":{"a":2,"b":1}}"#);
        assert_eq!(one.at(&["data"]), other.at(&["data"]));
        assert!(!one.is_same_at(&other, &["data"]));
        assert!(one.is_same_at(&one.clone(), &["data"]));
        assert_eq!(one.json_at(&["data"]), r#"{"b":1,"a":2}"#);
        assert_eq!(other.json_at(&["data"]), r#"{"a":2,"b":1}"#);
        assert_eq!(other.json_at(&["spec"]), "null");
    }
}
