//! A cached object: the bytes that clients get, and the attributes that selectors use.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Event, Key, Revision};
pub use attributes::{Attributes, AttributesRef, Labels};

mod attributes;
#[cfg(test)]
mod tests;

/// The beginning of the wire form of all objects of one type, up to the brace or comma before
/// `metadata`: `{"kind":"ConfigMap","apiVersion":"v1",`.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeMembers(pub Box<[u8]>);

/// An object in wire form, as JSON with `kind` and `apiVersion` in front:
/// `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7",…},…}`.
///
/// No tree is kept. The offsets make every other form a slice or a splice of the wire form. A list
/// item is the wire form without its type. A watch frame is the wire form between a prefix and a
/// suffix. A DELETED event has another revision spliced in. The canonical stored form is the wire
/// form without its `resourceVersion` member.
///
/// The text, the key and the attributes share one buffer, and all objects of a type share its
/// members: a cache holds hundreds of thousands of objects, and each byte more counts for each.
#[derive(Clone, PartialEq, Eq)]
pub struct CachedObject {
    types: Arc<TypeMembers>,
    /// The wire form after its type, then the key, then the encoded attributes.
    buffer: Box<[u8]>,
    /// The revision of the event that wrote it; 0 for an object that was never stored (dry run).
    pub revision: Revision,
    body_bytes: u32,
    key_bytes: u16,
    revision_member: u8,
    revision_member_bytes: u8,
}

/// The wire form of an object in its parts.
#[derive(Clone, Copy, Debug)]
pub struct WireParts<'t> {
    /// The members before `metadata`.
    pub types: &'t Arc<TypeMembers>,
    /// The text between them and the `resourceVersion` member.
    pub before: &'t [u8],
    /// The member, `"resourceVersion":"7",`. It may be empty.
    pub revision_member: &'t [u8],
    /// The text after it.
    pub after: &'t [u8],
}

impl CachedObject {
    /// An object that is stored under a key at a revision. `None` if it takes 4 GiB or more, if its
    /// key takes 64 KiB or more, or if its `resourceVersion` is not at the beginning.
    pub fn new(
        key: &Key,
        revision: Revision,
        wire: WireParts<'_>,
        attributes: &Attributes,
    ) -> Option<CachedObject> {
        let key = key.as_bytes();
        CachedObject::assemble(key, revision, wire, &attributes.encoded(key))
    }

    fn assemble(
        key: &[u8],
        revision: Revision,
        wire: WireParts<'_>,
        attributes: &[u8],
    ) -> Option<CachedObject> {
        let WireParts {
            types,
            before,
            revision_member,
            after,
        } = wire;
        let revision_member = member_before(revision_member, after);
        let body_bytes = before.len() + revision_member.len() + after.len();
        Some(CachedObject {
            types: Arc::clone(types),
            buffer: [before, revision_member, after, key, attributes]
                .concat()
                .into(),
            revision,
            body_bytes: body_bytes.try_into().ok()?,
            key_bytes: key.len().try_into().ok()?,
            revision_member: before.len().try_into().ok()?,
            revision_member_bytes: revision_member.len().try_into().ok()?,
        })
    }

    /// The JSON text that a client gets.
    pub fn wire(&self) -> Vec<u8> {
        [self.types(), self.item_body()].concat()
    }

    /// Whether the object begins with this text of its kind and version.
    pub fn has_types(&self, types: &[u8]) -> bool {
        self.types() == types
    }

    fn types(&self) -> &[u8] {
        &self.types.0
    }

    /// The wire form without `kind` and `apiVersion`, to be written after an opening brace: a list
    /// item (API-61).
    pub fn item_body(&self) -> &[u8] {
        self.split().0
    }

    /// The bytes of the physical key.
    pub fn key(&self) -> &[u8] {
        self.split().1
    }

