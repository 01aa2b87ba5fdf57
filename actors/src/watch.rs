//! The nouns of watching: which events a watcher wants, and in what form.
//!
//! The traits are implemented outside, by whoever knows selectors and media types; the actors
//! compare their identities to put watchers with equal wishes into one group, so that a selector
//! is evaluated and a frame is rendered once per group and not once per watcher.

use std::sync::Arc;

use bytes::Bytes;
use smol_str::SmolStr;

use crate::engine::{Key, Prefix, Revision};
use crate::object::CachedObject;

/// What an event is for a watcher, after its selectors (WA-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEventKind {
    /// The object came into what the watcher watches.
    Added,
    /// The object changed within it.
    Modified,
    /// The object left it; the frame shows the last content at the event's revision (PF-1, PF-2).
    Deleted,
}

/// Which keys a watcher watches: the topic it is filed under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every object of the resource.
    All,
    /// The objects of one namespace: the prefix with the closing slash (WA-24).
    Namespace(Prefix),
    /// One object.
    Object(Key),
}

impl Scope {
    /// Whether an object of the resource lies within.
    pub fn covers(&self, key: &Key) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(prefix) => prefix.covers(key),
            Scope::Object(object) => object == key,
        }
    }
}

/// A selector over cached objects (labels and fields; the scope is separate).
pub trait Predicate: Send + Sync + 'static {
    /// Whether the object is selected.
    fn matches(&self, object: &CachedObject) -> bool;

    /// Text that is equal for equal predicates; empty for the one that matches everything.
    fn identity(&self) -> &str;

    /// A field that must have an exact value for an object to be selected: its place in
    /// [`Attributes::fields`](crate::object::Attributes::fields), and the value. Watchers are filed
    /// under it, so that an event of another value never reaches them (WA-52, WA-53).
    fn demanded_field(&self) -> Option<(usize, &str)> {
        None
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

/// A form in which events go out: JSON, JSON of metadata alone, Tables.
pub trait Projection: Send + Sync + 'static {
    /// Text that is equal for equal projections, such as `json` or `table;v1;Metadata`.
    fn identity(&self) -> &str;

    /// The frame of an event: bytes that go to the client as they are, newline included. For
    /// [`WatchEventKind::Deleted`] the object shown must carry `revision`. `first` is set for the
    /// first frame of a stream; see [`Projection::first_differs`].
    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        first: bool,
    ) -> Bytes;

    /// Whether the first frame of a stream differs from later ones (Tables carry their column
    /// definitions only there, API-74); otherwise frames are shared between all of a group.
    fn first_differs(&self) -> bool {
        false
    }

    /// The frame of a bookmark; with `initial_events_end` the one that closes the initial
    /// events (WA-15, WA-41).
    fn bookmark(&self, revision: Revision, initial_events_end: bool, first: bool) -> Bytes;

    /// The frame of an ERROR event: a Status 500 InternalError with this text, after which the
    /// stream ends (WA-32, WA-33).
    fn error(&self, message: &str) -> Bytes;
}

/// What a watcher wants.
#[derive(Clone)]
pub struct WatchInterest {
    /// Which keys.
    pub scope: Scope,
    /// Which of their objects.
    pub predicate: Arc<dyn Predicate>,
    /// In what form.
    pub projection: Arc<dyn Projection>,
}

/// What watchers are filed under: the narrowest thing that all events they may want have in common
/// (WA-50).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Every object of the resource.
    All,
    /// The objects of one namespace.
    Namespace(Prefix),
    /// The objects with this value of the field at this place, in whatever namespace.
    Field(usize, SmolStr),
    /// One object.
    Object(Key),
}

impl WatchInterest {
    /// The topic to file a watcher under.
    pub fn topic(&self) -> Topic {
        match (&self.scope, self.predicate.demanded_field()) {
            (Scope::Object(key), _) => Topic::Object(key.clone()),
            (_, Some((place, value))) => Topic::Field(place, SmolStr::new(value)),
            (Scope::Namespace(prefix), None) => Topic::Namespace(prefix.clone()),
            (Scope::All, None) => Topic::All,
        }
    }
}

/// What an event is for a scope and predicate: the table of WA-20. `current` is the object after
/// the event, `previous` the one before. The object returned is the one to show.
pub fn transition<'o>(
    scope: &Scope,
    predicate: &dyn Predicate,
    current: Option<&'o CachedObject>,
    previous: Option<&'o CachedObject>,
) -> Option<(WatchEventKind, &'o CachedObject)> {
    let selected = |object: &&CachedObject| scope.covers(&object.key) && predicate.matches(object);
    match (current.filter(selected), previous.filter(selected)) {
        (Some(now), Some(_)) => Some((WatchEventKind::Modified, now)),
        (Some(now), None) => Some((WatchEventKind::Added, now)),
        (None, Some(before)) => Some((WatchEventKind::Deleted, before)),
        (None, None) => None,
    }
}
