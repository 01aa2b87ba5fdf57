//! One write transaction of the embedded store. It owns the tables while they are open for writing.
//! It applies mutations, log entries and maintenance, and returns decisions and events. Every
//! change of the tables goes through here, which keeps them consistent. It must not know threads,
//! requests or files.

mod leases;
mod planned;
mod restore;
mod scrub;
mod tables;

use std::time::SystemTime;

use actors::engine::local::{LeaseQueue, LeaseTime};
use actors::engine::{
    Change, EngineError, Event, EventKind, KeyValue, LeaseId, Mutation, Revision,
};
use bytes::Bytes;
use redb::WriteTransaction;

use super::error::Failure;
use super::journal::{self, Changes, Group};
use super::record;
use super::schema::{self, Edition, LastMark, Live, Meta, Superseded, Totals};
pub use planned::{ChangedRows, Overlay, PlannedRows};
pub use scrub::Scrub;
pub use tables::Tables;
use tables::{Rows, pair, superseded_key};

/// The time between two rows of the timeline while there are commits.
const MARK_NANOS: u64 = 1_000_000_000;
/// The bytes of records between two rows of the timeline.
const MARK_BYTES: u64 = 1024 * 1024;

/// The decision about a mutation. It counts once the transaction is durable.
#[derive(Debug)]
pub enum Decision {
    /// Committed: the event at this index of the batch.
    Committed(usize),
    /// Refused: the precondition did not hold.
    Refused {
        /// The key's value then.
        current: Option<KeyValue>,
        /// The store's revision then.
        revision: Revision,
    },
    /// Rejected before the precondition was checked.
    Rejected(EngineError),
    /// The value to show is damaged.
    Unreadable(Failure),
}

/// The time and the leases that mutations are decided by.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'m> {
    /// The time that events get.
    pub time: SystemTime,
    /// The existing leases.
    pub leases: &'m LeaseQueue,
    /// The time that leases are judged by.
    pub lease_time: LeaseTime,
}

/// A transaction that keeps all tables consistent: on the open tables of redb, or on rows whose
/// changes only the journal gets for now.
pub struct WriteTxn<R> {
    tables: R,
    totals: Totals,
    /// Bytes written by this transaction.
    written_bytes: u64,
}

impl<'t> WriteTxn<Tables<'t>> {
    /// Opens the tables. The changes are not recorded, so the journal can't have them.
    ///
    /// # Errors
    /// When the database fails or the totals are damaged.
    pub fn open(transaction: &'t WriteTransaction) -> Result<WriteTxn<Tables<'t>>, Failure> {
        WriteTxn::over(Tables::open(transaction, false)?)
    }

    /// Opens the tables, and records the changes for the journal.
    ///
    /// # Errors
    /// As [`WriteTxn::open`].
    pub fn open_recorded(
        transaction: &'t WriteTransaction,
    ) -> Result<WriteTxn<Tables<'t>>, Failure> {
        WriteTxn::over(Tables::open(transaction, true)?)
    }

    fn over(tables: Tables<'t>) -> Result<WriteTxn<Tables<'t>>, Failure> {
        Ok(WriteTxn {
            totals: schema::read_totals(&tables.meta)?,
            tables,
            written_bytes: 0,
        })
    }

    /// Makes the changes of a group of the journal again.
    ///
    /// # Errors
    /// When the database fails or the group holds something else.
    pub fn replay(&mut self, group: &Group) -> Result<(), Failure> {
        self.make(group.changes())?;
        self.totals = schema::read_totals(&self.tables.meta)?;
        Ok(())
    }

    /// Makes recorded changes.
    ///
    /// # Errors
    /// When the database fails.
    pub fn make<'c>(
        &mut self,
        mut changes: impl Iterator<Item = Result<journal::Change<'c>, Failure>>,
    ) -> Result<(), Failure> {
        changes.try_for_each(|change| self.tables.make(change?))
    }

