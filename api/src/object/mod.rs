//! A Kubernetes object as a JSON tree, with access to its metadata.

mod entry_texts;
mod raw_texts;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::deep;
use crate::go_json;

pub(crate) use entry_texts::EntryTexts;
pub(crate) use raw_texts::RawTexts;

/// Kubernetes' limit on the keys and values of all annotations together, in bytes (API-204).
pub(crate) const MAX_ANNOTATION_BYTES: usize = 262_144;

/// The member of `metadata` that is kept as text.
const MANAGED_FIELDS: &str = "managedFields";

/// A JSON document that is an object. It keeps no order of members, because encoding sorts them.
///
/// `metadata.managedFields` is about half of an object, and most writes only pass it on. Managed
/// fields that the server wrote, or that a client sends back unchanged, are therefore kept as text
/// next to the tree until field owners are updated. The tree has `metadata.managedFields` only if a
/// client sent it in another form or admission changed it.
///
/// Values that Kubernetes keeps as JSON (`runtime.RawExtension`) also have their texts next to the
/// tree, if printing the tree would not reproduce them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(
    pub Map<String, Value>,
    Option<Arc<str>>,
    Option<Arc<RawTexts>>,
);

impl Object {
    /// Returns an object with these members.
    pub fn of(members: Map<String, Value>) -> Object {
        Object(members, None, None)
    }

    #[cfg(test)]
    pub(crate) fn with_texts(members: Map<String, Value>, texts: RawTexts) -> Object {
        Object(members, None, Some(Arc::new(texts)))
    }

    /// Reads an object that the server wrote. Its managedFields stay text.
    ///
    /// # Errors
    /// The text is not a JSON object, or `metadata` is not one.
    pub fn read(text: &[u8]) -> Result<Object, serde_json::Error> {
        let mut deserializer = deep::reader(text);
        let object = deserializer.deserialize_map(Members { is_metadata: false });
        let object = object.and_then(|object| deserializer.end().map(|()| object));
        deep::noted(text, object)
    }

    /// As [`Object::read`], with nothing but the metadata, from a text that begins with the value
    /// of `metadata`. Does not read the members after it, which may be deep.
    ///
    /// # Errors
    /// The text does not begin with a JSON object.
    pub fn read_metadata(text: &[u8]) -> Result<Object, serde_json::Error> {
        let metadata = Members { is_metadata: true };
        let read = metadata.deserialize(&mut deep::reader(text))?;
        let members = Map::from_iter([("metadata".to_owned(), Value::Object(read.0))]);
        Ok(Object(members, read.1, None))
    }

    /// Sets the texts of values that Kubernetes keeps as JSON.
    pub(crate) fn set_texts(&mut self, texts: RawTexts) {
        self.2 = (!texts.is_empty()).then(|| Arc::new(texts));
    }

    /// Takes over the texts of another object, except those at paths that `is_left_out` selects.
    /// They apply only to values that are equal in both.
    pub(crate) fn take_texts(&mut self, from: &Object, is_left_out: impl Fn(&[String]) -> bool) {
        if let Some(texts) = &from.2 {
            self.set_texts(texts.without(is_left_out));
        }
    }

