//! The Compactor: forgets what retention no longer wants, and gives space back.
//!
//! Once a second it asks the engine how far retention reaches, moves the horizon there and lets
//! the engine remove what lies behind it, in steps that client writes don't feel. Space is given
//! back to the file system when the store is idle, or when an operator asks. Rounds never
//! overlap: while one runs, the mailbox waits.

mod handle;
mod handlers;
pub(crate) mod messages;
mod plan;
mod round;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::fut::wrap_future;
use actix::{Actor, ActorFutureExt, AsyncContext, Context};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use handle::{CompactError, CompactReport, CompactorHandle};

use crate::engine::{EngineError, MaintenanceEngine, Retention, Revision};
use crate::exit::ExitGuard;
use crate::failure::Failure;
use crate::mailbox;
use plan::Plan;
use round::{Reclaim, Round, Wish};

/// Time between two rounds. Retention is meant in minutes; a second keeps each round small.
const TICK: Duration = Duration::from_secs(1);

/// Whether the last round failed.
pub(crate) const FAILING: &str = "taffrail_compaction_failing";

/// See the module's documentation.
pub(crate) struct Compactor {
    /// The name of the store, for metrics and logs.
    store: String,
    engine: Arc<dyn MaintenanceEngine>,
    retention: Retention,
    plan: Plan,
    failure: Failure,
    _exit: ExitGuard,
}

/// Who waits for the report of a round.
type Asker = oneshot::Sender<Result<CompactReport, EngineError>>;

impl Compactor {
    /// A Compactor of this store.
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
            plan: Plan::new(Instant::now().into_std()),
            failure: Failure::default(),
            _exit: exit,
        }
    }

    fn tick(&mut self, context: &mut Context<Compactor>) {
        let newest = self.engine.stats().revision;
        let reclaim = match self.plan.reclaims(Instant::now().into_std(), newest) {
            true => Reclaim::WhileIdle,
            false => Reclaim::No,
        };
        let wish = Wish {
            up_to: Revision::ZERO,
            reclaim,
        };
        self.start_round(wish, None, context);
        context.run_later(TICK, Compactor::tick);
    }

    fn start_round(&mut self, wish: Wish, asker: Option<Asker>, context: &mut Context<Compactor>) {
        let engine = Arc::clone(&self.engine);
        let round = round::round(engine, self.retention, SystemTime::now(), wish);
        let round = wrap_future::<_, Compactor>(round);
        context.wait(round.map(move |outcome, compactor, _| {
            compactor.note(&outcome);
            if let Some(asker) = asker {
                // An operator who has gone away learns it from the logs.
                let _ = asker.send(outcome.map(|round| round.report));
            }
        }));
    }

    fn note(&mut self, outcome: &Result<Round, EngineError>) {
        let now = Instant::now().into_std();
        let store = self.store.clone();
        match outcome {
            Ok(round) => {
                if self.failure.end() {
                    tracing::info!(store, "history is compacted again");
                }
                let report = round.report;
                self.plan.done(now, report.removed, round.has_reclaimed);
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
