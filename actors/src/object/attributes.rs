//! The attributes of an object that selectors use, and their encoding in the object's buffer. Pure.
//!
//! The encoding begins with two numbers: one that says where namespace and name are, and the number
//! of fields. A sequence of texts follows, each after its length: the namespace and the name, if
//! they are not the end of the key, the selectable fields, then the labels as keys and values. A
//! number is one byte, or 255 and four bytes, the lowest first.

use std::cmp::Ordering;
use std::fmt;

use smol_str::SmolStr;

/// The first byte of a number that takes four more.
const IS_LONG: u8 = u8::MAX;

/// The namespace and the name are the first two texts.
const IN_TEXTS: usize = 0;
/// The name is the last part of the key, and there is no namespace.
const NAME_IN_KEY: usize = 1;
/// The namespace and the name are the last two parts of the key.
const BOTH_IN_KEY: usize = 2;

/// The attributes that selectors use. They are extracted once, when the object enters the cache
/// (LI-39).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub namespace: SmolStr,
    /// `metadata.name`.
    pub name: SmolStr,
    /// `metadata.labels`, in the order of their keys.
    pub labels: Box<[(SmolStr, SmolStr)]>,
    /// Values of the resource's selectable fields, in the order its definition lists them.
    pub fields: Box<[SmolStr]>,
}

impl Attributes {
    /// The encoding that [`AttributesRef`] reads.
    pub(super) fn encoded(&self, key: &[u8]) -> Vec<u8> {
        let in_key = ends(key);
        let place = match (self.namespace.as_bytes(), self.name.as_bytes()) {
            both if both == in_key => BOTH_IN_KEY,
            (b"", name) if name == in_key.1 => NAME_IN_KEY,
            _ => IN_TEXTS,
        };
        let own = (place == IN_TEXTS).then_some([&self.namespace, &self.name]);
        let texts = || {
            let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
            own.into_iter().flatten().chain(&self.fields).chain(labels)
        };
        let bytes: usize = texts().map(|text| 1 + text.len()).sum();
        let mut encoded = Vec::with_capacity(2 + bytes);
        write_number(&mut encoded, place);
        write_number(&mut encoded, self.fields.len());
        for text in texts() {
            write_number(&mut encoded, text.len());
            encoded.extend_from_slice(text.as_bytes());
        }
        encoded
    }
}

/// [`Attributes`] of a cached object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttributesRef<'o> {
    key: &'o [u8],
    place: usize,
    fields: usize,
    texts: &'o [u8],
}

impl<'o> AttributesRef<'o> {
    pub(super) fn of(key: &'o [u8], encoded: &'o [u8]) -> AttributesRef<'o> {
        let (place, encoded) = split_number(encoded).unwrap_or_default();
        let (fields, texts) = split_number(encoded).unwrap_or_default();
        AttributesRef {
            key,
            place,
            fields,
            texts,
        }
    }

    /// The fields, then the labels.
    fn fields_and_labels(self) -> Texts<'o> {
        let mut texts = Texts(self.texts);
        if self.place == IN_TEXTS {
            texts.nth(1);
        }
        texts
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(self) -> &'o str {
        match self.place {
            BOTH_IN_KEY => text(Some(ends(self.key).0)),
            NAME_IN_KEY => "",
            _ => text(Texts(self.texts).next()),
        }
    }

    /// `metadata.name`.
    pub fn name(self) -> &'o str {
        match self.place {
            IN_TEXTS => text(Texts(self.texts).nth(1)),
            _ => text(Some(ends(self.key).1)),
        }
    }

    /// The labels, to be looked up.
    pub fn labels(self) -> Labels<'o> {
        let mut texts = self.fields_and_labels();
        if let Some(last) = self.fields.checked_sub(1) {
            texts.nth(last);
        }
        Labels {
            next: next_label(&mut texts),
            texts,
        }
    }

    /// The value of a label. For several of them, see [`AttributesRef::labels`].
    pub fn label(self, key: &str) -> Option<&'o str> {
        self.labels().value(key)
    }

    /// The value of the selectable field at an index, empty if there is none.
    pub fn field(self, place: usize) -> &'o str {
        let is_field = place < self.fields;
        let field = is_field.then(|| self.fields_and_labels().nth(place));
        text(field.flatten())
    }

    /// The values of the selectable fields.
    pub fn fields(self) -> impl Iterator<Item = &'o str> {
        let fields = self.fields_and_labels().take(self.fields);
        fields.map(|value| text(Some(value)))
    }
}

/// Looks labels up in the order of their keys, in one pass: an object may have very many labels,
/// and a selector very many requirements.
#[derive(Debug)]
pub struct Labels<'o> {
    texts: Texts<'o>,
    next: Option<(&'o [u8], &'o [u8])>,
}

impl<'o> Labels<'o> {
    /// The value of a label. Keys are asked for in the order of their bytes, and may repeat.
    pub fn value(&mut self, key: &str) -> Option<&'o str> {
        while let Some((found, value)) = self.next {
            match found.cmp(key.as_bytes()) {
                Ordering::Less => self.next = next_label(&mut self.texts),
                Ordering::Equal => return Some(text(Some(value))),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

fn next_label<'o>(texts: &mut Texts<'o>) -> Option<(&'o [u8], &'o [u8])> {
    texts.next().zip(texts.next())
}

impl fmt::Debug for AttributesRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.fields_and_labels().map(|value| text(Some(value)));
        let both = [self.namespace(), self.name()];
        f.debug_list().entries(both).entries(texts).finish()
    }
}

/// Reads texts in their order.
#[derive(Debug)]
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

/// The last two parts of a key.
fn ends(key: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = key.rsplit(|byte| *byte == b'/');
    let name = parts.next().unwrap_or_default();
    (parts.next().unwrap_or_default(), name)
}

fn write_number(encoded: &mut Vec<u8>, number: usize) {
    match u8::try_from(number) {
        Ok(short) if short != IS_LONG => encoded.push(short),
        _ => {
            encoded.push(IS_LONG);
            // No text is longer than a request, and a length that is cut only hides what follows.
            encoded.extend_from_slice(&(number as u32).to_le_bytes());
        }
    }
}

fn split_number(encoded: &[u8]) -> Option<(usize, &[u8])> {
    match encoded.split_first()? {
        (&IS_LONG, rest) => {
            let (number, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*number) as usize, rest))
        }
        (short, rest) => Some((usize::from(*short), rest)),
    }
}

/// The encoded bytes are always text, so nothing is lost.
fn text(bytes: Option<&[u8]>) -> &str {
    let text = bytes.map(str::from_utf8);
    text.and_then(Result::ok).unwrap_or_default()
}
