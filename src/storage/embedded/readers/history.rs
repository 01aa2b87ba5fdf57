//! Reads the log: events of a prefix in order, and the revision that retention has reached.
//!
//! The log has no index by prefix, but each of its events is in one of the two tables that are
//! ordered by key: the newest put of a key in `live`, all others in `superseded`. So the events of
//! a prefix that few keys have are found there, however many events of others lie between.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use actors::engine::local;
use actors::engine::{HistoryChunk, HistoryRequest, Retention, Revision};
use bytes::Bytes;
use parking_lot::Mutex;

use super::read_txn::ReadTxn;
use crate::storage::embedded::error::{Failure, ReadError};
use crate::storage::embedded::schema::{TIMELINE, mark};
use crate::storage::embedded::schema::{decode_event, missing_event};
use crate::storage::embedded::store::Store;

/// The bytes of records that one read scans, whether they match or not. A longer transaction would
/// pin pages.
const SCAN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The bytes that are scanned before a prefix's events are looked up by key. Those of a busy prefix
/// have filled the chunk by then.
const SCAN_FIRST_BYTES: usize = 1024 * 1024;

/// The most rows of keys that are visited in search of a prefix's events. A longer transaction
/// would pin pages.
const KEY_ROWS_MAX: u64 = 1 << 17;

/// The rows of keys that may be visited instead of scanning this many records. To visit a row takes
/// less than a quarter of the time.
fn key_rows_max(records: u64) -> u64 {
    (records / 4).min(KEY_ROWS_MAX)
}

/// A chunk of history. With `large_prefixes` its events have their previous values, and are found
/// by key unless their prefix is one of these or a scan is cheaper.
///
/// # Errors
/// [`actors::engine::EngineError::Compacted`], or damage.
pub fn read_history(
    store: &Store,
    request: &HistoryRequest,
    large_prefixes: Option<&LargePrefixes>,
) -> Result<HistoryChunk, ReadError> {
    let txn = ReadTxn::open(store)?;
    txn.check_after(request.after)?;
    let until = request.until.min(txn.totals.revision).max(request.after);
    let mut chunk = HistoryChunk {
        events: Vec::new(),
        reached: request.after,
    };
    let (mut taken, mut scanned) = (0, 0);
    let mut by_key = large_prefixes.filter(|large| !large.has(request.prefix.as_bytes()));
    for row in txn.events().range(request.after.0 + 1..=until.0)? {
        let (revision, bytes) = row?;
        // The log has no holes after the compacted revision. A watch must not skip a missing event.
        if revision.value() != chunk.reached.next().0 {
            return Err(missing_event(chunk.reached.next()).into());
        }
        let record = decode_event(Revision(revision.value()), bytes.value())?;
        let matches = record.key().starts_with(request.prefix.as_bytes());
        let full = taken >= request.bytes_max && !chunk.events.is_empty();
        if scanned >= SCAN_BYTES_MAX || (matches && full) {
            return Ok(chunk);
        }
        if scanned >= SCAN_FIRST_BYTES
            && let Some(large_prefixes) = by_key.take()
            && let Some(chunk) = read_by_key(&txn, request, until, large_prefixes)?
        {
            return Ok(chunk);
        }
        scanned += bytes.value().len();
        if matches {
            let mut event = record.to_event();
            if large_prefixes.is_some() && event.prev_revision != Revision::ZERO {
                event.previous = Some(previous(&txn, event.prev_revision)?);
            }
            taken += event.value.len() + event.previous.as_ref().map_or(0, Bytes::len);
            chunk.events.push(event);
        }
        chunk.reached = Revision(revision.value());
    }
    if chunk.reached < until {
        return Err(missing_event(chunk.reached.next()).into());
    }
    Ok(chunk)
}

/// The chunk, read by the tables that are ordered by key. `None` if a scan is cheaper, or if those
/// tables lack an event that a later one names as the one before it. That they lack a key's newest
/// event is not noticed here; all other reads trust them as much.
fn read_by_key(
    txn: &ReadTxn,
    request: &HistoryRequest,
    until: Revision,
    large_prefixes: &LargePrefixes,
) -> Result<Option<HistoryChunk>, Failure> {
    let mut lookup = Lookup::new(request.after, until);
    if !lookup.run(txn, request)? {
        if lookup.rows > LARGE_ROWS {
            large_prefixes.add(request.prefix.as_bytes());
        }
        return Ok(None);
    }
    let found = lookup.found;
    let mut chunk = HistoryChunk {
        events: Vec::new(),
        reached: until,
    };
    let mut taken = 0;
    for revision in &found {
        if taken >= request.bytes_max && !chunk.events.is_empty() {
            chunk.reached = Revision(revision.0 - 1);
            break;
        }
        let row = txn.events().get(revision.0)?;
        let row = row.ok_or_else(|| missing_event(*revision))?;
        let record = decode_event(*revision, row.value())?;
        let before = record.prev_revision();
        let is_known = before <= request.after || found.binary_search(&before).is_ok();
        if !is_known || !record.key().starts_with(request.prefix.as_bytes()) {
            return Ok(None);
        }
        let mut event = record.to_event();
        if before != Revision::ZERO {
            event.previous = Some(previous(txn, before)?);
        }
        taken += event.value.len() + event.previous.as_ref().map_or(0, Bytes::len);
        chunk.events.push(event);
    }
    Ok(Some(chunk))
}

