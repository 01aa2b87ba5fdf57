//! A cached object: the bytes that clients get, and the attributes that selectors use.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use smol_str::SmolStr;

use crate::engine::{Event, Key, Revision};

/// An object in wire form, as JSON with `kind` and `apiVersion` in front:
/// `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7",…},…}`.
///
/// No tree is kept. The offsets make every other form a slice or a splice of the wire form. A list
/// item is the wire form from `body` on. A watch frame is the wire form between a prefix and a
/// suffix. A DELETED event has another revision spliced in. The canonical stored form is the wire
/// form without its `resourceVersion` member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedObject {
    /// The physical key.
    pub key: Key,
    /// The revision of the event that wrote it; 0 for an object that was never stored (dry run).
    pub revision: Revision,
    /// The JSON text that a client gets.
    pub wire: Bytes,
    /// Where the members after `kind` and `apiVersion` begin. `wire[body..]` is a list item without
    /// its opening brace.
    pub body: u32,
    /// The range of the `"resourceVersion":"7",` member in `wire`. For an object without one, the
    /// range is empty and at the position where the member would be.
    pub revision_member: Range<u32>,
    /// What selectors use.
    pub attributes: Attributes,
}

/// What selectors use. It is extracted once, when the object enters the cache (LI-39).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub namespace: SmolStr,
    /// `metadata.name`.
    pub name: SmolStr,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(SmolStr, SmolStr)]>,
    /// Values of the resource's selectable fields, in the order its definition lists them.
    pub fields: Box<[SmolStr]>,
}

impl Attributes {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(k, _)| k.as_str().cmp(key))
            .ok()?;
        self.labels.get(at).map(|(_, value)| value.as_str())
    }

    /// The value of the selectable field at an index, empty if there is none.
    pub fn field(&self, place: usize) -> &str {
        let value = self.fields.get(place);
        value.map(SmolStr::as_str).unwrap_or_default()
    }
}

impl CachedObject {
    /// The members of a list item, without `kind` and `apiVersion`, to be written after an opening
    /// brace (API-61).
    pub fn item_body(&self) -> &[u8] {
        self.wire.get(self.body as usize..).unwrap_or_default()
    }

    /// The wire form before and after its `resourceVersion` member.
    pub fn around_revision(&self) -> (&[u8], &[u8]) {
        let Range { start, end } = self.revision_member;
        (
            self.wire.get(..start as usize).unwrap_or_default(),
            self.wire.get(end as usize..).unwrap_or_default(),
        )
    }

    /// The canonical stored form: the wire form without the `resourceVersion` (ST-7).
    pub fn stored_form(&self) -> Vec<u8> {
        let (before, after) = self.around_revision();
        [before, after].concat()
    }

    /// The wire form with another `resourceVersion`, for DELETED events (PF-1).
    pub fn wire_at(&self, revision: Revision) -> Vec<u8> {
        let (before, after) = self.around_revision();
        let mut wire = Vec::with_capacity(before.len() + after.len() + 42);
        wire.extend_from_slice(before);
        wire.extend_from_slice(format!("\"resourceVersion\":\"{revision}\",").as_bytes());
        wire.extend_from_slice(after);
        wire
    }

    /// The same object at another revision.
    pub fn at(&self, revision: Revision) -> CachedObject {
        let wire = self.wire_at(revision);
        let start = self.revision_member.start;
        let length = (wire.len() + (self.revision_member.end - start) as usize)
            .saturating_sub(self.wire.len());
        CachedObject {
            key: self.key.clone(),
            revision,
            wire: Bytes::from(wire),
            body: self.body,
            revision_member: start..start + length as u32,
            attributes: self.attributes.clone(),
        }
    }

    /// The approximate memory it takes, in bytes. Rings and buffers count it.
    pub fn size(&self) -> usize {
        let labels: usize = self.attributes.labels.iter().map(|_| 48).sum();
        self.wire.len() + self.key.as_bytes().len() + labels + 200
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
    /// What is wrong with it.
    pub reason: String,
}
