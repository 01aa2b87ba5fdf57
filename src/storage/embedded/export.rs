//! Reads the whole log for a backup, in short transactions, so that it pins no pages and writers
//! and compaction go on.
//!
//! Compaction may run meanwhile without harm. It removes a record only when an event up to the
//! compacted revision has superseded it. The export says at its end how far the store is compacted
//! by then, and promises nothing before that.

use std::sync::Arc;
use std::time::SystemTime;

use actors::engine::{
    EngineError, Event, Export, ExportEnd, ExportItem, ExportedLease, Lease, Revision,
};
use futures_util::future::{BoxFuture, FutureExt};

use super::error::ReadError;
use super::readers::{ReadTxn, ReaderPool};
use super::schema::{decode_event, missing_event};
use super::store::Store;

/// The bytes of records that one transaction reads.
const PIECE_BYTES: usize = 1024 * 1024;

/// An export under way.
pub struct EmbeddedExport {
    readers: Arc<ReaderPool>,
    position: Position,
}

/// How far an export has come.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Records up to this revision were delivered.
    reached: Revision,
    /// Records up to this revision are delivered.
    until: Option<Revision>,
}

impl EmbeddedExport {
    pub fn new(readers: Arc<ReaderPool>) -> EmbeddedExport {
        EmbeddedExport {
            readers,
            position: Position::default(),
        }
    }
}

impl Export for EmbeddedExport {
    fn next(&mut self) -> BoxFuture<'_, Result<ExportItem, EngineError>> {
        async move {
            let position = self.position;
            let read = self.readers.read(move |store| read(store, position));
            let (item, position) = read.await?;
            self.position = position;
            Ok(item)
        }
        .boxed()
    }
}

fn read(store: &Store, position: Position) -> Result<(ExportItem, Position), ReadError> {
    let txn = ReadTxn::open(store)?;
    let until = position.until.unwrap_or(txn.totals.revision);
    // Records that show the state at an earlier revision may be removed by now.
    let until = match txn.compacted > until {
        true => txn.totals.revision,
        false => until,
    };
    let mut reached = position.reached;
    let (mut events, mut bytes): (Vec<Event>, usize) = (Vec::new(), 0);
    for row in txn.events().range(reached.0 + 1..=until.0)? {
        if bytes >= PIECE_BYTES {
            break;
        }
        let (revision, record) = row?;
        let revision = Revision(revision.value());
        // The log has no holes after the compacted revision.
        if reached >= txn.compacted && revision != reached.next() {
            return Err(missing_event(reached.next()).into());
        }
        bytes += record.value().len();
        events.push(decode_event(revision, record.value())?.to_event());
        reached = revision;
    }
    let position = Position {
        reached,
        until: Some(until),
    };
    if !events.is_empty() {
        return Ok((ExportItem::Events(events), position));
    }
    if reached < until && until > txn.compacted {
        return Err(missing_event(reached.next()).into());
    }
    let end = ExportEnd {
        revision: until,
        compacted: txn.compacted,
        leases: leases(store)?,
    };
    Ok((ExportItem::End(end), position))
}

/// The leases that were not revoked.
fn leases(store: &Store) -> Result<Vec<ExportedLease>, ReadError> {
    let rows = store.leases()?.into_iter();
    let granted = rows.filter(|(_, record)| !record.revoked);
    let leases = granted.map(|(id, record)| ExportedLease {
        lease: Lease {
            id,
            ttl: record.ttl,
        },
        deadline: SystemTime::UNIX_EPOCH + record.deadline,
    });
    Ok(leases.collect())
}
