//! Entries of managedFields (API-181, API-184): who owns which fields, since when.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;

use serde_json::{Map, Value};

use crate::field_error::go_quote;
use crate::field_set::FieldSet;
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

/// An entry. Its members are kept as they are stored until something of them changes.
#[derive(Clone, Debug)]
pub struct Entry {
    members: Map<String, Value>,
    operation: Operation,
    /// The fields, once they were read.
    fields: Option<FieldSet>,
    /// Whether the fields differ from the member `fieldsV1`.
    has_changed: bool,
}

/// Why a list of entries can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EntryError(String);

/// The refusal of a write to an object whose entries can't be used: a plain 500.
pub fn unreadable(error: EntryError) -> Box<Status> {
    Box::new(Status::unknown(format!(
        "failed to decode managed fields: {error}"
    )))
}

impl Entry {
    /// A new entry. `api_version` is the version of the fields' names.
    pub fn new(identity: &Identity, api_version: &str, fields: FieldSet) -> Entry {
        let mut members = Map::new();
        let texts = [
            ("apiVersion", api_version),
            ("fieldsType", "FieldsV1"),
            ("manager", &identity.manager),
            ("operation", identity.operation.name()),
            ("subresource", &identity.subresource),
        ];
        for (name, text) in texts {
            if !text.is_empty() {
                members.insert(name.to_owned(), text.into());
            }
        }
        Entry {
            members,
            operation: identity.operation,
            fields: Some(fields),
            has_changed: true,
        }
    }

    /// Reads an entry without its fields.
    ///
    /// # Errors
    /// An operation or a form of fields that nobody knows, and an entry without version.
    fn read(value: Value, place: usize) -> Result<Entry, EntryError> {
        let Value::Object(members) = value else {
            return Err(EntryError(format!("entry {place} is not an object")));
        };
        let text = |name: &str| {
            members
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let Some(operation) = Operation::named(text("operation")) else {
            let problem = "operation must be `Apply` or `Update`";
            return Err(EntryError(problem.to_owned()));
        };
        if text("apiVersion").is_empty() {
            return Err(EntryError("apiVersion must not be empty".to_owned()));
        }
        match text("fieldsType") {
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
        Ok(Entry {
            members,
            operation,
            fields: None,
            has_changed: false,
        })
    }

    fn text(&self, name: &str) -> &str {
        let member = self.members.get(name);
        member.and_then(Value::as_str).unwrap_or_default()
    }

    /// The name of the manager.
    pub fn manager(&self) -> &str {
        self.text("manager")
    }

    /// How it writes.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The version of the fields' names.
    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    /// The subresource through which it writes; empty for the object itself.
    pub fn subresource(&self) -> &str {
        self.text("subresource")
    }

    /// When it last changed. Empty if nobody has written that down.
    pub fn time(&self) -> &str {
        self.text("time")
    }

    /// Sets the time, or removes it.
    pub fn set_time(&mut self, time: &str) {
        match time {
            "" => _ = self.members.remove("time"),
            time => _ = self.members.insert("time".to_owned(), time.into()),
        }
    }

    /// What tells it from other entries.
    pub fn identity(&self) -> Identity {
        Identity {
            manager: self.manager().to_owned(),
            operation: self.operation,
            api_version: match self.operation {
                Operation::Apply => String::new(),
                Operation::Update => self.api_version().to_owned(),
            },
            subresource: self.subresource().to_owned(),
        }
    }

    /// Whether it is the entry with this identity.
    pub fn is(&self, identity: &Identity) -> bool {
        self.operation == identity.operation
            && self.manager() == identity.manager
            && self.subresource() == identity.subresource
            && (self.operation == Operation::Apply || self.api_version() == identity.api_version)
    }

    /// The fields that the manager owns.
    ///
    /// # Errors
    /// Text that is no FieldsV1.
    pub fn fields(&mut self) -> Result<&FieldSet, EntryError> {
        let set = match self.fields.take() {
            Some(set) => set,
            None => {
                let stored = self.members.get("fieldsV1").unwrap_or(&Value::Null);
                FieldSet::from_fields_v1_value(stored)
                    .map_err(|error| EntryError(error.to_string()))?
            }
        };
        Ok(self.fields.insert(set))
    }

    /// Gives the manager these fields.
    pub fn set_fields(&mut self, fields: FieldSet) {
        self.fields = Some(fields);
        self.has_changed = true;
    }

    /// Gives the manager these fields, of this version. Nothing changes if it has them already.
    pub fn own(&mut self, fields: FieldSet, api_version: &str) {
        if self.api_version() != api_version {
            self.members
                .insert("apiVersion".to_owned(), api_version.into());
        }
        if self.fields.as_ref() != Some(&fields) {
            self.set_fields(fields);
        }
    }

    /// Whether the manager owns nothing.
    pub fn is_empty(&self) -> bool {
        match (&self.fields, self.members.get("fieldsV1")) {
            (Some(fields), _) => fields.is_empty(),
            (None, Some(Value::Object(stored))) => stored.is_empty(),
            (None, _) => true,
        }
    }

    /// The entry as a client gets it.
    fn into_value(self) -> Value {
        let mut members = self.members;
        members.retain(|name, value| {
            !value.is_null() && (name == "fieldsV1" || *value != Value::String(String::new()))
        });
        if let (true, Some(fields)) = (self.has_changed, &self.fields) {
            let text = fields.to_fields_v1();
            // What was written just now can be read.
            let value = serde_json::from_str(&text).unwrap_or(Value::Null);
            members.insert("fieldsV1".to_owned(), value);
        }
        Value::Object(members)
    }

    /// The order of entries in a list (API-184). Times have whole seconds, all in UTC, so their
    /// texts are ordered as they are.
    fn compare(&self, other: &Entry) -> Ordering {
        self.operation
            .cmp(&other.operation)
            .then_with(|| self.time().cmp(other.time()))
            .then_with(|| self.manager().cmp(other.manager()))
            .then_with(|| self.api_version().cmp(other.api_version()))
            .then_with(|| self.subresource().cmp(other.subresource()))
    }
}

/// Reads the entries of an object. Of several with one identity the last one counts. The fields of
/// an entry that is stored already, at the same place of `known`, are read when they are needed.
///
/// # Errors
/// The first entry that can't be used.
pub fn read_entries(list: Vec<Value>, known: &[Value]) -> Result<Vec<Entry>, EntryError> {
    let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
    let mut identities = HashMap::with_capacity(list.len());
    for (place, value) in list.into_iter().enumerate() {
        let is_known = known.get(place) == Some(&value);
        let mut entry = Entry::read(value, place)?;
        if !is_known {
            // It is written again in the form of Kubernetes.
            entry.fields()?;
            entry.has_changed = true;
        }
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
    Ok(entries)
}

/// The value of `managedFields`. `None` if there are no entries.
pub fn write_entries(mut entries: Vec<Entry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(Entry::compare);
    let values = entries.into_iter().map(Entry::into_value);
    Some(Value::Array(values.collect()))
}

/// Whether the managedFields of an object can be read.
///
/// # Errors
/// Why not.
pub fn check(object: &Object) -> Result<(), EntryError> {
    read_entries(stored_entries(object).to_vec(), &[]).map(|_| ())
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

/// The entries of an object as they are stored.
pub fn stored_entries(object: &Object) -> &[Value] {
    let list = object.at(&["metadata", "managedFields"]);
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
