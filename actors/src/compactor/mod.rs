//! One Compactor for each store removes history beyond retention and gives its space back.
//!
//! It owns the decision when to compact and when to reclaim space. It takes requests of operators
//! through [`CompactorHandle`], calls the engine, and writes reports, metrics and log lines. It
//! must know nothing of keys, objects or resources.
//!
//! Once a second it asks the engine which revision retention has reached, compacts up to there, and
//! lets the engine remove the records in steps that are short for client writes. Space is given
//! back to the file system when the store is idle or an operator asks. Compactions never overlap:
//! while one runs, the mailbox waits.

mod compaction;
mod handle;
mod handlers;
pub(crate) mod messages;
mod reclaim_schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use actix::fut::wrap_future;
use actix::{Actor, ActorFutureExt, AsyncContext, Context};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use compaction::CompactReport;
pub use handle::{CompactError, CompactorHandle};

use crate::clock;
use crate::engine::{EngineError, MaintenanceEngine, Retention, Revision};
use crate::exit::ExitGuard;
use crate::failure::RepeatedFailure;
use crate::mailbox;
use compaction::{CompactionOutcome, CompactionRequest, Reclaim};
use reclaim_schedule::ReclaimSchedule;

/// Time between two compactions. Retention is set in minutes. A second keeps each compaction small.
const TICK: Duration = Duration::from_secs(1);

/// Metric: whether the last compaction failed.
pub(crate) const FAILING: &str = "taffrail_compaction_failing";

/// The actor that compacts one store.
pub(crate) struct Compactor {
    /// The name of the store, for metrics and logs.
    store: String,
    engine: Arc<dyn MaintenanceEngine>,
    retention: Retention,
    reclaim_schedule: ReclaimSchedule,
    failure: RepeatedFailure,
    exit: ExitGuard,
}

/// Where the report of a compaction is sent.
type ReportSender = oneshot::Sender<Result<CompactReport, EngineError>>;

impl Compactor {
    /// The Compactor of this store.
    pub(crate) fn new(
        store: String,
        engine: Arc<dyn MaintenanceEngine>,
        retention: Retention,
        exit: ExitGuard,
    ) -> Compactor {
        Compactor {
            store,
            engine,
            retention,
            reclaim_schedule: ReclaimSchedule::new(Instant::now().into_std()),
            failure: RepeatedFailure::default(),
            exit,
        }
    }

    fn tick(&mut self, context: &mut Context<Compactor>) {
        let pulse = self.exit.pulse().clone();
        let _turn = pulse.turn();
        let newest = self.engine.stats().revision;
        let reclaim = match self
            .reclaim_schedule
            .reclaims(Instant::now().into_std(), newest)
        {
            true => Reclaim::WhileIdle,
            false => Reclaim::No,
        };
        let request = CompactionRequest {
            up_to: Revision::ZERO,
            reclaim,
        };
        self.start_compaction(request, None, context);
        context.run_later(TICK, Compactor::tick);
    }

    fn start_compaction(
        &mut self,
        request: CompactionRequest,
        report_to: Option<ReportSender>,
        context: &mut Context<Compactor>,
    ) {
        let engine = Arc::clone(&self.engine);
        let compaction = compaction::compact(engine, self.retention, clock::now(), request);
        let compaction = wrap_future::<_, Compactor>(compaction);
        context.wait(compaction.map(move |outcome, compactor, _| {
            compactor.note(&outcome);
            if let Some(report_to) = report_to {
                // The operator may have gone away.
                let _ = report_to.send(outcome.map(|compaction| compaction.report));
            }
        }));
    }

    fn note(&mut self, outcome: &Result<CompactionOutcome, EngineError>) {
        let now = Instant::now().into_std();
        let store = self.store.clone();
        match outcome {
            Ok(compaction) => {
                if self.failure.end() {
                    tracing::info!(store, "history is compacted again");
                }
                let report = compaction.report;
                self.reclaim_schedule
                    .done(now, report.removed, compaction.has_reclaimed);
                let labels = [("store", store)];
                metrics::gauge!("taffrail_compacted_revision", &labels)
                    .set(report.compacted.0 as f64);
                metrics::counter!("taffrail_compaction_records_removed_total", &labels)
                    .increment(report.removed);
                metrics::counter!("taffrail_compaction_bytes_reclaimed_total", &labels)
                    .increment(report.reclaimed_bytes);
            }
            Err(error) => {
                if self.failure.is_worth_a_line(now) {
                    tracing::warn!(
                        store,
                        %error,
                        "history can't be compacted, and grows until it can; tried every second"
                    );
                }
            }
        }
        metrics::gauge!(FAILING, "store" => self.store.clone())
            .set(f64::from(u8::from(outcome.is_err())));
    }
}

impl Actor for Compactor {
    type Context = Context<Compactor>;

    fn started(&mut self, context: &mut Context<Compactor>) {
        context.set_mailbox_capacity(mailbox::COMPACTOR);
        context.run_later(TICK, Compactor::tick);
    }
}
