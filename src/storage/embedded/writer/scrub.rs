//! Forgetting: compaction moves the horizon, scrubbing removes what lies behind it, and a
//! rebuilt file takes the log's place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use actors::engine::local::check_future;
use actors::engine::{EngineError, Maintenance, Revision};

use super::{Desk, Promotion};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::ledger::Ledger;
use crate::storage::embedded::metrics;
use crate::storage::embedded::readers::panic_text;
use crate::storage::embedded::rebuild::{Rebuild, Seal};

/// Rows of the timeline removed in one step.
const MARKS_MAX: usize = 64;

impl Desk {
    /// Does something with the database that is no commit; after a failure it is opened anew,
    /// once whoever asked has been answered.
    pub(super) fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Desk) -> Result<T, Failure>,
    ) -> Result<T, EngineError> {
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        let result = result.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(&*panic))));
        result.map_err(|failure| {
            let error = failure.to_engine_error(&self.shared.file());
            // A damaged record stays damaged: opening anew would only interrupt everybody.
            if failure.needs_reopening() {
                self.failed = Some(failure);
            }
            error
        })
    }

    /// Moves the horizon, durably, and only then says so.
    pub(super) fn compact(&mut self, up_to: Revision) -> Result<(), EngineError> {
        check_future(up_to, self.shared.positions.revision())?;
        if up_to <= self.shared.compacted() {
            return Ok(());
        }
        self.guarded(|desk| {
            let store = desk.store()?;
            let transaction = store.write()?;
            let mut ledger = Ledger::open(&transaction)?;
            ledger.set_compacted(up_to)?;
            ledger.finish()?;
            store.commit(transaction)?;
            desk.unsettled = false;
            desk.shared.set_compacted(up_to);
            metrics::compacted(up_to);
            Ok(())
        })
    }

    /// Removes compacted records for as long as a step may take.
    pub(super) fn scrub(&mut self) -> Result<Maintenance, EngineError> {
        let started = Instant::now();
        let maintenance = self.guarded(|desk| desk.scrub_step(started))?;
        metrics::scrubbed(maintenance.removed, started.elapsed());
        Ok(maintenance)
    }

    fn scrub_step(&mut self, started: Instant) -> Result<Maintenance, Failure> {
        let compacted = self.shared.compacted();
        if self.scrubbed >= compacted {
            return Ok(Maintenance::default());
        }
        let store = self.store()?;
        let transaction = store.write()?;
        let mut ledger = Ledger::open(&transaction)?;
        let (mut scrubbed, mut removed) = (self.scrubbed, 0);
        while scrubbed < compacted && started.elapsed() < self.shared.options.scrub_budget {
            scrubbed = scrubbed.next();
            removed += ledger.scrub(scrubbed)?;
        }
        ledger.set_scrubbed(scrubbed)?;
        ledger.forget_marks(scrubbed, MARKS_MAX)?;
        let totals = ledger.finish()?;
        // Nothing of this is worth a sync: after a power cut it is done again.
        store.commit_lazily(transaction)?;
        self.scrubbed = scrubbed;
        self.unsettled = true;
        self.shared.set_totals(totals);
        Ok(Maintenance {
            removed,
            reclaimed_bytes: 0,
            more: scrubbed < compacted,
        })
    }

    /// Makes lazy removals durable, which is what frees their pages.
    pub(super) fn settle(&mut self) {
        if !self.unsettled || self.store.is_none() {
            return;
        }
        // A failure is dealt with inside; there is nobody to tell.
        let _ = self.guarded(|desk| {
            let store = desk.store()?;
            store.commit(store.write()?)?;
            desk.unsettled = false;
            Ok(())
        });
    }

    /// Lets a rebuilt file take the log's place, once it holds everything.
    pub(super) fn promote(&mut self, mut rebuild: Box<Rebuild>) -> Result<Promotion, EngineError> {
        // All of it is time that writers wait.
        let started = Instant::now();
        self.settle();
        if let Some(failure) = &self.failed {
            return Err(failure.to_engine_error(&self.shared.file()));
        }
        let outcome = self.guarded(|desk| {
            let store = desk.store()?;
            let leases = match rebuild.seal(&store) {
                Ok(Seal::Behind) => return Ok(Promotion::Later(rebuild)),
                Ok(Seal::Whole(leases)) => leases,
                // The copy's own trouble is none of the log's.
                Ok(Seal::Different) => return Ok(Promotion::Useless),
                Err(failure) => {
                    tracing::warn!(%failure, "the rebuilt log is of no use");
                    return Ok(Promotion::Useless);
                }
            };
            // From here on every failure must be one that opens the store anew: the old file may
            // have no name any more. All that was to be read of the new one has been read.
            // Who then finds another file at the path must know why.
            store.fence().supersede();
            desk.shared.disk.promote()?;
            let fresh = rebuild
                .into_store(desk.shared.file())
                .ok_or(Failure::Closed)?;
            let fresh = Arc::new(fresh);
            let uptime = (desk.shared.options.uptime)();
            desk.leases.set(&leases, uptime);
            desk.store = Some(Arc::clone(&fresh));
            drop(store);
            Ok(Promotion::Done(desk.shared.set_store(Some(fresh))))
        });
        metrics::promoted(started.elapsed());
        outcome
    }
}
