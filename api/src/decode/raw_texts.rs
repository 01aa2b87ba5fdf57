//! Finds the texts of values that are kept as JSON (`runtime.RawExtension`) in documents. Pure.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{BodyFormat, decode_value};
use crate::deep;
use crate::go_json::{compacted, write_json};
use crate::object::{Object, RawTexts};
use crate::schema::{ObjectType, Schema, Shape, StructId, Type};

/// Takes the texts of values that Kubernetes keeps as JSON from the document that the object was
/// decoded from. Most types have no such values.
pub fn keep_texts(object: &mut Object, document: &[u8], of: &ObjectType) {
    let found = of.found().filter(|(schema, id)| schema.has_raw(*id));
    if let Some((schema, id)) = found {
        let texts = find(document, schema, id, &mut object.0);
        object.set_texts(texts);
    }
}

/// Finds the texts in a JSON document, whose tree is `tree`. Replaces each such value in the tree
/// by the value that its text is decoded to.
fn find(
    document: &[u8],
    schema: &Schema,
    id: StructId,
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
    // The document was decoded before, so this fails only if it has a member twice in different
    // forms. Values after that keep no text.
    let _ = walk.deserialize(&mut reader);
    found
}

/// Records the text of a value, and sets the value to the one that the text is decoded to.
fn note(found: &mut RawTexts, text: &str, path: &[String], value: &mut Value) {
    let Ok((read, _)) = decode_value(text.as_bytes(), BodyFormat::Json) else {
        return;
    };
    if read.is_null() {
        // Null sets nothing, not even over an earlier value of a duplicate member.
        return;
    }
    let mut printed = Vec::with_capacity(text.len());
    write_json(&mut printed, &read);
    *value = read;
    found.note(path, printed, compacted(text));
}

/// The current position in the tree.
enum At<'w> {
    Struct(StructId, &'w mut serde_json::Map<String, Value>),
    Value(&'w Type, &'w mut Value),
}

/// A walk through the parts of a document that may have texts.
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
                note(self.found, text, self.path, value);
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

    const TEXT: &str = "package a.v1\n\ntype Thing kind\n  1 data raw\n  2 spec Spec\n\
        \x20 3 note string\n\n\
        type Spec\n  1 parts []Part\n  2 named map[string]Part\n  3 other *raw\n\n\
        type Part\n  1 name string\n  2 parameters raw always\n";

    fn read(text: &str) -> (RawTexts, Value) {
        let schema = Schema::read(&[TEXT]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let mut tree = serde_json::from_str(text).unwrap();
        let found = find(text.as_bytes(), &schema, id, &mut tree);
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
        // Reading the written form again returns the same text and value.
        let (again, same) = read(&shown);
        assert_eq!((written(&again, &same), &same), (shown, &tree));
        // A text that equals the printed value is not kept.
        let (texts, _) = read(r#"{"data": {"a": "\u003c", "b": [1, null]}, "spec": null}"#);
        assert!(texts.is_empty());
    }

    /// API-254.
    #[test]
    fn a_text_counts_as_long_as_its_value_stays_the_same() {
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
    fn equal_values_with_other_texts_differ() {
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
