//! Reads the log: events of a prefix in order, and the revision that retention has reached.

use std::time::SystemTime;

use actors::engine::local;
use actors::engine::{HistoryChunk, HistoryRequest, Retention, Revision};
use bytes::Bytes;

use super::read_txn::ReadTxn;
use crate::storage::embedded::error::{Failure, ReadError};
use crate::storage::embedded::schema::{TIMELINE, mark};
use crate::storage::embedded::schema::{decode_event, missing_event};
use crate::storage::embedded::store::Store;

/// The bytes of records that one read scans, whether they match or not. A longer transaction would
/// pin pages.
const SCAN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A chunk of history, with previous values if they are wanted.
///
/// # Errors
/// [`actors::engine::EngineError::Compacted`], or damage.
pub fn read_history(
    store: &Store,
    request: &HistoryRequest,
    with_previous: bool,
) -> Result<HistoryChunk, ReadError> {
    let txn = ReadTxn::open(store)?;
    txn.check_after(request.after)?;
    let until = request.until.min(txn.totals.revision).max(request.after);
    let mut chunk = HistoryChunk {
        events: Vec::new(),
        reached: request.after,
    };
    let (mut taken, mut scanned) = (0, 0);
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
        scanned += bytes.value().len();
        if matches {
            let mut event = record.to_event();
            if with_previous && event.prev_revision != Revision::ZERO {
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
