//! Revisions, keys, prefixes and lease ids. Pure.

use std::fmt;
use std::sync::Arc;

/// The number of an event in its store, which clients see as `resourceVersion`. 0 means "no
/// revision".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// No revision: that of an absent key, and the position before the first event.
    pub const ZERO: Revision = Revision(0);
    /// A revision that no store reaches.
    pub const MAX: Revision = Revision(u64::MAX);

    /// The revision after this one (saturating).
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A physical key, such as `/registry/configmaps/default/a`. It is cheap to clone, and ordered by
/// bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Key {
        Key(Arc::from(bytes.as_ref()))
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The parts of the key up to and including each of its slashes, shortest first.
    pub fn directories(&self) -> impl Iterator<Item = &[u8]> {
        let key = self.as_bytes();
        key.iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .filter_map(|(at, _)| key.get(..=at))
    }

    /// The key up to its last slash: the prefix of its namespace.
    pub fn namespace(&self) -> &[u8] {
        namespace_of(self.as_bytes())
    }

    /// The key as text. Kubernetes' keys are always UTF-8. Any other bytes are replaced.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

/// The part of a key up to its last slash: the prefix of its namespace.
pub fn namespace_of(key: &[u8]) -> &[u8] {
    let end = key.iter().rposition(|byte| *byte == b'/');
    key.get(..end.map_or(0, |at| at + 1)).unwrap_or_default()
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// All keys that start with these bytes. That of a resource ends in a slash, as
/// `/registry/pods/`, so that it never covers `/registry/podtemplates/a` (PF-18).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Key);

impl Prefix {
    /// A prefix of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Prefix {
        Prefix(Key::new(bytes))
    }

    /// The prefix's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether the key starts with this prefix.
    pub fn covers(&self, key: impl AsRef<[u8]>) -> bool {
        key.as_ref().starts_with(self.as_bytes())
    }

    /// The first key after all keys with this prefix; `None` if the prefix has only bytes 0xff.
    pub fn end(&self) -> Option<Vec<u8>> {
        let mut end = self.as_bytes().to_vec();
        while let Some(last) = end.last_mut() {
            if *last < u8::MAX {
                *last += 1;
                return Some(end);
            }
            end.pop();
        }
        None
    }
}

impl std::borrow::Borrow<[u8]> for Prefix {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a lease; 0 means "no lease". No two leases of an engine get the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);
