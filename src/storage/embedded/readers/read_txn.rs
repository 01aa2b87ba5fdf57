//! One read transaction: the state of keys at a revision.

use std::cmp::Ordering;

use actors::engine::local;
use actors::engine::{At, EngineError, GetResponse, Key, KeyValue, Revision};
use bytes::BytesMut;
use redb::{ReadOnlyTable, ReadTransaction};

use crate::storage::embedded::error::{Failure, ReadError};
use crate::storage::embedded::record::Record;
use crate::storage::embedded::schema::{EVENTS, LIVE, Live, Meta, SUPERSEDED, Superseded, Totals};
use crate::storage::embedded::schema::{decode_event, missing_event};
use crate::storage::embedded::store::Store;

/// The tables that hold the state, as of one moment.
pub struct ReadTxn {
    events: ReadOnlyTable<u64, &'static [u8]>,
    pub(super) live: ReadOnlyTable<&'static [u8], (u64, u64, u64, u32)>,
    pub(super) superseded: ReadOnlyTable<(&'static [u8], u64), u8>,
    pub totals: Totals,
    pub compacted: Revision,
    transaction: ReadTransaction,
}

impl ReadTxn {
    pub fn open(store: &Store) -> Result<ReadTxn, Failure> {
        let transaction = store.read()?;
        let meta = Meta::of(&transaction)?;
        Ok(ReadTxn {
            events: transaction.open_table(EVENTS)?,
            live: transaction.open_table(LIVE)?,
            superseded: transaction.open_table(SUPERSEDED)?,
            totals: meta.totals,
            compacted: meta.compacted,
            transaction,
        })
    }

    pub(super) fn transaction(&self) -> &ReadTransaction {
        &self.transaction
    }

    /// The revision that a read sees.
    pub(super) fn resolve(&self, at: At) -> Result<Revision, EngineError> {
        local::resolve(at, self.totals.revision, self.compacted)
    }

    /// Whether every event after this revision is still there.
    pub(super) fn check_after(&self, after: Revision) -> Result<(), EngineError> {
        local::check_after(after, self.compacted)
    }

    /// The put that a key has its value from at a revision, given its row in [`LIVE`].
    pub(super) fn put_at(
        &self,
        key: &[u8],
        live: Option<Live>,
        at: Revision,
    ) -> Result<Option<Revision>, Failure> {
        match live {
            Some(live) if live.revision <= at => Ok(Some(live.revision)),
            _ => {
                let found = self.superseded_put_at(key, at)?;
                self.check_successor(key, found, live, at)?;
                Ok(found)
            }
        }
    }

    /// The superseded put that a key had its value from at a past revision.
    fn superseded_put_at(&self, key: &[u8], at: Revision) -> Result<Option<Revision>, Failure> {
        let Some(row) = self.superseded.range((key, 0)..=(key, at.0))?.next_back() else {
            return Ok(None);
        };
        let (place, tag) = row?;
        let revision = Revision(place.value().1);
        Ok(match Superseded::from_tag(key, revision, tag.value())? {
            Superseded::Value => Some(revision),
            Superseded::Absence => None,
        })
    }

    /// Checks that the next event replaced what was found. A lost row would otherwise show an older
    /// value, or none.
    fn check_successor(
        &self,
        key: &[u8],
        found: Option<Revision>,
        live: Option<Live>,
        at: Revision,
    ) -> Result<(), Failure> {
        let mut later = self
            .superseded
            .range((key, at.0.saturating_add(1))..=(key, u64::MAX))?;
        let next = match later.next() {
            Some(row) => Some(Revision(row?.0.value().1)),
            None => live.map(|live| live.revision),
        };
        let replaced = match next {
            Some(next) => {
                let bytes = self
                    .events
                    .get(next.0)?
                    .ok_or_else(|| missing_event(next))?;
                decode_event(next, bytes.value())?.prev_revision()
            }
            // A key that is absent now and has no later event was absent then too.
            None => Revision::ZERO,
        };
        if replaced == found.unwrap_or(Revision::ZERO) {
            return Ok(());
        }
        Err(Failure::Corrupt(format!(
            "table superseded, key {:?}, record {}: the row is missing, or the one after it",
            String::from_utf8_lossy(key),
            replaced.max(found.unwrap_or(Revision::ZERO))
        )))
    }

    /// The value that a put of this key stored.
    pub(super) fn value(&self, key: &[u8], revision: Revision) -> Result<KeyValue, Failure> {
        let found = self
            .events
            .get(revision.0)?
            .ok_or_else(|| missing_event(revision))?;
        Ok(record_of(key, revision, found.value())?.to_key_value())
    }

    /// Reads values at rising revisions, of about this many bytes in all.
    pub(super) fn rising(&self, bytes: usize) -> Rising<'_> {
        Rising {
            events: &self.events,
            rows: None,
            next: 0,
            values: BytesMut::with_capacity(bytes),
        }
    }

    /// The table of events.
    pub fn events(&self) -> &ReadOnlyTable<u64, &'static [u8]> {
        &self.events
    }
}

/// Reads values in the order of the file.
pub(super) struct Rising<'s> {
    events: &'s ReadOnlyTable<u64, &'static [u8]>,
    rows: Option<redb::Range<'s, u64, &'static [u8]>>,
    /// The least revision that the next row may have.
    next: u64,
    /// The values share a buffer. Values of their own would leave the heap full of holes when a
    /// cache has been filled from them.
    values: BytesMut,
}

/// Skipping up to this many rows is cheaper than a search from the root of the table.
const STEPS_MAX: u64 = 8;

impl Rising<'_> {
    /// The value that a put of this key stored. Revisions must not fall from call to call.
    pub(super) fn value(&mut self, key: &[u8], revision: Revision) -> Result<KeyValue, Failure> {
        if self.rows.is_none() || revision.0 - self.next.min(revision.0) > STEPS_MAX {
            self.rows = Some(self.events.range(revision.0..)?);
        }
        for row in self.rows.iter_mut().flatten() {
            let (found, bytes) = row?;
            self.next = found.value() + 1;
            match found.value().cmp(&revision.0) {
                Ordering::Less => {}
                Ordering::Equal => {
                    let record = record_of(key, revision, bytes.value())?;
                    return Ok(record.to_key_value_by(|value| {
                        self.values.extend_from_slice(value);
                        self.values.split().freeze()
                    }));
                }
                Ordering::Greater => break,
            }
        }
        Err(missing_event(revision))
    }
}

/// Decodes the record of a key. The record must be about that key.
fn record_of<'r>(key: &[u8], revision: Revision, bytes: &'r [u8]) -> Result<Record<'r>, Failure> {
    let record = decode_event(revision, bytes)?;
    if record.key() != key {
        return Err(Failure::Corrupt(format!(
            "table events, record {revision}: it is about key {:?}, the tables expect {:?}",
            String::from_utf8_lossy(record.key()),
            String::from_utf8_lossy(key)
        )));
    }
    Ok(record)
}

/// Reads one key.
///
/// # Errors
/// A compacted or future revision, or damage.
pub fn read_key(store: &Store, key: &Key, at: At) -> Result<GetResponse, ReadError> {
    let txn = ReadTxn::open(store)?;
    let at = txn.resolve(at)?;
    let bytes = key.as_bytes();
    let live = txn.live.get(bytes)?.map(|row| Live::from(row.value()));
    let put = txn.put_at(bytes, live, at)?;
    Ok(GetResponse {
        revision: txn.totals.revision,
        item: put.map(|revision| txn.value(bytes, revision)).transpose()?,
    })
}