    /// Returns the object with texts in place of the values that have them, so that a comparison
    /// notices a change of the text alone.
    pub(crate) fn with_texts_as_values(&self) -> Cow<'_, Object> {
        let Some(texts) = &self.2 else {
            return Cow::Borrowed(self);
        };
        let mut whole = Value::Object(self.0.clone());
        texts.replace(&mut Vec::new(), &mut whole);
        match whole {
            Value::Object(members) => Cow::Owned(Object::of(members)),
            _ => Cow::Borrowed(self),
        }
    }

    /// Writes the value of a top-level member as compact JSON.
    pub fn write_value(&self, out: &mut Vec<u8>, name: &str, value: &Value) {
        match &self.2 {
            None => go_json::write_value(out, value),
            Some(texts) => texts.write(out, &mut vec![name], value),
        }
    }

    /// Returns the value at a path as compact JSON.
    pub fn json_at(&self, path: &[impl AsRef<str>]) -> String {
        let (value, mut out) = (self.at(path).unwrap_or(&Value::Null), Vec::new());
        match &self.2 {
            None => go_json::write_value(&mut out, value),
            Some(texts) => {
                let mut names = path.iter().map(AsRef::as_ref).collect();
                texts.write(&mut out, &mut names, value);
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns whether two objects have the same value at a path, with the same texts.
    pub fn is_same_at(&self, other: &Object, path: &[impl AsRef<str>]) -> bool {
        let has_no_texts = self.2.is_none() && other.2.is_none();
        let is_same = self.at(path) == other.at(path);
        is_same && (has_no_texts || self.json_at(path) == other.json_at(path))
    }

    /// Returns the whole document, with the stored managedFields in `metadata`, where clients see
    /// them.
    pub fn into_document(mut self) -> Map<String, Value> {
        let kept = self.1.take();
        // It was decoded from JSON, or written by this server, so it is valid.
        let kept = kept.and_then(|text| deep::from_json(text.as_bytes()).ok());
        if let Some(kept) = kept {
            let metadata = self.metadata_mut();
            metadata.insert(MANAGED_FIELDS.to_owned(), kept);
        }
        self.0
    }

    /// Returns the managedFields that the server keeps, or that a client sent back unchanged: the
    /// JSON text of a list with at least one entry.
    pub fn managed_fields(&self) -> Option<&Arc<str>> {
        self.1.as_ref()
    }

    /// Sets the managedFields that the server keeps, and removes those that a client sent in the
    /// tree.
    pub fn set_managed_fields(&mut self, text: Option<Arc<str>>) {
        if let Some(Value::Object(metadata)) = self.0.get_mut("metadata") {
            metadata.remove(MANAGED_FIELDS);
        }
        self.1 = text;
    }

    /// Returns `kind`, empty if absent.
    pub fn kind(&self) -> &str {
        self.text(&["kind"])
    }

    /// Returns `apiVersion`, empty if absent.
    pub fn api_version(&self) -> &str {
        self.text(&["apiVersion"])
    }

    /// Sets `kind` and `apiVersion`.
    pub fn set_type(&mut self, kind: &str, api_version: &str) {
        self.0.insert("kind".to_owned(), kind.into());
        self.0.insert("apiVersion".to_owned(), api_version.into());
    }

    /// Returns the value at a path of member names.
    pub fn at(&self, path: &[impl AsRef<str>]) -> Option<&Value> {
        crate::cost::visited();
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.0.get(first.as_ref())?, |value, name| {
                value.as_object()?.get(name.as_ref())
            })
    }

    /// Returns the value at a path of member names, for changing.
    pub fn at_mut(&mut self, path: &[impl AsRef<str>]) -> Option<&mut Value> {
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.0.get_mut(first.as_ref())?, |value, name| {
                value.as_object_mut()?.get_mut(name.as_ref())
            })
    }

    /// Returns the text at a path, empty if the value is absent or not a string.
    pub fn text(&self, path: &[impl AsRef<str>]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the items of the list at a path, empty if the value is not a list.
    pub fn items(&self, path: &[impl AsRef<str>]) -> &[Value] {
        let list = self.at(path).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns `metadata`, if it is an object.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata").and_then(Value::as_object)
    }

    /// Returns `metadata` for changing. Creates it if it is absent, and replaces a value that is
    /// not an object, which decoding refuses anyway.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        let slot = self
            .0
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        match slot {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }

    /// Returns the text of a member of `metadata`, empty if absent.
    pub fn meta(&self, name: &str) -> &str {
        self.metadata()
            .and_then(|m| m.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Sets a text member of `metadata`. An empty text removes it.
    pub fn set_meta(&mut self, name: &str, text: &str) {
        let metadata = self.metadata_mut();
        if text.is_empty() {
            metadata.remove(name);
        } else {
            metadata.insert(name.to_owned(), text.into());
        }
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.meta("name")
    }

    /// Returns `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.meta("namespace")
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.meta("uid")
    }

    /// Returns `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.meta("resourceVersion")
    }

    /// Sets `metadata.finalizers`.
    pub fn set_finalizers(&mut self, finalizers: Vec<String>) {
        let metadata = self.metadata_mut();
        match finalizers.is_empty() {
            true => drop(metadata.remove("finalizers")),
            false => drop(metadata.insert("finalizers".to_owned(), finalizers.into())),
        }
    }

    /// Returns `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.items(&["metadata", "finalizers"]).iter();
        finalizers.filter_map(Value::as_str).collect()
    }

    /// Returns whether `metadata.deletionTimestamp` is set.
    pub fn is_being_deleted(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }
}

