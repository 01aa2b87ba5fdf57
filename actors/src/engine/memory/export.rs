//! Reads the whole log, a piece at a time, so that writers get the lock in between.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::{BoxFuture, FutureExt, ready};

use super::MemoryStore;
use super::log::EventLog;
use crate::engine::{EngineError, Export, ExportEnd, ExportItem, ExportedLease, Lease, Revision};

/// The bytes of values in one piece.
const PIECE_BYTES: usize = 1024 * 1024;

pub(super) struct MemoryExport {
    store: Arc<MemoryStore>,
    /// Records up to this revision were delivered.
    reached: Revision,
    /// Records up to this revision are delivered.
    until: Option<Revision>,
}

impl MemoryExport {
    pub(super) fn new(store: Arc<MemoryStore>) -> MemoryExport {
        MemoryExport {
            store,
            reached: Revision::ZERO,
            until: None,
        }
    }
}

impl Export for MemoryExport {
    fn next(&mut self) -> BoxFuture<'_, Result<ExportItem, EngineError>> {
        let (reached, until) = (&mut self.reached, &mut self.until);
        let clock = &self.store.clock;
        let item = self.store.answer(|log| {
            let until = until.get_or_insert(log.stats().revision);
            // Records that a later compaction made obsolete may be removed already.
            *until = (*until).max(log.compacted());
            let events = log.records(*reached, *until, PIECE_BYTES);
            Ok(match events.last() {
                Some(last) => {
                    *reached = last.revision;
                    ExportItem::Events(events)
                }
                None => ExportItem::End(end(log, *until, clock())),
            })
        });
        ready(item).boxed()
    }
}

fn end(log: &mut EventLog, revision: Revision, now: SystemTime) -> ExportEnd {
    let time = log.lease_time(now);
    let granted = log.leases.granted();
    let leases = granted.map(|(id, deadline)| ExportedLease {
        lease: Lease {
            id,
            ttl: deadline.since(time),
        },
        deadline: SystemTime::UNIX_EPOCH + deadline.0,
    });
    ExportEnd {
        revision,
        compacted: log.compacted(),
        leases: leases.collect(),
    }
}
