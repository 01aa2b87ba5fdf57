//! A Kubernetes object as a JSON tree, with access to its metadata.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::deep;
use crate::go_json;
use crate::raw_texts::RawTexts;
use crate::schema::ObjectType;

/// The member of `metadata` that is kept as text.
const MANAGED_FIELDS: &str = "managedFields";

/// A JSON document that is an object. The order of members is not kept, because encoding sorts
/// them.
///
/// What the server keeps in `metadata.managedFields` is about half of an object, and most writes
/// only hand it on. So it is kept as text beside the tree. What a client sends back as the server
/// has written it is kept so, too, until the owners are told. In the tree `metadata.managedFields`
/// is what a client has sent in another form, or what admission has changed it to.
///
/// Values that Kubernetes keeps as JSON have their texts beside the tree, too, if the tree would be
/// printed otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(
    pub Map<String, Value>,
    Option<Arc<str>>,
    Option<Arc<RawTexts>>,
);

impl Object {
    /// The object with these members.
    pub fn of(members: Map<String, Value>) -> Object {
        Object(members, None, None)
    }

    #[cfg(test)]
    pub(crate) fn with_texts(members: Map<String, Value>, texts: RawTexts) -> Object {
        Object(members, None, Some(Arc::new(texts)))
    }

    /// Reads an object that the server has written. Its managedFields stay text.
    ///
    /// # Errors
    /// Text that is no JSON object, or has none as `metadata`.
    pub fn read(text: &[u8]) -> Result<Object, serde_json::Error> {
        let mut deserializer = deep::reader(text);
        let object = deserializer.deserialize_map(Members { is_metadata: false });
        let object = object.and_then(|object| deserializer.end().map(|()| object));
        deep::noted(text, object)
    }

    /// As [`Object::read`], with nothing but the metadata, of a text that begins with the value of
    /// `metadata`. Members behind it are not read, however deep they are.
    ///
    /// # Errors
    /// Text that begins with no JSON object.
    pub fn read_metadata(text: &[u8]) -> Result<Object, serde_json::Error> {
        let metadata = Members { is_metadata: true };
        let read = metadata.deserialize(&mut deep::reader(text))?;
        let members = Map::from_iter([("metadata".to_owned(), Value::Object(read.0))]);
        Ok(Object(members, read.1, None))
    }

    /// Keeps the texts of values that Kubernetes keeps as JSON, of the document that the object was
    /// read from. Most types have no such values.
    pub fn keep_texts(&mut self, document: &[u8], of: ObjectType) {
        let found = of.found().filter(|(schema, id)| schema.has_raw(*id));
        if let Some(found) = found {
            let texts = RawTexts::find(document, found, &mut self.0);
            self.set_texts(texts);
        }
    }

    fn set_texts(&mut self, texts: RawTexts) {
        self.2 = (!texts.is_empty()).then(|| Arc::new(texts));
    }

    /// Gives values the texts that they have in another object, but for those at some places. A
    /// value that differs has none.
    pub(crate) fn take_texts(&mut self, from: &Object, is_left_out: impl Fn(&[String]) -> bool) {
        if let Some(texts) = &from.2 {
            self.set_texts(texts.without(is_left_out));
        }
    }

    /// The members, with texts in the place of the values that have some: what tells whether such a
    /// value has changed.
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

    /// Writes the value of a member as compact JSON.
    pub fn write_value(&self, out: &mut Vec<u8>, name: &str, value: &Value) {
        match &self.2 {
            None => go_json::write_value(out, value),
            Some(texts) => texts.write(out, &mut vec![name], value),
        }
    }

    /// The value at a path as compact JSON.
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

    /// Whether two objects have the same value at a path, with the same texts in it.
    pub fn is_same_at(&self, other: &Object, path: &[impl AsRef<str>]) -> bool {
        let has_no_texts = self.2.is_none() && other.2.is_none();
        let is_same = self.at(path) == other.at(path);
        is_same && (has_no_texts || self.json_at(path) == other.json_at(path))
    }

