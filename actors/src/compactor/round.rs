//! One round of forgetting.

use std::sync::Arc;
use std::time::SystemTime;

use super::handle::CompactReport;
use crate::engine::{EngineError, MaintenanceEngine, Retention, Revision};

/// Events after which writers are back, and space that is given back for want of anything better
/// to do must wait.
const EVENTS_WHILE_IDLE: u64 = 1000;

/// Whether a round gives space back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaim {
    /// Not now.
    No,
    /// As long as nobody writes: meanwhile retention stands still.
    WhileIdle,
    /// Whoever writes; the engine gives up where it can't.
    Yes,
    /// All of it, however little: nothing of what was removed stays in the store's files.
    All,
}

/// What a round is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Goes at least, whatever retention wants.
    pub(super) up_to: Revision,
    pub(super) reclaim: Reclaim,
}

/// What a round has come to.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) report: CompactReport,
    /// Whether there is nothing left to give back.
    pub(super) has_reclaimed: bool,
}

/// Moves the horizon, removes what lies behind it in small steps and, if asked to, gives the
/// space back. Between steps the engine serves clients.
pub(super) async fn round(
    engine: Arc<dyn MaintenanceEngine>,
    retention: Retention,
    now: SystemTime,
    Wish { up_to, reclaim }: Wish,
) -> Result<Round, EngineError> {
    let horizon = engine.horizon(retention, now).await?.max(up_to);
    if horizon > engine.stats().compacted {
        engine.compact(horizon).await?;
    }
    let mut report = CompactReport {
        compacted: engine.stats().compacted,
        ..CompactReport::default()
    };
    // First everything that can be removed, then the space of it all at once.
    let phases = [false, true];
    let phases_wanted = 1 + usize::from(reclaim != Reclaim::No);
    for reclaims in phases.into_iter().take(phases_wanted) {
        let idle_until = engine.stats().revision.0 + EVENTS_WHILE_IDLE;
        loop {
            let step = match reclaims && reclaim == Reclaim::All {
                true => engine.purge().await?,
                false => engine.maintain(reclaims).await?,
            };
            report.removed += step.removed;
            report.reclaimed_bytes += step.reclaimed_bytes;
            if !step.more {
                break;
            }
            let is_busy = engine.stats().revision.0 > idle_until;
            if reclaims && reclaim == Reclaim::WhileIdle && is_busy {
                return Ok(Round {
                    report,
                    has_reclaimed: false,
                });
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(Round {
        report,
        has_reclaimed: reclaim != Reclaim::No,
    })
}