    /// Copies the state that the log alone does not contain.
    ///
    /// # Errors
    /// When the database fails.
    pub fn adopt(&mut self, original: &Meta) -> Result<(), Failure> {
        self.totals.superseded_bytes = original.totals.superseded_bytes;
        self.totals.time_nanos = original.totals.time_nanos;
        self.totals.revision = original.totals.revision;
        // The original may have been upgraded while its log was copied.
        schema::set_format(
            self.tables.transaction,
            &mut self.tables.meta,
            original.format,
        )?;
        original.write_names(&mut self.tables.meta)
    }

    /// Goes on at a later revision. Nothing before it is history any more, and everything that it
    /// superseded must have been removed.
    ///
    /// # Errors
    /// When the database fails.
    pub fn skip_to(&mut self, revision: Revision) -> Result<(), Failure> {
        self.totals.revision = revision;
        self.tables.write_meta(&schema::compacted_row(revision))?;
        self.tables.write_meta(&schema::scrubbed_row(revision))
    }

    /// Writes the totals. After this the tables are consistent. Returns the totals, and the changes
    /// if they were recorded.
    ///
    /// # Errors
    /// When the database fails.
    pub fn finish(self) -> Result<(Totals, Changes), Failure> {
        let (totals, tables) = self.into_rows()?;
        Ok((totals, tables.into_changes()))
    }
}

impl<R: Rows> WriteTxn<R> {
    /// A transaction on rows whose totals are these.
    pub fn on(rows: R, totals: Totals) -> WriteTxn<R> {
        WriteTxn {
            tables: rows,
            totals,
            written_bytes: 0,
        }
    }

    /// Writes the totals, and answers them with the rows.
    ///
    /// # Errors
    /// When the database fails.
    pub fn into_rows(mut self) -> Result<(Totals, R), Failure> {
        self.tables.write_meta(&schema::totals_row(self.totals))?;
        Ok((self.totals, self.tables))
    }

    /// Decides a mutation. If its precondition holds, appends its event to `events` and to the
    /// tables.
    ///
    /// # Errors
    /// When the database fails, or a record it must show is damaged.
    pub fn apply(
        &mut self,
        mutation: &Mutation,
        moment: Moment<'_>,
        events: &mut Vec<Event>,
    ) -> Result<Decision, Failure> {
        let key = mutation.key.as_bytes();
        let before = self.tables.live(key)?;
        let holds = mutation.expect.holds(before.map(|live| live.revision));
        // An absent key cannot be deleted, whatever was expected.
        let vain = before.is_none() && mutation.change == Change::Delete;
        if !holds || vain {
            return Ok(
                match before
                    .map(|live| self.value(live.revision, events))
                    .transpose()
                {
                    Ok(current) => Decision::Refused {
                        current,
                        revision: self.totals.revision,
                    },
                    // One damaged record must not fail the other mutations.
                    Err(failure @ Failure::Corrupt(_)) => Decision::Unreadable(failure),
                    Err(failure) => return Err(failure),
                },
            );
        }
        if let Change::Put { lease, .. } = mutation.change
            && lease != LeaseId::default()
        {
            if !moment.leases.is_alive(lease, moment.lease_time) {
                return Ok(Decision::Rejected(EngineError::LeaseNotFound(lease)));
            }
            self.attach(lease, self.totals.revision.next())?;
        }
        let event = next_event(mutation, before, self.totals.revision.next(), moment.time);
        self.append_event(&event)?;
        events.push(event);
        Ok(Decision::Committed(events.len() - 1))
    }

    /// The value of a revision, which may be of an event of this transaction.
    fn value(&self, revision: Revision, events: &[Event]) -> Result<KeyValue, Failure> {
        let at = events.binary_search_by_key(&revision, |event| event.revision);
        match at.ok().and_then(|at| events.get(at)) {
            Some(event) => Ok(event.key_value()),
            None => self.tables.value(revision),
        }
    }

    fn append_event(&mut self, event: &Event) -> Result<(), Failure> {
        let record = record::encode(event)
            .map_err(|error| Failure::Corrupt(format!("event {}: {error}", event.revision)))?;
        self.append(&Entry {
            revision: event.revision,
            key: event.key.as_bytes(),
            kind: event.kind,
            create_revision: event.create_revision,
            version: event.version,
            record: &record,
        })
    }

