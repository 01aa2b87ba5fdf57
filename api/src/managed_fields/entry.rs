//! Entries of managedFields (API-181, API-184): the fields of each field owner, and the time of the
//! last change.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::field_set::FieldSet;
use crate::go_json::write_value;
use crate::object::{EntryTexts, Object};
use crate::text::quoting::go_quote;

/// How a manager became the owner of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Through server-side apply.
    Apply,
    /// Through any other write.
    Update,
}

impl Operation {
    fn named(name: &str) -> Option<Operation> {
        match name {
            "Apply" => Some(Operation::Apply),
            "Update" => Some(Operation::Update),
            _ => None,
        }
    }

    /// Returns its name in an entry.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// The identity of an entry among those of an object (API-184).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The name of the manager.
    pub manager: String,
    /// The operation of its writes.
    pub operation: Operation,
    /// The version of its writes, for Update entries. Empty for Apply entries, of which a manager
    /// has one for all versions.
    pub api_version: String,
    /// The subresource of its writes; empty for the object itself.
    pub subresource: String,
}

impl Identity {
    /// Returns the text that identifies the manager. Kubernetes sorts managers by it.
    pub fn key(&self) -> String {
        let mut key = String::from("{");
        let members = [
            ("manager", &*self.manager),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (name, text) in members.into_iter().filter(|(_, text)| !text.is_empty()) {
            if key.len() > 1 {
                key.push(',');
            }
            key += &format!("\"{name}\":{}", Value::from(text));
        }
        key.push('}');
        key
    }

    /// Parses the identity from its key.
    pub fn of_key(key: &str) -> Option<Identity> {
        let members: Map<String, Value> = serde_json::from_str(key).ok()?;
        let text = |name: &str| {
            members
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Some(Identity {
            manager: text("manager").to_owned(),
            operation: Operation::named(text("operation"))?,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
        })
    }
}

/// An entry. Its fields stay text until they are read or changed.
#[derive(Clone, Debug)]
pub struct Entry {
    manager: String,
    operation: Operation,
    api_version: String,
    subresource: String,
    time: String,
    /// The fields as FieldsV1 text. `None` once they were changed.
    text: Option<Box<str>>,
    /// The fields, once they were parsed or set.
    fields: Option<FieldSet>,
}

/// The reason why a list of entries can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EntryError(String);

/// The members of an entry.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Members<'t> {
    manager: Option<String>,
    operation: Option<String>,
    api_version: Option<String>,
    subresource: Option<String>,
    time: Option<String>,
    fields_type: Option<String>,
    #[serde(rename = "fieldsV1", borrow)]
    fields: Option<&'t RawValue>,
}

impl Entry {
    /// Returns a new entry. `api_version` is the version of the field names.
    pub fn new(identity: &Identity, api_version: &str, fields: FieldSet) -> Entry {
        Entry {
            fields: Some(fields),
            ..Entry::of_text(identity, api_version, None)
        }
    }

    /// Returns a new entry whose fields are FieldsV1 text.
    pub fn of_text(identity: &Identity, api_version: &str, text: Option<Box<str>>) -> Entry {
        Entry {
            manager: identity.manager.clone(),
            operation: identity.operation,
            api_version: api_version.to_owned(),
            subresource: identity.subresource.clone(),
            time: String::new(),
            text,
            fields: None,
        }
    }

