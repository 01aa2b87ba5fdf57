//! Updates of managedFields by a write (API-185 to API-190).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use jiff::Timestamp;
use serde_json::Value;

use super::cap::cap_updaters;
use super::entry::{
    Entry, EntryError, Identity, Operation, is_reset, kept_entries, sent_entries, sent_text,
    write_entries,
};
use crate::field_set::{FieldPath, FieldSet, Filter};
use crate::object::{Object, whole_seconds};
use crate::resource::{ResourceDefinition, converted};
use crate::schema::Empty;
use crate::typed::Comparison;

/// The manager of a write that names none.
const NAMELESS: &str = "unknown";

/// Fields that are never owned (API-183).
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let paths = [
        FieldPath::of(&["apiVersion"]),
        FieldPath::of(&["kind"]),
        FieldPath::of(&["metadata"]),
        FieldPath::of(&["metadata", "name"]),
        FieldPath::of(&["metadata", "namespace"]),
        FieldPath::of(&["metadata", "creationTimestamp"]),
        FieldPath::of(&["metadata", "selfLink"]),
        FieldPath::of(&["metadata", "uid"]),
        FieldPath::of(&["metadata", "clusterName"]),
        FieldPath::of(&["metadata", "generation"]),
        FieldPath::of(&["metadata", "managedFields"]),
        FieldPath::of(&["metadata", "resourceVersion"]),
    ];
    FieldSet::of(paths.iter().map(|path| &**path))
});

/// The managedFields that the writer of an object has sent.
enum Sent {
    /// Entries, as text.
    Entries(Arc<str>),
    /// A request to forget all entries (API-188).
    Reset,
    /// Absent, or not a list.
    Nothing,
}

impl Sent {
    /// Removes the managedFields from an object and returns them.
    fn taken_from(object: &mut Object) -> Sent {
        let tree = object.metadata_mut().remove("managedFields");
        let text = object.managed_fields().cloned();
        object.set_managed_fields(None);
        match tree {
            Some(Value::Array(list)) if is_reset(&list) => Sent::Reset,
            Some(list @ Value::Array(_)) => Sent::Entries(sent_text(&list).into()),
            _ => text.map_or(Sent::Nothing, Sent::Entries),
        }
    }
}

/// Conversions that somebody was waited for before.
pub trait Awaited: Sync {
    /// Returns the object in another version, if its conversion is known. `None` also if nobody
    /// needs to be waited for.
    fn find(&self, object: &Object, version: &ResourceDefinition) -> Option<Object>;
}

/// Keeps the managedFields of objects that are written through one endpoint.
#[derive(Clone, Copy)]
pub struct FieldManager<'m> {
    /// The version of the written objects.
    pub definition: &'m ResourceDefinition,
    /// All versions of the resource.
    pub versions: &'m [Arc<ResourceDefinition>],
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'m str,
    /// The fields that count at the endpoint (API-179). `None` if all do.
    pub filter: Option<&'m Filter>,
    /// The time of the write.
    pub now: Timestamp,
    /// The canonical form of an object of this version without any values. Made when it is first
    /// needed.
    pub empty: &'m OnceLock<Object>,
    /// The conversions of a version that waits for somebody.
    pub awaited: Option<&'m dyn Awaited>,
}

