//! Leases in the tables: how they are granted, attached to keys, and ended.
//!
//! A put that names a lease leaves a row with its revision. The row stays when the key gets another
//! value, moves to another lease or is deleted. When the lease ends, the row counts only if the
//! key's present value is the one of that revision.

use std::time::SystemTime;

use actors::engine::{Event, EventKind, Key, LeaseId, Origin, Prepared, Revision};
use bytes::Bytes;
use redb::ReadableTable;

use super::{Rows, Tables, WriteTxn};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::record::LeaseRecord;
use crate::storage::embedded::schema::{self, LeaseTotals, Live, decode_event};

/// The user in the log for keys that a lease deletes.
const USER: &str = "system:taffrail:leases";

impl<R: Rows> WriteTxn<R> {
    /// Writes the row about all leases.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_lease_totals(&mut self, totals: LeaseTotals) -> Result<(), Failure> {
        self.tables.write_meta(&schema::lease_totals_row(totals))
    }

    /// Notes that the put of this revision attached its key to a lease.
    ///
    /// # Errors
    /// When the database fails.
    pub fn attach(&mut self, lease: LeaseId, revision: Revision) -> Result<(), Failure> {
        self.tables.insert_attached((lease.0, revision.0))
    }
}

impl WriteTxn<Tables<'_>> {
    /// Puts a lease's row.
    ///
    /// # Errors
    /// When the database fails.
    pub fn put_lease(&mut self, lease: LeaseId, record: &LeaseRecord) -> Result<(), Failure> {
        let bytes = record
            .encode(lease)
            .map_err(|error| Failure::Corrupt(format!("lease {}: {error}", lease.0)))?;
        self.put_lease_bytes(lease, &bytes)
    }

    /// Copies a lease's row from another store.
    ///
    /// # Errors
    /// When the database fails.
    pub fn put_lease_bytes(&mut self, lease: LeaseId, record: &[u8]) -> Result<(), Failure> {
        self.tables.insert_lease(lease.0, record)
    }

    /// Deletes the keys that are attached to a lease, then the lease. Before each key it asks the
    /// caller whether to continue, with the events of this transaction so far. Returns whether the
    /// lease is gone.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end_lease(
        &mut self,
        lease: LeaseId,
        now: SystemTime,
        events: &mut Vec<Event>,
        mut may_continue: impl FnMut(&[Event]) -> bool,
    ) -> Result<bool, Failure> {
        while let Some(revision) = self.first_attached(lease)? {
            if !may_continue(events) {
                return Ok(false);
            }
            match self.held_by(lease, revision) {
                Ok(Some((key, live))) => {
                    let event = self.expiry(key, live, lease, now);
                    self.append_event(&event)?;
                    events.push(event);
                }
                Ok(None) => {}
                // One damaged record must not keep all other keys alive.
                Err(failure @ Failure::Corrupt(_)) => {
                    tracing::error!(
                        %failure,
                        "the record of a leased key is damaged: the key is not deleted with its \
                         lease"
                    );
                }
                Err(failure) => return Err(failure),
            }
            self.tables.remove_attached((lease.0, revision.0))?;
        }
        self.tables.remove_lease(lease.0)?;
        Ok(true)
    }

    /// The first lease after this one that a key was attached to.
    pub(super) fn attached_after(&mut self, lease: LeaseId) -> Result<Option<LeaseId>, Failure> {
        let attached = &self.tables.lease_tables()?.attached;
        let first = attached.range((lease.0.saturating_add(1), 0)..)?.next();
        Ok(first
            .transpose()?
            .map(|(place, _)| LeaseId(place.value().0)))
    }

    fn first_attached(&mut self, lease: LeaseId) -> Result<Option<Revision>, Failure> {
        let attached = &self.tables.lease_tables()?.attached;
        let first = attached.range((lease.0, 0)..=(lease.0, u64::MAX))?.next();
        Ok(first
            .transpose()?
            .map(|(place, _)| Revision(place.value().1)))
    }

    /// The key whose present value is the put of this revision. `None` if the value was replaced or
    /// deleted since.
    fn held_by(&self, lease: LeaseId, revision: Revision) -> Result<Option<(Key, Live)>, Failure> {
        // The value was replaced, and removed after a compaction.
        let Some(bytes) = self.tables.events.get(revision.0)? else {
            return Ok(None);
        };
        let record = decode_event(revision, bytes.value())?;
        if record.lease() != lease {
            return Err(Failure::Corrupt(format!(
                "table attached, lease {}, record {revision}: it is attached to lease {}",
                lease.0,
                record.lease().0
            )));
        }
        let live = self.tables.live.get(record.key())?;
        let live = live.map(|row| Live::from(row.value()));
        Ok(live
            .filter(|live| live.revision == revision)
            .map(|live| (Key::new(record.key()), live)))
    }

    fn expiry(&self, key: Key, before: Live, lease: LeaseId, now: SystemTime) -> Event {
        Event {
            revision: self.totals.revision.next(),
            key,
            kind: EventKind::Delete,
            value: Bytes::new(),
            create_revision: before.create_revision,
            prev_revision: before.revision,
            version: 0,
            lease,
            time: now,
            origin: Origin {
                user: USER.into(),
                ..Origin::default()
            },
            prepared: Prepared::default(),
            previous: None,
        }
    }
}
