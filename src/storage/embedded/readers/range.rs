//! Reads the keys of a prefix at a revision, a page at a time.

use std::ops::Bound;

use actors::engine::local::{PageStart, RemainingCounts};
use actors::engine::{KeyValue, RangeRequest, RangeResponse, Revision};

use super::RECORD_BYTES_GUESS;
use super::read_txn::ReadTxn;
use crate::storage::embedded::error::{Failure, ReadError};
use crate::storage::embedded::schema::Live;
use crate::storage::embedded::store::Store;

/// Bytes that are allocated for a page's values at once. A page with more of them grows.
const ALLOCATED_BYTES_MAX: usize = 4 << 20;

/// A page of a range.
///
/// # Errors
/// A compacted or future revision, or damage.
pub fn read_range(
    store: &Store,
    counts: &RemainingCounts,
    request: &RangeRequest,
    bytes_max: usize,
) -> Result<RangeResponse, ReadError> {
    let txn = ReadTxn::open(store)?;
    let at = txn.resolve(request.at)?;
    let prefix = request.prefix.as_bytes();
    let start = request.start.as_deref().unwrap_or(prefix).max(prefix);
    let end = request.prefix.end();
    let place = PageStart {
        prefix: prefix.to_vec(),
        start: start.to_vec(),
        at,
        epoch: 0,
    };
    let mut puts = Puts::new(&txn, at, start, end.as_deref())?;
    let chosen = if request.count_only {
        Vec::new()
    } else {
        choose(&mut puts, request.limit, bytes_max)?
    };
    let behind = chosen.last().map(|last| PageStart {
        start: [&last.key, b"\0".as_slice()].concat(),
        ..place.clone()
    });
    let rest = match (counts.find(&place), &behind) {
        (Some(count), _) => count.saturating_sub(chosen.len() as u64),
        // A page that ends where no page of the engine did, because of selectors, is counted up to
        // where one did.
        (None, Some(behind)) => puts.count_rest(counts.next_known(behind))?,
        (None, None) => puts.count_rest(None)?,
    };
    let count = chosen.len() as u64 + rest;
    let more = !request.count_only && rest > 0;
    let items = fetch(&txn, chosen)?;
    if more && let Some(behind) = behind {
        counts.remember(behind, rest);
    }
    Ok(RangeResponse {
        revision: txn.totals.revision,
        items,
        more,
        count,
    })
}

/// A key and the put that gave it its value.
struct Put {
    key: Vec<u8>,
    revision: Revision,
    /// The bytes of its record, where known without reading it.
    record_bytes: usize,
}

/// As many puts as fit into a page.
fn choose(puts: &mut Puts<'_>, limit: usize, bytes_max: usize) -> Result<Vec<Put>, Failure> {
    let (mut chosen, mut bytes) = (Vec::new(), 0);
    while (limit == 0 || chosen.len() < limit) && (bytes < bytes_max || chosen.is_empty()) {
        let Some(put) = puts.next()? else { break };
        bytes += put.record_bytes;
        chosen.push(put);
    }
    Ok(chosen)
}

/// Reads the values in the order of the file and sorts them by key.
fn fetch(txn: &ReadTxn, mut chosen: Vec<Put>) -> Result<Vec<KeyValue>, Failure> {
    chosen.sort_unstable_by_key(|put| put.revision);
    let mut items = Vec::with_capacity(chosen.len());
    // A damaged row may name any length, so no more is allocated before the records are read.
    let bytes: usize = chosen.iter().map(|put| put.record_bytes).sum();
    let mut values = txn.rising(bytes.min(ALLOCATED_BYTES_MAX));
    for put in &chosen {
        items.push(values.value(&put.key, put.revision)?);
    }
    items.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(items)
}

