//! The tables while they are open for writing. Every change of a row is made here, and recorded
//! for the journal. Recovery makes recorded changes again.

use actors::engine::{KeyValue, Revision};
use redb::{ReadableTable, Table, WriteTransaction};

use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::{Change, Changes, TableId};
use crate::storage::embedded::schema::{
    self, ATTACHED, EVENTS, LEASES, LIVE, Live, LiveColumns, META, MetaRow, MetaTable, SUPERSEDED,
    Superseded, TIMELINE, decode_event, missing_event,
};

/// The tables of leases, open for writing.
pub(super) struct LeaseTables<'t> {
    pub(super) leases: Table<'t, u64, &'static [u8]>,
    pub(super) attached: Table<'t, (u64, u64), ()>,
}

/// The rows that a transaction reads and changes.
pub trait Rows {
    /// The row of `live` of a key; `None` if the key is absent.
    ///
    /// # Errors
    /// When the database fails, as those of the other methods.
    fn live(&mut self, key: &[u8]) -> Result<Option<Live>, Failure>;

    /// The value that the put of this revision stored.
    fn value(&self, revision: Revision) -> Result<KeyValue, Failure>;

    /// Adds the record of an event.
    fn insert_event(&mut self, revision: u64, record: &[u8]) -> Result<(), Failure>;

    /// Puts a row of `live`. Returns the one before.
    fn insert_live(&mut self, key: &[u8], row: Live) -> Result<Option<Live>, Failure>;

    /// Removes a row of `live`. Returns what it was.
    fn remove_live(&mut self, key: &[u8]) -> Result<Option<Live>, Failure>;

    /// Adds a row of `superseded`.
    fn insert_superseded(
        &mut self,
        key: &[u8],
        revision: u64,
        kind: Superseded,
    ) -> Result<(), Failure>;

    /// Adds a row of `timeline`.
    fn insert_mark(&mut self, revision: u64, row: (u64, u64)) -> Result<(), Failure>;

    /// Adds a row of `attached`.
    fn insert_attached(&mut self, place: (u64, u64)) -> Result<(), Failure>;

    /// Writes a row of `meta`.
    fn write_meta(&mut self, row: &MetaRow) -> Result<(), Failure>;
}

/// The tables, open for writing.
pub struct Tables<'t> {
    pub(super) transaction: &'t WriteTransaction,
    pub(super) events: Table<'t, u64, &'static [u8]>,
    pub(super) live: Table<'t, &'static [u8], LiveColumns>,
    superseded: Table<'t, (&'static [u8], u64), u8>,
    pub(super) timeline: Table<'t, u64, (u64, u64)>,
    pub(super) meta: MetaTable<'t>,
    /// Opened on demand, because most transactions have nothing to do with leases.
    leases: Option<LeaseTables<'t>>,
    /// The changes so far, if they are recorded.
    recorded: Option<Changes>,
}

impl<'t> Tables<'t> {
    /// Opens the tables, and records changes if asked to.
    pub(super) fn open(
        transaction: &'t WriteTransaction,
        is_recording: bool,
    ) -> Result<Tables<'t>, Failure> {
        Ok(Tables {
            transaction,
            events: transaction.open_table(EVENTS)?,
            live: transaction.open_table(LIVE)?,
            superseded: transaction.open_table(SUPERSEDED)?,
            timeline: transaction.open_table(TIMELINE)?,
            meta: transaction.open_table(META)?,
            leases: None,
            recorded: is_recording.then(Changes::default),
        })
    }

    /// The recorded changes; none if they are not recorded.
    pub(super) fn into_changes(self) -> Changes {
        self.recorded.unwrap_or_default()
    }

    fn record(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        if let Some(changes) = &mut self.recorded {
            changes.push(Change { table, key, value });
        }
    }

    /// The tables of leases. They are added to a store of format 1.
    pub(super) fn lease_tables(&mut self) -> Result<&mut LeaseTables<'t>, Failure> {
        let opened = match self.leases.take() {
            Some(opened) => opened,
            None => {
                schema::add_leases(self.transaction, &mut self.meta)?;
                LeaseTables {
                    leases: self.transaction.open_table(LEASES)?,
                    attached: self.transaction.open_table(ATTACHED)?,
                }
            }
        };
        Ok(self.leases.insert(opened))
    }

    /// Whether there is a record of this revision.
    pub(super) fn has_event(&self, revision: Revision) -> Result<bool, Failure> {
        Ok(self.events.get(revision.0)?.is_some())
    }

    /// Removes a record. Returns its length, or `None` if there was none.
    pub(super) fn remove_event(&mut self, revision: u64) -> Result<Option<u64>, Failure> {
        let removed = self.events.remove(revision)?;
        let bytes = removed.map(|record| record.value().len() as u64);
        self.record(TableId::Events, &revision.to_le_bytes(), None);
        Ok(bytes)
    }

    /// Removes a row of `superseded`. Returns whether it was there.
    pub(super) fn remove_superseded(&mut self, key: &[u8], revision: u64) -> Result<bool, Failure> {
        let was_there = self.superseded.remove((key, revision))?.is_some();
        self.record(TableId::Superseded, &superseded_key(key, revision), None);
        Ok(was_there)
    }

    pub(super) fn remove_mark(&mut self, revision: u64) -> Result<(), Failure> {
        self.timeline.remove(revision)?;
        self.record(TableId::Timeline, &revision.to_le_bytes(), None);
        Ok(())
    }

    pub(super) fn insert_lease(&mut self, lease: u64, record: &[u8]) -> Result<(), Failure> {
        self.lease_tables()?.leases.insert(lease, record)?;
        self.record(TableId::Leases, &lease.to_le_bytes(), Some(record));
        Ok(())
    }

    pub(super) fn remove_lease(&mut self, lease: u64) -> Result<(), Failure> {
        self.lease_tables()?.leases.remove(lease)?;
        self.record(TableId::Leases, &lease.to_le_bytes(), None);
        Ok(())
    }

    pub(super) fn remove_attached(&mut self, place: (u64, u64)) -> Result<(), Failure> {
        self.lease_tables()?.attached.remove(place)?;
        self.record(TableId::Attached, &pair(place), None);
        Ok(())
    }

    /// Makes a recorded change again.
    pub(super) fn make(&mut self, change: Change<'_>) -> Result<(), Failure> {
        let Change { table, key, value } = change;
        let malformed = || Failure::Corrupt(format!("a change of {table:?} is malformed"));
        let number = || {
            key.try_into()
                .map(u64::from_le_bytes)
                .map_err(|_| malformed())
        };
        match (table, value) {
            (TableId::Events, Some(record)) => self.insert_event(number()?, record),
            (TableId::Events, None) => self.remove_event(number()?).map(|_| ()),
            (TableId::Live, Some(row)) => {
                let row = Live::from_bytes(row).ok_or_else(malformed)?;
                self.insert_live(key, row).map(|_| ())
            }
            (TableId::Live, None) => self.remove_live(key).map(|_| ()),
            (TableId::Superseded, value) => {
                let (key, revision) = key.split_last_chunk::<8>().ok_or_else(malformed)?;
                let revision = u64::from_le_bytes(*revision);
                match value {
                    Some([tag]) => {
                        let kind = Superseded::from_tag(key, Revision(revision), *tag)?;
                        self.insert_superseded(key, revision, kind)
                    }
                    Some(_) => Err(malformed()),
                    None => self.remove_superseded(key, revision).map(|_| ()),
                }
            }
            (TableId::Leases, Some(record)) => self.insert_lease(number()?, record),
            (TableId::Leases, None) => self.remove_lease(number()?),
            (TableId::Attached, value) => {
                let place = from_pair(key).ok_or_else(malformed)?;
                match value {
                    Some(_) => self.insert_attached(place),
                    None => self.remove_attached(place),
                }
            }
            (TableId::Timeline, Some(row)) => {
                self.insert_mark(number()?, from_pair(row).ok_or_else(malformed)?)
            }
            (TableId::Timeline, None) => self.remove_mark(number()?),
            (TableId::Meta, Some(value)) => {
                let name = std::str::from_utf8(key).map_err(|_| malformed())?;
                self.meta.insert(name, value)?;
                Ok(())
            }
            (TableId::Meta, None) => Err(malformed()),
        }
    }
}

