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

use crate::engine::{Engine, EngineError, Prefix, Retention};
use crate::exit::ExitGuard;
use crate::mailbox;
use plan::Plan;

/// Time between two rounds. Retention is meant in minutes; a second keeps each round small.
const TICK: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(crate) struct Compactor {
    engine: Arc<dyn Engine>,
    retention: Retention,
    plan: Plan,
    is_failing: bool,
    _exit: ExitGuard,
}

/// Who waits for the report of a round.
type Asker = oneshot::Sender<Result<CompactReport, EngineError>>;

impl Compactor {
    /// A Compactor of this store.
    pub(crate) fn new(engine: Arc<dyn Engine>, retention: Retention, exit: ExitGuard) -> Compactor {
        Compactor {
            engine,
            retention,
            plan: Plan::new(Instant::now().into_std()),
            is_failing: false,
            _exit: exit,
        }
    }

    fn tick(&mut self, context: &mut Context<Compactor>) {
        let everything = Prefix::new("");
        let newest = self.engine.known(&everything).revision;
        let reclaim = self.plan.reclaims(Instant::now().into_std(), newest);
        self.start_round(reclaim, None, context);
        context.run_later(TICK, Compactor::tick);
    }

    fn start_round(
        &mut self,
        reclaim: bool,
        asker: Option<Asker>,
        context: &mut Context<Compactor>,
    ) {
        let engine = Arc::clone(&self.engine);
        let round = round::round(engine, self.retention, SystemTime::now(), reclaim);
        let round = wrap_future::<_, Compactor>(round);
        context.wait(round.map(move |outcome, compactor, _| {
            compactor.note(reclaim, &outcome);
            if let Some(asker) = asker {
                // An operator who has gone away learns it from the logs.
                let _ = asker.send(outcome);
            }
        }));
    }

    fn note(&mut self, has_reclaimed: bool, outcome: &Result<CompactReport, EngineError>) {
        match outcome {
            Ok(report) => {
                self.is_failing = false;
                let now = Instant::now().into_std();
                self.plan.done(now, report.removed, has_reclaimed);
                metrics::gauge!("taffrail_compacted_revision").set(report.compacted.0 as f64);
                metrics::counter!("taffrail_compaction_records_removed_total")
                    .increment(report.removed);
                metrics::counter!("taffrail_compaction_bytes_reclaimed_total")
                    .increment(report.reclaimed_bytes);
            }
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!(%error, "history can't be compacted for now");
            }
            Err(_) => {}
        }
    }
}

impl Actor for Compactor {
    type Context = Context<Compactor>;

    fn started(&mut self, context: &mut Context<Compactor>) {
        context.set_mailbox_capacity(mailbox::COMPACTOR);
        context.run_later(TICK, Compactor::tick);
    }
}
