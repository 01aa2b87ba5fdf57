//! Entries of managedFields (API-181, API-184): who owns which fields, since when.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::field_error::go_quote;
use crate::field_set::FieldSet;
use crate::go_json::{write_text, write_value};
use crate::object::Object;
use crate::status::Status;

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
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

    /// Its name in an entry.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What tells one entry from another (API-184).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The name of the manager.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version in which it writes, of updaters. Appliers have one entry for all versions.
    pub api_version: String,
    /// The subresource through which it writes; empty for the object itself.
    pub subresource: String,
}

impl Identity {
    /// The text that identifies the manager, as Kubernetes orders managers by it.
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

    /// The identity with this key.
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

/// An entry. Its fields are kept as they are stored until something of them changes.
#[derive(Clone, Debug)]
pub struct Entry {
    manager: String,
    operation: Operation,
    api_version: String,
    subresource: String,
    time: String,
    /// The text of the fields. `None` once they differ from it.
    text: Option<Box<str>>,
    /// The fields, once they were read.
    fields: Option<FieldSet>,
}

/// The members of an entry but for its fields. Those that are empty are not written.
pub(crate) struct EntryTexts<'t> {
    pub api_version: &'t str,
    pub manager: &'t str,
    pub operation: &'t str,
    pub subresource: &'t str,
    pub time: &'t str,
}

impl EntryTexts<'_> {
    /// Writes the entry as JSON with sorted members. `fields` writes its FieldsV1.
    pub(crate) fn write(&self, text: &mut String, fields: impl FnOnce(&mut String)) {
        let member = |text: &mut String, name: &str, value: &str| {
            if !value.is_empty() {
                let mut printed = Vec::with_capacity(value.len() + 2);
                write_text(&mut printed, value);
                let parts = ["\"", name, "\":", &String::from_utf8_lossy(&printed), ","];
                parts.into_iter().for_each(|part| text.push_str(part));
            }
        };
        text.push('{');
        member(text, "apiVersion", self.api_version);
        text.push_str("\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        fields(text);
        text.push(',');
        member(text, "manager", self.manager);
        member(text, "operation", self.operation);
        member(text, "subresource", self.subresource);
        member(text, "time", self.time);
        text.pop();
        text.push('}');
    }
}

/// Why a list of entries can't be used.
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

/// The refusal of a write to an object whose entries can't be used: a plain 500.
pub fn unreadable(error: EntryError) -> Box<Status> {
    Box::new(Status::unknown(format!(
        "failed to decode managed fields: {error}"
    )))
}

impl Entry {
    /// A new entry. `api_version` is the version of the fields' names.
    pub fn new(identity: &Identity, api_version: &str, fields: FieldSet) -> Entry {
        Entry {
            fields: Some(fields),
            ..Entry::of_text(identity, api_version, None)
        }
    }

    /// A new entry whose fields have this text of FieldsV1.
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

    /// Reads an entry without its fields.
    ///
    /// # Errors
    /// An operation or a form of fields that nobody knows, and an entry without version.
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

    /// How it writes.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The version of the fields' names.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// When it last changed. Empty if nobody has written that down.
    pub fn time(&self) -> &str {
        &self.time
    }

    /// Sets the time, or removes it.
    pub fn set_time(&mut self, time: &str) {
        time.clone_into(&mut self.time);
    }

    /// What tells it from other entries.
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

    /// Whether it is the entry with this identity.
    pub fn is(&self, identity: &Identity) -> bool {
        self.operation == identity.operation
            && self.manager == identity.manager
            && self.subresource == identity.subresource
            && (self.operation == Operation::Apply || self.api_version == identity.api_version)
    }

    /// Whether two entries have one identity.
    fn is_of(&self, other: &Entry) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Whether entries differ in their times at most.
    pub fn is_same_but_time(&self, other: &Entry) -> bool {
        self.is_of(other) && self.api_version == other.api_version && self.text == other.text
    }

    /// The fields that the manager owns.
    ///
    /// # Errors
    /// Text that is no FieldsV1.
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

    /// Gives the manager these fields.
    pub fn set_fields(&mut self, fields: FieldSet) {
        self.fields = Some(fields);
        self.text = None;
    }

    /// Gives the manager these fields, of this version. Nothing changes if it has them already.
    pub fn own(&mut self, fields: FieldSet, api_version: &str) {
        if self.api_version != api_version {
            api_version.clone_into(&mut self.api_version);
        }
        if self.fields.as_ref() != Some(&fields) {
            self.set_fields(fields);
        }
    }

    /// Whether the manager owns nothing.
    pub fn is_empty(&self) -> bool {
        match (&self.fields, &self.text) {
            (Some(fields), _) => fields.is_empty(),
            (None, Some(text)) => matches!(&**text, "{}" | "null"),
            (None, None) => true,
        }
    }

    /// Writes the entry as a client gets it.
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

    /// The order of entries in a list (API-184). Times have whole seconds, all in UTC, so their
    /// texts are ordered as they are.
    fn compare(&self, other: &Entry) -> Ordering {
        self.operation
            .cmp(&other.operation)
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

/// The entries that the server keeps with an object. Their fields are read when they are needed.
///
/// # Errors
/// The first entry that can't be used.
pub fn kept_entries(object: &Object) -> Result<Vec<Entry>, EntryError> {
    written_entries(object).map(without_repeated)
}

/// All entries that an object has, also several with one identity.
///
/// # Errors
/// The first entry that can't be used.
pub fn written_entries(object: &Object) -> Result<Vec<Entry>, EntryError> {
    match object.managed_fields() {
        Some(text) => read_list(text),
        None => Ok(Vec::new()),
    }
}

/// The text of entries that a client has sent.
pub fn sent_text(list: &Value) -> String {
    let mut text = Vec::new();
    write_value(&mut text, list);
    String::from_utf8(text).unwrap_or_default()
}

/// Reads the entries that a client has sent. Those that are kept at the same place of `known` stay
/// as they are; the others are written again in the form of Kubernetes.
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

/// Of several entries with one identity the last one counts.
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

/// The text of `managedFields`. `None` if there are no entries.
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

/// Keeps the managedFields that admission has put into the tree of an object. Those that the server
/// keeps stay if it has not.
///
/// # Errors
/// Why they can't be read. Then nothing has changed.
pub fn adopt(object: &mut Object) -> Result<(), EntryError> {
    let entries = match object.at(&["metadata", "managedFields"]) {
        None => return Ok(()),
        Some(Value::Null) => Vec::new(),
        Some(list @ Value::Array(_)) => sent_entries(&sent_text(list), &[])?,
        Some(_) => return Err(EntryError("they are no list".to_owned())),
    };
    object.set_managed_fields(write_entries(entries));
    Ok(())
}

/// Whether a client asks to forget all entries (API-188): with an empty list, or one of an empty
/// entry.
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
