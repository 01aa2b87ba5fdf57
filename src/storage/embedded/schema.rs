//! The tables and their rows. `FORMAT.md` specifies them to the byte. Change both together.

use std::time::{Duration, SystemTime};

use actors::engine::local::TimelineMark;
use actors::engine::{LeaseId, Revision};
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

use super::error::Failure;
use super::journal::Epoch;
use super::record::{Record, tag};

/// The version of tables, rows and journal, stored in table `meta`. A store of format 1 has no
/// tables of leases, one of format 2 no journal, and one of format 3 a journal whose files have no
/// heads. All are upgraded by their first checkpoint.
pub const FORMAT: u32 = 4;

/// Revision → record: the log.
pub const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");
/// Key → the put of its present value: the current state.
pub const LIVE: TableDefinition<&[u8], LiveColumns> = TableDefinition::new("live");
/// (Key, revision) → tag, for every retained record that is not its key's present value. Together
/// with [`LIVE`] it is the state at any retained revision.
pub const SUPERSEDED: TableDefinition<(&[u8], u64), u8> = TableDefinition::new("superseded");
/// Revision → (nanoseconds since 1970, bytes superseded since the beginning).
pub const TIMELINE: TableDefinition<u64, (u64, u64)> = TableDefinition::new("timeline");
/// Lease → record, for each lease that is alive or whose keys are not all deleted yet.
pub const LEASES: TableDefinition<u64, &[u8]> = TableDefinition::new("leases");
/// (Lease, revision) of every put that attached its key to an existing lease. A row counts only
/// while its put is its key's present value.
pub const ATTACHED: TableDefinition<(u64, u64), ()> = TableDefinition::new("attached");
/// Name → bytes, about the store as a whole.
pub const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

/// Names in table `meta`.
mod name {
    pub(super) const FORMAT: &str = "format";
    pub(super) const STORE: &str = "store";
    pub(super) const TOTALS: &str = "totals";
    pub(super) const COMPACTED: &str = "compacted";
    pub(super) const SCRUBBED: &str = "scrubbed";
    pub(super) const LEASES: &str = "leases";
    pub(super) const JOURNAL: &str = "journal";
    pub(super) const EDITION: &str = "edition";
}

/// Revision, create revision, version, bytes of the record.
pub type LiveColumns = (u64, u64, u64, u32);

/// A row of [`LIVE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The put's revision.
    pub revision: Revision,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The number of puts since then.
    pub version: u64,
    /// Bytes of the record, so that superseding it needs no read.
    pub record_bytes: u32,
}

impl Live {
    const BYTES: usize = 28;

    /// The row's columns.
    pub fn columns(self) -> LiveColumns {
        (
            self.revision.0,
            self.create_revision.0,
            self.version,
            self.record_bytes,
        )
    }

    /// The row in the journal.
    pub fn to_bytes(self) -> [u8; Live::BYTES] {
        let mut bytes = [0; Live::BYTES];
        let numbers = [self.revision.0, self.create_revision.0, self.version];
        let (places, rest) = bytes.as_chunks_mut::<8>();
        for (place, number) in places.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        rest.copy_from_slice(&self.record_bytes.to_le_bytes());
        bytes
    }