    /// Reads an entry without parsing its fields.
    ///
    /// # Errors
    /// An unknown operation or fieldsType, or a missing apiVersion.
    fn read(members: Members<'_>, place: usize) -> Result<Entry, EntryError> {
        let operation = members.operation.unwrap_or_default();
        let Some(operation) = Operation::named(&operation) else {
            let problem = "operation must be `Apply` or `Update`";
            return Err(EntryError(problem.to_owned()));
        };
        let api_version = members.api_version.unwrap_or_default();
        if api_version.is_empty() {
            return Err(EntryError("apiVersion must not be empty".to_owned()));
        }
        match &*members.fields_type.unwrap_or_default() {
            "FieldsV1" => {}
            "" => {
                let problem = format!("missing fieldsType in managed fields entry {place}");
                return Err(EntryError(problem));
            }
            other => {
                let other = go_quote(other);
                let problem = format!("invalid fieldsType {other} in managed fields entry {place}");
                return Err(EntryError(problem));
            }
        }
        let text = members.fields.map_or("null", RawValue::get);
        Ok(Entry {
            manager: members.manager.unwrap_or_default(),
            operation,
            api_version,
            subresource: members.subresource.unwrap_or_default(),
            time: members.time.unwrap_or_default(),
            text: Some(text.into()),
            fields: None,
        })
    }

    /// Returns the operation of its writes.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the version of the field names.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the time of the last change, empty if unknown.
    pub fn time(&self) -> &str {
        &self.time
    }

    /// Sets the time, or removes it.
    pub fn set_time(&mut self, time: &str) {
        time.clone_into(&mut self.time);
    }

    /// Returns the identity of the entry.
    pub fn identity(&self) -> Identity {
        Identity {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: match self.operation {
                Operation::Apply => String::new(),
                Operation::Update => self.api_version.clone(),
            },
            subresource: self.subresource.clone(),
        }
    }

    /// Returns whether the entry has this identity.
    pub fn is(&self, identity: &Identity) -> bool {
        self.operation == identity.operation
            && self.manager == identity.manager
            && self.subresource == identity.subresource
            && (self.operation == Operation::Apply || self.api_version == identity.api_version)
    }

    /// Returns whether two entries have the same identity.
    fn is_of(&self, other: &Entry) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns whether entries differ at most in their times.
    pub fn is_same_but_time(&self, other: &Entry) -> bool {
        self.is_of(other) && self.api_version == other.api_version && self.text == other.text
    }

    /// Returns the fields that the manager owns. Parses them first if they are still text.
    ///
    /// # Errors
    /// The text is not valid FieldsV1.
    pub fn fields(&mut self) -> Result<&FieldSet, EntryError> {
        let set = match (self.fields.take(), &self.text) {
            (Some(set), _) => set,
            (None, Some(text)) => {
                FieldSet::from_fields_v1(text).map_err(|error| EntryError(error.to_string()))?
            }
            (None, None) => FieldSet::default(),
        };
        Ok(self.fields.insert(set))
    }

    /// Replaces the fields.
    pub fn set_fields(&mut self, fields: FieldSet) {
        self.fields = Some(fields);
        self.text = None;
    }

    /// Replaces the fields and their version. Keeps the text if the fields are the same.
    pub fn own(&mut self, fields: FieldSet, api_version: &str) {
        if self.api_version != api_version {
            api_version.clone_into(&mut self.api_version);
        }
        if self.fields.as_ref() != Some(&fields) {
            self.set_fields(fields);
        }
    }

    /// Returns whether the manager owns no fields.
    pub fn is_empty(&self) -> bool {
        match (&self.fields, &self.text) {
            (Some(fields), _) => fields.is_empty(),
            (None, Some(text)) => matches!(&**text, "{}" | "null"),
            (None, None) => true,
        }
    }

    /// Writes the entry as clients see it.
    fn write(&self, text: &mut String) {
        let texts = EntryTexts {
            api_version: &self.api_version,
            manager: &self.manager,
            operation: self.operation.name(),
            subresource: &self.subresource,
            time: &self.time,
        };
        texts.write(text, |text| match (&self.text, &self.fields) {
            (Some(stored), _) => text.push_str(stored),
            (None, Some(fields)) => fields.write_fields_v1(text),
            (None, None) => text.push_str("{}"),
        });
    }