    /// Appends a record and updates the other tables.
    ///
    /// # Errors
    /// When the database fails.
    pub fn append(&mut self, entry: &Entry<'_>) -> Result<(), Failure> {
        let record_bytes = entry.record.len() as u64;
        let (revision, key) = (entry.revision.0, entry.key);
        self.tables.insert_event(revision, entry.record)?;
        let before = match entry.kind {
            EventKind::Put => {
                let row = Live {
                    revision: entry.revision,
                    create_revision: entry.create_revision,
                    version: entry.version,
                    record_bytes: u32::try_from(entry.record.len()).unwrap_or(u32::MAX),
                };
                self.tables.insert_live(key, row)?
            }
            EventKind::Delete => self.tables.remove_live(key)?,
        };
        if let Some(before) = before {
            self.tables
                .insert_superseded(key, before.revision.0, Superseded::Value)?;
            self.totals.superseded_bytes += u64::from(before.record_bytes);
        }
        match entry.kind {
            EventKind::Put if before.is_none() => self.totals.live_keys += 1,
            EventKind::Put => {}
            EventKind::Delete => {
                self.tables
                    .insert_superseded(key, revision, Superseded::Absence)?;
                self.totals.superseded_bytes += record_bytes;
                self.totals.live_keys -= u64::from(before.is_some());
            }
        }
        self.totals.revision = entry.revision;
        self.totals.retained_bytes += record_bytes;
        self.written_bytes += record_bytes;
        Ok(())
    }

    /// Copies a row of the timeline from another store.
    ///
    /// # Errors
    /// When the database fails.
    pub fn append_mark(&mut self, revision: u64, row: (u64, u64)) -> Result<(), Failure> {
        self.tables.insert_mark(revision, row)
    }

    /// Advances the time. Adds a row to the timeline if the last one is old enough.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark(&mut self, now: SystemTime, last: &mut LastMark) -> Result<(), Failure> {
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.totals.time_nanos = self.totals.time_nanos.max(now);
        last.written_bytes += self.written_bytes;
        let waited = self.totals.time_nanos.saturating_sub(last.time_nanos);
        if waited >= MARK_NANOS || last.written_bytes >= MARK_BYTES {
            let row = (self.totals.time_nanos, self.totals.superseded_bytes);
            self.tables.insert_mark(self.totals.revision.0, row)?;
            *last = LastMark {
                time_nanos: self.totals.time_nanos,
                written_bytes: 0,
            };
        }
        Ok(())
    }

    /// Writes the compacted revision.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_compacted(&mut self, compacted: Revision) -> Result<(), Failure> {
        self.tables.write_meta(&schema::compacted_row(compacted))
    }

    /// Sets the edition of all values that are alive.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_edition(&mut self, edition: Edition) -> Result<(), Failure> {
        self.tables.write_meta(&schema::edition_row(edition))
    }
}

/// A record to append.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The event's revision.
    pub revision: Revision,
    /// Its key.
    pub key: &'a [u8],
    /// Put or delete.
    pub kind: EventKind,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The number of puts since then.
    pub version: u64,
    /// The encoded record.
    pub record: &'a [u8],
}

fn next_event(
    mutation: &Mutation,
    before: Option<Live>,
    revision: Revision,
    now: SystemTime,
) -> Event {
    let (kind, value, lease) = match &mutation.change {
        Change::Put { value, lease } => (EventKind::Put, value.clone(), *lease),
        Change::Delete => (EventKind::Delete, Bytes::new(), LeaseId::default()),
    };
    let version = match kind {
        EventKind::Put => before.map_or(0, |live| live.version) + 1,
        EventKind::Delete => 0,
    };
    Event {
        revision,
        key: mutation.key.clone(),
        kind,
        value,
        create_revision: before.map_or(revision, |live| live.create_revision),
        prev_revision: before.map_or(Revision::ZERO, |live| live.revision),
        version,
        lease,
        time: now,
        origin: mutation.origin.clone(),
        previous: None,
        prepared: mutation.prepared.clone(),
    }
}