impl FieldManager<'_> {
    /// Sets the managedFields of a new object, or of one that replaces the live one, and brings the
    /// object into the canonical form that it keeps until it is stored ([`Empty::Distinguished`]).
    /// Both have the version of the request and are defaulted. A client's own managedFields count
    /// at the main endpoint if they can be read (API-188). Never fails: if ownership cannot be
    /// computed, managedFields is dropped (API-190). Returns whether the object has empty lists or
    /// maps.
    pub fn update(&self, live: Option<&Object>, new: &mut Object, manager: &str) -> bool {
        let sent = Sent::taken_from(new);
        let has_empty = self.definition.canonicalize_with(new, Empty::Distinguished);
        if !self.definition.value_type().has_keys(new) {
            return has_empty;
        }
        let entries = self.entries_of_write(sent, live);
        if entries.is_empty() && live.is_some() {
            // An object without managedFields stays untracked (API-186).
            return has_empty;
        }
        // Fields that Go does not print are not owned.
        let printed = has_empty.then(|| {
            let mut printed = new.clone();
            self.definition
                .canonicalize_with(&mut printed, Empty::Printed);
            printed
        });
        let entries = self.updated(entries, live, printed.as_ref().unwrap_or(new), manager);
        new.set_managed_fields(entries.ok().and_then(write_entries));
        has_empty
    }

    /// Returns the entries before a write: those that the client sent, else the stored ones.
    fn entries_of_write(&self, sent: Sent, live: Option<&Object>) -> Vec<Entry> {
        let stored = live.and_then(|live| kept_entries(live).ok());
        let stored = stored.unwrap_or_default();
        let sent = match sent {
            Sent::Entries(text) if self.subresource.is_empty() => text,
            Sent::Reset if self.subresource.is_empty() => return Vec::new(),
            Sent::Entries(_) | Sent::Reset | Sent::Nothing => return stored,
        };
        // Most clients send back the entries that they have read.
        let known = live.and_then(Object::managed_fields);
        if known == Some(&sent) {
            return stored;
        }
        match sent_entries(&sent, &stored) {
            Ok(entries) if !entries.is_empty() => entries,
            _ => stored,
        }
    }

    /// Returns the entries after an update: the writer becomes the only owner of the fields that it
    /// changed (API-185).
    pub(super) fn updated(
        &self,
        mut entries: Vec<Entry>,
        live: Option<&Object>,
        new: &Object,
        manager: &str,
    ) -> Result<Vec<Entry>, EntryError> {
        entries.retain(|entry| self.version(entry.api_version()).is_some());
        if live.is_none() && entries.is_empty() {
            return Ok(self.of_creator(new, manager).into_iter().collect());
        }
        let changes = Changes::between(self, live, new, &entries);
        let api_version = self.definition.api_version();
        let identity = self.identity(manager, Operation::Update, &api_version);
        let mut is_there = false;
        for entry in &mut entries {
            let is_own = !changes.taken.is_empty() && entry.is(&identity);
            let given = is_own.then_some(&changes.taken);
            self.change(entry, changes.touched(entry.api_version()), given)?;
            if is_own {
                entry.set_time(&whole_seconds(self.now));
                is_there = true;
            }
        }
        if !is_there && !changes.taken.is_empty() {
            let mut entry = Entry::new(&identity, &api_version, changes.taken);
            entry.set_time(&whole_seconds(self.now));
            entries.push(entry);
        }
        entries.retain(|entry| !entry.is_empty());
        cap_updaters(entries)
    }

    /// Returns the entry of an object's creator. `None` if it owns nothing.
    fn of_creator(&self, new: &Object, manager: &str) -> Option<Entry> {
        let of = self.definition.value_type();
        let empty = self.empty();
        let text = match self.filter {
            None => of.created_fields_v1(empty, new, &NEVER_OWNED, None),
            Some(Filter::Exclude(fields)) => {
                of.created_fields_v1(empty, new, &NEVER_OWNED, Some(fields))
            }
            Some(Filter::Include(_)) => {
                let compared = self.compare(self.definition, self.empty(), new);
                all_of(compared).1.to_fields_v1()
            }
        };
        let api_version = self.definition.api_version();
        let identity = self.identity(manager, Operation::Update, &api_version);
        let mut entry = Entry::of_text(&identity, &api_version, Some(text.into()));
        entry.set_time(&whole_seconds(self.now));
        (!entry.is_empty()).then_some(entry)
    }

    /// Returns the canonical form of an object without any values.
    pub(super) fn empty(&self) -> &Object {
        self.empty.get_or_init(|| {
            let mut empty = Object::default();
            empty.set_type(&self.definition.kind, &self.definition.api_version());
            self.definition.canonicalize(&mut empty);
            empty
        })
    }

    /// Removes the touched fields from an entry, and adds others.
    fn change(
        &self,
        entry: &mut Entry,
        touched: &FieldSet,
        given: Option<&FieldSet>,
    ) -> Result<(), EntryError> {
        if touched.is_empty() {
            return Ok(());
        }
        if let Some(definition) = self.version(entry.api_version()) {
            let of = definition.value_type();
            if let Some(fields) = of.reconciled(entry.fields()?) {
                entry.set_fields(fields);
            }
        }
        let fields = entry.fields()?;
        let mut left = fields.difference(touched);
        if let Some(given) = given {
            left.add(given);
        }
        if left != *fields {
            entry.set_fields(left);
        }
        Ok(())
    }

    pub(super) fn identity(
        &self,
        manager: &str,
        operation: Operation,
        api_version: &str,
    ) -> Identity {
        Identity {
            manager: match manager {
                "" => NAMELESS.to_owned(),
                name => name.to_owned(),
            },
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: self.subresource.to_owned(),
        }
    }

    /// Returns the definition of a version of the resource. `None` for unknown versions, whose
    /// entries are dropped. Versions of another group count as unknown, although events are served
    /// in two groups.
    pub(super) fn version(&self, api_version: &str) -> Option<&ResourceDefinition> {
        let version = api_version.rsplit_once('/');
        let (group, version) = version.unwrap_or(("", api_version));
        let is = |row: &ResourceDefinition| row.group == group && row.version == version;
        if group != self.definition.group {
            return None;
        }
        if is(self.definition) {
            return Some(self.definition);
        }
        self.versions.iter().map(|row| &**row).find(|row| is(row))
    }

    /// Converts an object from the request's version into another one.
    fn in_version(&self, object: &Object, definition: &ResourceDefinition) -> Object {
        let known = self
            .awaited
            .and_then(|known| known.find(object, definition));
        known.unwrap_or_else(|| converted(object, self.definition, definition, Empty::Printed))
    }

    /// Compares two objects of a version, without fields that cannot be owned at this endpoint.
    fn compare(&self, definition: &ResourceDefinition, live: &Object, new: &Object) -> Comparison {
        let of = definition.value_type();
        let Comparison {
            added,
            modified,
            removed,
        } = of.compare(&live.with_texts_as_values(), &new.with_texts_as_values());
        let counted = |set: FieldSet| {
            let set = set.difference(&NEVER_OWNED);
            match self.filter {
                Some(filter) if !set.is_empty() => filter.of(&set),
                _ => set,
            }
        };
        Comparison {
            added: counted(added),
            modified: counted(modified),
            removed: counted(removed),
        }
    }
}