    /// The whole document, with the managedFields that the server keeps where clients see them.
    pub fn into_document(mut self) -> Map<String, Value> {
        let kept = self.1.take();
        // It was read as JSON, or written by this server.
        let kept = kept.and_then(|text| deep::from_json(text.as_bytes()).ok());
        if let Some(kept) = kept {
            let metadata = self.metadata_mut();
            metadata.insert(MANAGED_FIELDS.to_owned(), kept);
        }
        self.0
    }

    /// The managedFields that the server keeps, or that a client has sent back: the JSON text of a
    /// list with entries.
    pub fn managed_fields(&self) -> Option<&Arc<str>> {
        self.1.as_ref()
    }

    /// Sets the managedFields that the server keeps, and removes what a client has sent.
    pub fn set_managed_fields(&mut self, text: Option<Arc<str>>) {
        if let Some(Value::Object(metadata)) = self.0.get_mut("metadata") {
            metadata.remove(MANAGED_FIELDS);
        }
        self.1 = text;
    }

    /// `kind`, empty when absent.
    pub fn kind(&self) -> &str {
        self.text(&["kind"])
    }

    /// `apiVersion`, empty when absent.
    pub fn api_version(&self) -> &str {
        self.text(&["apiVersion"])
    }

    /// Sets `kind` and `apiVersion`.
    pub fn set_type(&mut self, kind: &str, api_version: &str) {
        self.0.insert("kind".to_owned(), kind.into());
        self.0.insert("apiVersion".to_owned(), api_version.into());
    }

    /// The value at a path of member names.
    pub fn at(&self, path: &[impl AsRef<str>]) -> Option<&Value> {
        crate::cost::visited();
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.0.get(first.as_ref())?, |value, name| {
                value.as_object()?.get(name.as_ref())
            })
    }

    /// The value at a path of member names, for changing.
    pub fn at_mut(&mut self, path: &[impl AsRef<str>]) -> Option<&mut Value> {
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.0.get_mut(first.as_ref())?, |value, name| {
                value.as_object_mut()?.get_mut(name.as_ref())
            })
    }

    /// The text at a path. It is empty when the value is absent or not a string.
    pub fn text(&self, path: &[impl AsRef<str>]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The items of a list at a path; none if there is no list.
    pub fn items(&self, path: &[impl AsRef<str>]) -> &[Value] {
        let list = self.at(path).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// `metadata`, when it is an object.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata").and_then(Value::as_object)
    }

    /// `metadata` for changing. It is created when absent, and replaced when it is not an object,
    /// which decoding refuses.
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

    /// The text of a member of `metadata`; empty when absent.
    pub fn meta(&self, name: &str) -> &str {
        self.metadata()
            .and_then(|m| m.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Sets a text member of `metadata`; empty text removes it.
    pub fn set_meta(&mut self, name: &str, text: &str) {
        let metadata = self.metadata_mut();
        if text.is_empty() {
            metadata.remove(name);
        } else {
            metadata.insert(name.to_owned(), text.into());
        }
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.meta("name")
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.meta("namespace")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.meta("uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.meta("resourceVersion")
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.items(&["metadata", "finalizers"]).iter();
        finalizers.filter_map(Value::as_str).collect()
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn is_being_deleted(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }
}

/// A time in the form of `metadata`: RFC 3339, whole seconds, UTC.
pub fn whole_seconds(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    seconds.to_string()
}

/// Sets the value at a path. Missing parents are created.
pub fn put(object: &mut Object, path: &[impl AsRef<str>], value: Value) {
    if let Some(slot) = slot(object, path) {
        *slot = value;
    }
}

/// The place at a path, null if nothing was there. Missing parents are created.
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

/// Adds an item at the end of the list at a path. A missing list is created.
pub fn push(object: &mut Object, path: &[impl AsRef<str>], item: Value) {
    match slot(object, path) {
        Some(Value::Array(items)) => items.push(item),
        Some(other) => *other = Value::Array(vec![item]),
        None => {}
    }
}

/// Gives a part of an object the value that it has in another one, or none.
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

/// Removes the value at a path, if there is one.
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
