//! Rows that the database still lacks, as the next mutations must see them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use actors::engine::{Event, EventKind, KeyValue, Revision};
use redb::{ReadOnlyTable, ReadTransaction, TableError};

use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::{Change, Changes, TableId};
use crate::storage::embedded::schema::{
    ATTACHED, EVENTS, LIVE, Live, LiveColumns, MetaRow, SUPERSEDED, Superseded, TIMELINE,
    decode_event, missing_event,
};

use super::{Rows, pair, superseded_key};

/// The events that are durable in the journal and that the database lacks, and the rows of table
/// `live` that they change.
#[derive(Debug, Default)]
pub struct Overlay {
    /// The events of each group, by the group's number.
    groups: VecDeque<(u64, Arc<[Event]>)>,
    /// The newest row of each key, and the number of the group that changed it. `None` if the key
    /// is absent.
    live: HashMap<Vec<u8>, (u64, Option<Live>)>,
}

impl Overlay {
    /// Adds a group, with the rows that it changes.
    pub fn add(&mut self, number: u64, events: Arc<[Event]>, rows: ChangedRows) {
        self.groups.push_back((number, events));
        let changed = rows.0.into_iter().filter(|(_, row)| row.is_changed);
        let changed = changed.map(|(key, row)| (key, (number, row.live)));
        self.live.extend(changed);
    }

    /// Forgets what the database has.
    pub fn forget_applied(&mut self, applied: u64) {
        while let Some((number, events)) = self.groups.front()
            && *number <= applied
        {
            for event in events.iter() {
                let key = event.key.as_bytes();
                if self.live.get(key).is_some_and(|(at, _)| at == number) {
                    self.live.remove(key);
                }
            }
            self.groups.pop_front();
        }
    }

    /// The put of this revision, if the database lacks it.
    fn value(&self, revision: Revision) -> Option<KeyValue> {
        let first = |(_, events): &(u64, Arc<[Event]>)| {
            let first = events.first();
            first.is_none_or(|event| event.revision <= revision)
        };
        let later = self.groups.partition_point(first);
        let (_, events) = self.groups.get(later.checked_sub(1)?)?;
        let at = events.binary_search_by_key(&revision, |event| event.revision);
        let event = events.get(at.ok()?)?;
        (event.kind == EventKind::Put).then(|| event.key_value())
    }
}

/// The rows of table `live` that a batch has looked at.
#[derive(Debug, Default)]
pub struct ChangedRows(HashMap<Vec<u8>, SeenRow>);

#[derive(Clone, Copy, Debug)]
struct SeenRow {
    /// `None` if the key is absent.
    live: Option<Live>,
    is_changed: bool,
}

/// The rows that the next group starts from: those of the database with the [`Overlay`] on top.
/// Changes are recorded for the journal, and the database is not written. But the place of each
/// new row is looked up: a page that is damaged there refuses the mutation. Once the journal has
/// it, the database could neither take it nor be opened.
pub struct PlannedRows<'o> {
    overlay: &'o Overlay,
    transaction: ReadTransaction,
    live: ReadOnlyTable<&'static [u8], LiveColumns>,
    events: ReadOnlyTable<u64, &'static [u8]>,
    /// Creates do without it.
    superseded: Option<ReadOnlyTable<(&'static [u8], u64), u8>>,
    rows: ChangedRows,
    changes: Changes,
}

impl<'o> PlannedRows<'o> {
    /// The rows of the database in this transaction. The overlay must have all that it lacks.
    ///
    /// # Errors
    /// When the database fails.
    pub fn new(
        transaction: ReadTransaction,
        overlay: &'o Overlay,
    ) -> Result<PlannedRows<'o>, Failure> {
        Ok(PlannedRows {
            overlay,
            live: transaction.open_table(LIVE)?,
            events: transaction.open_table(EVENTS)?,
            superseded: None,
            transaction,
            rows: ChangedRows::default(),
            changes: Changes::default(),
        })
    }

    fn record(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        self.changes.push(Change { table, key, value });
    }

    fn change_live(&mut self, key: &[u8], live: Option<Live>) -> Result<Option<Live>, Failure> {
        let before = self.live(key)?;
        let is_changed = true;
        let row = SeenRow { live, is_changed };
        self.rows.0.insert(key.to_vec(), row);
        Ok(before)
    }

    /// The changes, and the rows that they change.
    pub fn into_parts(self) -> (Changes, ChangedRows) {
        (self.changes, self.rows)
    }
}

impl Rows for PlannedRows<'_> {
    fn live(&mut self, key: &[u8]) -> Result<Option<Live>, Failure> {
        if let Some(row) = self.rows.0.get(key) {
            return Ok(row.live);
        }
        let live = match self.overlay.live.get(key) {
            Some((_, live)) => *live,
            None => self.live.get(key)?.map(|row| Live::from(row.value())),
        };
        let is_changed = false;
        let row = SeenRow { live, is_changed };
        self.rows.0.insert(key.to_vec(), row);
        Ok(live)
    }

    fn value(&self, revision: Revision) -> Result<KeyValue, Failure> {
        if let Some(value) = self.overlay.value(revision) {
            return Ok(value);
        }
        let found = self.events.get(revision.0)?;
        let found = found.ok_or_else(|| missing_event(revision))?;
        Ok(decode_event(revision, found.value())?.to_key_value())
    }

    fn insert_event(&mut self, revision: u64, record: &[u8]) -> Result<(), Failure> {
        // All of a batch have their place at the end.
        if self.changes.revisions() == Default::default() {
            self.events.get(revision)?;
        }
        self.record(TableId::Events, &revision.to_le_bytes(), Some(record));
        self.changes.note_revision(Revision(revision));
        Ok(())
    }

    fn insert_live(&mut self, key: &[u8], row: Live) -> Result<Option<Live>, Failure> {
        self.record(TableId::Live, key, Some(&row.to_bytes()));
        self.change_live(key, Some(row))
    }

    fn remove_live(&mut self, key: &[u8]) -> Result<Option<Live>, Failure> {
        self.record(TableId::Live, key, None);
        self.change_live(key, None)
    }

    fn insert_superseded(
        &mut self,
        key: &[u8],
        revision: u64,
        kind: Superseded,
    ) -> Result<(), Failure> {
        let table = match self.superseded.take() {
            Some(table) => table,
            None => self.transaction.open_table(SUPERSEDED)?,
        };
        self.superseded.insert(table).get((key, revision))?;
        let place = superseded_key(key, revision);
        self.record(TableId::Superseded, &place, Some(&[kind.tag()]));
        Ok(())
    }

    fn insert_mark(&mut self, revision: u64, row: (u64, u64)) -> Result<(), Failure> {
        self.transaction.open_table(TIMELINE)?.get(revision)?;
        let value = pair(row);
        self.record(TableId::Timeline, &revision.to_le_bytes(), Some(&value));
        Ok(())
    }

    fn insert_attached(&mut self, place: (u64, u64)) -> Result<(), Failure> {
        match self.transaction.open_table(ATTACHED) {
            Ok(attached) => _ = attached.get(place)?,
            // Of a store of format 1.
            Err(TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.record(TableId::Attached, &pair(place), Some(&[]));
        Ok(())
    }

    fn write_meta(&mut self, row: &MetaRow) -> Result<(), Failure> {
        self.record(TableId::Meta, row.name.as_bytes(), Some(&row.value));
        Ok(())
    }
}