/// The puts of a range at a revision, in key order: rows of [`LIVE`](super::super::schema), and for
/// a past revision also the keys that were replaced or deleted since.
struct Puts<'s> {
    txn: &'s ReadTxn,
    at: Revision,
    end: Bound<&'s [u8]>,
    live: redb::Range<'s, &'static [u8], (u64, u64, u64, u32)>,
    next_live: Option<(Vec<u8>, Live)>,
    /// The next key with superseded records. `None` when the current state is read.
    next_superseded: Option<Vec<u8>>,
}

impl<'s> Puts<'s> {
    fn new(
        txn: &'s ReadTxn,
        at: Revision,
        start: &'s [u8],
        end: Option<&'s [u8]>,
    ) -> Result<Puts<'s>, Failure> {
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let in_order = !matches!(end, Bound::Excluded(end) if end <= start);
        let bounds = (
            Bound::Included(start),
            if in_order {
                end
            } else {
                Bound::Excluded(start)
            },
        );
        let mut puts = Puts {
            txn,
            at,
            end,
            live: txn.live.range::<&[u8]>(bounds)?,
            next_live: None,
            next_superseded: None,
        };
        puts.step_live()?;
        if in_order && at < txn.totals.revision {
            puts.seek_superseded(start, 0)?;
        }
        Ok(puts)
    }

    fn next(&mut self) -> Result<Option<Put>, Failure> {
        loop {
            let (key, live) = match (&self.next_live, &self.next_superseded) {
                (None, None) => return Ok(None),
                (Some((key, live)), superseded)
                    if superseded.as_ref().is_none_or(|other| key <= other) =>
                {
                    (key.clone(), Some(*live))
                }
                (_, Some(key)) => (key.clone(), None),
                (Some((key, live)), None) => (key.clone(), Some(*live)),
            };
            if live.is_some() {
                self.step_live()?;
            }
            if self.next_superseded.as_ref() == Some(&key) {
                self.seek_superseded(&key, u64::MAX)?;
            }
            let Some(revision) = self.txn.put_at(&key, live, self.at)? else {
                continue;
            };
            let now = live.filter(|live| live.revision == revision);
            return Ok(Some(Put {
                key,
                revision,
                record_bytes: now.map_or(RECORD_BYTES_GUESS, |live| live.record_bytes as usize),
            }));
        }
    }

    /// Counts the rest. If the number of keys from some key on is known, only those before it are
    /// counted.
    fn count_rest(&mut self, known: Option<(Vec<u8>, u64)>) -> Result<u64, Failure> {
        let (end, mut count) = known.map_or((None, 0), |(end, count)| (Some(end), count));
        let is_before = |key: &[u8]| end.as_deref().is_none_or(|end| key < end);
        if self.next_superseded.is_none() && self.at == self.txn.totals.revision {
            let Some((next, _)) = self.next_live.take() else {
                return Ok(count);
            };
            if !is_before(&next) {
                return Ok(count);
            }
            count += 1;
            for row in self.live.by_ref() {
                if !is_before(row?.0.value()) {
                    break;
                }
                count += 1;
            }
            return Ok(count);
        }
        while let Some(put) = self.next()?
            && is_before(&put.key)
        {
            count += 1;
        }
        Ok(count)
    }

    fn step_live(&mut self) -> Result<(), Failure> {
        self.next_live = match self.live.next() {
            Some(row) => {
                let (key, row) = row?;
                Some((key.value().to_vec(), Live::from(row.value())))
            }
            None => None,
        };
        Ok(())
    }

    /// Moves to the first key at or after this place. One seek is enough, however long the key's
    /// history is.
    fn seek_superseded(&mut self, key: &[u8], revision: u64) -> Result<(), Failure> {
        let from = Bound::Excluded((key, revision));
        let mut rows = self
            .txn
            .superseded
            .range::<(&[u8], u64)>((from, Bound::Unbounded))?;
        self.next_superseded = match rows.next() {
            Some(row) => {
                let (place, _) = row?;
                let found = place.value().0;
                let inside = match self.end {
                    Bound::Excluded(end) => found < end,
                    _ => true,
                };
                inside.then(|| found.to_vec())
            }
            None => None,
        };
        Ok(())
    }
}
