//! The types of a watch: which events a watcher wants, and in what form.
//!
//! The daemon implements the traits, because it knows selectors and media types. The actors compare
//! identities to put watchers with equal interests into one group. So a selector is evaluated and a
//! frame is rendered once for each group, and not for each watcher.

use std::sync::Arc;

use bytes::Bytes;
use smol_str::SmolStr;

use crate::engine::{Key, Prefix, Revision};
use crate::object::CachedObject;

/// The kind of an event for a watcher, after its selectors (WA-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEventKind {
    /// The object became part of what is watched.
    Added,
    /// The object changed and is still part of it.
    Modified,
    /// The object left it. The frame shows the last content at the event's revision (PF-1, PF-2).
    Deleted,
}

impl WatchEventKind {
    /// The version with which an event shows an object: its own, or for a deletion the event's.
    pub fn shown_revision(self, object: &CachedObject, event: Revision) -> Revision {
        match self {
            WatchEventKind::Deleted => event,
            WatchEventKind::Added | WatchEventKind::Modified => object.revision,
        }
    }
}

/// Which keys a watcher watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every object of the resource.
    All,
    /// The objects of one namespace: its prefix with the closing slash (WA-24).
    Namespace(Prefix),
    /// One object.
    Object(Key),
}

impl Scope {
    /// Whether a key of the resource is in the scope.
    pub fn covers(&self, key: &[u8]) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(prefix) => prefix.covers(key),
            Scope::Object(object) => object.as_bytes() == key,
        }
    }
}

/// A selector of labels and fields. The scope is separate.
pub trait Predicate: Send + Sync + 'static {
    /// Whether the object is selected.
    fn matches(&self, object: &CachedObject) -> bool;

    /// A text that is equal for equal predicates, and empty for the one that matches everything.
    fn identity(&self) -> &str;

    /// A field that must have an exact value for an object to be selected: its index in
    /// [`Attributes::fields`](crate::object::Attributes::fields), and the value. It becomes the
    /// watcher's topic, so that events of other values never reach the watcher (WA-52, WA-53).
    fn demanded_field(&self) -> Option<(usize, &str)> {
        None
    }

    /// The exact value that the field at this index must have for an object to be selected, if it
    /// must have one. A list looks for it in an index of the field.
    fn demanded_value(&self, place: usize) -> Option<&str> {
        let (demanded, value) = self.demanded_field()?;
        (demanded == place).then_some(value)
    }
}

/// The predicate that selects everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Predicate for Everything {
    fn matches(&self, _: &CachedObject) -> bool {
        true
    }

    fn identity(&self) -> &str {
        ""
    }
}

/// A form in which events are sent: JSON, JSON of metadata only, Tables.
pub trait Projection: Send + Sync + 'static {
    /// A text that is equal for equal projections, such as `json` or `table;v1;Metadata`.
    fn identity(&self) -> &str;

    /// The frame of an event: bytes that are sent to the client as they are, newline included. For
    /// [`WatchEventKind::Deleted`] the object must be shown at `revision`. `first` is set for the
    /// first frame of a stream; see [`Projection::first_differs`].
    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        first: bool,
    ) -> Bytes;

    /// Whether the first frame of a stream differs from later ones. Tables have their column
    /// definitions only there (API-74). Otherwise all members of a group share frames.
    fn first_differs(&self) -> bool {
        false
    }

    /// The frame of a bookmark. With `initial_events_end` it is the one after the initial events
    /// (WA-15, WA-41).
    fn bookmark(&self, revision: Revision, initial_events_end: bool, first: bool) -> Bytes;

    /// The frame of an ERROR event: a Status 500 InternalError with this text. The stream ends
    /// after it (WA-32, WA-33).
    fn error(&self, message: &str) -> Bytes;

    /// The frame of an ERROR event: a Status 410 Expired. The stream ends after it, because the
    /// watcher can't go on after `reached`: the store has nothing before `oldest` any more.
    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes;
}

/// The events that a watcher wants.
#[derive(Clone)]
pub struct WatchInterest {
    /// Which keys.
    pub scope: Scope,
    /// Which of the objects under these keys.
    pub predicate: Arc<dyn Predicate>,
    /// In what form.
    pub projection: Arc<dyn Projection>,
}

/// The index key of a watcher: the most selective property that all of its events have in common
/// (WA-50).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Every object of the resource.
    All,
    /// The objects of one namespace.
    Namespace(Prefix),
    /// The objects with this value of the field at this index, in any namespace.
    Field(usize, SmolStr),
    /// One object.
    Object(Key),
}

impl WatchInterest {
    /// The topic of a watcher with this interest.
    pub fn topic(&self) -> Topic {
        match (&self.scope, self.predicate.demanded_field()) {
            (Scope::Object(key), _) => Topic::Object(key.clone()),
            (_, Some((place, value))) => Topic::Field(place, SmolStr::new(value)),
            (Scope::Namespace(prefix), None) => Topic::Namespace(prefix.clone()),
            (Scope::All, None) => Topic::All,
        }
    }
}

/// The kind of an event for a scope and a predicate: the table of WA-20. `current` is the object
/// after the event, `previous` the one before. The returned object is the one to show.
pub fn transition<'o>(
    scope: &Scope,
    predicate: &dyn Predicate,
    current: Option<&'o CachedObject>,
    previous: Option<&'o CachedObject>,
) -> Option<(WatchEventKind, &'o CachedObject)> {
    let selected = |object: &&CachedObject| scope.covers(object.key()) && predicate.matches(object);
    match (current.filter(selected), previous.filter(selected)) {
        (Some(now), Some(_)) => Some((WatchEventKind::Modified, now)),
        (Some(now), None) => Some((WatchEventKind::Added, now)),
        (None, Some(before)) => Some((WatchEventKind::Deleted, before)),
        (None, None) => None,
    }
}
