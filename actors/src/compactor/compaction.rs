//! One compaction: removes history and, if asked to, gives its space back.

use std::sync::Arc;
use std::time::SystemTime;

use crate::engine::{EngineError, MaintenanceEngine, Retention, Revision};

/// A store that was idle counts as busy again after this many events. Then reclaiming stops.
const EVENTS_WHILE_IDLE: u64 = 1000;

/// Whether a compaction gives space back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaim {
    /// Not now.
    No,
    /// As long as nobody writes. Retention is not applied meanwhile.
    WhileIdle,
    /// Even while clients write. The engine may give up.
    Yes,
    /// All of it, however little: nothing that was removed stays in the store's files.
    All,
}

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// The newest revision that is compacted now.
    pub compacted: Revision,
    /// Records removed.
    pub removed: u64,
    /// Bytes given back to the file system.
    pub reclaimed_bytes: u64,
}

/// A request to compact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompactionRequest {
    /// History up to here is removed, whatever retention says.
    pub(super) up_to: Revision,
    pub(super) reclaim: Reclaim,
}

/// The result of a compaction.
#[derive(Debug)]
pub(super) struct CompactionOutcome {
    pub(super) report: CompactReport,
    /// Whether all space was given back.
    pub(super) has_reclaimed: bool,
}

/// Moves the compacted revision, removes history in small steps and, if asked to, gives its space
/// back. Between steps the engine serves clients.
pub(super) async fn compact(
    engine: Arc<dyn MaintenanceEngine>,
    retention: Retention,
    now: SystemTime,
    CompactionRequest { up_to, reclaim }: CompactionRequest,
) -> Result<CompactionOutcome, EngineError> {
    let horizon = engine.horizon(retention, now).await?.max(up_to);
    if horizon > engine.stats().compacted {
        engine.compact(horizon).await?;
    }
    let mut report = CompactReport {
        compacted: engine.stats().compacted,
        ..CompactReport::default()
    };
    // Everything is removed first. Then its space is given back at once.
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
                return Ok(CompactionOutcome {
                    report,
                    has_reclaimed: false,
                });
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(CompactionOutcome {
        report,
        has_reclaimed: reclaim != Reclaim::No,
    })
}