/// Formats a time as in `metadata`: RFC 3339, whole seconds, UTC.
pub fn whole_seconds(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    seconds.to_string()
}

/// Sets the value at a path. Creates missing parents.
pub fn put(object: &mut Object, path: &[impl AsRef<str>], value: Value) {
    if let Some(slot) = slot(object, path) {
        *slot = value;
    }
}

/// Returns the value at a path for changing, null if it was absent. Creates missing parents.
fn slot<'o>(object: &'o mut Object, path: &[impl AsRef<str>]) -> Option<&'o mut Value> {
    let (last, above) = path.split_last()?;
    let mut members = &mut object.0;
    for name in above {
        let slot = members
            .entry(name.as_ref().to_owned())
            .or_insert(Value::Null);
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        members = slot.as_object_mut()?;
    }
    let place = members.entry(last.as_ref().to_owned());
    Some(place.or_insert(Value::Null))
}

/// Appends an item to the list at a path. Creates a missing list.
pub fn push(object: &mut Object, path: &[impl AsRef<str>], item: Value) {
    match slot(object, path) {
        Some(Value::Array(items)) => items.push(item),
        Some(other) => *other = Value::Array(vec![item]),
        None => {}
    }
}

/// Sets a part of an object to its value in the stored object. Removes it if the stored object
/// lacks it.
pub fn keep(object: &mut Object, stored: &Object, path: &[impl AsRef<str>]) {
    match stored.at(path) {
        Some(value) => put(object, path, value.clone()),
        None => remove(object, path),
    }
    if object.2.is_some() || stored.2.is_some() {
        let nothing = Arc::default();
        let (own, theirs) = (object.2.as_ref(), stored.2.as_ref());
        let texts = own
            .unwrap_or(&nothing)
            .with(theirs.unwrap_or(&nothing), path);
        object.set_texts(texts);
    }
}

/// Removes the value at a path, if present.
pub fn remove(object: &mut Object, path: &[impl AsRef<str>]) {
    let Some((last, above)) = path.split_last() else {
        return;
    };
    let mut members = &mut object.0;
    for name in above {
        let Some(Value::Object(inner)) = members.get_mut(name.as_ref()) else {
            return;
        };
        members = inner;
    }
    members.remove(last.as_ref());
}

/// Reads the members of an object, or of its `metadata`.
struct Members {
    is_metadata: bool,
}

impl<'de> Visitor<'de> for Members {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some(name) = map.next_key::<String>()? {
            if self.is_metadata && name == MANAGED_FIELDS {
                let kept = map.next_value::<&RawValue>()?.get();
                let is_kept = !matches!(kept, "null" | "[]");
                object.1 = is_kept.then(|| kept.into());
            } else if !self.is_metadata && name == "metadata" {
                let metadata = map.next_value_seed(Members { is_metadata: true })?;
                object.1 = metadata.1;
                object.0.insert(name, Value::Object(metadata.0));
            } else {
                object.0.insert(name, map.next_value()?);
            }
        }
        Ok(object)
    }
}

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_map(self)
    }
}