    /// Reads a row in the journal.
    pub fn from_bytes(bytes: &[u8]) -> Option<Live> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let [revision, create_revision, version] = numbers else {
            return None;
        };
        Some(Live {
            revision: Revision(u64::from_le_bytes(*revision)),
            create_revision: Revision(u64::from_le_bytes(*create_revision)),
            version: u64::from_le_bytes(*version),
            record_bytes: u32::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

impl From<LiveColumns> for Live {
    fn from((revision, create_revision, version, record_bytes): LiveColumns) -> Live {
        Live {
            revision: Revision(revision),
            create_revision: Revision(create_revision),
            version,
            record_bytes,
        }
    }
}

/// The kind of a superseded record, as stored in [`SUPERSEDED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Superseded {
    /// A value that was replaced or deleted later.
    Value,
    /// The deletion itself. The key is absent from here on.
    Absence,
}

impl Superseded {
    /// The row's value.
    pub fn tag(self) -> u8 {
        match self {
            Superseded::Value => tag::PUT,
            Superseded::Absence => tag::DELETE,
        }
    }

    /// Parses the value of the row at this place.
    ///
    /// # Errors
    /// [`Failure::Corrupt`] for a tag that no version writes.
    pub fn from_tag(key: &[u8], revision: Revision, tag: u8) -> Result<Superseded, Failure> {
        match tag {
            self::tag::PUT => Ok(Superseded::Value),
            self::tag::DELETE => Ok(Superseded::Absence),
            other => Err(Failure::Corrupt(format!(
                "table superseded, key {:?}, record {revision}: its tag is {other}",
                String::from_utf8_lossy(key)
            ))),
        }
    }
}

/// Totals of the whole store. Every commit rewrites them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The newest revision.
    pub revision: Revision,
    /// The number of rows of [`LIVE`].
    pub live_keys: u64,
    /// The bytes of all records in [`EVENTS`].
    pub retained_bytes: u64,
    /// The bytes of all records ever superseded.
    pub superseded_bytes: u64,
    /// The latest time of any commit, in nanoseconds since 1970; never goes back.
    pub time_nanos: u64,
}

impl Totals {
    const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Totals::BYTES] {
        let columns = [
            self.revision.0,
            self.live_keys,
            self.retained_bytes,
            self.superseded_bytes,
            self.time_nanos,
        ];
        let mut bytes = [0; Totals::BYTES];
        for (place, column) in bytes.chunks_exact_mut(8).zip(columns) {
            place.copy_from_slice(&column.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Totals> {
        let columns: &[u8; Totals::BYTES] = bytes.try_into().ok()?;
        let mut columns = columns
            .as_chunks::<8>()
            .0
            .iter()
            .copied()
            .map(u64::from_le_bytes);
        Some(Totals {
            revision: Revision(columns.next()?),
            live_keys: columns.next()?,
            retained_bytes: columns.next()?,
            superseded_bytes: columns.next()?,
            time_nanos: columns.next()?,
        })
    }

    /// The mark that these totals make in the timeline.
    pub fn mark(self) -> TimelineMark {
        mark(self.revision.0, (self.time_nanos, self.superseded_bytes))
    }
}

/// The row about all leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTotals {
    /// The newest lease ID.
    pub last: LeaseId,
    /// The latest lease time, in nanoseconds since 1970. Never goes back.
    pub time_nanos: u64,
}

/// The end of the timeline. It decides when the next row is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastMark {
    /// The time of its last row.
    pub time_nanos: u64,
    /// Bytes written since that row.
    pub written_bytes: u64,
}

/// A row of [`TIMELINE`] as a mark.
pub fn mark(revision: u64, row: (u64, u64)) -> TimelineMark {
    let (time_nanos, superseded_bytes) = row;
    TimelineMark {
        revision: Revision(revision),
        time: SystemTime::UNIX_EPOCH + Duration::from_nanos(time_nanos),
        superseded_bytes,
    }
}

/// The edition of the program that might have written all values that are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition {
    /// The number of the edition.
    pub number: u32,
    /// The revision as of which this is so. Values that were superseded before may be of others.
    pub as_of: Revision,
}

impl Edition {
    const BYTES: usize = 12;

    fn from_bytes(bytes: [u8; Edition::BYTES]) -> Edition {
        let [a, b, c, d, as_of @ ..] = bytes;
        Edition {
            number: u32::from_le_bytes([a, b, c, d]),
            as_of: Revision(u64::from_le_bytes(as_of)),
        }
    }
}

/// All of table `meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The version of tables and rows.
    pub format: u32,
    /// The store's ID, drawn when it was created.
    pub store: [u8; 16],
    /// The totals.
    pub totals: Totals,
    /// The compacted revision. Reads at older revisions are refused.
    pub compacted: Revision,
    /// Compacted records are removed up to this revision.
    pub scrubbed: Revision,
    /// The row about all leases.
    pub leases: LeaseTotals,
    /// The epoch of the journal whose groups the database may lack. 0 when it lacks nothing.
    pub journal: Epoch,
    /// The edition of all values, if they are of one. Stores of older versions have no such row.
    pub edition: Option<Edition>,
}

impl Meta {
    /// The metadata of an empty store.
    pub fn new(store: [u8; 16]) -> Meta {
        Meta {
            format: FORMAT,
            store,
            totals: Totals::default(),
            compacted: Revision::ZERO,
            scrubbed: Revision::ZERO,
            leases: LeaseTotals::default(),
            journal: 0,
            edition: None,
        }
    }

