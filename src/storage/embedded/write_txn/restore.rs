//! Puts the records of a backup into a new store.

use std::time::Duration;

use actors::engine::{EventKind, LeaseId, Revision};

use super::{Entry, MARK_BYTES, MARK_NANOS, Rows, Tables, WriteTxn};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::record::{LeaseRecord, Record};
use crate::storage::embedded::schema::{LastMark, Meta};
use crate::storage::embedded::store::LeaseRows;

impl WriteTxn<Tables<'_>> {
    /// Appends a record. Up to the `compacted` revision only what is a key's value then stays, as
    /// if it had been removed by compaction. The records of a key must come with rising revisions.
    ///
    /// # Errors
    /// When the database fails.
    pub fn restore(
        &mut self,
        record: &Record<'_>,
        bytes: &[u8],
        compacted: Revision,
        last: &mut LastMark,
    ) -> Result<(), Failure> {
        let entry = Entry {
            revision: record.revision(),
            key: record.key(),
            kind: record.kind(),
            create_revision: record.create_revision(),
            version: record.version(),
            record: bytes,
        };
        let is_compacted = entry.revision <= compacted;
        if is_compacted {
            self.forget_before(entry.key)?;
            if entry.kind == EventKind::Delete {
                return Ok(());
            }
        }
        let newest = self.totals.revision;
        if entry.revision <= newest && self.tables.has_event(entry.revision)? {
            return Err(Failure::Corrupt(format!(
                "revision {}: two keys were changed by it, and this engine has one for each",
                entry.revision
            )));
        }
        self.append(&entry)?;
        self.totals.revision = newest.max(entry.revision);
        if record.kind() == EventKind::Put && record.lease() != LeaseId::default() {
            self.attach(record.lease(), entry.revision)?;
        }
        self.totals.time_nanos = self.totals.time_nanos.max(record.time_nanos());
        if !is_compacted {
            self.mark_restored(bytes.len() as u64, last)?;
        }
        Ok(())
    }

    /// Removes the value of a key without a trace.
    fn forget_before(&mut self, key: &[u8]) -> Result<(), Failure> {
        let Some(before) = self.tables.remove_live(key)? else {
            return Ok(());
        };
        self.totals.live_keys -= 1;
        let removed = self.tables.remove_event(before.revision.0)?;
        self.totals.retained_bytes -= removed.unwrap_or_default();
        Ok(())
    }

    /// Adds a row to the timeline if the last one is old enough, by the times of the records.
    fn mark_restored(&mut self, bytes: u64, last: &mut LastMark) -> Result<(), Failure> {
        last.written_bytes += bytes;
        let waited = self.totals.time_nanos.saturating_sub(last.time_nanos);
        if waited < MARK_NANOS && last.written_bytes < MARK_BYTES {
            return Ok(());
        }
        let row = (self.totals.time_nanos, self.totals.superseded_bytes);
        self.tables.insert_mark(self.totals.revision.0, row)?;
        *last = LastMark {
            time_nanos: self.totals.time_nanos,
            written_bytes: 0,
        };
        Ok(())
    }

    /// Writes what the records do not contain: the leases, the newest revision, and the compacted
    /// one. A lease that keys are attached to and that no longer exists becomes a revoked one, so
    /// that its keys are deleted.
    ///
    /// # Errors
    /// When the database fails.
    pub fn restore_end(&mut self, meta: &Meta, leases: &LeaseRows) -> Result<(), Failure> {
        for (lease, record) in leases {
            self.put_lease(*lease, record)?;
        }
        let revoked = LeaseRecord {
            revoked: true,
            ttl: Duration::ZERO,
            deadline: Duration::ZERO,
        };
        let mut last = LeaseId::default();
        while let Some(lease) = self.attached_after(last)? {
            last = lease;
            if !leases.contains_key(&lease) {
                self.put_lease(lease, &revoked)?;
            }
        }
        let mut meta = *meta;
        let newest = leases.keys().next_back().copied().unwrap_or_default();
        meta.leases.last = newest.max(last);
        self.totals.revision = meta.totals.revision;
        meta.write_names(&mut self.tables.meta)
    }
}