    /// The attributes that selectors use.
    pub fn attributes(&self) -> AttributesRef<'_> {
        let (_, key, encoded) = self.split();
        AttributesRef::of(key, encoded)
    }

    /// The body, the key and the attributes.
    fn split(&self) -> (&[u8], &[u8], &[u8]) {
        let (body, rest) = split_at(&self.buffer, self.body_bytes as usize);
        let (key, attributes) = split_at(rest, self.key_bytes.into());
        (body, key, attributes)
    }

    /// [`CachedObject::item_body`] before and after its `resourceVersion` member. For an object
    /// without one, the two meet where the member would be.
    pub fn around_revision(&self) -> (&[u8], &[u8]) {
        let (before, rest) = split_at(self.item_body(), self.revision_member.into());
        (before, split_at(rest, self.revision_member_bytes.into()).1)
    }

    /// The canonical stored form: the wire form without the `resourceVersion` (ST-7).
    pub fn stored_form(&self) -> Vec<u8> {
        let (before, after) = self.around_revision();
        [self.types(), before, after].concat()
    }

    /// Whether these are the bytes of [`CachedObject::stored_form`].
    pub fn is_stored_as(&self, stored: &[u8]) -> bool {
        let (before, after) = self.around_revision();
        let body = stored.strip_prefix(self.types());
        body.and_then(|body| body.strip_prefix(before)) == Some(after)
    }

    /// The wire form with another `resourceVersion`, for DELETED events (PF-1).
    pub fn wire_at(&self, revision: Revision) -> Vec<u8> {
        let (before, after) = self.around_revision();
        let member = revision_member(revision);
        let member = member_before(&member, after);
        [self.types(), before, member, after].concat()
    }

    /// The same object at another revision.
    pub fn at(&self, revision: Revision) -> CachedObject {
        let (before, after) = self.around_revision();
        let wire = WireParts {
            types: &self.types,
            before,
            revision_member: &revision_member(revision),
            after,
        };
        let (_, key, attributes) = self.split();
        let moved = CachedObject::assemble(key, revision, wire, attributes);
        // It is at most 42 bytes longer.
        moved.unwrap_or_else(|| self.clone())
    }

    /// The approximate memory it takes, in bytes. Rings and buffers count it.
    pub fn size(&self) -> usize {
        self.buffer.len() + OBJECT_OVERHEAD_BYTES
    }
}

/// Splits bytes at a position that is within them.
fn split_at(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

/// The memory of an object in addition to its buffer: itself, its counters, and the allocator's
/// overhead.
const OBJECT_OVERHEAD_BYTES: usize = size_of::<CachedObject>() + 40;

/// The member as it is written before this text: without a comma when no other member follows.
fn member_before<'m>(member: &'m [u8], after: &[u8]) -> &'m [u8] {
    match after.first() {
        Some(b'}') => member.strip_suffix(b",").unwrap_or(member),
        _ => member,
    }
}

/// The `"resourceVersion":"7",` member of this revision.
pub fn revision_member(revision: Revision) -> Vec<u8> {
    format!("\"resourceVersion\":\"{revision}\",").into_bytes()
}

impl fmt::Debug for CachedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedObject")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("revision", &self.revision)
            .field("wire", &String::from_utf8_lossy(&self.wire()))
            .field("attributes", &self.attributes())
            .finish_non_exhaustive()
    }
}

/// Decodes stored bytes into cached objects. The daemon implements it, because it knows codecs and
/// transformers.
pub trait Decode: Send + Sync + 'static {
    /// Decodes what is stored under a key at a revision.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not an object of this resource. It names the key.
    fn decode(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<CachedObject, DecodeError>;

    /// Decodes the value of an event. Its writer may have done so already.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_event(&self, event: &Event) -> Result<Arc<CachedObject>, DecodeError> {
        let decoded = self.decode(&event.key, event.revision, &event.value);
        decoded.map(Arc::new)
    }

    /// Retries what could not be decoded before. A further failure is not counted again.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_again(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<CachedObject, DecodeError> {
        self.decode(key, revision, value)
    }
}

/// A stored value that can't be decoded.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the value of {key} at revision {revision} can't be decoded: {reason}")]
pub struct DecodeError {
    /// The physical key.
    pub key: String,
    /// Its revision.
    pub revision: Revision,
    /// The problem with it.
    pub reason: String,
}
