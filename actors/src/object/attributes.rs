//! What selectors use of an object, and its encoding in the object's buffer. Pure.
//!
//! The encoding is a sequence of texts, each behind its length: the namespace, the name, the
//! selectable fields, then the labels as keys and values. The number of fields stands in front.

use std::fmt;

use smol_str::SmolStr;

/// The bytes of a length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The texts before the fields: the namespace and the name.
const BEFORE_FIELDS: usize = 2;

/// What selectors use. It is extracted once, when the object enters the cache (LI-39).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub namespace: SmolStr,
    /// `metadata.name`.
    pub name: SmolStr,
    /// `metadata.labels`.
    pub labels: Box<[(SmolStr, SmolStr)]>,
    /// Values of the resource's selectable fields, in the order its definition lists them.
    pub fields: Box<[SmolStr]>,
}

impl Attributes {
    /// The encoding that [`AttributesRef`] reads.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let texts = || {
            let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
            [&self.namespace, &self.name]
                .into_iter()
                .chain(&self.fields)
                .chain(labels)
        };
        let bytes: usize = texts().map(|text| LENGTH_BYTES + text.len()).sum();
        let mut encoded = Vec::with_capacity(LENGTH_BYTES + bytes);
        // No text is longer than a request, and a length that is cut only hides what follows.
        let number = |encoded: &mut Vec<u8>, number: usize| {
            encoded.extend_from_slice(&(number as u32).to_le_bytes());
        };
        number(&mut encoded, self.fields.len());
        for text in texts() {
            number(&mut encoded, text.len());
            encoded.extend_from_slice(text.as_bytes());
        }
        encoded
    }
}

/// [`Attributes`] of a cached object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttributesRef<'o> {
    fields: usize,
    texts: &'o [u8],
}

impl<'o> AttributesRef<'o> {
    pub(super) fn of(encoded: &'o [u8]) -> AttributesRef<'o> {
        let (fields, texts) = split_number(encoded).unwrap_or_default();
        AttributesRef { fields, texts }
    }

    fn texts(self) -> Texts<'o> {
        Texts(self.texts)
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(self) -> &'o str {
        text(self.texts().next())
    }

    /// `metadata.name`.
    pub fn name(self) -> &'o str {
        text(self.texts().nth(1))
    }

    /// The value of a label.
    pub fn label(self, key: &str) -> Option<&'o str> {
        let mut texts = self.texts();
        let mut next = texts.nth(BEFORE_FIELDS + self.fields);
        while let Some(found) = next {
            let value = texts.next();
            if found == key.as_bytes() {
                return Some(text(value));
            }
            next = texts.next();
        }
        None
    }

    /// The value of the selectable field at an index, empty if there is none.
    pub fn field(self, place: usize) -> &'o str {
        let is_field = place < self.fields;
        text(
            is_field
                .then(|| self.texts().nth(BEFORE_FIELDS + place))
                .flatten(),
        )
    }

    /// The values of the selectable fields.
    pub fn fields(self) -> impl Iterator<Item = &'o str> {
        let texts = self.texts().skip(BEFORE_FIELDS).take(self.fields);
        texts.map(|value| text(Some(value)))
    }
}

impl fmt::Debug for AttributesRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.texts().map(|value| text(Some(value)));
        f.debug_list().entries(texts).finish()
    }
}

/// Reads texts in their order.
struct Texts<'o>(&'o [u8]);

impl<'o> Iterator for Texts<'o> {
    type Item = &'o [u8];

    fn next(&mut self) -> Option<&'o [u8]> {
        let (length, rest) = split_number(self.0)?;
        let (text, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }
}

fn split_number(encoded: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = encoded.split_first_chunk::<LENGTH_BYTES>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

/// What was encoded is text, so nothing is lost.
fn text(bytes: Option<&[u8]>) -> &str {
    let text = bytes.map(str::from_utf8);
    text.and_then(Result::ok).unwrap_or_default()
}
