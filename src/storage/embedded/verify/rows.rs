//! Checks that the tables agree with each other, in short transactions. This finds what page
//! checksums cannot: a row that was damaged in memory, or in a page that was rewritten since.

use std::ops::Bound;
use std::time::{Duration, Instant};

use actors::engine::{EventKind, Revision};
use redb::{ReadOnlyTable, ReadTransaction, ReadableTableMetadata};

use crate::storage::embedded::error::Failure;
use crate::storage::embedded::record::Record;
use crate::storage::embedded::schema::read_totals;
use crate::storage::embedded::schema::{EVENTS, LIVE, Live, META, SUPERSEDED, Superseded};
use crate::storage::embedded::schema::{decode_event, missing_event};
use crate::storage::embedded::store::Store;

/// Characters of a key that are shown.
const KEY_CHARACTERS: usize = 200;
/// How long one transaction may be open. It pins pages.
const BUDGET: Duration = Duration::from_millis(2);
/// The bytes that count for reading a record, in addition to its own. Otherwise small records would
/// cost too much.
const LOOK_BYTES: u64 = 1024;

/// The progress of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Nothing is compared yet.
    #[default]
    Begin,
    /// `live` is compared up to this key.
    Live(Vec<u8>),
    /// `superseded` is compared up to this place.
    Superseded(Vec<u8>, u64),
    /// All rows are compared. Their numbers are next.
    Counts,
    /// Nothing is left.
    End,
}

/// The outcome of a step.
#[derive(Debug)]
pub struct Stepped {
    /// Where the next step begins.
    pub rows: Rows,
    /// The bytes of the records read, and of finding them.
    pub bytes: u64,
}

/// Compares rows for a few milliseconds or up to this many bytes, and at least one.
///
/// # Errors
/// When the database cannot be read.
pub fn step(
    store: &Store,
    from: Rows,
    bytes_max: u64,
    found: &mut dyn FnMut(String),
) -> Result<Stepped, Failure> {
    let started = Instant::now();
    let transaction = store.read()?;
    if from == Rows::Counts {
        counts(&transaction, found)?;
        return Ok(Stepped {
            rows: Rows::End,
            bytes: 0,
        });
    }
    let events = transaction.open_table(EVENTS)?;
    let mut stepped = Stepped {
        rows: from,
        bytes: 0,
    };
    let is_over = |bytes| bytes >= bytes_max || started.elapsed() >= BUDGET;
    let begin = match &stepped.rows {
        Rows::Begin => Some(Bound::Unbounded),
        Rows::Live(after) => Some(Bound::Excluded(after.clone())),
        Rows::Superseded(..) | Rows::Counts | Rows::End => None,
    };
    if let Some(begin) = begin {
        let live = transaction.open_table(LIVE)?;
        let begin = begin.as_ref().map(Vec::as_slice);
        for row in live.range::<&[u8]>((begin, Bound::Unbounded))? {
            let (key, row) = row?;
            let row = Live::from(row.value());
            let fits = |record: &Record<'_>, bytes: usize| {
                record.kind() == EventKind::Put
                    && record.create_revision() == row.create_revision
                    && record.version() == row.version
                    && bytes as u64 == u64::from(row.record_bytes)
            };
            let place = || format!("table live, key {}", quoted(key.value()));
            stepped.bytes += check_record(&events, key.value(), row.revision, place, fits, found)?;
            stepped.rows = Rows::Live(key.value().to_vec());
            if is_over(stepped.bytes) {
                return Ok(stepped);
            }
        }
        stepped.rows = Rows::Superseded(Vec::new(), 0);
    }
    let Rows::Superseded(key, revision) = stepped.rows.clone() else {
        return Ok(stepped);
    };
    let superseded = transaction.open_table(SUPERSEDED)?;
    let begin = Bound::Excluded((key.as_slice(), revision));
    for row in superseded.range::<(&[u8], u64)>((begin, Bound::Unbounded))? {
        let (place, tag) = row?;
        let ((key, revision), tag) = (place.value(), tag.value());
        let fits = |record: &Record<'_>, _| match record.kind() {
            EventKind::Put => tag == Superseded::Value.tag(),
            EventKind::Delete => tag == Superseded::Absence.tag(),
        };
        let place = || format!("table superseded, key {}, record {revision}", quoted(key));
        stepped.bytes += check_record(&events, key, Revision(revision), place, fits, found)?;
        stepped.rows = Rows::Superseded(key.to_vec(), revision);
        if is_over(stepped.bytes) {
            return Ok(stepped);
        }
    }
    stepped.rows = Rows::Counts;
    Ok(stepped)
}

/// Compares the numbers of rows. Each retained record is its key's present value or superseded, and
/// each row of these two tables has a record of its own. So equal numbers prove that none is lost.
fn counts(transaction: &ReadTransaction, found: &mut dyn FnMut(String)) -> Result<(), Failure> {
    let records = transaction.open_table(EVENTS)?.len()?;
    let live = transaction.open_table(LIVE)?.len()?;
    let superseded = transaction.open_table(SUPERSEDED)?.len()?;
    let counted = read_totals(&transaction.open_table(META)?)?.live_keys;
    if live != counted {
        found(format!(
            "table live: it has {live} keys and should have {counted}"
        ));
    }
    if records != live + superseded {
        found(format!(
            "table events: it has {records} records, the tables live and superseded name {}",
            live + superseded
        ));
    }
    Ok(())
}

/// Reads the record of a row and checks that both fit. Returns the bytes that this counts.
fn check_record(
    events: &ReadOnlyTable<u64, &'static [u8]>,
    key: &[u8],
    revision: Revision,
    place: impl Fn() -> String,
    fits: impl Fn(&Record<'_>, usize) -> bool,
    found: &mut dyn FnMut(String),
) -> Result<u64, Failure> {
    let Some(bytes) = events.get(revision.0)? else {
        found(format!("{}: {}", place(), missing_event(revision)));
        return Ok(LOOK_BYTES);
    };
    let bytes = bytes.value();
    match decode_event(revision, bytes) {
        Ok(record) if record.key() != key || !fits(&record, bytes.len()) => found(format!(
            "{}: it does not fit table events, record {revision}",
            place()
        )),
        Ok(_) => {}
        Err(failure) => found(failure.to_string()),
    }
    Ok(LOOK_BYTES + bytes.len() as u64)
}

/// A key, as messages show it.
pub(super) fn quoted(key: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(key)
        .chars()
        .take(KEY_CHARACTERS)
        .collect();
    format!("{text:?}")
}
