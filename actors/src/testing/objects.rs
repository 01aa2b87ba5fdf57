//! Objects of one line: the stored value is `COLOR TEXT`, the color is a label and a field.

use std::sync::Arc;

use bytes::Bytes;
use smol_str::SmolStr;

use crate::engine::{Key, Prefix, Revision};
use crate::object::{Attributes, CachedObject, Decode, DecodeError, TypeMembers, WireParts};
use crate::watch::{Everything, Predicate, Projection, Scope, WatchEventKind, WatchInterest};

pub fn prefix() -> Prefix {
    Prefix::new("/registry/things/")
}

/// The key of a thing, such as `default/a`.
pub fn key(name: &str) -> Key {
    Key::new(format!("/registry/things/{name}"))
}

/// Decodes `COLOR TEXT`. A value with `undecodable` fails, a value with `panic` panics.
#[derive(Clone, Copy)]
pub struct OneLiners;

impl Decode for OneLiners {
    fn decode(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<CachedObject, DecodeError> {
        let text = String::from_utf8_lossy(value).into_owned();
        assert!(!text.contains("panic"), "a test requested this panic");
        if text.contains("undecodable") {
            return Err(DecodeError {
                key: key.to_string(),
                revision,
                reason: text,
            });
        }
        let path = key.to_string();
        let path = path.trim_start_matches("/registry/things/");
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        let color = text.split(' ').next().unwrap_or_default();
        let attributes = Attributes {
            namespace: namespace.into(),
            name: name.into(),
            labels: Box::new([(SmolStr::new("color"), SmolStr::new(color))]),
            fields: Box::new([SmolStr::new(color)]),
        };
        Ok(object(key, revision, &text, &attributes))
    }
}

/// An object whose wire form is this text.
pub fn object(key: &Key, revision: Revision, text: &str, attributes: &Attributes) -> CachedObject {
    let wire = WireParts {
        types: &Arc::new(TypeMembers(Box::default())),
        before: b"",
        revision_member: b"",
        after: text.as_bytes(),
    };
    match CachedObject::new(key, revision, wire, attributes) {
        Some(object) => object,
        None => panic!("{key} is too large"),
    }
}

/// A thing as it is after its first event.
pub fn thing(name: &str, text: &str) -> CachedObject {
    let value = Bytes::from(text.to_owned());
    match OneLiners.decode(&key(name), Revision(1), &value) {
        Ok(thing) => thing,
        Err(error) => panic!("{error}"),
    }
}

/// Selects things of one color by the field.
pub struct ColorField(String);

impl ColorField {
    const LABEL: &str = "color=";

    pub fn new(color: &str) -> ColorField {
        ColorField(format!("{}{color}", ColorField::LABEL))
    }

    fn color(&self) -> &str {
        self.0.get(ColorField::LABEL.len()..).unwrap_or_default()
    }
}

impl Predicate for ColorField {
    fn matches(&self, object: &CachedObject) -> bool {
        object.attributes().field(0) == self.color()
    }

    fn identity(&self) -> &str {
        &self.0
    }

    fn demanded_field(&self) -> Option<(usize, &str)> {
        Some((0, self.color()))
    }
}

/// Selects things of one color.
pub struct ColorIs(pub &'static str);

impl Predicate for ColorIs {
    fn matches(&self, object: &CachedObject) -> bool {
        object.attributes().label("color") == Some(self.0)
    }

    fn identity(&self) -> &str {
        self.0
    }
}

/// Frames such as `ADDED default/a@7 red x`, one to an event; bookmarks `BOOKMARK @7`.
pub struct Lines;

impl Projection for Lines {
    fn identity(&self) -> &str {
        "lines"
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        _: bool,
    ) -> Bytes {
        let kind = format!("{kind:?}").to_uppercase();
        let text = String::from_utf8_lossy(object.item_body());
        let (namespace, name) = (object.attributes().namespace(), object.attributes().name());
        Bytes::from(format!("{kind} {namespace}/{name}@{revision} {text}"))
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, _: bool) -> Bytes {
        let end = if initial_events_end { " end" } else { "" };
        Bytes::from(format!("BOOKMARK @{revision}{end}"))
    }

    fn error(&self, message: &str) -> Bytes {
        Bytes::from(format!("ERROR {message}"))
    }

    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes {
        Bytes::from(format!("EXPIRED @{reached} {oldest}"))
    }
}

/// As [`Lines`], but the first frame of a stream carries a header.
pub struct LinesWithHeader;

impl Projection for LinesWithHeader {
    fn identity(&self) -> &str {
        "lines with header"
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        first: bool,
    ) -> Bytes {
        let header = if first { "HEADER " } else { "" };
        let line = Lines.frame(kind, object, revision, first);
        Bytes::from(format!("{header}{}", String::from_utf8_lossy(&line)))
    }

    fn first_differs(&self) -> bool {
        true
    }

    fn bookmark(&self, revision: Revision, end: bool, first: bool) -> Bytes {
        Lines.bookmark(revision, end, first)
    }

    fn error(&self, message: &str) -> Bytes {
        Lines.error(message)
    }

    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes {
        Lines.expired(reached, oldest)
    }
}

/// Everything in a scope, as [`Lines`].
pub fn interest(scope: Scope) -> WatchInterest {
    WatchInterest {
        scope,
        predicate: Arc::new(Everything),
        projection: Arc::new(Lines),
    }
}