    /// Reads the table. `None` when the database has no tables yet.
    ///
    /// # Errors
    /// A newer format, or missing rows, or rows of the wrong size.
    pub fn read(transaction: &ReadTransaction) -> Result<Option<Meta>, Failure> {
        let table = match transaction.open_table(META) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => {
                if transaction.list_tables()?.next().is_some() {
                    return Err(Failure::Corrupt("table meta: it is missing".to_owned()));
                }
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let format = u32::from_le_bytes(row(&table, name::FORMAT)?);
        if format == 0 {
            let what = "table meta: row format is 0, which no version writes";
            return Err(Failure::Corrupt(what.to_owned()));
        }
        if format > FORMAT {
            return Err(Failure::Newer {
                found: format,
                known: FORMAT,
            });
        }
        Ok(Some(Meta {
            format,
            store: row(&table, name::STORE)?,
            totals: read_totals(&table)?,
            compacted: Revision(u64::from_le_bytes(row(&table, name::COMPACTED)?)),
            scrubbed: Revision(u64::from_le_bytes(row(&table, name::SCRUBBED)?)),
            leases: read_lease_totals(&table, format)?,
            journal: match has_journal(format) {
                true => u64::from_le_bytes(row(&table, name::JOURNAL)?),
                false => 0,
            },
            edition: read_edition(&table)?,
        }))
    }

    /// Reads the table of a store that has it.
    ///
    /// # Errors
    /// As [`Meta::read`], and when there is none.
    pub fn of(transaction: &ReadTransaction) -> Result<Meta, Failure> {
        Meta::read(transaction)?
            .ok_or_else(|| Failure::Corrupt("table meta: it is missing".to_owned()))
    }

    /// Creates all tables and writes the rows of this one.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn create(&self, transaction: &WriteTransaction) -> Result<(), Failure> {
        transaction.open_table(EVENTS)?;
        transaction.open_table(LIVE)?;
        transaction.open_table(SUPERSEDED)?;
        transaction.open_table(TIMELINE)?;
        let mut table = transaction.open_table(META)?;
        write_row(&mut table, &format_row(self.format))?;
        write_row(&mut table, &totals_row(self.totals))?;
        if has_leases(self.format) {
            transaction.open_table(LEASES)?;
            transaction.open_table(ATTACHED)?;
        }
        self.write_names(&mut table)
    }

    /// Writes everything but format and totals, as far as this format has it.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn write_names(&self, table: &mut MetaTable<'_>) -> Result<(), Failure> {
        write_row(table, &MetaRow::new(name::STORE, &self.store))?;
        write_row(table, &compacted_row(self.compacted))?;
        write_row(table, &scrubbed_row(self.scrubbed))?;
        if has_leases(self.format) {
            write_row(table, &lease_totals_row(self.leases))?;
        }
        if has_journal(self.format) {
            write_row(table, &journal_row(self.journal))?;
        }
        if let Some(edition) = self.edition {
            write_row(table, &edition_row(edition))?;
        }
        Ok(())
    }
}

/// Whether a store of this format has tables of leases.
pub fn has_leases(format: u32) -> bool {
    format > 1
}

/// Whether a store of this format has a journal.
pub fn has_journal(format: u32) -> bool {
    format > 2
}

/// Whether the files of the journal of a store of this format have heads.
pub fn has_heads(format: u32) -> bool {
    format > 3
}

/// Adds the tables of leases to a store of format 1.
///
/// # Errors
/// When the database fails or names no format.
pub fn add_leases(transaction: &WriteTransaction, meta: &mut MetaTable<'_>) -> Result<(), Failure> {
    if has_leases(u32::from_le_bytes(row(meta, name::FORMAT)?)) {
        return Ok(());
    }
    transaction.open_table(LEASES)?;
    transaction.open_table(ATTACHED)?;
    write_row(meta, &lease_totals_row(LeaseTotals::default()))?;
    write_row(meta, &format_row(2))
}

/// Gives a store the format of the one that it is a copy of.
///
/// # Errors
/// When the database fails.
pub fn set_format(
    transaction: &WriteTransaction,
    meta: &mut MetaTable<'_>,
    format: u32,
) -> Result<(), Failure> {
    if has_leases(format) {
        add_leases(transaction, meta)?;
    }
    write_row(meta, &format_row(format))
}

/// Names the epoch of the journal that begins when this transaction is durable. A store of an older
/// format gets the newest one: this is the only place where that happens.
///
/// # Errors
/// When the database fails or names no format.
pub fn set_journal(transaction: &WriteTransaction, epoch: Epoch) -> Result<(), Failure> {
    let mut meta = transaction.open_table(META)?;
    add_leases(transaction, &mut meta)?;
    if u32::from_le_bytes(row(&meta, name::FORMAT)?) < FORMAT {
        write_row(&mut meta, &format_row(FORMAT))?;
    }
    write_row(&mut meta, &journal_row(epoch))
}

/// Table `meta` inside a write transaction.
pub type MetaTable<'t> = redb::Table<'t, &'static str, &'static [u8]>;