    /// Compares entries by their order in a list (API-184). Times are in whole seconds and UTC, so
    /// their texts sort like times.
    fn compare(&self, other: &Entry) -> Ordering {
        self.operation
            .cmp(&other.operation)
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

/// Returns the entries that the server keeps with an object. Their fields are parsed when they are
/// needed.
///
/// # Errors
/// The first entry that can't be used.
pub fn kept_entries(object: &Object) -> Result<Vec<Entry>, EntryError> {
    written_entries(object).map(without_repeated)
}

/// Returns all entries of an object, including repeated identities.
///
/// # Errors
/// The first entry that can't be used.
pub fn written_entries(object: &Object) -> Result<Vec<Entry>, EntryError> {
    match object.managed_fields() {
        Some(text) => read_list(text),
        None => Ok(Vec::new()),
    }
}

/// Returns the JSON text of entries that a client has sent.
pub fn sent_text(list: &Value) -> String {
    let mut text = Vec::new();
    write_value(&mut text, list);
    String::from_utf8(text).unwrap_or_default()
}

/// Reads entries that a client has sent. An entry that equals the one at the same place of `known`
/// is taken from there; the others are written again in Kubernetes' form.
///
/// # Errors
/// The first entry that can't be used.
pub fn sent_entries(text: &str, known: &[Entry]) -> Result<Vec<Entry>, EntryError> {
    let mut entries = without_repeated(read_list(text)?);
    for (place, entry) in entries.iter_mut().enumerate() {
        let is_known = known
            .get(place)
            .is_some_and(|known| entry.is_same_but_time(known) && entry.time == known.time);
        if !is_known {
            let fields = entry.fields()?.clone();
            entry.set_fields(fields);
        }
    }
    Ok(entries)
}

fn read_list(text: &str) -> Result<Vec<Entry>, EntryError> {
    let list: Vec<Option<Members<'_>>> =
        serde_json::from_str(text).map_err(|error| EntryError(error.to_string()))?;
    let list = list.into_iter().enumerate();
    list.map(|(place, members)| Entry::read(members.unwrap_or_default(), place))
        .collect()
}

/// Removes repeated identities. The last entry counts, and takes the place of the first.
fn without_repeated(list: Vec<Entry>) -> Vec<Entry> {
    if list.len() < 2 {
        return list;
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
    let mut identities = HashMap::new();
    for entry in list {
        match identities.entry(entry.identity()) {
            Place::Vacant(free) => {
                free.insert(entries.len());
                entries.push(entry);
            }
            Place::Occupied(taken) => {
                if let Some(earlier) = entries.get_mut(*taken.get()) {
                    *earlier = entry;
                }
            }
        }
    }
    entries
}

/// Returns the JSON text of `managedFields`, or `None` without entries.
pub fn write_entries(mut entries: Vec<Entry>) -> Option<Arc<str>> {
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(Entry::compare);
    let known = entries.iter().map(|entry| entry.text.as_deref());
    let bytes: usize = known.map(|text| text.map_or(1024, str::len) + 256).sum();
    let mut text = String::with_capacity(bytes);
    text.push('[');
    for entry in &entries {
        entry.write(&mut text);
        text.push(',');
    }
    text.pop();
    text.push(']');
    Some(text.into())
}

/// Moves managedFields that admission put into the tree of an object to where the server keeps
/// them. Without any the kept ones stay.
///
/// # Errors
/// They can't be read. The object is unchanged then.
pub fn adopt(object: &mut Object) -> Result<(), EntryError> {
    let entries = match object.at(&["metadata", "managedFields"]) {
        None => return Ok(()),
        Some(Value::Null) => Vec::new(),
        Some(list @ Value::Array(_)) => sent_entries(&sent_text(list), &[])?,
        Some(_) => return Err(EntryError("they are not a list".to_owned())),
    };
    object.set_managed_fields(write_entries(entries));
    Ok(())
}

/// Returns whether a client resets all entries (API-188): by an empty list, or by a list with one
/// empty entry.
pub fn is_reset(list: &[Value]) -> bool {
    match list {
        [] => true,
        [Value::Object(only)] => only.values().all(is_nothing),
        [Value::Null] => true,
        _ => false,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}
