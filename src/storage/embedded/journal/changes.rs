//! Changes of tables as bytes. Pure.

use actors::engine::Revision;

use crate::storage::embedded::error::Failure;

/// A table, by its number in the journal. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TableId {
    /// `events`
    Events = 1,
    /// `live`
    Live = 2,
    /// `superseded`
    Superseded = 3,
    /// `leases`
    Leases = 4,
    /// `attached`
    Attached = 5,
    /// `timeline`
    Timeline = 6,
    /// `meta`
    Meta = 7,
}

impl TableId {
    const ALL: [TableId; 7] = [
        TableId::Events,
        TableId::Live,
        TableId::Superseded,
        TableId::Leases,
        TableId::Attached,
        TableId::Timeline,
        TableId::Meta,
    ];
}

/// The bit of a table's number that says that a row is removed.
const REMOVAL: u8 = 0x80;

/// A change of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// The table.
    pub table: TableId,
    /// The row's key.
    pub key: &'c [u8],
    /// Its value; `None` when the row is removed.
    pub value: Option<&'c [u8]>,
}

/// Changes in the order in which they were made, and the revisions of the events among them.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    /// The first and the last revision.
    revisions: Option<(Revision, Revision)>,
}

impl Changes {
    /// Adds a change.
    pub fn push(&mut self, change: Change<'_>) {
        let Change { table, key, value } = change;
        let removal = if value.is_none() { REMOVAL } else { 0 };
        self.bytes.push(table as u8 | removal);
        self.push_bytes(key);
        if let Some(value) = value {
            self.push_bytes(value);
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        // Keys and values are limited to a few MiB.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Notes the revision of an event among the changes. Revisions rise.
    pub fn note_revision(&mut self, revision: Revision) {
        let first = self.revisions.map_or(revision, |(first, _)| first);
        self.revisions = Some((first, revision));
    }

    /// The first and the last revision of the events; both 0 when there are none.
    pub fn revisions(&self) -> (Revision, Revision) {
        self.revisions.unwrap_or_default()
    }

    /// Adds all changes of another list.
    pub fn extend(&mut self, other: &Changes) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// The changes, in order.
    ///
    /// # Errors
    /// None: what was recorded can be read.
    pub fn iter(&self) -> impl Iterator<Item = Result<Change<'_>, Failure>> {
        decode(&self.bytes)
    }

    /// The changes as the journal stores them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        *self = Changes::default();
    }
}

/// The changes in the body of a group.
///
/// # Errors
/// An item is a failure when the bytes are not changes of known tables. Nothing follows it.
pub fn decode(mut bytes: &[u8]) -> impl Iterator<Item = Result<Change<'_>, Failure>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let change = split(bytes);
        bytes = change.as_ref().map_or(&[], |(_, rest)| *rest);
        Some(change.map(|(change, _)| change))
    })
}

fn split(bytes: &[u8]) -> Result<(Change<'_>, &[u8]), Failure> {
    let incomplete = || Failure::Corrupt("a change is incomplete".to_owned());
    let (tag, rest) = bytes.split_first().ok_or_else(incomplete)?;
    let number = tag & !REMOVAL;
    let table = TableId::ALL
        .into_iter()
        .find(|table| *table as u8 == number);
    let table = table.ok_or_else(|| {
        Failure::Corrupt(format!("a change is of table {number}, which is not known"))
    })?;
    let (key, rest) = split_bytes(rest).ok_or_else(incomplete)?;
    if tag & REMOVAL != 0 {
        let value = None;
        return Ok((Change { table, key, value }, rest));
    }
    let (value, rest) = split_bytes(rest).ok_or_else(incomplete)?;
    let value = Some(value);
    Ok((Change { table, key, value }, rest))
}

fn split_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let mut changes = Changes::default();
        let put = Change {
            table: TableId::Events,
            key: b"\x07",
            value: Some(b"record"),
        };
        let removal = Change {
            table: TableId::Meta,
            key: b"",
            value: None,
        };
        changes.push(put);
        changes.push(removal);
        changes.note_revision(Revision(7));
        assert_eq!(
            changes.bytes(),
            b"\x01\x01\0\0\0\x07\x06\0\0\0record\x87\0\0\0\0"
        );
        let read: Vec<_> = decode(changes.bytes()).map(Result::unwrap).collect();
        assert_eq!(read, [put, removal]);
        assert_eq!(changes.revisions(), (Revision(7), Revision(7)));
    }

    #[test]
    fn an_unknown_table_is_refused_by_its_number() {
        let read = decode(b"\x09\0\0\0\0\0\0\0\0").next().unwrap();
        let refused = read.unwrap_err().to_string();
        assert_eq!(refused, "a change is of table 9, which is not known");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for change in decode(&bytes) {
                let _ = change;
            }
        }
    }
}