impl Rows for Tables<'_> {
    fn live(&mut self, key: &[u8]) -> Result<Option<Live>, Failure> {
        let row = self.live.get(key)?;
        Ok(row.map(|row| Live::from(row.value())))
    }

    fn value(&self, revision: Revision) -> Result<KeyValue, Failure> {
        let found = self.events.get(revision.0)?;
        let found = found.ok_or_else(|| missing_event(revision))?;
        Ok(decode_event(revision, found.value())?.to_key_value())
    }

    fn insert_event(&mut self, revision: u64, record: &[u8]) -> Result<(), Failure> {
        self.events.insert(revision, record)?;
        self.record(TableId::Events, &revision.to_le_bytes(), Some(record));
        if let Some(changes) = &mut self.recorded {
            changes.note_revision(Revision(revision));
        }
        Ok(())
    }

    fn insert_live(&mut self, key: &[u8], row: Live) -> Result<Option<Live>, Failure> {
        let before = self.live.insert(key, row.columns())?;
        let before = before.map(|row| Live::from(row.value()));
        self.record(TableId::Live, key, Some(&row.to_bytes()));
        Ok(before)
    }

    fn remove_live(&mut self, key: &[u8]) -> Result<Option<Live>, Failure> {
        let before = self.live.remove(key)?.map(|row| Live::from(row.value()));
        self.record(TableId::Live, key, None);
        Ok(before)
    }

    fn insert_superseded(
        &mut self,
        key: &[u8],
        revision: u64,
        kind: Superseded,
    ) -> Result<(), Failure> {
        self.superseded.insert((key, revision), kind.tag())?;
        let place = superseded_key(key, revision);
        self.record(TableId::Superseded, &place, Some(&[kind.tag()]));
        Ok(())
    }

    fn insert_mark(&mut self, revision: u64, row: (u64, u64)) -> Result<(), Failure> {
        self.timeline.insert(revision, row)?;
        let value = pair(row);
        self.record(TableId::Timeline, &revision.to_le_bytes(), Some(&value));
        Ok(())
    }

    fn insert_attached(&mut self, place: (u64, u64)) -> Result<(), Failure> {
        self.lease_tables()?.attached.insert(place, ())?;
        self.record(TableId::Attached, &pair(place), Some(&[]));
        Ok(())
    }

    fn write_meta(&mut self, row: &MetaRow) -> Result<(), Failure> {
        schema::write_row(&mut self.meta, row)?;
        self.record(TableId::Meta, row.name.as_bytes(), Some(&row.value));
        Ok(())
    }
}

/// The key of a row of `superseded` in the journal.
pub fn superseded_key(key: &[u8], revision: u64) -> Vec<u8> {
    [key, &revision.to_le_bytes()].concat()
}

/// Two numbers in the journal.
pub fn pair(numbers: (u64, u64)) -> [u8; 16] {
    let (one, other) = numbers;
    (u128::from(other) << 64 | u128::from(one)).to_le_bytes()
}

fn from_pair(bytes: &[u8]) -> Option<(u64, u64)> {
    let both = u128::from_le_bytes(bytes.try_into().ok()?);
    Some((both as u64, (both >> 64) as u64))
}