/// The changes of a write.
struct Changes {
    /// The fields, in the request's version, of which the writer becomes an owner.
    taken: FieldSet,
    /// All changed fields, removed ones included, by version.
    touched: HashMap<String, FieldSet>,
    nothing: FieldSet,
}

impl Changes {
    /// Compares two objects, in the version of the request and in those of the entries.
    fn between(
        manager: &FieldManager<'_>,
        live: Option<&Object>,
        new: &Object,
        entries: &[Entry],
    ) -> Changes {
        let own = manager.definition;
        let live = live.unwrap_or_else(|| manager.empty());
        let comparison = manager.compare(own, live, new);
        let mut touched = HashMap::new();
        if !comparison.is_same() {
            for entry in entries {
                let version = entry.api_version();
                let other = manager.version(version);
                let other = other.filter(|other| !std::ptr::eq(*other, own));
                if let (false, Some(other)) = (touched.contains_key(version), other) {
                    let live = manager.in_version(live, other);
                    let new = manager.in_version(new, other);
                    let comparison = manager.compare(other, &live, &new);
                    touched.insert(version.to_owned(), all_of(comparison).0);
                }
            }
        }
        let (all, taken) = all_of(comparison);
        touched.insert(own.api_version(), all);
        Changes {
            taken,
            touched,
            nothing: FieldSet::default(),
        }
    }

    fn touched(&self, api_version: &str) -> &FieldSet {
        self.touched.get(api_version).unwrap_or(&self.nothing)
    }
}

/// Returns all fields that differ, and those of them that the new object has.
fn all_of(comparison: Comparison) -> (FieldSet, FieldSet) {
    let mut taken = comparison.added;
    taken.add(&comparison.modified);
    let mut all = taken.clone();
    all.add(&comparison.removed);
    (all, taken)
}