/// The search for the revisions of a prefix's events.
struct Lookup {
    /// The range of revisions: after the first one, up to the second one.
    range: (Revision, Revision),
    rows_max: u64,
    rows: u64,
    found: Vec<Revision>,
}

impl Lookup {
    fn new(after: Revision, until: Revision) -> Lookup {
        Lookup {
            range: (after, until),
            rows_max: key_rows_max(until.0 - after.0),
            rows: 0,
            found: Vec::new(),
        }
    }

    /// Finds them all, in order; false if a scan is cheaper.
    fn run(&mut self, txn: &ReadTxn, request: &HistoryRequest) -> Result<bool, Failure> {
        let prefix = request.prefix.as_bytes();
        for row in txn.live.range::<&[u8]>(prefix..)? {
            let (key, columns) = row?;
            if !key.value().starts_with(prefix) {
                break;
            }
            if !self.visit(columns.value().0) {
                return Ok(false);
            }
        }
        for row in txn.superseded.range((prefix, 0)..)? {
            let (place, _) = row?;
            let (key, revision) = place.value();
            if !key.starts_with(prefix) {
                break;
            }
            if !self.visit(revision) {
                return Ok(false);
            }
        }
        self.found.sort_unstable();
        // Each chunk visits all rows again. A scan goes on where the chunk before has ended.
        let bytes = match self.found.last() {
            Some(last) => self.found.len() * 2 * record_bytes(txn, *last)?,
            None => 0,
        };
        let chunks = 1 + bytes / request.bytes_max.max(1);
        let (after, until) = self.range;
        Ok(self.rows.saturating_mul(chunks as u64) <= (until.0 - after.0).saturating_mul(4))
    }

    /// Whether to go on.
    fn visit(&mut self, revision: u64) -> bool {
        let (after, until) = self.range;
        self.rows += 1;
        if (after.0 + 1..=until.0).contains(&revision) {
            self.found.push(Revision(revision));
        }
        self.rows <= self.rows_max
    }
}

fn record_bytes(txn: &ReadTxn, revision: Revision) -> Result<usize, Failure> {
    let row = txn.events().get(revision.0)?;
    Ok(row.ok_or_else(|| missing_event(revision))?.value().len())
}

/// Prefixes with too many keys for a search by key. Such a search would be given up again for each
/// chunk of a long history, and costs as much as many chunks.
#[derive(Debug, Default)]
pub struct LargePrefixes(Mutex<HashMap<Vec<u8>, Instant>>);

/// A search that was given up after no more rows may be repeated for each chunk.
const LARGE_ROWS: u64 = 4 * 1024;
/// How long a prefix is not searched for by key again.
const LARGE_FOR: Duration = Duration::from_secs(10);
/// Prefixes that are remembered. Beyond that all are forgotten.
const LARGE_PREFIXES_MAX: usize = 256;

impl LargePrefixes {
    fn add(&self, prefix: &[u8]) {
        let mut prefixes = self.0.lock();
        if prefixes.len() >= LARGE_PREFIXES_MAX {
            prefixes.clear();
        }
        prefixes.insert(prefix.to_vec(), Instant::now());
    }

    fn has(&self, prefix: &[u8]) -> bool {
        let prefixes = self.0.lock();
        let added = prefixes.get(prefix);
        added.is_some_and(|added| added.elapsed() < LARGE_FOR)
    }
}

fn previous(txn: &ReadTxn, revision: Revision) -> Result<Bytes, Failure> {
    let found = txn
        .events()
        .get(revision.0)?
        .ok_or_else(|| missing_event(revision))?;
    Ok(Bytes::copy_from_slice(
        decode_event(revision, found.value())?.value(),
    ))
}

/// The newest revision that retention no longer keeps at this time.
///
/// # Errors
/// Failures to read the timeline.
pub fn horizon(
    store: &Store,
    retention: Retention,
    now: SystemTime,
) -> Result<Revision, ReadError> {
    let txn = ReadTxn::open(store)?;
    let timeline = txn.transaction().open_table(TIMELINE)?;
    let mut broken = None;
    let rows = timeline
        .range(txn.compacted.0 + 1..)?
        .map_while(|row| match row {
            Ok((revision, row)) => Some(mark(revision.value(), row.value())),
            Err(error) => {
                broken = Some(Failure::from(error));
                None
            }
        });
    // The newest commits may have no row yet. The totals stand for them.
    let marks = rows.chain([txn.totals.mark()]);
    let superseded_bytes = txn.totals.superseded_bytes;
    let found = local::horizon(marks, retention, now, superseded_bytes);
    match broken {
        Some(failure) => Err(failure.into()),
        None => Ok(found.max(txn.compacted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_worth_visiting_the_keys_of_a_prefix() {
        assert_eq!(key_rows_max(3), 0);
        assert_eq!(key_rows_max(100_000), 25_000);
        assert_eq!(key_rows_max(u64::MAX), KEY_ROWS_MAX);
    }

    #[test]
    fn a_large_prefix_is_not_searched_for_each_chunk() {
        let large_prefixes = LargePrefixes::default();
        assert!(!large_prefixes.has(b"/pods/"));
        large_prefixes.add(b"/pods/");
        assert!(large_prefixes.has(b"/pods/"));
        assert!(!large_prefixes.has(b"/leases/"));
        for number in 0..LARGE_PREFIXES_MAX {
            large_prefixes.add(number.to_string().as_bytes());
        }
        assert!(large_prefixes.0.lock().len() <= LARGE_PREFIXES_MAX);
    }
}