fn row<const N: usize>(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<[u8; N], Failure> {
    let found = table.get(name)?;
    let bytes = found.as_ref().map(|guard| guard.value());
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| {
            Failure::Corrupt(format!(
                "table meta: row {name} is missing or not {N} bytes"
            ))
        })
}

/// Reads the totals.
///
/// # Errors
/// When the row is missing or damaged.
pub fn read_totals(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Totals, Failure> {
    let bytes: [u8; Totals::BYTES] = row(table, name::TOTALS)?;
    Totals::from_bytes(&bytes)
        .ok_or_else(|| Failure::Corrupt("table meta: row totals is damaged".to_owned()))
}

/// A row of table `meta`.
#[derive(Clone, Debug)]
pub struct MetaRow {
    /// Its key.
    pub name: &'static str,
    /// Its value.
    pub value: Vec<u8>,
}

impl MetaRow {
    fn new(name: &'static str, value: &[u8]) -> MetaRow {
        MetaRow {
            name,
            value: value.to_vec(),
        }
    }
}

/// Writes a row.
///
/// # Errors
/// When the database can't be written.
pub fn write_row(table: &mut MetaTable<'_>, row: &MetaRow) -> Result<(), Failure> {
    table.insert(row.name, row.value.as_slice())?;
    Ok(())
}

/// The row of the totals.
pub fn totals_row(totals: Totals) -> MetaRow {
    MetaRow::new(name::TOTALS, &totals.to_bytes())
}

fn format_row(format: u32) -> MetaRow {
    MetaRow::new(name::FORMAT, &format.to_le_bytes())
}

fn journal_row(epoch: Epoch) -> MetaRow {
    MetaRow::new(name::JOURNAL, &epoch.to_le_bytes())
}

/// The row of the edition.
pub fn edition_row(edition: Edition) -> MetaRow {
    let number = edition.number.to_le_bytes();
    let as_of = edition.as_of.0.to_le_bytes();
    MetaRow::new(name::EDITION, &[&number[..], &as_of].concat())
}

/// Removes the row of the edition.
///
/// # Errors
/// When the database fails.
pub fn remove_edition(transaction: &WriteTransaction) -> Result<(), Failure> {
    transaction.open_table(META)?.remove(name::EDITION)?;
    Ok(())
}

/// Reads the row of the edition. A store without it has values of any.
fn read_edition(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<Edition>, Failure> {
    let is_there = table.get(name::EDITION)?.is_some();
    let read = is_there.then(|| row(table, name::EDITION).map(Edition::from_bytes));
    read.transpose()
}

/// Reads the row about all leases. Format 1 has none.
fn read_lease_totals(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    format: u32,
) -> Result<LeaseTotals, Failure> {
    if !has_leases(format) {
        return Ok(LeaseTotals::default());
    }
    let columns = u128::from_le_bytes(row(table, name::LEASES)?);
    Ok(LeaseTotals {
        last: LeaseId(columns as u64),
        time_nanos: (columns >> 64) as u64,
    })
}

/// The row about all leases.
pub fn lease_totals_row(leases: LeaseTotals) -> MetaRow {
    let columns = u128::from(leases.time_nanos) << 64 | u128::from(leases.last.0);
    MetaRow::new(name::LEASES, &columns.to_le_bytes())
}

/// The row of the compacted revision.
pub fn compacted_row(revision: Revision) -> MetaRow {
    MetaRow::new(name::COMPACTED, &revision.0.to_le_bytes())
}

/// The row of the scrubbed revision.
pub fn scrubbed_row(revision: Revision) -> MetaRow {
    MetaRow::new(name::SCRUBBED, &revision.0.to_le_bytes())
}

/// Decodes a record of table `events`. The failure names the record.
///
/// # Errors
/// [`Failure::Corrupt`].
pub fn decode_event(revision: Revision, bytes: &[u8]) -> Result<Record<'_>, Failure> {
    Record::decode(revision, bytes)
        .map_err(|error| Failure::Corrupt(format!("table events, record {revision}: {error}")))
}

/// The failure of a record of table `events` that must exist and does not.
pub fn missing_event(revision: Revision) -> Failure {
    Failure::Corrupt(format!("table events, record {revision}: it is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_five_little_endian_numbers() {
        let totals = Totals {
            revision: Revision(1),
            live_keys: 2,
            retained_bytes: 3,
            superseded_bytes: 0x0102,
            time_nanos: u64::MAX,
        };
        let bytes = totals.to_bytes();
        assert_eq!(bytes[..9], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(bytes[24..26], [2, 1]);
        assert_eq!(Totals::from_bytes(&bytes), Some(totals));
        assert_eq!(Totals::from_bytes(&bytes[1..]), None);
    }
}
