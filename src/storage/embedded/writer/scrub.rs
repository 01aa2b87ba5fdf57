//! Compaction moves the compacted revision. Scrubbing removes the records that became invisible.
//! Promotion puts a defragmented file in the log's place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use actors::engine::local::check_future;
use actors::engine::{EngineError, Maintenance, Revision};

use super::request::Promotion;
use super::thread::WriterThread;
use crate::storage::embedded::defrag::{Defrag, Seal};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::metrics;
use crate::storage::embedded::schema::Edition;
use crate::storage::embedded::write_txn::{Overlay, Scrub, WriteTxn};

/// Rows of the timeline removed in one step.
const MARKS_MAX: usize = 64;

impl WriterThread {
    /// Runs work other than a commit. After a failure the database is reopened, once the caller has
    /// its answer.
    pub(super) fn run_guarded<T>(
        &mut self,
        work: impl FnOnce(&mut WriterThread) -> Result<T, Failure>,
    ) -> Result<T, EngineError> {
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        let result = result.unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
        result.map_err(|failure| {
            let failure = self.explain(failure);
            let error = failure.to_engine_error(&self.state.file());
            // A damaged record stays damaged. Reopening would only interrupt everybody.
            if failure.needs_reopening() {
                self.failed = Some(failure);
            }
            error
        })
    }

    /// Moves the compacted revision durably, and only then publishes it.
    pub(super) fn compact(&mut self, up_to: Revision) -> Result<(), EngineError> {
        check_future(up_to, self.state.positions.revision())?;
        if up_to <= self.state.compacted() {
            return Ok(());
        }
        self.run_guarded(|writer| {
            let store = writer.store()?;
            let transaction = store.write()?;
            let mut txn = WriteTxn::open(&transaction)?;
            txn.set_compacted(up_to)?;
            txn.finish()?;
            writer.checkpoint(&store, transaction)?;
            writer.state.set_compacted(up_to);
            metrics::compacted(up_to);
            Ok(())
        })
    }

    /// Records durably that all values of the state at a revision are of today's edition.
    pub(super) fn note_edition(&mut self, as_of: Revision) -> Result<(), EngineError> {
        check_future(as_of, self.state.positions.revision())?;
        let Some(number) = self.state.options.edition else {
            return Ok(());
        };
        if self.state.has_edition() {
            return Ok(());
        }
        self.run_guarded(|writer| {
            let store = writer.store()?;
            let transaction = store.write()?;
            let mut txn = WriteTxn::open(&transaction)?;
            let edition = Edition { number, as_of };
            txn.set_edition(edition)?;
            txn.finish()?;
            writer.checkpoint(&store, transaction)?;
            writer.state.set_edition(Some(edition));
            Ok(())
        })
    }

    /// Removes compacted records within the time of a step.
    pub(super) fn scrub(&mut self) -> Result<Maintenance, EngineError> {
        let started = Instant::now();
        let maintenance = self.run_guarded(|writer| writer.scrub_step(started))?;
        metrics::scrubbed(maintenance.removed, started.elapsed());
        Ok(maintenance)
    }

    fn scrub_step(&mut self, started: Instant) -> Result<Maintenance, Failure> {
        let compacted = self.state.compacted();
        if self.scrubbed >= compacted {
            return Ok(Maintenance::default());
        }
        let store = self.store()?;
        let mut step = Scrub::new(&store.read_applied()?, self.state.totals())?;
        let (mut scrubbed, mut removed) = (self.scrubbed, 0);
        while scrubbed < compacted && started.elapsed() < self.state.options.scrub_budget {
            scrubbed = scrubbed.next();
            removed += step.remove(scrubbed)?;
        }
        let marks_forgotten = step.forget_marks(self.marks_forgotten, scrubbed, MARKS_MAX)?;
        let (totals, changes) = step.finish(scrubbed);
        // No sync is needed. After a power loss the removal is repeated.
        self.apply_unsynced(&store, changes)?;
        self.marks_forgotten = marks_forgotten;
        self.scrubbed = scrubbed;
        self.has_removed |= removed > 0;
        self.state.set_totals(totals);
        Ok(Maintenance {
            removed,
            reclaimed_bytes: 0,
            more: scrubbed < compacted,
        })
    }

    /// Puts a defragmented file in the log's place, once it holds everything.
    pub(super) fn promote(&mut self, mut defrag: Box<Defrag>) -> Result<Promotion, EngineError> {
        // Writers wait all this time.
        let started = Instant::now();
        let outcome = self.run_guarded(|writer| {
            let store = writer.store()?;
            // The copy is whole without the journal.
            writer.end_journal(&store)?;
            let leases = match defrag.seal(&store) {
                Ok(Seal::Behind) => return Ok(Promotion::Later(defrag)),
                Ok(Seal::Whole(leases)) => leases,
                // A failure of the copy does not concern the log.
                Ok(Seal::Different) => return Ok(Promotion::Useless),
                Err(failure) => {
                    tracing::warn!(
                        %failure,
                        "defragmentation failed: its copy cannot be used, and the log stays"
                    );
                    return Ok(Promotion::Useless);
                }
            };
            // From here on every failure must lead to reopening, because the old file may have lost
            // its name. Everything needed from the new file has been read. A verifier that finds
            // another file at the path must see why, so the old database is fenced first.
            store.fence().supersede();
            writer.state.disk.promote()?;
            let fresh = defrag
                .into_store(writer.state.file())
                .ok_or(Failure::Closed)?;
            let fresh = Arc::new(fresh);
            let uptime = (writer.state.options.uptime)();
            writer.leases.set(&leases, uptime);
            writer.store = Some(Arc::clone(&fresh));
            writer.applier = None;
            writer.overlay = Overlay::default();
            drop(store);
            // The journal may still have changes of the old file.
            writer.journal.remove()?;
            fresh.acknowledge(&writer.state.name, writer.state.positions.revision())?;
            Ok(Promotion::Done(writer.state.set_store(Some(fresh))))
        });
        metrics::promoted(started.elapsed());
        outcome
    }
}
