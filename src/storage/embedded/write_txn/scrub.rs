//! Removes the records that compaction made invisible. Nothing reads them any more, so what is
//! removed is read from what the database has already, and recorded for the journal.

use actors::engine::{EventKind, Revision};
use redb::{ReadOnlyTable, ReadTransaction};

use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::{Change, Changes, TableId};
use crate::storage::embedded::schema::{
    self, EVENTS, MetaRow, SUPERSEDED, TIMELINE, Totals, decode_event, missing_event,
};

use super::superseded_key;

/// One step of removing compacted records.
pub struct Scrub {
    events: ReadOnlyTable<u64, &'static [u8]>,
    superseded: ReadOnlyTable<(&'static [u8], u64), u8>,
    timeline: ReadOnlyTable<u64, (u64, u64)>,
    totals: Totals,
    changes: Changes,
}

impl Scrub {
    /// A step on a store with these totals.
    ///
    /// # Errors
    /// When the database fails.
    pub fn new(transaction: &ReadTransaction, totals: Totals) -> Result<Scrub, Failure> {
        Ok(Scrub {
            events: transaction.open_table(EVENTS)?,
            superseded: transaction.open_table(SUPERSEDED)?,
            timeline: transaction.open_table(TIMELINE)?,
            totals,
            changes: Changes::default(),
        })
    }

    /// Removes the record that the event of this revision superseded, and the event itself if it is
    /// a delete. Returns how many records that were. The revision is compacted, and each one is
    /// given once.
    ///
    /// # Errors
    /// When the database fails or the event is damaged.
    pub fn remove(&mut self, revision: Revision) -> Result<u64, Failure> {
        let (key, kind, previous) = {
            let found = self.events.get(revision.0)?;
            // Only scrubbing removes events, and in order. So the event must exist.
            let bytes = found.ok_or_else(|| missing_event(revision))?;
            let record = decode_event(revision, bytes.value())?;
            (record.key().to_vec(), record.kind(), record.prev_revision())
        };
        let mut removed = 0;
        if previous != Revision::ZERO {
            removed += self.forget(&key, previous)?;
        }
        if kind == EventKind::Delete {
            removed += self.forget(&key, revision)?;
        }
        Ok(removed)
    }

    fn forget(&mut self, key: &[u8], revision: Revision) -> Result<u64, Failure> {
        let found = self.events.get(revision.0)?;
        let bytes = found.map(|record| record.value().len() as u64);
        let bytes = bytes.ok_or_else(|| missing_event(revision))?;
        if self.superseded.get((key, revision.0))?.is_none() {
            return Err(Failure::Corrupt(format!(
                "table superseded, key {:?}, record {revision}: the row is missing",
                String::from_utf8_lossy(key)
            )));
        }
        self.remove_row(TableId::Events, &revision.0.to_le_bytes());
        self.remove_row(TableId::Superseded, &superseded_key(key, revision.0));
        self.totals.retained_bytes = self.totals.retained_bytes.saturating_sub(bytes);
        Ok(1)
    }

    fn remove_row(&mut self, table: TableId, key: &[u8]) {
        let value = None;
        self.changes.push(Change { table, key, value });
    }

    /// Removes rows of the timeline after a revision and up to another one, at most this many.
    /// Returns the revision of the last one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_marks(
        &mut self,
        after: Revision,
        up_to: Revision,
        rows_max: usize,
    ) -> Result<Revision, Failure> {
        let mut last = after;
        let rows = self.timeline.range(after.0 + 1..=up_to.0.max(after.0))?;
        let found: Result<Vec<u64>, Failure> =
            rows.take(rows_max).map(|row| Ok(row?.0.value())).collect();
        for revision in found? {
            self.remove_row(TableId::Timeline, &revision.to_le_bytes());
            last = Revision(revision);
        }
        Ok(last)
    }

    /// Records that everything up to this revision is removed. Returns the totals and the changes.
    pub fn finish(mut self, scrubbed: Revision) -> (Totals, Changes) {
        for row in [
            schema::scrubbed_row(scrubbed),
            schema::totals_row(self.totals),
        ] {
            let MetaRow { name, value } = &row;
            self.changes.push(Change {
                table: TableId::Meta,
                key: name.as_bytes(),
                value: Some(value),
            });
        }
        (self.totals, self.changes)
    }
}
